"""Archives from elsewhere: what is refused, and that a part of one is never taken for the whole."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.gateway.archives import BadArchive, names, rewrite, whole_tar


def info(kind: bytes, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo("x")
    made.type, made.linkname = kind, link
    return made


def written(path: Path, members: list[tuple[str, bytes | tarfile.TarInfo]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in members:
            member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.name = name
            member.size = len(content) if isinstance(content, bytes) else 0
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([("../evil", b"x")], "leads out"),
        ([("a/../../evil", b"x")], "leads out"),
        ([("/etc/passwd", b"x")], "relative"),
        ([("a\\..\\b", b"x")], "backslash"),
        ([("link", info(tarfile.SYMTYPE, "/etc"))], "leads out"),
        ([("a/link", info(tarfile.SYMTYPE, "../../x"))], "leads out"),
        ([("a/link", info(tarfile.SYMTYPE, "b/../../../x"))], "leads out"),
        ([("d", info(tarfile.SYMTYPE, "e")), ("d/file", b"x")], "below a link"),
        ([("hard", info(tarfile.LNKTYPE, "nowhere"))], "no file before it"),
        ([("s", info(tarfile.SYMTYPE, "t")), ("hard", info(tarfile.LNKTYPE, "s"))], "no file before it"),
        ([("pipe", info(tarfile.FIFOTYPE))], "neither"),
        ([("disk", info(tarfile.BLKTYPE))], "neither"),
    ],
)
def test_what_could_leave_its_folder_is_refused(tmp_path: Path, members: Any, says: str) -> None:
    with pytest.raises(BadArchive, match=says):
        rewrite(written(tmp_path / "a.tar.gz", members), tmp_path / "out.tar")


def test_what_stays_inside_passes(tmp_path: Path) -> None:
    members: list[Any] = [
        (".", info(tarfile.DIRTYPE)),
        ("./a/file", b"one"),
        ("a/link", info(tarfile.SYMTYPE, "../a/file")),
        ("a/hard", info(tarfile.LNKTYPE, "a/file")),
    ]
    source = written(tmp_path / "a.tar.gz", members)
    with pytest.raises(BadArchive):  # its name is `./a/file`, and the link says `a/file`: the same file
        rewrite(written(tmp_path / "b.tar.gz", [("x/h", info(tarfile.LNKTYPE, "x/../y"))]), tmp_path / "out.tar")
    done = rewrite(source, tmp_path / "out.tar", below="stage")
    assert (done.files, done.size) == (3, 3)
    assert list(names(tmp_path / "out.tar")) == ["stage/a/file", "stage/a/link", "stage/a/hard"]
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.getmember("stage/a/hard").linkname == "stage/a/file"


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    bomb = written(tmp_path / "a.tar.gz", [(f"zeros{n}", bytes(1 << 20)) for n in range(8)])
    with pytest.raises(BadArchive, match="more than 4194304 bytes"):
        rewrite(bomb, tmp_path / "out.tar", max_bytes=4 << 20)
    with pytest.raises(BadArchive, match="more than 3 members"):
        rewrite(bomb, tmp_path / "out.tar", max_members=3)
    with pytest.raises(BadArchive, match="more than"):
        whole_tar(bomb, tmp_path / "out.tar", max_bytes=1 << 20)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x1f\x8b", b"not an archive", gzip.compress(b"not a tar" * 200, mtime=0), bytes(100)],
    ids=["empty", "cut", "text", "no tar", "zeros"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(BadArchive):
        rewrite(path, tmp_path / "out.tar")
    with pytest.raises(BadArchive):
        whole_tar(path, tmp_path / "out.tar")


def test_a_part_of_an_archive_is_never_taken_for_the_whole(tmp_path: Path) -> None:
    plain = written(tmp_path / "whole.tar", [(f"f{n}", bytes([n]) * 700) for n in range(4)], "w").read_bytes()
    path = tmp_path / "cut"
    for end in range(0, 4 * 1536, 256):  # also at the borders of members, where a plain reader sees nothing wrong
        path.write_bytes(gzip.compress(plain[:end]))
        with pytest.raises(BadArchive):
            whole_tar(path, tmp_path / "out.tar")
    packed = gzip.compress(plain)
    for end in (len(packed) - 1, len(packed) - 8, len(packed) // 2):
        path.write_bytes(packed[:end])
        with pytest.raises(BadArchive):
            whole_tar(path, tmp_path / "out.tar")
    path.write_bytes(packed)
    whole_tar(path, tmp_path / "out.tar")
    assert (tmp_path / "out.tar").read_bytes() == plain


def test_one_tree_is_taken_out_of_a_snapshot(tmp_path: Path) -> None:
    members: list[Any] = [
        ("filesystem", info(tarfile.DIRTYPE)),
        ("filesystem/a/b.txt", b"1"),
        ("filesystem/h", info(tarfile.LNKTYPE, "filesystem/a/b.txt")),
        (".apps_data/mail/x", b"2"),
    ]
    source = written(tmp_path / "a.tar", members, "w")
    assert rewrite(source, tmp_path / "out.tar", only=("filesystem",), relative=True).files == 2
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.getnames() == ["a/b.txt", "h"]
        assert tar.getmember("h").linkname == "a/b.txt"
