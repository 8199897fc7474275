"""Every writing tool on real documents: the typed comparison shows the intended change and nothing else, and
LibreOffice opens what was written."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.places import blocks_of, body_of, is_table
from envkit.harnesses.archipelago.servers.docs.words import text_of
from envkit.office.problem import Unreadable
from envkit.verifiers.diff import Finding, diff_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
#: How many files of each tool LibreOffice is given; which ones, differs from tool to tool.
OPENED = 16
Target = tuple[int, str]


def target(data: bytes) -> Target:
    """A paragraph of the body with some words in it, or the first: its number and its text."""
    paragraphs = [b for b in blocks_of(body_of(Edited(data))) if not is_table(b)]
    texts = [text_of(p) for p in paragraphs]
    chosen = next((n for n, t in enumerate(texts) if len(t.split()) >= 3), 0)
    return chosen, texts[chosen]


def one_text(found: list[Finding], old: str, new: str) -> bool:
    """One paragraph's text changed from one to the other; where hardly anything is left of it, it went and came."""
    texts = [(f.kind, f.before or "", f.after or "") for f in found]
    changed = [("paragraph.text", old, new)]
    replaced = [("paragraph", old, ""), ("paragraph", "", new)]
    clean = [(k, _folded(b), _folded(a)) for k, b, a in texts]
    return any(clean == [(k, _folded(b), _folded(a)) for k, b, a in wanted] for wanted in (changed, replaced))


def emptied(found: list[Finding], old: str) -> bool:
    """One paragraph lost its text; what is anchored in it (pictures, text boxes) is all that is left."""
    kinds = [(f.kind, f.change.value) for f in found]
    if kinds != [("paragraph", "removed"), ("paragraph", "added")]:
        return False
    # The comparison shows the texts of boxes behind the paragraph's own.
    return _folded(found[0].before or "").startswith(_folded(old)[:40])


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[\u00a0\n\f\t]", " ", text).split())[:60]


def kinds_of(found: list[Finding]) -> list[str]:
    return [f.kind for f in found]


def only(*kinds: str) -> Callable[[list[Finding]], bool]:
    return lambda found: all(f.kind in kinds for f in found)


def edited_word(text: str) -> str:
    words = text.split()
    return text.replace(words[1], "CHANGED", 1) if len(words) > 1 else f"{text} CHANGED".strip()


Case = tuple[str, Callable[[Target], dict[str, Any]], Callable[[list[Finding], Target], bool]]
CASES: dict[str, Case] = {
    "edit": (
        "edit_content_text", lambda t: {"identifier": f"body.p.{t[0]}", "new_text": edited_word(t[1])},
        lambda f, t: one_text(f, t[1], edited_word(t[1])),
    ),
    "add at the end": (
        "add_content_text", lambda t: {"identifier": f"body.p.{t[0]}", "text": " ADDED"},
        lambda f, t: one_text(f, t[1], t[1] + " ADDED") or (len(t[1]) > 40 and kinds_of(f) == ["paragraph.text"]),
    ),
    "add at the start": (
        "add_content_text", lambda t: {"identifier": f"body.p.{t[0]}", "text": "ADDED ", "position": "start"},
        lambda f, t: one_text(f, t[1], "ADDED " + t[1]),
    ),
    "add a paragraph": (
        "add_content_text", lambda t: {"identifier": f"body.p.{t[0]}", "text": "\n\nNEW PARAGRAPH"},
        lambda f, t: [(x.kind, x.change.value, x.after) for x in f] == [("paragraph", "added", "NEW PARAGRAPH")],
    ),
    "delete the text": (
        "delete_content_text", lambda t: {"identifier": f"body.p.{t[0]}"},
        lambda f, t: emptied(f, t[1]) or (not t[1] and not f),
    ),
    "delete the paragraph": (
        "delete_content_text", lambda t: {"identifier": f"body.p.{t[0]}", "scope": "element"},
        lambda f, t: [(x.kind, x.change.value) for x in f] == [("paragraph", "removed")],
    ),
    "format": (
        "apply_formatting", lambda t: {"identifier": f"body.p.{t[0]}", "font_size": 19, "font_color": "red"},
        lambda f, t: only("paragraph.format")(f) and bool(f) == bool(t[1]),
    ),
    "add an image": (
        "add_image", lambda t: {"identifier": f"body.p.{t[0]}", "image_path": "/p.png", "width": 1},
        lambda f, t: [(x.kind, x.change.value) for x in f] == [("image", "added")],
    ),
    "modify an image": (
        "modify_image", lambda t: {"image_index": 0, "operation": "rotate", "rotation": 90},
        lambda f, t: only("image.content", "image.size")(f) and f[0].kind == "image.content",
    ),
    "set the header": (
        "header_footer", lambda t: {"action": "set", "area": "header", "content": ["HEAD"]},
        lambda f, t: all(x.kind.startswith("header") or x.where.startswith("header") for x in f),
    ),
    "clear the footer": (
        "header_footer", lambda t: {"action": "clear", "area": "footer"},
        lambda f, t: all(x.kind.startswith("footer") or x.where.startswith("footer") for x in f),
    ),
    "margins": (
        "page_margins", lambda t: {"action": "set", "top": 1.3, "left": 0.7},
        lambda f, t: [x.kind for x in f] == ["section.margins"],
    ),
    "orientation": (
        "page_orientation", lambda t: {"action": "set", "orientation": "landscape"},
        lambda f, t: only("section.page")(f) and len(f) <= 1,
    ),
    "comment": (
        "comments", lambda t: {"action": "add", "identifier": f"body.p.{t[0]}", "text": "Look here", "author": "Ann"},
        lambda f, t: [(x.kind, x.change.value, x.after) for x in f] == [("comment", "added", "Ann: Look here")],
    ),
}  # fmt: skip


def opens(folder: Path, out: Path, profile: Path) -> set[str]:
    """The names of those documents in a folder that LibreOffice opens."""
    files = sorted(str(p) for p in folder.iterdir())
    subprocess.run(
        ["soffice", f"-env:UserInstallation=file://{profile}", "--headless", "--norestore", "--convert-to", "txt:Text",
         "--outdir", str(out), *files],
        check=False, capture_output=True, timeout=600,
    )  # fmt: skip
    return {p.stem for p in out.iterdir()}


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.mark.parametrize("name", list(CASES))
def test_a_tool_on_real_documents(name: str, docs: Any, corpus: Path, png: Any, tmp_path: Path, profile: Path) -> None:
    tool, arguments, holds = CASES[name]
    docs.put(png(), "p.png")
    results, originals = tmp_path / "results", tmp_path / "originals"
    results.mkdir()
    originals.mkdir()
    wrong, done = [], 0
    files = sorted(corpus.iterdir())
    offset = list(CASES).index(name)
    for number, path in enumerate(files):
        before = path.read_bytes()
        try:
            aim = target(before)
        except Unreadable:
            continue
        if path.name == "poi--FldSimple.docx":
            # All that is in it is a computed field, in which the comparison sees no change.
            continue
        docs.put(before)
        made = docs.outcome(tool, {"file_path": "/a.docx", **arguments(aim)})
        assert made.fault is None, (path.name, made.fault)
        if made.error:
            assert name == "modify an image", (path.name, made.text)
            assert re.search("has no image|linked to|metafile", made.text), (path.name, made.text)
            assert docs.data == before
            continue
        done += 1
        found = diff_bytes("a.docx", before, docs.data)
        if not holds(found, aim):
            wrong.append((path.name, [(f.kind, f.change.value, f.where, f.before, f.after) for f in found][:4]))
        if (number + offset) % max(len(files) // OPENED, 1) == 0 or name == "modify an image":
            shutil.copy(path, originals / path.name)
            (results / path.name).write_bytes(docs.data)
    assert not wrong, wrong
    assert done >= 14
    assert len(list(results.iterdir())) >= 14
    outs = tmp_path / "out-before", tmp_path / "out-after"
    for out in outs:
        out.mkdir()
    readable = opens(originals, outs[0], profile)
    assert readable <= opens(results, outs[1], profile)
    assert len(readable) >= 12
