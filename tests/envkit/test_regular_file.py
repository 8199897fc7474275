"""Reading a file of a folder that somebody else wrote never blocks and never fills the memory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from envkit.regular_file import NotRegular, open_regular, read_regular


def test_what_is_no_regular_file_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for name in ("fifo", "folder", "circle", "device", "socket"):
            with pytest.raises(NotRegular, match="no regular file"):
                open_regular(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")


def test_a_file_of_holes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(NotRegular, match="2,147,483,648 bytes"):
        read_regular(tmp_path / "holes")


def test_links_are_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == read_regular(tmp_path / "file", 4, links=False) == b"text"
    with pytest.raises(NotRegular):
        read_regular(tmp_path / "link", links=False)
    with pytest.raises(NotRegular):
        read_regular(tmp_path / "file", 3)
