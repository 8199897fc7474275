"""The models of mail, chats, Markdown, data, databases, pictures and archives: what they keep, and what they refuse."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile
import zipfile
from typing import Any

import pytest
from PIL import Image

from envkit.office.archive import read_archive
from envkit.office.calendar import read_calendar_file
from envkit.office.chat import chat_messages
from envkit.office.data import read_json, read_json_lines, read_toml, read_yaml
from envkit.office.database import read_database
from envkit.office.image import hash_distance, read_image
from envkit.office.mail import read_eml
from envkit.office.markdown import read_markdown
from envkit.office.parse import ParseLimits, parse
from envkit.office.problem import Problem, Unreadable
from envkit.office.text import read_text

SMALL = ParseLimits(memory_mb=300, cpu_s=10, wall_s=20)


def refused(data: bytes, read: Any) -> Problem:
    with pytest.raises(Unreadable) as caught:
        parse(data, read, SMALL)
    return caught.value.problem


def test_messages_carry_their_files_and_names() -> None:
    text = (
        "From: =?utf-8?q?Ann_M=C3=BCller?= <Ann@example.org>\nTo: b@example.org\nX-Priority: 1 (Highest)\n"
        'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/html\n\n<p>Hi <b>all</b></p>\n--x\n'
        'Content-Type: application/pdf; name="a.pdf"\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--x--\n'
    )
    for data in (text.encode(), text.encode("utf-16"), text.encode("utf-16-be")):
        message = read_eml(data)
        assert message.names == (("ann@example.org", "Ann Müller"),)
        assert message.importance == "high"
        assert message.body == "Hi all"
        ((name, body),) = [(p.name, p.data) for p in message.parts]
        assert (name, body) == ("a.pdf", b"hello")
    assert refused(b"just some words\n", read_eml) is Problem.NOT_THIS_FORMAT
    assert refused(b"", read_eml) is Problem.EMPTY


def test_calendars_hold_tasks_alarms_and_answers() -> None:
    calendar = read_calendar_file(
        b"BEGIN:VCALENDAR\nX-WR-CALNAME:Work\nBEGIN:VEVENT\nUID:1\nSUMMARY:a\nDTSTART:20260101T100000Z\n"
        b"ATTENDEE;PARTSTAT=DECLINED:mailto:B@c.d\nBEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT5M\nSUMMARY:not this\n"
        b"END:VALARM\nTRANSP:TRANSPARENT\nEND:VEVENT\nBEGIN:VTODO\nUID:2\nDUE:20260102\nEND:VTODO\nEND:VCALENDAR\n"
    )
    (event,), (todo,) = calendar.events, calendar.todos
    assert (calendar.name, event.summary, event.alarms, event.busy) == ("Work", "a", ("DISPLAY -PT5M",), False)
    assert event.answers == (("b@c.d", "DECLINED"),)
    assert str(todo.end) == "2026-01-02"


def test_chats_are_told_from_other_data() -> None:
    assert chat_messages({"messages": [{"text": "a", "message_id": "1"}]})
    assert chat_messages({"messages": ["a"]}) is None
    assert chat_messages([1]) is None


def test_markdown_that_renders_the_same_is_the_same() -> None:
    one = read_markdown(b"# T\n\nsome *text*\nwrapped\n\n- a\n- b\n")
    other = read_markdown(b"T\n===\nsome _text_ wrapped\n\n* a\n* b")
    assert one == other
    assert (one.blocks[0].kind, one.blocks[0].text) == ("heading", "T")
    nested = read_markdown(b"1. a\n   - b\n\n> q\n")
    found = [(b.kind, b.level, b.detail) for b in nested.blocks]
    assert found == [("item", 1, "1."), ("item", 2, "-"), ("paragraph", 0, ">")]


def test_text_is_without_what_editors_add() -> None:
    assert read_text(b"\xef\xbb\xbfa  \r\nb\r\n\r\n") == read_text(b"a\nb")
    assert read_text(b"").lines == ()


@pytest.mark.parametrize("read", [read_json, read_yaml, read_toml, read_json_lines])
def test_broken_data_is_corrupt(read: Any) -> None:
    assert refused(b'{"a": ', read) is Problem.CORRUPT


@pytest.mark.slow
def test_data_bombs_are_too_big_or_corrupt() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refused("\n".join(lines).encode(), read_yaml) is Problem.TOO_BIG
    assert refused(b"[" * 100_000, read_json) is Problem.CORRUPT
    assert refused(b"!!python/object/apply:os.system ['true']", read_yaml) is Problem.CORRUPT
    assert refused(b"a: &x [*x]", read_yaml) in (Problem.TOO_BIG, Problem.CORRUPT)


def test_databases_are_read_without_running_anything_of_theirs() -> None:
    base = sqlite3.connect(":memory:")
    base.executescript(
        "CREATE TABLE t (b TEXT, a INTEGER PRIMARY KEY); INSERT INTO t VALUES ('x', 2), ('y', 1);"
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;"
    )
    model = read_database(base.serialize())
    assert model.tables[0].rows == (("y", 1), ("x", 2))
    assert model.tables[0].key == (1,)
    assert [(k, n) for k, n, _ in model.others] == [("view", "v")]
    assert refused(base.serialize()[:900], read_database) is Problem.CORRUPT
    assert refused(b"no database", read_database) is Problem.NOT_THIS_FORMAT


def test_pictures_that_look_the_same() -> None:
    image = Image.radial_gradient("L").crop((20, 60, 250, 200)).resize((200, 120)).convert("RGB")
    files = {}
    for kind in ("PNG", "JPEG", "BMP", "GIF"):
        out = io.BytesIO()
        image.save(out, kind)
        files[kind] = out.getvalue()
    looks = {kind: read_image(data) for kind, data in files.items()}
    assert all(hash_distance(looks["PNG"].look, p.look) <= 8 for p in looks.values())
    assert (looks["PNG"].width, looks["PNG"].height, looks["JPEG"].format) == (200, 120, "jpeg")
    assert refused(files["PNG"][:100], read_image) is Problem.CORRUPT
    assert refused(b"GIF but not one", read_image) is Problem.NOT_THIS_FORMAT
    bomb = files["PNG"][:16] + (60_000).to_bytes(4, "big") * 2 + files["PNG"][24:]
    assert refused(bomb, read_image) in (Problem.TOO_BIG, Problem.CORRUPT)


@pytest.mark.slow
def test_archives_are_bounded() -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        info = tarfile.TarInfo("a/b.txt")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"hi"))
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    for data in (plain.getvalue(), gzip.compress(plain.getvalue())):
        model = read_archive(data)
        assert [(m.path, m.data) for m in model.members] == [("a/b.txt", b"hi")]
        assert model.links == (("l", "/etc/passwd"),)
    assert refused(gzip.compress(bytes(300 << 20)), read_archive) is Problem.TOO_BIG
    assert refused(gzip.compress(b"x" * 100)[:-9], read_archive) is Problem.CORRUPT
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("../up.txt", b"x")
    assert refused(out.getvalue(), read_archive) is Problem.CORRUPT
