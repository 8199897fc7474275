"""The report of a run: whole from its folder, closed, with nothing in it that a run's texts could turn into code."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from envkit.cli.main import main
from envkit.failure import UserError
from envkit.report.run_page import render_run, write_run_report

sys.path.append(str(Path(__file__).parents[1] / "view"))

import make_run


class Reader(HTMLParser):
    """Collects text and what could reach out, and checks that tags match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.reaching: list[str] = []
        self.scripts = 0
        self.rows = 0
        self.said: list[str] = []
        self.feed(html)
        assert not self.open
        self.text = "".join(self.said)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.rows += tag == "tr"
        self.reaching += [
            f"{tag} {n}" for n, _ in attrs if n in ("src", "href", "srcset", "action") or n.startswith("on")
        ]
        if tag not in ("meta", "br", "line", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_it_says_what_a_run_came_to_and_what_it_leaves_out(tmp_path: Path) -> None:
    results = make_run.write_run(tmp_path / "evening", trials=48, tasks=8)
    found = Reader(write_run_report(tmp_path / "evening").read_text())
    assert found.reaching == []
    for said in (
        "Evaluation evening", "48 trials", "mean reward", "pass@1", "pass^", "clustered by world", "excluded",
        "chat:qwen-27b", "chat:glm-4.5-air", "Failures by kind", "Criteria that fail", "Behaviour",
        "How the work ended",
    ):  # fmt: skip
        assert said in found.text, said
    for result in results:
        assert result.spec.task in found.text
    scored = [r.reward for r in results if r.reward is not None and r.spec.policy.options["model"] == "qwen-27b"]
    assert f"{len(scored)} scored" in found.text
    lost = [r for r in results if r.failure is not None]
    assert lost
    assert all(r.failure is not None and r.failure.kind.replace("_", " ") in found.text for r in lost)


def test_texts_of_a_run_never_become_code(tmp_path: Path) -> None:
    run = tmp_path / "<script>alert(1)</script>"
    make_run.write_run(run, trials=4, tasks=2)
    task = make_run.write_task(tmp_path / "task")
    make_run.write_rich_trial(run, task, hostile=True)
    found = Reader(render_run(run, causes=True))
    assert found.scripts == 1, "the page's own"
    assert found.reaching == []
    assert "<script>window.hacked=1</script>" in found.text
    assert "Why rewards are low" in found.text


def test_an_unfinished_or_damaged_run_has_a_report_and_no_run_none(tmp_path: Path) -> None:
    (tmp_path / "fresh" / "trials").mkdir(parents=True)
    assert "No trial has finished" in Reader(render_run(tmp_path / "fresh")).text
    results = make_run.write_run(tmp_path / "torn", trials=6, tasks=2)
    (tmp_path / "torn" / "trials" / results[0].trial_id / "result.json").write_text("{torn")
    found = Reader(render_run(tmp_path / "torn"))
    assert "5 trials of 6 planned" in found.text
    assert "result.json" in found.text, "what can't be read is told"
    with pytest.raises(UserError, match="holds no run"):
        render_run(tmp_path)


def test_the_command_writes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run.write_run(tmp_path / "evening", trials=4, tasks=2)
    assert main(["report", str(tmp_path / "evening"), "--html", str(tmp_path / "out.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"report": str(tmp_path / "out.html"), "bytes": (tmp_path / "out.html").stat().st_size}
    assert not (tmp_path / "evening" / "report.html").exists()
    assert main(["report", str(tmp_path / "nothing")]) == 2


@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_from_disk_without_a_network(tmp_path: Path, scheme: str) -> None:
    import os

    from playwright.sync_api import sync_playwright
    from served import chromium

    make_run.write_run(tmp_path / "evening", trials=60, tasks=10)
    path = write_run_report(tmp_path / "evening")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=scheme)
        told: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        assert page.locator(".matrix tbody tr").count() == 10
        assert page.locator(".measure .line").count() >= 2
        for width in (1300, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        if os.environ.get("ENVKIT_SCREENSHOTS"):
            page.set_viewport_size({"width": 1300, "height": 900})
            page.screenshot(path=str(Path(os.environ["ENVKIT_SCREENSHOTS"], f"report-{scheme}.png")), full_page=True)
        assert told == []
        assert asked == [path.as_uri()]
        browser.close()
