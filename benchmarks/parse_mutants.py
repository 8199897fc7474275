"""Throws broken files at every parser: none may kill the parent, outgrow its memory or run on.

    python benchmarks/parse_mutants.py [--each 2000] [--type pdf] [--seed 1] [--width 1] [--keep FOLDER] [--json]

For each type, sound files (generated, and those of the corpus when ENVKIT_CORPUS or ../shared/corpus is there) are
mutated: bytes flipped, stretches cut out, doubled, zeroed, swapped, the tail cut off, numbers made huge, and, in zips,
the same done to a part that is then packed anew. Each mutant is read in a confined child, forked from a parent that has
the parsers loaded; never more at once than cores. Prints a table of outcomes per type, with the time of a mutant and
the largest child. Exits 1 when anything but a model or a typed reason comes back, a child's memory passes 512 MiB, or
the parent of a type's children dies. `--keep` writes the mutants that broke their parser into a folder.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import resource
import sys
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import diff_edits

from envkit.office.parse import ParseLimits, ParserPool, Parsing, preload
from envkit.office.problem import Problem, Unreadable
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


def run(
    kind: FileType,
    count: int,
    seed: int = 1,
    limits: ParseLimits = LIMITS,
    *,
    width: int | None = None,
    keep: Path | None = None,
) -> tuple[Counter[str], list[str]]:
    """The outcomes (and, indented, what broke parsers), and what is wrong with them.

    Args:
        width: Children at once; the cores, when None.
        keep: A folder for the mutants that broke their parser.
    """
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    kind.read  # noqa: B018 loads the parser before the first fork
    again = mutants(kind, count, seed) if keep else iter(())
    with ParserPool(width, limits) as pool:
        works = (Measured(kind, data) for data in mutants(kind, count, seed))
        for number, outcome in enumerate(pool.map(works)):
            data = next(again, b"")
            outcomes[str(outcome.problem) if isinstance(outcome, Unreadable) else "read"] += 1
            if isinstance(outcome, Unreadable) and outcome.problem is Problem.PARSER_CRASH:
                outcomes[f"  {str(outcome)[:100]}"] += 1
                if keep is not None:
                    (keep / f"{kind.suffixes[0]}-{seed}-{number}.{kind.suffixes[0]}").write_bytes(data)
            elif not isinstance(outcome, int | Unreadable):
                wrong.append(f"{kind.name} mutant {number}: {outcome!r}")
    return outcomes, wrong


@dataclass
class Row:
    """What came of one type."""

    kind: str
    outcomes: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_mb: int = 0


def alone(kind: FileType, args: argparse.Namespace) -> Row:
    """A type in a process of its own, whose children's memory is measured apart from that of other types."""
    if not seeds(kind):
        return Row(kind.name, wrong=[f"{kind.name}: no sound file to begin with"])
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        began = time.monotonic()
        outcomes, wrong = run(kind, args.each, args.seed, width=args.width, keep=args.keep)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        theirs.send(Row(kind.name, dict(outcomes), wrong, time.monotonic() - began, peak))

    process = context.Process(target=work)
    process.start()
    theirs.close()
    try:
        row: Row = ours.recv()
    except EOFError:
        row = Row(kind.name, wrong=[f"{kind.name}: the parent of its children died"])
    process.join()
    if row.peak_mb > MAX_RSS_MB:
        row.wrong.append(f"{kind.name}: a child of {row.peak_mb} MiB")
    return row


#: Columns of the table.
SHORT = {
    "read": "read", Problem.EMPTY: "empty", Problem.NOT_THIS_FORMAT: "other", Problem.ENCRYPTED: "crypt",
    Problem.CORRUPT: "corrupt", Problem.TOO_BIG: "big", Problem.TIMEOUT: "slow", Problem.PARSER_CRASH: "crash",
    Problem.UNSUPPORTED: "unsupp",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=2000, help="mutants of each type")
    parser.add_argument("--type", choices=[kind.name for kind in TYPES], help="only this type")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, help="children at once, never more than cores (default: the cores)")
    parser.add_argument("--keep", type=Path, help="a folder for mutants that broke their parser")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    preload()
    rows: list[Row] = []
    if not args.json:
        print(f"{'':<16}" + "".join(f"{name:>8}" for name in SHORT.values()) + f"{'ms each':>9}{'MiB':>6}", flush=True)
    for kind in TYPES:
        if kind.name in SKIPPED or args.type not in (None, kind.name):
            continue
        rows.append(row := alone(kind, args))
        if not args.json:
            counts = "".join(f"{row.outcomes.get(str(name), 0):>8}" for name in SHORT)
            print(f"{row.kind:<16}{counts}{1000 * row.seconds / args.each:>9.1f}{row.peak_mb:>6}", flush=True)
            for name, n in row.outcomes.items():
                if name.startswith(" "):
                    print(f"    {n} x {name.strip()}", flush=True)
    bad = [line for row in rows for line in row.wrong]
    if args.json:
        print(json.dumps({"each": args.each, "seed": args.seed, "types": [asdict(row) for row in rows]}, indent=1))
    else:
        print("\n".join(bad) or "the parent lived, every outcome was typed, memory and time were bounded")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
