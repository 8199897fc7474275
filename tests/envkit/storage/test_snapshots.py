"""Snapshots in a store: what a sandbox streamed comes back as it was, or as an error that says what is wrong."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, SandboxDied
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.snapshot import Snapshot, SnapshotError, changes
from envkit.snapshot.stored import load_snapshot, open_saved, save_snapshot, saved_snapshots
from envkit.storage import NotStored, Store, Torn


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in ("filesystem", ".apps_data"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


async def _stream(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def test_what_a_sandbox_streams_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    async with LocalProvider(office=False).create(SandboxSpec()) as sandbox:
        await sandbox.exec(
            ["sh", "-c", "mkdir -p deep/er; echo memo > deep/er/memo.md; ln -s deep link; echo 1 > /.apps_data/x"]
        )
        saved = await save_snapshot(store, "run-1/trial-7/final", sandbox.snapshot())
        (tmp_path / "direct.tar").write_bytes(b"".join([piece async for piece in sandbox.snapshot()]))
    with (
        await load_snapshot(store, "run-1/trial-7/final") as loaded,
        Snapshot.from_tar(tmp_path / "direct.tar") as direct,
    ):
        assert loaded.read("filesystem/deep/er/memo.md") == b"memo\n"
        assert sorted(loaded.entries) == sorted(direct.entries)
        assert not changes(direct, loaded)
    assert saved.size == (tmp_path / "direct.tar").stat().st_size
    assert open_saved(store, "run-1/trial-7/final") == saved


async def test_equal_states_are_kept_once_and_names_are_listed(store: Store) -> None:
    data = _tar({"filesystem/a": b"same"})
    one = await save_snapshot(store, "r/one", _stream(data))
    two = await save_snapshot(store, "r/two", _stream(data, 7777))
    other = await save_snapshot(store, "s/three", _stream(_tar({"filesystem/a": b"other"})))
    assert one.sha256 == two.sha256 != other.sha256
    assert len(list(store.entries("snapshots/sha256/"))) == 2
    assert saved_snapshots(store) == ["r/one", "r/two", "s/three"]
    assert saved_snapshots(store, "r/") == ["r/one", "r/two"]


async def test_a_name_moves_to_its_new_state(store: Store) -> None:
    await save_snapshot(store, "world", _stream(_tar({"filesystem/a": b"1"})))
    await save_snapshot(store, "world", _stream(_tar({"filesystem/a": b"2"})))
    with await load_snapshot(store, "world") as loaded:
        assert loaded.read("filesystem/a") == b"2"


async def test_a_sandbox_that_dies_while_it_streams_saves_nothing(store: Store) -> None:
    async def dying() -> AsyncIterator[bytes]:
        yield _tar({"filesystem/a": b"x"})[:600]
        raise SandboxDied("the sandbox died")

    with pytest.raises(SandboxDied):
        await save_snapshot(store, "name", dying())
    assert list(store.entries()) == []


async def test_an_upload_that_was_cut_off_is_not_there_and_a_cut_tar_is_torn(store: Store) -> None:
    with pytest.raises(NotStored):
        await load_snapshot(store, "name")
    saved = await save_snapshot(store, "name", _stream(_tar({"filesystem/a": bytes(9000)})))
    whole = store.read(saved.key)
    for damaged in (whole[:-1024], whole[:-1] + b"x", b""):
        store.put(saved.key, damaged)
        with pytest.raises(Torn):
            await load_snapshot(store, "name")
    store.delete(saved.key)
    with pytest.raises(NotStored):
        await load_snapshot(store, "name")


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"format":2,"sha256":"x","size":1}', b'{"format":1}'])
async def test_a_record_that_is_none_is_torn(store: Store, record: bytes) -> None:
    store.put("snapshots/names/name.json", record)
    with pytest.raises(Torn):
        await load_snapshot(store, "name")


async def test_what_is_no_snapshot_is_told_when_loaded(store: Store) -> None:
    await save_snapshot(store, "name", _stream(b"not a tar at all" * 100))
    with pytest.raises(SnapshotError):
        await load_snapshot(store, "name")


async def test_a_stream_without_an_end_is_ended(store: Store) -> None:
    async def endless() -> AsyncIterator[bytes]:
        import asyncio

        yield b"x"
        await asyncio.sleep(1000)

    with pytest.raises(DeadlineExceeded, match="the budget"):
        await save_snapshot(store, "name", endless(), deadline=Deadline.after(0.2, "the budget"))
    assert list(store.entries()) == []
