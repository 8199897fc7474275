"""Weights on their way: a stream in bounded files, a fingerprint of every tensor, and what is damaged is named."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.vllm import VllmEngines, VllmEnginesConfig

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(300)]


@pytest.fixture
def tensors() -> dict[str, Any]:
    import torch

    draws = torch.Generator().manual_seed(1)
    shapes = {"a": (40, 8), "b": (8,), "c": (), "d": (3, 5, 7), "e": (0, 4)}
    return {name: torch.randn(shape, generator=draws) for name, shape in shapes.items()} | {"f": torch.arange(6)}


def test_what_is_written_is_read_again_and_files_are_bounded(tensors: dict[str, Any], tmp_path: Path) -> None:
    import torch

    from envkit.backends.vllm.inside import envkit_weights as files

    finished: list[str] = []
    manifest = files.write_folder(
        tmp_path / "v7", 7, iter(tensors.items()), file_bytes=500, on_file=lambda path: finished.append(path.name)
    )
    assert finished[-1] == files.MANIFEST
    assert len(finished) == 3, "a large tensor, the small ones, the manifest"
    again = files.Manifest.read((tmp_path / "v7" / files.MANIFEST).read_bytes())
    assert again == manifest
    assert again.key() == manifest.key()
    files.check(tmp_path / "v7", again)
    found = dict(files.read_tensors(tmp_path / "v7", again))
    assert list(found) == list(tensors)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_fingerprints_tell_values_shapes_and_types_apart(tensors: dict[str, Any]) -> None:
    import torch

    from envkit.backends.vllm.inside.envkit_weights import fingerprint

    a = tensors["a"]
    other = a.clone()
    other[3, 3] = torch.nextafter(other[3, 3], torch.tensor(9.0))
    marks = [fingerprint(t) for t in (a, other, a.reshape(8, 40), a.T, a.to(torch.bfloat16), a.view(torch.int32))]
    assert len(set(marks)) == len(marks)
    assert fingerprint(a.T.contiguous().T) == fingerprint(a), "what is the same is the same, however it lies in memory"


def test_floats_are_cast_and_nothing_else(tensors: dict[str, Any], tmp_path: Path) -> None:
    import torch

    from envkit.backends.vllm.inside import envkit_weights as files

    manifest = files.write_folder(tmp_path / "v", 1, iter(tensors.items()), dtype=torch.bfloat16)
    assert {e.dtype for n, e in manifest.tensors.items() if n != "f"} == {"bfloat16"}
    assert manifest.tensors["f"].dtype == "int64"


@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_damage_is_found_before_anything_is_loaded(how: str, tensors: dict[str, Any], tmp_path: Path) -> None:
    from envkit.backends.vllm.inside import envkit_weights as files

    manifest = files.write_folder(tmp_path / "v", 1, iter(tensors.items()), file_bytes=500)
    file = tmp_path / "v" / manifest.tensors["a"].file
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[-1] ^= 1
        file.write_bytes(data)
    elif how == "cut":
        file.write_bytes(data[:-40])
    else:
        file.unlink()
    with pytest.raises(ValueError, match="1 tensors are not what was sent: a" if how == "flip" else file.name):
        files.check(tmp_path / "v", manifest)


def test_a_trainer_without_weights_or_with_one_twice_is_refused(tensors: dict[str, Any], tmp_path: Path) -> None:
    from envkit.backends.vllm.inside import envkit_weights as files

    with pytest.raises(ValueError, match="no weights at all"):
        files.write_folder(tmp_path / "a", 1, iter(()))
    with pytest.raises(ValueError, match="'b' twice"):
        files.write_folder(tmp_path / "b", 1, iter([("b", tensors["b"])] * 2))


def test_links_are_fetched_whole_or_not_at_all(tensors: dict[str, Any], tmp_path: Path) -> None:
    """As an engine on another host gets weights out of a bucket."""
    from envkit.backends.vllm.inside import envkit_weights as files

    manifest = files.write_folder(tmp_path / "v", 1, iter(tensors.items()), file_bytes=500)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "v"))
    handler.log_message = lambda *args: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_address[1]}"
        names = dict.fromkeys(e.file for e in manifest.tensors.values())
        where = files.fetch({"links": {name: f"{root}/{name}" for name in names}}, tmp_path / "here" / "v")
        files.check(where, manifest)
        with pytest.raises(ValueError, match="can't be fetched"):
            files.fetch({"links": {"x.safetensors": f"{root}/nothing"}}, tmp_path / "here" / "w")
        server.shutdown()
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == ["v"]


class Weights:
    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = tensors

    def weights(self) -> Iterator[tuple[str, Any]]:
        return iter(self._tensors.items())


async def test_a_shared_folder_carries_weights_between_hosts(tensors: dict[str, Any], tmp_path: Path) -> None:
    from envkit.backends.vllm.inside import envkit_weights as files

    config = VllmEnginesConfig(
        urls=("http://127.0.0.1:1",), device="cpu", transfer="store", store=str(tmp_path / "shared"), file_mb=1
    )
    engines = VllmEngines(config, "model")
    written = engines._write(Weights(tensors), 3)  # type: ignore[arg-type]
    told = engines._told(written)
    folder = Path(told["source"]["path"])
    assert folder.is_relative_to(tmp_path / "shared")
    files.check(folder, files.Manifest.read(told["manifest"]))
    assert not list(written.path.glob("*.safetensors")), "and they don't lie here twice"
    engines._discard(written)
    assert not list(folder.glob("*")) if folder.exists() else True
    await engines.close()
