"""Every view in a headless Chromium: what is shown, the keys, hostile texts, contrast, and no other request.

Screenshots go to the folder that ENVKIT_SCREENSHOTS names, for people who look at them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_run
import pytest
from served import chromium, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

#: The contrast of every visible text with what is behind it, by WCAG's formula; those below 4.5 (3 for large ones).
CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const read = (css) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255); };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const chain = []; for (let n = e; n; n = n.parentElement) chain.push(n);
    let c = [1, 1, 1, 1]; for (const n of chain.reverse()) { const s = getComputedStyle(n);
      if (s.backgroundImage === 'none' || n === e) c = over(read(s.backgroundColor), c); } return c; };
  const out = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest('.sr, .skip, script, option, button:disabled, [hidden]')) continue;
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || box.top > innerHeight || box.bottom < 0) continue;
    const style = getComputedStyle(e), back = behind(e), ink = over(read(style.color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.01)
      out.push([ratio.toFixed(2), e.tagName + '.' + e.className, walk.currentNode.data.slice(0, 40)]);
  }
  return out;
}"""

#: Controls without a name for those who hear the page.
NAMELESS = """() => [...document.querySelectorAll('button, a[href], input, select, [role=tab], [role=grid], img')]
  .filter((e) => {
    if (!e.getClientRects().length || e.closest('[aria-hidden=true]')) return false;
    const outer = e.labels ? [...e.labels].map((l) => l.innerText).join('') : '';
    return !(e.getAttribute('aria-label') || e.getAttribute('alt') || e.innerText || outer || '').trim();
  }).map((e) => e.outerHTML.slice(0, 120))"""


class Viewer:
    """A page and what it did."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.told: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(90_000)
        page.on("console", lambda message: self.told.append(message.text))
        page.on("pageerror", lambda error: self.told.append(str(error)))
        page.on("dialog", lambda dialog: (self.told.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def go(self, hash: str, ready: str) -> Any:
        self.page.goto(self.address + hash)
        self.page.wait_for_selector(ready)
        return self.page

    def shot(self, name: str) -> None:
        folder = os.environ.get("ENVKIT_SCREENSHOTS")
        if folder:
            self.page.wait_for_timeout(300)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))

    def sound(self) -> None:
        """Nothing was complained about, nothing asked for elsewhere, nothing is wider than the window."""
        foreign = [url for url in self.asked if not url.startswith((self.address.rsplit("/", 2)[0], "data:"))]
        assert foreign == []
        assert self.told == []
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert self.page.evaluate("window.hacked") is None


@pytest.fixture(scope="module")
def address(rich: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    other = tmp_path_factory.mktemp("other") / "morning"
    make_run.write_run(other, trials=5, tasks=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVKIT_HOME", str(tmp_path_factory.mktemp("home")))
        with served(rich[0], other) as address:
            yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def viewer(browser: Any, address: str) -> Iterator[Viewer]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield Viewer(page, address)
    page.close()


def until(page: Any, holds: str, timeout_s: float = 120.0) -> None:
    """Waits until an expression holds. (`wait_for_function` evaluates in the page, which the page's policy forbids.)"""
    end = time.monotonic() + timeout_s
    while not page.evaluate(holds):
        assert time.monotonic() < end, f"it never held: {holds}"
        page.wait_for_timeout(30)


def readable(viewer: Viewer) -> None:
    assert viewer.page.evaluate(CONTRAST) == []
    assert viewer.page.evaluate(NAMELESS) == []


def test_runs_are_cards(viewer: Viewer) -> None:
    page = viewer.go("#/all", ".card .tile")
    assert page.locator(".card").count() == 2
    readable(viewer)
    viewer.shot("runs")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".trow .c-task a")
    viewer.sound()


def test_the_list_filters_sorts_and_follows_the_keyboard(viewer: Viewer) -> None:
    page = viewer.go("#/runs/evening", ".trow .c-task a")
    assert page.locator(".count").inner_text().startswith("33 trials")
    readable(viewer)
    viewer.shot("list")
    page.get_by_label("full (1)").click()
    until(page, "document.querySelector('.count').textContent !== '33 trials'")
    assert "reward=full" in page.url
    assert {text.strip() for text in page.locator(".trow .c-reward").all_inner_texts()} == {"1"}
    page.get_by_role("button", name="Clear all").click()
    until(page, "document.querySelector('.count').textContent === '33 trials'")
    page.get_by_role("columnheader", name="Reward").get_by_role("button").click()
    page.wait_for_selector("[data-key=reward][aria-sort=ascending]")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("november")
    until(page, "document.querySelector('.count').textContent !== '33 trials'")
    page.keyboard.press("Escape")
    for key in "jjx":
        page.keyboard.press(key)
    page.wait_for_selector(".trow.cursor input:checked")
    page.keyboard.press("j")
    page.keyboard.press("x")
    viewer.shot("list-chosen")
    page.keyboard.press("c")
    page.wait_for_selector(".comparehead")
    page.go_back()
    page.wait_for_selector(".trow .c-task a")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".trialhead h1")
    viewer.sound()


@pytest.mark.parametrize(
    ("hash", "ready", "wanted"),
    [
        ("#/runs/evening", ".trow .c-task a", "trials?offset=0&limit=200"),
        ("#/runs/evening/trials/{}/conversation", ".msg .text", "open?tab=conversation"),
        ("#/runs/evening/trials/{}/tokens?at=40", ".tok.now", "open?tab=tokens&at=40"),
    ],
    ids=["list", "conversation", "tokens"],
)
def test_a_view_is_there_after_one_question(
    viewer: Viewer, rich: tuple[Path, list[str]], hash: str, ready: str, wanted: str
) -> None:
    """Each further one in a row would be waited for before anything is painted."""
    viewer.go(hash.format(rich[1][0]), ready)
    asked = [url.split("/api/")[1] for url in viewer.asked if "/api/" in url]
    assert asked[0].endswith(wanted)
    later = ("?around=", "/evening", "offset=200")  # for what is not in sight
    assert [url for url in asked[1:] if not any(word in url for word in later)] == []
    viewer.sound()


def test_an_empty_choice_says_so_and_leads_back(viewer: Viewer) -> None:
    page = viewer.go("#/runs/evening?q=nobody-wrote-this", ".empty")
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector(".trow .c-task a")
    viewer.sound()


def test_a_conversation_is_read_turn_by_turn(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(f"#/runs/evening/trials/{rich[1][0]}/conversation", ".msg .part.call")
    readable(viewer)
    viewer.shot("conversation")
    assert page.locator(".msg").count() < 29, "only what is in sight exists"
    page.keyboard.press("j")
    page.keyboard.press("J")
    assert page.locator(".msg.cursor").get_attribute("aria-label") == "Model, turn 1"
    page.keyboard.press("r")
    assert "bad" in (page.locator(".msg.cursor").get_attribute("class") or "")
    page.keyboard.press("G")
    page.wait_for_selector("text=Done: November is corrected by 4,200")
    page.keyboard.press("/")
    page.keyboard.type("margin")
    page.wait_for_selector("mark.now")
    readable(viewer)
    viewer.shot("conversation-search")
    page.keyboard.press("Escape")
    page.get_by_label("Thread").select_option("title")
    page.wait_for_selector("text=A title for this conversation?")
    viewer.sound()


def test_criteria_lead_to_their_evidence(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(f"#/runs/evening/trials/{rich[1][0]}/criteria", ".criterion")
    assert page.locator(".criterion").count() == 6
    readable(viewer)
    viewer.shot("criteria")
    page.get_by_role("button", name="failed").click()
    assert page.locator(".criterion.passed").count() == 0
    page.get_by_role("button", name="All 6").click()
    page.get_by_role("link", name="Forecast.xlsx!Summary!B5").click()
    page.wait_for_selector(".cell.hit")
    assert "where=Summary" in page.url
    viewer.sound()


def test_files_stand_side_by_side_with_findings_marked(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(
        f"#/runs/evening/trials/{rich[1][0]}/files?file=filesystem/Forecast.xlsx&where=Summary!B12", ".cell.hit.now"
    )
    assert page.locator(".cell.hit.now").all_inner_texts() == ["119250", "123450"]
    readable(viewer)
    viewer.shot("files-workbook")
    page.get_by_role("option", name="memo.docx").click()
    page.wait_for_selector(".linerow.changed")
    assert page.locator(".linerow.changed .word").all_inner_texts() == ["1,336,500", "1,340,700"]
    readable(viewer)
    viewer.shot("files-document")
    page.get_by_role("option", name="notes.txt").click()
    page.wait_for_selector("text=a line that is new <b>bold?</b>")
    page.keyboard.press("n")
    page.wait_for_selector(".linerow.now")
    page.get_by_role("option", name="chart.png").click()
    page.wait_for_selector(".side img")
    assert page.locator(".side img").count() == 2
    viewer.shot("files-picture")
    with page.expect_download() as download:
        page.get_by_role("link", name="After").click()
    assert download.value.suggested_filename == "chart.png"
    viewer.sound()


def test_tokens_say_what_became_of_them(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(f"#/runs/evening/trials/{rich[1][0]}/tokens", ".tok.trains")
    readable(viewer)
    viewer.shot("tokens")
    page.get_by_role("button", name="Logprob").click()
    page.keyboard.press("l")
    page.wait_for_selector(".tok.now")
    assert "probability" in page.locator(".inspector").inner_text()
    before = page.locator(".tok.now").get_attribute("data-at")
    page.keyboard.press("ArrowRight")
    until(page, f"document.querySelector('.tok.now').dataset.at === '{int(before or 0) + 1}'")
    page.keyboard.press("g")
    until(page, "document.querySelector('.inspector').innerText.includes('trainer')")
    for name in ("Gap", "Version", "Kind"):
        page.get_by_role("button", name=name, exact=True).click()
        readable(viewer)
    page.get_by_label("Which nodes").select_option("masked")
    page.wait_for_selector(".tok.masked")
    viewer.shot("tokens-masked")
    viewer.sound()


def test_the_record_holds_logs_and_times(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(f"#/runs/evening/trials/{rich[1][0]}/record", ".record .barrow")
    page.get_by_role("button", name="stdout.log").click()
    page.wait_for_selector("text=started")
    readable(viewer)
    viewer.shot("record")
    page.keyboard.press("1")
    page.wait_for_selector(".msg")
    page.keyboard.press("]")
    until(page, f"!location.hash.includes('{rich[1][0]}')")
    viewer.sound()


def test_two_trials_are_compared(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    page = viewer.go(f"#/compare?a=evening:{rich[1][0]}", ".card.flat")
    page.locator(".card.flat", has_text="#1").first.click()
    page.wait_for_selector(".criteriatable tr.differs")
    readable(viewer)
    viewer.shot("compare")
    page.keyboard.press("2")
    until(page, "document.querySelectorAll('.readers .reader').length === 2")
    page.wait_for_selector(".readers .side:last-child .msg .part.call")
    scrollers = page.locator(".readers .reader")
    scrollers.first.evaluate("(e) => { e.scrollTop = e.scrollHeight / 2 }")
    until(page, "document.querySelectorAll('.readers .reader')[1].scrollTop > 500")
    viewer.shot("compare-conversations")
    page.keyboard.press("3")
    page.wait_for_selector(".answer")
    viewer.sound()


def test_hostile_texts_stay_texts(viewer: Viewer, rich: tuple[Path, list[str]]) -> None:
    trial = f"#/runs/evening/trials/{rich[1][2]}"
    page = viewer.go(f"{trial}/criteria", ".criterion")
    assert "<script>window.hacked=1</script>" in page.locator(".criterion").inner_text()
    assert page.locator(".criterion .odd").count() > 3, "controls and turns of direction are shown"
    readable(viewer)
    viewer.shot("hostile-criteria")
    page.keyboard.press("1")
    page.wait_for_selector(".msg")
    page.keyboard.press("/")
    page.keyboard.type("window.hacked")
    page.wait_for_selector("mark.now")
    page.get_by_role("button", name="more characters").first.click()
    until(page, "[...document.querySelectorAll('.msg pre')].some((e) => e.textContent.length > 300000)")
    viewer.shot("hostile-conversation")
    page.keyboard.press("3")
    page.wait_for_selector(".fileitem")
    page.get_by_role("option", name="<img src=x").click()
    page.wait_for_selector(".linerow")
    page.keyboard.press("4")
    page.wait_for_selector(".tok")
    page.goto(viewer.address + "#/runs/evening?q=hacked")
    page.wait_for_selector(".trow .c-task a")
    ours = page.request.get(viewer.address).text().count("<script")
    assert page.locator("script").count() == ours, "the page's own alone"
    viewer.sound()


def test_every_view_is_readable_in_the_dark(browser: Any, address: str, rich: tuple[Path, list[str]]) -> None:
    viewer = Viewer(browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="dark"), address)
    trial = f"#/runs/evening/trials/{rich[1][0]}"
    for name, hash, ready in (
        ("runs", "#/all", ".card .tile"),
        ("list", "#/runs/evening", ".trow .c-task a"),
        ("conversation", f"{trial}/conversation", ".msg .part.call"),
        ("criteria", f"{trial}/criteria", ".criterion"),
        ("files-workbook", f"{trial}/files?file=Forecast.xlsx&where=Summary!B12", ".cell.hit.now"),
        ("tokens", f"{trial}/tokens", ".tok.trains"),
        ("record", f"{trial}/record", ".record .barrow"),
        ("files-document", f"{trial}/files?file=memo.docx", ".linerow.changed"),
        ("compare", f"#/compare?a=evening:{rich[1][0]}&b=evening:{rich[1][1]}", ".criteriatable tr.differs"),
        ("hostile", f"#/runs/evening/trials/{rich[1][2]}/criteria", ".criterion .odd"),
    ):
        viewer.go(hash, ready)
        viewer.shot(f"dark-{name}")
        readable(viewer)
        viewer.sound()
    viewer.page.close()


def test_a_run_that_goes_on_is_followed(browser: Any, tmp_path: Path) -> None:
    make_run.write_run(tmp_path / "live", trials=4, tasks=4)
    with served(tmp_path / "live") as address:
        viewer = Viewer(browser.new_page(), address)
        page = viewer.go("", ".trow .c-task a")
        assert page.locator(".count").inner_text() == "4 trials"
        late = make_run.record(make_run.spec("office/late-comer"), 9, make_run.random.Random(3), 0.9)
        make_run.put(tmp_path / "live", late)
        until(page, "document.querySelector('.count').textContent === '5 trials'")
        page.wait_for_selector("text=late-comer")
        viewer.sound()
        page.close()


def test_a_narrow_window_and_the_theme(browser: Any, address: str, rich: tuple[Path, list[str]]) -> None:
    viewer = Viewer(browser.new_page(viewport={"width": 420, "height": 800}, color_scheme="light"), address)
    page = viewer.go("#/runs/evening", ".trow .c-task a")
    viewer.shot("narrow")
    viewer.sound()
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.wait_for_selector(".trow .c-task a")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "it is remembered"
    readable(viewer)
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] kbd")
    page.keyboard.press("Escape")
    for tab in ("conversation", "criteria", "files", "tokens", "record"):
        viewer.go(f"#/runs/evening/trials/{rich[1][0]}/{tab}", f"#tab-{tab}[aria-selected=true]")
        page.wait_for_selector(".tabbody > *")
        viewer.sound()
    page.close()
