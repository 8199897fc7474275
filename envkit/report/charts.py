"""Charts and pages for reports: inline SVG and a few lines of script, one file that opens from disk without a network.

A `Chart` is drawn as SVG with axes, a legend where it has several series, and a table of its numbers behind it for
those who can't see it; the page's script only adds the values under the pointer. Every text is escaped, and the page
forbids itself any request. Used by training's report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

__all__ = ["COLOURS", "Chart", "Series", "heat_map", "nice_ticks", "number", "page", "table"]

#: Told apart by people with the common colour blindnesses, on white and on near-black.
COLOURS = ("#2f6fde", "#d9730d", "#17936b", "#a3479d", "#c43d3d", "#6d7683", "#8a6d00", "#0e8aa6")

#: More points than this are put together before they are drawn.
MOST_POINTS = 400

_WIDTH, _HEIGHT = 440, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 26


@dataclass(frozen=True, slots=True)
class Series:
    """A line: `points` are (x, y), by x. `band` are (x, low, high). `marks` draws dots as well."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    marks: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Attributes:
    unit: Written behind the title.
    share: The axis is a share: written in percent, from 0 to 1 at most.
    limit: A horizontal line with this value and `limit_name`.
    note: A sentence below.
    """

    title: str
    series: Sequence[Series]
    unit: str = ""
    share: bool = False
    limit: float | None = None
    limit_name: str = ""
    note: str = ""
    x_name: str = "step"
    floor: float | None = field(default=None)

    def html(self) -> str:
        """The chart as a `figure`; nothing at all where no series has a point."""
        drawn = [_thinned(s) for s in self.series if len(s.points)]
        if not drawn:
            return ""
        return (
            f'<figure class="chart"><figcaption>{escape(self.title)}'
            + (f' <span class="unit">{escape(self.unit)}</span>' if self.unit else "")
            + "</figcaption>"
            + self._svg(drawn)
            + _legend(drawn)
            + (f'<p class="note">{escape(self.note)}</p>' if self.note else "")
            + self._numbers(drawn)
            + "</figure>"
        )

    def _svg(self, drawn: Sequence[Series]) -> str:
        xs = [x for s in drawn for x, _ in s.points]
        ys = [y for s in drawn for _, y in s.points] + [v for s in drawn for _, a, b in s.band for v in (a, b)]
        if self.limit is not None:
            ys.append(self.limit)
        if self.floor is not None:
            ys.append(self.floor)
        x_low, x_high = _widened(min(xs), max(xs), 0.5)
        y_low, y_high = _widened(min(ys), max(ys), 0.05)
        if min(ys) >= 0.0:
            y_low = max(0.0, y_low)
        if self.share:
            y_high = min(1.0, y_high)
        ticks = nice_ticks(y_low, y_high, 4)
        decimals = max(0, -math.floor(math.log10((ticks[1] - ticks[0]) * 100 * 1.001)))
        y_low, y_high = min(y_low, ticks[0]), max(y_high, ticks[-1])

        def px(x: float) -> float:
            return _LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)

        def py(y: float) -> float:
            return _HEIGHT - _BOTTOM - (y - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)

        parts = []
        for tick in ticks:
            y = py(tick)
            label = f"{tick:.{decimals}%}" if self.share else number(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        for tick in nice_ticks(x_low, x_high, 6):
            if x_low <= tick <= x_high and tick == int(tick):
                parts.append(
                    f'<text x="{px(tick):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(number(tick))}</text>'
                )
        if self.limit is not None:
            y = py(self.limit)
            parts.append(f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(
                f'<text class="limit" x="{_WIDTH - _RIGHT - 2}" y="{y - 4:.1f}" text-anchor="end">'
                f"{escape(self.limit_name or number(self.limit))}</text>"
            )
        for index, series in enumerate(drawn):
            colour = COLOURS[index % len(COLOURS)]
            if series.band:
                upper = [f"{px(x):.1f},{py(high):.1f}" for x, _, high in series.band]
                lower = [f"{px(x):.1f},{py(low):.1f}" for x, low, _ in reversed(series.band)]
                parts.append(f'<polygon class="band" fill="{colour}" points="{" ".join(upper + lower)}"/>')
            path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in series.points)
            parts.append(f'<polyline stroke="{colour}" points="{path}"/>')
            if series.marks or len(series.points) == 1:
                parts += [
                    f'<circle fill="{colour}" cx="{px(x):.1f}" cy="{py(y):.1f}" r="3"/>' for x, y in series.points
                ]
        data = {
            "x": [x_low, x_high, _LEFT, _WIDTH - _RIGHT],
            "y": [y_low, y_high, _HEIGHT - _BOTTOM, _TOP],
            "share": self.share,
            "name": self.x_name,
            "series": [
                {"name": s.name, "colour": COLOURS[i % len(COLOURS)], "points": [[x, y] for x, y in s.points]}
                for i, s in enumerate(drawn)
            ],
        }
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self._words(drawn), quote=True)}" '
            f'data-chart="{escape(json.dumps(data, allow_nan=False), quote=True)}">{"".join(parts)}'
            f'<line class="cross" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/></svg>'
        )

    def _words(self, drawn: Sequence[Series]) -> str:
        """The chart in a sentence, for who hears it."""
        said = [f"{s.name} from {number(s.points[0][1])} to {number(s.points[-1][1])}" for s in drawn]
        return f"{self.title}: {'; '.join(said)}"

    def _numbers(self, drawn: Sequence[Series]) -> str:
        """The last values as a table, folded away."""
        xs = sorted({x for s in drawn for x, _ in s.points})[-20:]
        by = [dict(s.points) for s in drawn]
        rows = [[number(x), *("" if x not in values else number(values[x]) for values in by)] for x in xs]
        return f"<details><summary>numbers</summary>{table([self.x_name, *(s.name for s in drawn)], rows)}</details>"


def heat_map(title: str, columns: Sequence[tuple[float, Sequence[float]]], *, bins: int = 10, note: str = "") -> str:
    """How values in [0, 1] are distributed, a column per x: the darker, the greater the share of the column.

    Args:
        columns: (x, values), by x; values outside are counted in the outermost bins.
    """
    columns = [(x, values) for x, values in columns if len(values)]
    if not columns:
        return ""
    step = math.ceil(len(columns) / 60)
    merged = [
        (columns[i][0], [v for _, values in columns[i : i + step] for v in values])
        for i in range(0, len(columns), step)
    ]
    width = (_WIDTH - _LEFT - _RIGHT) / len(merged)
    height = (_HEIGHT - _TOP - _BOTTOM) / bins
    cells, labels = [], []
    for index, (x, values) in enumerate(merged):
        counts = [0] * bins
        for value in values:
            counts[min(bins - 1, max(0, int(value * bins)))] += 1
        for level, count in enumerate(counts):
            if count:
                share = count / len(values)
                top = _HEIGHT - _BOTTOM - (level + 1) * height
                says = f"step {number(x)}: {share:.0%} of {len(values)} in {level / bins:g} to {(level + 1) / bins:g}"
                cells.append(
                    f'<rect x="{_LEFT + index * width:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}" '
                    f'fill="{COLOURS[0]}" fill-opacity="{0.08 + 0.92 * share:.3f}"><title>{escape(says)}</title></rect>'
                )
        if index % max(1, len(merged) // 6) == 0:
            labels.append(
                f'<text x="{_LEFT + (index + 0.5) * width:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
                f"{escape(number(x))}</text>"
            )
    for value in (0.0, 0.5, 1.0):
        y = _HEIGHT - _BOTTOM - value * (_HEIGHT - _TOP - _BOTTOM)
        labels.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(cells)}{''.join(labels)}</svg>"
        + (f'<p class="note">{escape(note)}</p>' if note else "")
        + "</figure>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric_from: int = 0) -> str:
    """A table of texts; columns from `numeric_from` on are set as numbers."""
    cells = "".join(
        "<tr>" + "".join(f"<td{_numeric(i, numeric_from)}>{escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    names = "".join(f"<th{_numeric(i, numeric_from)}>{escape(name)}</th>" for i, name in enumerate(head))
    return f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table></div>'


def _numeric(index: int, numeric_from: int) -> str:
    return ' class="n"' if index >= numeric_from else ""


def number(value: float) -> str:
    """A number as people read it: three or four significant digits."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{value:.3g}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round values that cover [low, high] in steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    if high - low < 1e-12:
        by = max(abs(high) * 0.1, 0.5 if share >= 0.5 else 1e-3)
        return low - by, high + by
    if share >= 0.5:  # the horizontal axis
        return low, high
    return low - (high - low) * share, high + (high - low) * share


def _thinned(series: Series) -> Series:
    """At most `MOST_POINTS` points, each the mean of those it stands for."""
    points = [(float(x), float(y)) for x, y in series.points if math.isfinite(y)]
    if len(points) <= MOST_POINTS:
        return Series(series.name, points, series.band, series.marks)
    size = math.ceil(len(points) / MOST_POINTS)
    chunks = [points[i : i + size] for i in range(0, len(points), size)]
    means = [(chunk[-1][0], math.fsum(y for _, y in chunk) / len(chunk)) for chunk in chunks]
    return Series(series.name, means, (), series.marks)


def _legend(drawn: Sequence[Series]) -> str:
    if len(drawn) < 2:
        return ""
    items = "".join(
        f'<span><i style="background:{COLOURS[i % len(COLOURS)]}"></i>{escape(s.name)}</span>'
        for i, s in enumerate(drawn)
    )
    return f'<div class="legend">{items}</div>'


def page(title: str, body: str) -> str:
    """A whole document around `body`, which is HTML. It makes no request, whatever is in it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
        f'<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}<div id="tip" hidden></div>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


_STYLE = """
:root{--ink:#1c2128;--soft:#5b6572;--line:#dfe3e8;--back:#fff;--card:#f7f8fa;--bad:#b42318;--good:#17936b}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4b1;--line:#333a44;--back:#14171b;--card:#1c2026;
--bad:#ff8a7a;--good:#4cc79d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:1400px;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 12px;border-bottom:1px solid var(--line);
padding-bottom:4px}
.soft,.note,.unit{color:var(--soft)}.note{font-size:13px;margin:4px 0 0}.unit{font-weight:400}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:12px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
.tile.bad b{color:var(--bad)}.tile.good b{color:var(--good)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:16px}
.chart{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}
figcaption{font-weight:600;margin-bottom:4px}
svg{width:100%;height:auto;display:block}svg text{font-size:11px;fill:var(--soft)}
svg polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}svg .grid{stroke:var(--line)}
svg .band{opacity:.15}svg .limit{stroke:var(--bad);stroke-dasharray:4 3}svg text.limit{fill:var(--bad);stroke:none}
svg .cross{stroke:var(--soft);visibility:hidden}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;font-size:13px;color:var(--soft)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
.alarm{border-left:4px solid var(--bad);background:var(--card);padding:8px 14px;margin:8px 0}
table{border-collapse:collapse;font-size:14px;width:100%}
th,td{text-align:left;padding:4px 10px;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}details{font-size:13px;margin-top:6px}summary{cursor:pointer;color:var(--soft)}
pre{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;font-size:13px}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--back);font-size:12px;padding:6px 9px;
border-radius:6px;z-index:9;white-space:pre}
"""

_SCRIPT = """
(function(){
var tip=document.getElementById('tip');
function shown(v,share){return share?(100*v).toFixed(1)+' %':Math.abs(v)>=1000?v.toFixed(0):String(+v.toPrecision(4));}
document.querySelectorAll('svg[data-chart]').forEach(function(svg){
 var data=JSON.parse(svg.dataset.chart),cross=svg.querySelector('.cross');
 svg.addEventListener('pointermove',function(event){
  var box=svg.getBoundingClientRect(),at=(event.clientX-box.left)/box.width*svg.viewBox.baseVal.width;
  var x=data.x[0]+(at-data.x[2])/(data.x[3]-data.x[2])*(data.x[1]-data.x[0]),best=null;
  data.series.forEach(function(s){s.points.forEach(function(p){
   if(best===null||Math.abs(p[0]-x)<Math.abs(best-x))best=p[0];});});
  if(best===null)return;
  var lines=[data.name+' '+best];
  data.series.forEach(function(s){s.points.forEach(function(p){
   if(p[0]===best)lines.push(s.name+'  '+shown(p[1],data.share));});});
  var px=data.x[2]+(best-data.x[0])/((data.x[1]-data.x[0])||1)*(data.x[3]-data.x[2]);
  cross.setAttribute('x1',px);cross.setAttribute('x2',px);cross.style.visibility='visible';
  tip.textContent=lines.join('\\n');tip.hidden=false;
  var left=event.clientX+14;if(left+tip.offsetWidth>innerWidth-8)left=event.clientX-tip.offsetWidth-14;
  tip.style.left=left+'px';tip.style.top=(event.clientY+14)+'px';
 });
 svg.addEventListener('pointerleave',function(){tip.hidden=true;cross.style.visibility='hidden';});
});
})();
"""
