"""Which files are shown, in which order, how they are cut, and that the prompt says what is missing."""

from __future__ import annotations

import io
from pathlib import Path

import openpyxl
import pytest
from conftest import check  # type: ignore[import-not-found]
from docx import Document
from hypothesis import given, settings
from hypothesis import strategies as st
from pptx import Presentation
from tests_state import write_tar, write_world

from envkit.deadline import Deadline
from envkit.snapshot import Snapshot, changes
from envkit.verifiers.judge.evidence import Choice, choose, estimate_tokens, material
from envkit.verifiers.judge.prompt import Material, fresh_boundary, messages, visible
from envkit.verifiers.judge.reading import Reading, Source, read_sources
from envkit.verifiers.judge.render import render_file
from envkit.verifiers.judge.schema import JudgeCheck

INITIAL = {"filesystem/in/plan.txt": b"plan", "filesystem/in/old.csv": b"a,b\n1,2\n", "filesystem/in/gone.txt": b"g"}
FINAL = {
    "filesystem/in/plan.txt": b"plan B",
    "filesystem/kept/old.csv": b"a,b\n1,2\n",
    "filesystem/aaa.txt": b"notes",
    "filesystem/reports/q3_memo.docx": b"x",
    ".apps_data/mail/sent.mbox": b"From a",
}


def chosen(tmp_path: Path, judge: JudgeCheck, max_files: int = 60) -> Choice:
    initial = Snapshot.from_folders(write_world(tmp_path / "world", INITIAL))
    with Snapshot.from_tar(write_tar(tmp_path / "final.tar", FINAL)) as final:
        return choose(judge, final, initial, changes(initial, final), max_files)


def test_files_that_the_criterion_names_come_first(tmp_path: Path) -> None:
    found = chosen(tmp_path, check(criterion="The file q3_memo.docx states the total."))
    assert [source.path for source in found.named] == ["filesystem/reports/q3_memo.docx"]
    assert [source.path for source in found.others] == [
        "filesystem/aaa.txt",
        "filesystem/in/plan.txt",
        "filesystem/kept/old.csv",
        ".apps_data/mail/sent.mbox",
    ]
    assert found.status["filesystem/in/plan.txt"] == "modified"
    assert found.status["filesystem/kept/old.csv"] == "renamed from /filesystem/in/old.csv"
    assert found.deleted == ("filesystem/in/gone.txt",)
    assert Source("filesystem/in/plan.txt", before="filesystem/in/plan.txt") in found.others


def test_an_unchanged_file_is_shown_where_the_criterion_gives_its_path(tmp_path: Path) -> None:
    kept_file = {**FINAL, "filesystem/in/gone.txt": b"g"}
    initial = Snapshot.from_folders(write_world(tmp_path / "world", INITIAL))
    with Snapshot.from_tar(write_tar(tmp_path / "final.tar", kept_file)) as final:
        judge = check(criterion="It agrees with /filesystem/in/gone.txt.")
        found = choose(judge, final, initial, changes(initial, final), 60)
    assert [source.path for source in found.named] == ["filesystem/in/gone.txt"]


def test_patterns_and_references(tmp_path: Path) -> None:
    found = chosen(tmp_path, check(files=("/filesystem/**/*.txt",), references=("in/*.csv",)))
    assert [source.path for source in found.sources] == [
        "filesystem/aaa.txt",
        "filesystem/in/plan.txt",
        "filesystem/in/old.csv",
    ]
    assert found.references[0].initial
    assert chosen(tmp_path, check(files=("nothing/*",))).nothing
    assert chosen(tmp_path, check(files="none")).sources == ()


def test_files_beyond_the_bound_are_listed(tmp_path: Path) -> None:
    found = chosen(tmp_path, check(), max_files=2)
    assert len(found.sources) == 2
    shown = material(check(), found, {s: Reading("t", 1, 1) for s in found.sources}, "yes", 1000)
    assert [item["path"] for item in shown.left_out] == [
        "/filesystem/kept/old.csv",
        "/filesystem/reports/q3_memo.docx",
        "/.apps_data/mail/sent.mbox",
    ]


def shown_of(texts: dict[str, str], answer: str, budget: int) -> Material:
    sources = tuple(Source(path) for path in texts)
    readings = {s: Reading(texts[s.path], len(texts[s.path]), len(texts[s.path])) for s in sources}
    return material(check(), Choice(others=sources, status={}), readings, answer, budget)


def test_what_is_cut_and_left_out_is_stated() -> None:
    texts = {"filesystem/a": "alpha " * 50, "filesystem/b": "word " * 20_000 + "the end"}
    shown = shown_of(texts, "done", 2000)
    prompt = messages(check(), "Do it.", shown, fresh_boundary(shown))[1]["content"]
    assert "alpha alpha" in prompt
    assert "the end" in prompt
    assert "\n[...]\n" in prompt
    assert f"of its {len(texts['filesystem/b'])} characters are shown" in prompt
    assert "Nothing was left out" not in prompt
    many = shown_of({f"filesystem/{n}": "long text " * 400 for n in range(40)}, "done", 1000)
    prompt = messages(check(), "Do it.", many, fresh_boundary(many))[1]["content"]
    assert f"{len(many.left_out)} file(s) are not shown" in prompt
    assert 0 < len(many.left_out) < 40


@given(
    st.lists(st.integers(0, 40_000), max_size=12),
    st.integers(0, 40_000),
    st.integers(500, 20_000),
    st.sampled_from("ax9é漢"),
)
@settings(max_examples=60, deadline=None)
def test_the_budget_holds_and_nothing_vanishes_silently(sizes: list[int], answer: int, budget: int, char: str) -> None:
    texts = {f"filesystem/{n}": char * size for n, size in enumerate(sizes)}
    shown = shown_of(texts, char * answer, budget)
    assert sum(estimate_tokens(exhibit.text) for exhibit in shown.exhibits) <= budget + 10 * len(shown.exhibits)
    assert shown.exhibits[0].label == "the agent's final answer"
    assert len(shown.exhibits) - 1 + len(shown.left_out) == len(sizes)


def test_hidden_characters_are_shown() -> None:
    assert visible("a\u200bb\u202ec\ud800\x00d\n\te") == "a\\u{200b}b\\u{202e}c\\u{d800}\\u{0}d\n\te"


# Reading, in the confined child


def office_files() -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.title = "Summary"
    book.active["A1"], book.active["B1"], book.active["B2"] = "Total", 48.5, "=B1*2"
    book.create_sheet("Secret").sheet_state = "hidden"
    document = Document()
    document.add_heading("Shortfall", 1)
    document.add_paragraph("Fuel and freight.")
    document.add_table(1, 2).cell(0, 1).text = "in a table"
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[0])
    slide.shapes.title.text = "Plan"
    slide.notes_slide.notes_text_frame.text = "said aloud"
    for name, thing in (("model.xlsx", book), ("memo.docx", document), ("deck.pptx", deck)):
        buffer = io.BytesIO()
        thing.save(buffer)  # type: ignore[attr-defined]
        out[f"filesystem/{name}"] = buffer.getvalue()
    out["filesystem/data.csv"] = b"a;b\n1;2\n"
    out[".apps_data/mail/sent.mbox"] = b"From x\nFrom: Ann <a@b.c>\nTo: d@e.f\nSubject: Hi\n\nBody text\n"
    out["filesystem/broken.xlsx"] = b"PK\x03\x04 torn"
    out["filesystem/pic.png"] = b"\x89PNG...."
    return out


async def read_all(tmp_path: Path, files: dict[str, bytes], render=render_file, **rest) -> dict[str, Reading]:  # type: ignore[no-untyped-def]
    sources = [Source(path) for path in files]
    tar = write_tar(tmp_path / "final.tar", files)
    more = {"max_chars": 10_000, "deadline": Deadline.after(60), **rest}
    found = await read_sources(sources, tar, None, render, **more)
    return {source.path.rsplit("/", 1)[1]: reading for source, reading in found.items()}


async def test_office_files_are_read_with_their_places(tmp_path: Path) -> None:
    found = await read_all(tmp_path, office_files())
    assert "## Sheet Summary, 3 filled cells\n1: A=Total | B=48.5\n2: B=97.0 [=B1*2]" in (
        found["model.xlsx"].text or ""
    )
    assert "## Sheet Secret (hidden)" in (found["model.xlsx"].text or "")
    assert "# Shortfall\nFuel and freight.\n## Table 1\n | in a table" in (found["memo.docx"].text or "")
    assert "## Slide 1: Plan" in (found["deck.pptx"].text or "")
    assert "said aloud" in (found["deck.pptx"].text or "")
    assert found["data.csv"].text == "a;b\n1;2\n"
    assert "Subject" not in (found["sent.mbox"].text or "")
    assert "## Message 1: Hi\nFrom: a@b.c" in (found["sent.mbox"].text or "")
    assert found["broken.xlsx"].text is None
    assert "corrupt" in found["broken.xlsx"].problem
    assert "picture" in found["pic.png"].problem
    assert not any(reading.system for reading in found.values())


async def test_long_files_come_in_batches_and_are_bounded(tmp_path: Path) -> None:
    files = {f"filesystem/{n}.txt": bytes([97 + n]) * 300_000 + b"END" for n in range(12)}
    found = await read_all(tmp_path, files, max_chars=200_000)
    assert [len(reading.text or "") for reading in found.values()] == [200_000] * 12
    assert all((reading.text or "").endswith("END") for reading in found.values())


@pytest.mark.slow
async def test_parsing_has_no_network_and_no_end_is_waited_for(tmp_path: Path) -> None:
    def render(path: str, data: bytes) -> str:
        import socket

        if path.endswith("loop"):
            while True:
                pass
        try:
            socket.create_connection(("127.0.0.1", int(data)), timeout=2).close()
        except OSError as error:
            return f"refused {error.errno}"
        return "connected"

    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1]).encode()
        files = {"filesystem/a": port, "filesystem/loop": b"", "filesystem/z": port}
        found = await read_all(tmp_path, files, render, deadline=Deadline.after(3))
    assert (found["a"].text or "").startswith("refused")
    assert found["loop"].system
    assert found["z"].system


@pytest.mark.parametrize("scale", ["pass_fail", "score"])
def test_the_question_does_not_depend_on_the_boundary(scale: str) -> None:
    shown = shown_of({"filesystem/a": "text"}, "done", 1000)
    one, two = (messages(check(scale=scale), "Do it.", shown, boundary) for boundary in ("aaaa", "bbbb"))
    assert str(one).replace("aaaa", "bbbb") == str(two)
