"""The filesystem app: sorted listings, searches of names and paths, text that is text, images that are images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image as Pillow

from envkit.harnesses.archipelago.servers import calling
from envkit.harnesses.archipelago.servers.context import ToolError
from envkit.harnesses.archipelago.servers.filesystem import APP
from envkit.harnesses.archipelago.servers.filesystem.globs import matcher

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", "../shared/corpus"))


@pytest.fixture
def call(world):
    def called(name, **arguments):
        return calling.call_tool(APP, name, arguments, world)

    return called


@pytest.fixture
def files(world):
    root = world.filesystem
    for name in (
        "b.txt",
        "A.txt",
        "reports/2024/q3 Report.pdf",
        "reports/2024/data.csv",
        "reports/notes.md",
        "z/deep/er/x.txt",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}\n")
    return root


def test_a_listing_is_sorted_and_says_kinds_and_sizes(call, files):
    (files / "link").symlink_to("b.txt")
    assert call("list_files").text.splitlines() == [
        "/: 2 folders, 3 files", "A.txt  14 B", "b.txt  14 B", "link -> b.txt", "reports/", "z/",
    ]  # fmt: skip
    assert call("list_files", path="/filesystem/reports").text.splitlines()[1:] == ["2024/", "notes.md  25 B"]
    (files / "none").mkdir()
    assert call("list_files", path="none").text == "/none is empty"


def test_a_listing_of_what_is_no_folder_is_an_error(call, files):
    assert call("list_files", path="/nowhere").error
    outcome = call("list_files", path="/reports/notes.md")
    assert outcome.error
    assert "/reports is the folder it is in" in outcome.text


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["/A.txt", "/b.txt", "/z/deep/er/x.txt"]),
        ("reports/**/*.pdf", ["/reports/2024/q3 Report.pdf"]),
        ("/reports/*.md", ["/reports/notes.md"]),
        ("/filesystem/reports/2024/*", ["/reports/2024/data.csv", "/reports/2024/q3 Report.pdf"]),
        ("**/deep/**", ["/z/deep/er/", "/z/deep/er/x.txt"]),
        ("report", ["/reports/", "/reports/2024/q3 Report.pdf"]),
        ("*.{csv,md}", ["/reports/2024/data.csv", "/reports/notes.md"]),
        ("[ab].TXT", ["/A.txt", "/b.txt"]),
        ("deep/er", ["/z/deep/er/", "/z/deep/er/x.txt"]),
    ],
)
def test_a_search_finds_names_and_paths(call, files, pattern, found):
    assert call("search_files", pattern=pattern).text.splitlines()[1:] == found


def test_a_search_says_how_many_more_there_are_and_when_there_is_nothing(call, files):
    outcome = call("search_files", pattern="*", max_results=2).text.splitlines()
    assert outcome[0].startswith("11 found")
    assert outcome[-1] == "[9 more; raise max_results or narrow the pattern]"
    assert call("search_files", pattern="*.xlsx").text == "nothing below / matches '*.xlsx'"
    assert call("search_files", pattern="*.txt", recursive=False).text.splitlines()[1:] == ["/A.txt", "/b.txt"]
    assert call("search_files", pattern="  ").error
    assert call("search_files", pattern="[b-").text.startswith("nothing")


def test_a_star_stays_within_one_part_of_a_path():
    assert not matcher("a/*.txt", "/")("a/b/c.txt")
    assert matcher("a/**", "/")("a/b/c.txt")
    assert not matcher("a/?.txt", "/")("a/bc.txt")
    assert matcher("[!a-c]*", "/")("x/d1")
    assert not matcher("[!a-c]*", "/")("x/b1")
    assert matcher("a[b", "/")("a[b")
    assert matcher("/reports/*.txt", "/reports")("x.txt")


@pytest.mark.parametrize("pattern", ["**/*/" * 30 + "*.zzz", "*a" * 40 + "b", "{a,b}" * 7 + "x"])
def test_no_pattern_takes_for_ever(pattern):
    assert not matcher(pattern, "/")("/".join(["aaaaaaaaaaaaaaaaaaaa"] * 100))


def test_a_pattern_of_endless_alternatives_is_refused():
    with pytest.raises(ToolError, match="more than 200"):
        matcher("{a,b}" * 12, "/")


def test_a_tree_shows_its_depth_and_counts(call, files):
    text = call("get_directory_tree", max_depth=2, show_size=True).text
    assert "├── A.txt (14 B)" in text
    assert "└── deep/" in text
    assert "deeper than max_depth=2" in text
    assert "x.txt" not in text
    only = call("get_directory_tree", include_files=False, max_depth=9).text
    assert ".txt" not in only
    assert only.endswith("5 folders")


def test_metadata_of_a_file_and_a_folder(call, files):
    text = call("get_file_metadata", file_path="/reports/2024/data.csv").text
    for word in ("size: 30 bytes", "format: text/csv", "permissions: -rw", "modified: 20", "UTC"):
        assert word in text
    assert "entries: 1 folder, 1 file" in call("get_file_metadata", file_path="/reports").text
    assert call("get_file_metadata", file_path="/reports/2024/data.xls").error


def test_text_is_read_in_the_encoding_it_has(call, files):
    text = "naïve café – “quoted”"
    for name, encoding in (("u8", "utf-8"), ("mark", "utf-8-sig"), ("u16", "utf-16"), ("win", "cp1252")):
        (files / f"{name}.txt").write_bytes(text.encode(encoding))
        assert call("read_text_file", file_path=f"{name}.txt").text == text
    (files / "latin.txt").write_bytes("café".encode("latin-1"))
    assert call("read_text_file", file_path="latin.txt", encoding="latin-1").text == "café"
    assert "no encoding" in call("read_text_file", file_path="latin.txt", encoding="utf-99").text
    wrong = call("read_text_file", file_path="latin.txt", encoding="utf-8")
    assert wrong.error
    assert "is not utf-8" in wrong.text
    (files / "empty.txt").touch()
    assert "is empty (0 bytes)" in call("read_text_file", file_path="empty.txt").text


def test_max_size_is_kept_and_no_character_is_split(call, files):
    (files / "long.txt").write_text("é" * 100)
    text = call("read_text_file", file_path="long.txt", max_size=11).text
    assert text.startswith("é" * 5 + "\n[the first 11 of 200 bytes")
    assert call("read_text_file", file_path="long.txt", max_size=0).error


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.xlsx", b"PK\x03\x04" + bytes(50), "read it with sheets"),
        ("a.docx", b"PK\x03\x04" + bytes(50), "read it with docs"),
        ("a.pptx", b"PK\x03\x04" + bytes(50), "read it with slides"),
        ("a.pdf", b"%PDF-1.7\n", "read it with pdf"),
        ("renamed.txt", b"%PDF-1.7\n", "not a text file but a PDF"),
        ("a.png", b"\x89PNG\r\n" + bytes(20), "read it with read_image_file"),
        ("a.bin", bytes(range(256)), "binary data"),
        ("a.db", b"SQLite format 3\0" + bytes(20), "sqlite3"),
    ],
)
def test_what_is_no_text_is_sent_to_the_tool_that_reads_it(call, files, name, data, words):
    (files / name).write_bytes(data)
    outcome = call("read_text_file", file_path=name)
    assert outcome.error
    assert words in outcome.text


def test_a_real_office_file_and_a_corrupt_one(call, files):
    books = sorted(CORPUS.rglob("*.xlsx"))
    assert books, "the corpus is missing"
    (files / "book.xlsx").write_bytes(books[0].read_bytes())
    assert "read it with sheets" in call("read_text_file", file_path="book.xlsx").text
    assert "size: " in call("get_file_metadata", file_path="book.xlsx").text


def test_images_come_as_images(call, files):
    Pillow.new("RGB", (20, 10), "red").save(files / "a.png")
    Pillow.new("CMYK", (20, 10)).save(files / "a.tiff")
    Pillow.new("RGB", (4000, 100), "blue").save(files / "wide.jpg")
    (block,) = call("read_image_file", file_path="a.png").blocks
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    image, note = call("read_image_file", file_path="a.tiff").blocks
    assert image["mimeType"] == "image/jpeg"
    assert "TIFF, 20x10" in note["text"]
    assert "shown at 2000x50" in call("read_image_file", file_path="wide.jpg").text


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(30), "image"),
        ("a.txt", b"text", "not an image"),
        ("a.svg", b"<svg/>", "read_text_file"),
        ("none.png", b"", "is empty"),
    ],
)
def test_what_is_no_image_is_said(call, files, name, data, words):
    (files / name).write_bytes(data)
    outcome = call("read_image_file", file_path=name)
    assert outcome.error
    assert words in outcome.text


def test_a_cut_image_is_damaged(call, files):
    Pillow.effect_noise((200, 200), 50).save(files / "a.png")
    (files / "a.png").write_bytes((files / "a.png").read_bytes()[:3000])
    outcome = call("read_image_file", file_path="a.png")
    assert outcome.error
    assert "damaged" in outcome.text


async def test_all_six_through_the_client(tools):
    Pillow.new("RGB", (20, 10)).save(tools.root / "a.png")
    (tools.root / "a.txt").write_text("hello")
    assert len((await tools.call("read_image_file", {"file_path": "/a.png"})).images) == 1
    assert (await tools.call("read_text_file", {"file_path": "a.txt"})).text == "hello"
    for name in ("list_files", "get_directory_tree"):
        assert "a.txt" in (await tools.call(name)).text
    assert "/a.txt" in (await tools.call("search_files", {"pattern": "*.txt"})).text
    assert "5 bytes" in (await tools.call("get_file_metadata", {"file_path": "/a.txt"})).text
    assert tools.listed[tools.name("read_text_file")].inputSchema["required"] == ["file_path"]
