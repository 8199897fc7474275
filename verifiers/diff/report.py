"""Findings for people: plain text for a terminal, and one HTML page with before and after side by side.

The page is self-contained and inert: no script, no link, and everything that comes from a file is escaped.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Sequence
from itertools import groupby

from envkit.verifiers.diff.finding import Change, Finding

__all__ = ["as_html", "as_text", "is_derived", "summary"]

_SIGN = {Change.ADDED: "+", Change.REMOVED: "-", Change.CHANGED: "~", Change.MOVED: ">", Change.UNREADABLE: "!"}
#: Texts beyond this length are not compared word by word.
_MAX_WORDS = 4_000


def is_derived(finding: Finding) -> bool:
    """Whether a finding only follows from others."""
    return finding.kind.endswith(".derived")


def as_text(findings: Sequence[Finding]) -> str:
    """A line per finding, files apart, direct edits before what follows from them."""
    if not findings:
        return "no differences"
    lines: list[str] = []
    for path, group in groupby(sorted(findings, key=lambda f: (f.path, is_derived(f))), key=lambda f: f.path):
        if path:
            lines.append(path)
        lines += [("  " if path else "") + _line(finding) for finding in group]
    return "\n".join([*lines, summary(findings)])


def _line(finding: Finding) -> str:
    place = finding.where + (f" -> {finding.to}" if finding.to else "")
    if finding.change is Change.CHANGED or finding.change is Change.UNREADABLE:
        said = f"{_short(finding.before)} -> {_short(finding.after)}"
    else:
        said = _short(finding.after if finding.before is None else finding.before)
    note = f" ({finding.message})" if finding.message else ""
    return f"{_SIGN[finding.change]} {place}  {finding.kind}  {said}{note}".rstrip()


def _short(text: str | None, limit: int = 100) -> str:
    if text is None:
        return ""
    flat = "".join(c if c.isprintable() else " " for c in " ⏎ ".join(text.splitlines()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def summary(findings: Sequence[Finding]) -> str:
    derived = sum(map(is_derived, findings))
    direct = len(findings) - derived
    files = len({f.path for f in findings if f.path})
    parts = [f"{direct} difference{'s' * (direct != 1)}"]
    if derived:
        parts.append(f"{derived} that follow{'s' * (derived == 1)} from them")
    if files:
        parts.append(f"in {files} file{'s' * (files != 1)}")
    return ", ".join(parts)


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --del: #f9d0c9; --ins: #cdeccd; --soft: #8882; }
@media (prefers-color-scheme: dark) { :root { --del: #6b2a22; --ins: #1f5130; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { border-top: 1px solid var(--line); padding: .35rem .5rem; text-align: left; vertical-align: top;
         overflow-wrap: anywhere; white-space: pre-wrap; }
th { font-weight: 600; } col.where { width: 20%; } col.kind { width: 14%; }
tr.derived td { opacity: .7; } del { background: var(--del); text-decoration: none; }
ins { background: var(--ins); text-decoration: none; } small { opacity: .75; display: block; }
td.none { background: var(--soft); }
"""


def as_html(findings: Sequence[Finding], before: str, after: str) -> str:
    """A whole page. `before` and `after` name the two sides."""
    head = f"{html.escape(before)} → {html.escape(after)}"
    body: list[str] = [f"<h1>{head}</h1><p>{html.escape(summary(findings) if findings else 'no differences')}</p>"]
    ordered = sorted(findings, key=lambda f: (f.path, is_derived(f)))
    for path, group in groupby(ordered, key=lambda f: f.path):
        if path:
            body.append(f"<h2>{html.escape(path)}</h2>")
        body.append('<table><colgroup><col class="where"><col class="kind"><col><col></colgroup>')
        body.append("<tr><th>where</th><th>what</th><th>before</th><th>after</th></tr>")
        body += [_row(finding) for finding in group]
        body.append("</table>")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{head}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _row(finding: Finding) -> str:
    place = html.escape(finding.where) + (f"<small>now {html.escape(finding.to)}</small>" if finding.to else "")
    what = f"{html.escape(finding.kind)}<small>{finding.change}</small>"
    if finding.message:
        what += f"<small>{html.escape(finding.message)}</small>"
    cells = _sides(finding.before, finding.after, finding.change)
    css = ' class="derived"' if is_derived(finding) else ""
    return f"<tr{css}><td>{place}</td><td>{what}</td>{cells}</tr>"


def _sides(before: str | None, after: str | None, change: Change) -> str:
    if before is None or after is None:
        sides = [(before, "del"), (after, "ins")]
        return "".join(_cell(None if s is None else f"<{tag}>{html.escape(s)}</{tag}>") for s, tag in sides)
    if change is not Change.CHANGED or len(before) + len(after) > _MAX_WORDS:
        return _cell(html.escape(before)) + _cell(html.escape(after))
    left, right = _marked(before, after)
    return _cell(left) + _cell(right)


def _cell(content: str | None) -> str:
    return '<td class="none"></td>' if content is None else f"<td>{content}</td>"


def _marked(before: str, after: str) -> tuple[str, str]:
    """Both texts with the words that differ marked."""
    a, b = _words(before), _words(after)
    left: list[str] = []
    right: list[str] = []
    for tag, i, k, j, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        old, new = html.escape("".join(a[i:k])), html.escape("".join(b[j:m]))
        left.append(old if tag == "equal" or not old else f"<del>{old}</del>")
        right.append(new if tag == "equal" or not new else f"<ins>{new}</ins>")
    return "".join(left), "".join(right)


def _words(text: str) -> list[str]:
    return re.findall(r"\s|\w+|[^\w\s]", text)
