"""The report: whole from any run folder, with nothing in it that a run's texts could turn into code."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_run import write_run

from envkit.backends.run.report import render, write_report
from envkit.report.charts import Chart, Series, heat_map, nice_ticks, number


class Reader(HTMLParser):
    """Collects what could reach out, and checks that tags match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.reaching: list[str] = []
        self.charts = 0
        self.scripts = 0
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.charts += any(name == "data-chart" for name, _ in attrs)
        self.scripts += tag == "script"
        self.reaching += [
            f"{tag} {n}" for n, _ in attrs if n in ("src", "href", "srcset", "action") or n.startswith("on")
        ]
        if tag not in ("meta", "br", "line", "circle", "rect", "polyline", "polygon"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    return reader


def test_the_report_holds_every_curve_of_the_list_and_reaches_nowhere(tmp_path: Path) -> None:
    path = write_report(write_run(tmp_path / "first"))
    reader = read(path.read_text())
    text = "".join(reader.text)
    assert reader.charts > 20
    assert reader.reaching == []
    for said in (
        "Reward of rollouts", "pass@k", "Reward by domain", "Turns", "Tokens per turn", "Tool success", "Entropy",
        "Context exhausted", "Staleness", "Where a step's time goes", "KV room in use", "logprob gap", "Masked tokens",
        "Gradient norm", "Distribution of rewards", "Held-out evaluation", "possible reward hacking", "60 of 60",
        "Code execution",
    ):  # fmt: skip
        assert said in text, said


def test_texts_of_a_run_never_become_code(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "<script>alert(1)</script>", hostile=True)
    reader = read(render(folder))
    assert reader.scripts == 1, "the page's own"
    assert '<script>alert("x")</script>-1' in "".join(reader.text), "shown as what it is"


def test_a_damaged_or_empty_run_still_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "Training empty" in render(tmp_path / "empty")
    folder = write_run(tmp_path / "torn", steps=3)
    for name in ("metrics.jsonl", "groups.jsonl"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(b"\xff garbage\n" + whole[: len(whole) * 2 // 3])
    (folder / "plan.json").write_text("{")
    assert read(render(folder)).charts > 5


@pytest.mark.slow
def test_a_long_run_stays_a_small_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "long", steps=3000)
    path = write_report(folder)
    assert path.stat().st_size < 3_000_000
    charts = [part for part in path.read_text().split('data-chart="')[1:]]
    data = json.loads(charts[0].split('"')[0].replace("&quot;", '"'))
    assert len(data["series"][0]["points"]) <= 400


def test_charts_of_odd_values() -> None:
    assert Chart("none", [Series("a", [])]).html() == ""
    flat = Chart("flat", [Series("a", [(1, 0.5), (2, 0.5)])], share=True).html()
    assert "<polyline" in flat
    one = Chart("one", [Series("a", [(3, 7.0)])]).html()
    assert "<circle" in one
    holes = Chart("holes", [Series("a", [(1, 1.0), (2, float("nan")), (3, 2.0)])]).html()
    assert "nan" not in holes.lower().replace("nano", "")
    assert heat_map("empty", [(1.0, [])]) == ""
    assert heat_map("out of range", [(1.0, [-1.0, 2.0])]).count("<rect") == 2


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0.0, 0.5, 1.0]), (0.12, 0.19, [0.1, 0.15, 0.2]), (-3, 7, [-5.0, 0.0, 5.0, 10.0]), (1, 3, [1.0, 2.0, 3.0])],
)
def test_ticks_are_round_and_cover(low: float, high: float, expected: list[float]) -> None:
    assert nice_ticks(low, high, 2) == pytest.approx(expected)


def test_numbers_are_short() -> None:
    assert [number(v) for v in (0.0, 3.0, 0.12345, 12345.6, 1.5e-7, 2.5e9)] == [
        "0", "3", "0.1235", "12,346", "1.5e-07", "2.5e+09"
    ]  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_in_a_browser_without_a_network(tmp_path: Path, scheme: str) -> None:
    import shutil

    from playwright.sync_api import sync_playwright

    path = write_report(write_run(tmp_path / "first", hostile=True))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=scheme)
        told: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: (told.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        charts = page.locator("svg[data-chart]")
        assert charts.count() > 20
        for number in (0, charts.count() - 1):
            charts.nth(number).scroll_into_view_if_needed()
            charts.nth(number).hover(position={"x": 200, "y": 60})
            tip = page.locator("#tip")
            assert tip.is_visible()
            assert tip.inner_text().startswith("step ")
        box = charts.first.bounding_box()
        assert box is not None
        assert box["width"] > 250
        # Lines lie inside their charts, and nothing is wider than the window.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        inside = """[...document.querySelectorAll('svg[data-chart] polyline')].every(line => {
            const a = line.getBoundingClientRect(), b = line.ownerSVGElement.getBoundingClientRect();
            return a.left > b.left - 1 && a.right < b.right + 1 && a.top > b.top - 1 && a.bottom < b.bottom + 1; })"""
        assert page.evaluate(inside)
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone too"
        assert told == []
        assert asked == [path.as_uri()], "one file, no other request"
        browser.close()
