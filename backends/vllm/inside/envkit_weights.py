"""Weights of one version on their way: safetensors files in a folder, and a manifest that fingerprints every tensor.

    v7/manifest.json           {"version": 7, "tensors": {name: {"file", "dtype", "shape", "fingerprint"}}}
    v7/00000.safetensors ...   a bounded number of bytes each, so that a writer never holds the whole model twice

Both sides use this module: the trainer's (`backends.vllm.transfer`) and vLLM's worker, where it stands alone and may
import only what vLLM's environment has.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["MANIFEST", "Entry", "Manifest", "fetch", "fingerprint", "read_tensors", "write_folder"]

MANIFEST = "manifest.json"
_FETCH_S = 60.0  # without a byte


@dataclass(frozen=True)
class Entry:
    """One tensor: its file in the folder, dtype (`float32`), shape, and the fingerprint of its bytes."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    fingerprint: str


@dataclass(frozen=True)
class Manifest:
    """Every tensor of a version, in the order in which they were sent."""

    version: int
    tensors: Mapping[str, Entry]

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> Manifest:
        """Raises `ValueError` for something else."""
        try:
            found = json.loads(text)
            tensors = {
                str(name): Entry(str(e["file"]), str(e["dtype"]), tuple(e["shape"]), str(e["fingerprint"]))
                for name, e in found["tensors"].items()
            }
            return cls(int(found["version"]), tensors)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no manifest of weights: {error!r}") from error

    def key(self) -> str:
        """The same for versions with the same names, dtypes and shapes."""
        what = [(name, e.dtype, e.shape) for name, e in self.tensors.items()]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=16).hexdigest()


def fingerprint(tensor: torch.Tensor) -> str:
    """Of a tensor's bytes (BLAKE2b, 16 bytes), dtype and shape."""
    tensor = tensor.detach().cpu().contiguous()
    digest = hashlib.blake2b(f"{tensor.dtype}{list(tensor.shape)}".encode(), digest_size=16)
    if tensor.numel():
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def write_folder(
    folder: Path,
    version: int,
    tensors: Iterable[tuple[str, torch.Tensor]],
    *,
    dtype: torch.dtype | None = None,
    file_bytes: int = 1 << 30,
    on_file: Callable[[Path], None] | None = None,
) -> Manifest:
    """Writes tensors as they come; at most `file_bytes` (and one tensor) are held.

    Args:
        folder: Made here; it must not exist.
        dtype: Floating tensors are cast to it; None as they are.
        on_file: Gets every file once it is whole, the manifest last.

    Raises:
        ValueError: Two tensors of one name, or none at all.
        OSError: It can't be written.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    entries: dict[str, Entry] = {}
    held: dict[str, torch.Tensor] = {}
    size = count = 0

    def flush() -> None:
        nonlocal held, size, count
        if held:
            path = folder / f"{count:05d}.safetensors"
            save_file(held, path)
            held, size, count = {}, 0, count + 1
            if on_file is not None:
                on_file(path)

    for name, tensor in tensors:
        if name in entries:
            raise ValueError(f"the weights hold {name!r} twice")
        cast = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        own = tensor.detach().to("cpu", cast, copy=True).contiguous()
        entries[name] = Entry(
            f"{count:05d}.safetensors", str(own.dtype).removeprefix("torch."), tuple(own.shape), fingerprint(own)
        )
        held[name] = own
        size += own.numel() * own.element_size()
        if size >= file_bytes:
            flush()
    flush()
    if not entries:
        raise ValueError("the trainer gave no weights at all")
    manifest = Manifest(version, entries)
    part = folder / f".{MANIFEST}.part"
    part.write_text(manifest.text())
    part.rename(folder / MANIFEST)
    if on_file is not None:
        on_file(folder / MANIFEST)
    return manifest


def read_tensors(folder: Path, manifest: Manifest) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in the manifest's order, one at a time.

    Raises:
        ValueError: A file or a tensor in it is missing.
    """
    from safetensors import SafetensorError, safe_open

    by_file: dict[str, list[str]] = {}
    for name, entry in manifest.tensors.items():
        by_file.setdefault(entry.file, []).append(name)
    for file, names in by_file.items():
        try:
            with safe_open(folder / file, framework="pt") as opened:
                for name in names:
                    yield name, opened.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"weights of version {manifest.version}, file {file}: {error}") from error


def check(folder: Path, manifest: Manifest) -> None:
    """Raises `ValueError` that names the tensors whose bytes are not those that were sent."""
    wrong = [
        name
        for name, tensor in read_tensors(folder, manifest)
        if fingerprint(tensor) != manifest.tensors[name].fingerprint
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{len(wrong)} tensors are not what was sent: {', '.join(wrong[:3])}{more}")


def fetch(source: Mapping[str, Any], target: Path) -> Path:
    """The folder of a version on this host: `{"path": folder}` as it is, `{"links": {file: URL}}` downloaded.

    Raises:
        ValueError: There is no whole version.
    """
    if "path" in source:
        return Path(source["path"])
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, link in source["links"].items():
            if Path(name).name != name:
                raise ValueError(f"expected a plain file name, found {name!r}")
            with urllib.request.urlopen(link, timeout=_FETCH_S) as answer, (part / name).open("wb") as file:
                shutil.copyfileobj(answer, file, 1 << 20)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(part, target)
    except OSError as error:  # an error of HTTP is one too
        shutil.rmtree(part, ignore_errors=True)
        raise ValueError(f"the weights can't be fetched: {error}") from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return target
