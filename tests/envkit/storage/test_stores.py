"""What every store keeps to: whole or not at all, checked when read, listed, and refused in words."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, UserError
from envkit.storage import Exists, NotStored, StorageError, Store, Torn, open_store
from envkit.storage.local import LocalStore


def test_what_is_put_is_read_and_known(store: Store) -> None:
    data = os.urandom(300_000)
    put = store.put("a/b.bin", data)
    assert (put.size, put.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert store.read("a/b.bin") == data
    found = store.stat("a/b.bin")
    assert (found.key, found.size, found.sha256) == ("a/b.bin", len(data), put.sha256)
    assert found.modified_s > 1e9


def test_every_kind_of_source(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"from a file")
    opened = io.BytesIO(b"skipped, then read")
    opened.seek(9)
    for key, source in {
        "bytes": b"as bytes",
        "path": tmp_path / "file",
        "open": opened,
        "pieces": iter([b"in ", b"pieces"]),
        "nothing": b"",
    }.items():
        store.put(key, source)  # type: ignore[arg-type]
    read = {key: store.read(key) for key in ("bytes", "path", "open", "pieces", "nothing")}
    assert read == {
        "bytes": b"as bytes",
        "path": b"from a file",
        "open": b"then read",
        "pieces": b"in pieces",
        "nothing": b"",
    }


def test_a_second_put_replaces_and_if_absent_does_not(store: Store) -> None:
    store.put("key", b"one")
    store.put("key", b"two")
    with pytest.raises(Exists):
        store.put("key", b"three", if_absent=True)
    assert store.read("key") == b"two"
    store.put("other", b"first", if_absent=True)
    assert store.read("other") == b"first"


def test_what_is_not_there_is_told_and_deleting_it_is_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotStored):
        store.read("nothing")
    with pytest.raises(FileNotFoundError):  # also as what everybody expects
        store.stat("nothing/at/all")
    with pytest.raises(NotStored):
        store.fetch("nothing", tmp_path / "target")
    assert not (tmp_path / "target").exists()
    store.delete("nothing/at/all")
    store.put("there", b"x")
    store.delete("there")
    with pytest.raises(NotStored):
        store.stat("there")


def test_entries_are_sorted_and_cut_by_prefix(store: Store) -> None:
    assert list(store.entries()) == []
    for key in ("b/2", "a", "b/1", "bc", "b/deep/er"):
        store.put(key, key.encode())
    assert [entry.key for entry in store.entries()] == ["a", "b/1", "b/2", "b/deep/er", "bc"]
    assert [entry.key for entry in store.entries("b/")] == ["b/1", "b/2", "b/deep/er"]
    assert [(entry.key, entry.size) for entry in store.entries("b")][-1] == ("bc", 2)
    assert list(store.entries("none/")) == []


@pytest.mark.parametrize(
    "key", ["", "/abs", "../up", "a/../b", "a//b", "a/", "a/./b", "nul\0", "back\\slash", "x" * 901]
)
def test_keys_that_lead_out_are_refused(store: Store, key: str) -> None:
    for call in (lambda: store.put(key, b""), lambda: store.read(key), lambda: store.delete(key)):
        with pytest.raises(UserError, match="plain relative path"):
            call()


def test_reading_more_than_wanted_is_refused(store: Store) -> None:
    store.put("big", bytes(5000))
    with pytest.raises(StorageError, match="4999"):
        store.read("big", max_bytes=4999)


def test_a_source_that_breaks_stores_nothing(store: Store) -> None:
    def breaking() -> Iterator[bytes]:
        yield bytes(100)
        raise RuntimeError("the source broke")

    store.put("kept", b"before")
    for key in ("kept", "new"):
        with pytest.raises(RuntimeError):
            store.put(key, breaking())
    assert store.read("kept") == b"before"
    assert [entry.key for entry in store.entries()] == ["kept"]


def test_a_passed_deadline_ends_every_call(store: Store, tmp_path: Path) -> None:
    store.put("key", bytes(3 << 20))
    over = Deadline.after(-1.0, "the budget")
    for call in (
        lambda: store.put("other", b"x", deadline=over),
        lambda: store.read("key", deadline=over),
        lambda: store.fetch("key", tmp_path / "x", deadline=over),
    ):
        with pytest.raises(DeadlineExceeded, match="the budget"):
            call()
    assert [entry.key for entry in store.entries()] == ["key"]
    assert not (tmp_path / "x").exists()


def test_writers_at_once_leave_one_whole_object(store: Store) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]
    threads = [threading.Thread(target=store.put, args=("same", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read("same") in contents


def test_readers_and_writers_at_once_see_whole_objects(store: Store) -> None:
    contents = [bytes([number]) * (50_000 + number) for number in range(4)]
    store.put("same", contents[0])
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                if store.read("same") not in contents:
                    wrong.append("mixed")
            except StorageError as error:
                wrong.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        store.put("same", contents[number % 4])
    stop.set()
    reader.join()
    assert wrong == []


def test_fetch_makes_a_whole_file(store: Store, tmp_path: Path) -> None:
    data = os.urandom(2_500_000)
    store.put("weights", data)
    store.fetch("weights", tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_names_in_a_folder_that_was_changed_by_hand(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"stored")
    (tmp_path / "a").write_bytes(b"edited")  # the same size; the attribute stays with the file
    with pytest.raises(Torn, match="SHA-256"):
        store.read("a")


def test_what_a_killed_writer_left_is_no_entry_and_is_swept(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"whole")
    (tmp_path / "a" / ".half-1-x").write_bytes(b"half")
    assert [entry.key for entry in store.entries()] == ["a/b"]
    assert store.sweep() == []
    assert len(store.sweep(older_s=-1.0)) == 1
    assert store.read("a/b") == b"whole"


def test_addresses() -> None:
    assert open_store("s3://bucket").url == "s3://bucket"
    assert open_store("s3://bucket/a/b/").url == "s3://bucket/a/b"
    assert open_store("file:///tmp/x").url == open_store("/tmp/x").url == "/tmp/x"
    for wrong in ("gs://bucket/x", "s3://", "s3:///prefix", "s3://bucket/../x"):
        with pytest.raises(UserError):
            open_store(wrong)
