"""Throws broken files at every parser: none may kill the parent, outgrow its memory or run on.

    python benchmarks/parse_mutants.py [--each 2000] [--type pdf] [--seed 1]

For each type, sound files (generated, and those of the corpus when ENVKIT_CORPUS or ../shared/corpus is there) are
mutated: bytes flipped, stretches cut out, doubled, zeroed, swapped, the tail cut off, numbers made huge, and, in zips,
the same done to a part that is then packed anew. Each mutant is read in a confined child; the outcomes are counted.
Exits 1 when anything but a model or a typed reason comes back, a child's memory passes 512 MiB, or its time the limit.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import resource
import sys
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import diff_edits

from envkit.office.parse import ParseLimits, ParserPool, Parsing
from envkit.office.problem import Unreadable
from envkit.verifiers.diff.types import TYPES, FileType

ROOT = Path(__file__).resolve().parents[1]
CORPUS = Path(os.environ.get("ENVKIT_CORPUS", ROOT.parent / "shared" / "corpus"))
#: Types that LibreOffice converts take seconds a file and are left out.
SKIPPED = {"doc", "odt", "rtf", "ppt", "odp"}
LIMITS = ParseLimits(memory_mb=400, cpu_s=10.0, wall_s=20.0)
MAX_RSS_MB = 512
#: Larger sound files make slow mutants.
MAX_SEED_BYTES = 400_000


def seeds(kind: FileType) -> list[bytes]:
    """Sound files of a type."""
    import importlib
    import pkgutil

    out: list[bytes] = []
    for info in pkgutil.iter_modules(diff_edits.__path__):
        try:
            module = importlib.import_module(f"diff_edits.{info.name}")
        except ImportError:
            continue
        if getattr(module, "SUFFIX", "") in kind.suffixes and hasattr(module, "samples"):
            out += dict(module.samples()).values()
    if CORPUS.is_dir():
        out += [p.read_bytes() for p in sorted(CORPUS.rglob("*")) if p.suffix[1:].lower() in kind.suffixes]
    if not out and kind.name in _PLAIN:
        out.append(_PLAIN[kind.name])
    return [data for data in out if 0 < len(data) <= MAX_SEED_BYTES]


_PLAIN = {
    "yaml": b"a: &x [1, 2]\nb: *x\nc:\n  - d: 2026-01-01\n    e: null\n",
    "toml": b'title = "a"\n[table]\nx = 1\ny = [1.5, 2]\n[[list]]\nd = 2026-01-01\n',
    "json lines": b'{"a": 1}\n{"a": [1, 2, {"b": null}]}\n',
}


def _flipped(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 3, 20))):
        data[chance.randrange(len(data))] = chance.randrange(256)


def _cut(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randrange(1, 200)]


def _tail(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(1, len(data) + 1) :]


def _doubled(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    piece = data[at : at + chance.randrange(1, 500)]
    data[at:at] = piece * chance.choice((1, 2, 50))


def _zeroed(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    length = min(chance.randrange(1, 64), len(data) - at)
    data[at : at + length] = bytes([chance.choice((0, 255))]) * length


def _swapped(data: bytearray, chance: random.Random) -> None:
    a, b = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
    data[a : a + 30], data[b : b + 30] = data[b : b + 30], data[a : a + 30]


def _huge(data: bytearray, chance: random.Random) -> None:
    digits = [i for i in range(len(data)) if 48 <= data[i] <= 57]
    if digits:
        at = chance.choice(digits)
        data[at : at + 1] = chance.choice((b"99999999", b"-1", b"4294967296", b"1e308", b"0"))


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flipped, _cut, _tail, _doubled, _zeroed, _swapped, _huge,
)  # fmt: skip


def mutant(data: bytes, chance: random.Random) -> bytes:
    """A broken copy."""
    if data.startswith(b"PK\x03\x04") and chance.random() < 0.7:
        inside = _inside(data, chance)
        if inside is not None:
            return inside
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        if out:
            chance.choice(MUTATIONS)(out, chance)
    return bytes(out)


def _inside(data: bytes, chance: random.Random) -> bytes | None:
    """A zip with one part broken and packed soundly."""
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
            chosen = chance.choice(old.namelist())
            for name in old.namelist():
                content = bytearray(old.read(name))
                if name == chosen and content:
                    chance.choice(MUTATIONS)(content, chance)
                new.writestr(name, bytes(content))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, zlib.error, OSError, IndexError):
        return None
    return out.getvalue()


def mutants(kind: FileType, count: int, seed: int) -> Iterator[bytes]:
    chance = random.Random(f"{kind.name} {seed}")
    sound = seeds(kind)
    for _ in range(count):
        yield mutant(chance.choice(sound), chance)


class Measured:
    """Reads a file and says only how that went, with the memory it took in MB beyond the start."""

    def __init__(self, kind: FileType, data: bytes) -> None:
        self.work = Parsing(data, kind.read)

    def __call__(self) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.work()
        return max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


def run(kind: FileType, count: int, seed: int = 1, limits: ParseLimits = LIMITS) -> tuple[Counter[str], list[str]]:
    """The outcomes, and what is wrong with them."""
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    kind.read  # noqa: B018 loads the parser before the first fork
    with ParserPool(limits=limits) as pool:
        works = (Measured(kind, data) for data in mutants(kind, count, seed))
        for number, outcome in enumerate(pool.map(works)):
            name = str(outcome.problem) if isinstance(outcome, Unreadable) else "read"
            outcomes[name] += 1
            if isinstance(outcome, Unreadable) and outcome.problem == "a file that breaks its parser":
                outcomes[f"  {str(outcome)[:100]}"] += 1
            elif not isinstance(outcome, int | Unreadable):
                wrong.append(f"{kind.name} mutant {number}: {outcome!r}")
    return outcomes, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=2000, help="mutants of each type")
    parser.add_argument("--type", help="only this type")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad: list[Any] = []
    for kind in TYPES:
        if kind.name in SKIPPED or args.type not in (None, kind.name):
            continue
        if not seeds(kind):
            print(f"{kind.name}: no sound file to begin with")
            bad.append(kind.name)
            continue
        began = time.monotonic()
        outcomes, wrong = run(kind, args.each, args.seed)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        took = time.monotonic() - began
        plain = ", ".join(f"{n} {name}" for name, n in outcomes.most_common() if not name.startswith(" "))
        print(f"{kind.name}: {args.each} mutants in {took:.0f} s, largest child so far {peak} MiB: {plain}", flush=True)
        for name, n in outcomes.most_common():
            if name.startswith(" "):
                print(f"    {n} x {name.strip()}")
        bad += wrong
        if peak > MAX_RSS_MB:
            bad.append(f"{kind.name}: a child of {peak} MiB")
    print("\n".join(map(str, bad)) or "the parent lived, every outcome was typed, memory and time were bounded")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
