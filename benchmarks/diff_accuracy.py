"""Whether the diff finds what was edited, and nothing else.

    python benchmarks/diff_accuracy.py [--type workbook] [--json] [--verbose]

For each type (a module of `diff_edits/`), every kind of single edit is applied to every sample, by another library or
on the XML, and the two files are compared. Recall: expected findings that are there. Precision: findings that were
expected; values that follow from an edit (`.derived`) are neither. Then the samples are opened and saved by other
programs, which must give no finding but for what the program itself loses (listed by the module, and by kind alone);
and every diff is taken both ways, which must mirror. Exits 1 below 100 % recall or 99 % precision, or on any finding of
a re-save.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import diff_edits

from envkit.verifiers.diff import Finding, diff_bytes


@dataclass
class Score:
    """Counts of one kind of edit over all samples."""

    expected: int = 0
    found: int = 0
    surplus: int = 0
    unmirrored: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.found / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.surplus) if self.found + self.surplus else 1.0


def _expected(given: Any) -> list[tuple[str, str | None]]:
    return [given] if isinstance(given, tuple) else list(given)


def _mirrors(name: str, before: bytes, after: bytes, findings: list[Finding]) -> bool:
    return {f.mirrored() for f in findings} == set(diff_bytes(name, after, before))


def judge(
    name: str,
    before: bytes,
    after: bytes,
    wanted: list[tuple[str, str | None]],
    score: Score,
    lost: frozenset[str] | set[str] = frozenset(),
) -> None:
    findings = diff_bytes(name, before, after)
    score.unmirrored += not _mirrors(name, before, after, findings)
    rest = [f for f in findings if not f.kind.endswith(".derived") and f.kind not in lost]
    score.expected += len(wanted)
    for kind, where in wanted:
        match = next((f for f in rest if f.kind == kind and where in (None, f.where, f.to)), None)
        if match is None:
            score.notes.append(f"missed {kind} at {where}")
        else:
            rest.remove(match)
            score.found += 1
    score.surplus += len(rest)
    score.notes += [f"surplus {f.kind} {f.change} at {f.where}: {f.before!r} -> {f.after!r}" for f in rest[:5]]


def modules(only: str | None) -> Iterator[tuple[str, Any]]:
    for info in sorted(pkgutil.iter_modules(diff_edits.__path__), key=lambda i: i.name):
        if only in (None, info.name):
            module = importlib.import_module(f"diff_edits.{info.name}")
            if hasattr(module, "EDITS"):
                yield info.name, module


def run(module: Any) -> tuple[dict[str, Score], dict[str, Score]]:
    """Scores of edits and of re-saves."""
    name = f"file.{module.SUFFIX}"
    samples: dict[str, bytes] = dict(module.samples())
    edits: dict[str, Score] = {}
    for kind, edit in module.EDITS.items():
        score = edits[kind] = Score()
        for before in samples.values():
            done = edit(before)
            if done is not None:
                judge(name, before, done[0], _expected(done[1]), score)
        if not score.expected:
            score.notes.append("applied to no sample")
    resaves: dict[str, Score] = {}
    for program, save in getattr(module, "RESAVES", {}).items():
        score = resaves[program] = Score()
        for before in samples.values():
            judge(name, before, save(before), [], score, lost=getattr(module, "LOSSES", {}).get(program, set()))
    return edits, resaves


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", help="only this module of diff_edits")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="say what was missed or too much")
    args = parser.parse_args()
    good = True
    results: dict[str, Any] = {}
    for type_name, module in modules(args.type):
        edits, resaves = run(module)
        total = Score(
            *(sum(getattr(s, f) for s in edits.values()) for f in ("expected", "found", "surplus", "unmirrored"))
        )
        unused = [kind for kind, score in edits.items() if not score.expected]
        good &= total.recall == 1 and total.precision >= 0.99 and not total.unmirrored and not unused
        good &= not any(s.surplus for s in resaves.values())
        results[type_name] = {
            "kinds": len(edits),
            "recall": total.recall,
            "precision": total.precision,
            "unmirrored": total.unmirrored,
            "unused": unused,
            "resaves": {program: s.surplus for program, s in resaves.items()},
            "edits": {k: {"recall": s.recall, "precision": s.precision} for k, s in edits.items()},
        }
        if not args.json:
            report(type_name, edits, resaves, total, args.verbose)
    if args.json:
        print(json.dumps(results, indent=1))
    return 0 if good else 1


def report(name: str, edits: dict[str, Score], resaves: dict[str, Score], total: Score, verbose: bool) -> None:
    print(f"\n{name}: {len(edits)} kinds of edits")
    print(f"  {'edit':<34}{'expected':>9}{'recall':>9}{'precision':>11}  mirrors")
    for kind, s in [*edits.items(), ("all", total)]:
        mirrors = "yes" if not s.unmirrored else "NO"
        print(f"  {kind:<34}{s.expected:>9}{s.recall:>9.0%}{s.precision:>11.1%}  {mirrors}")
        for note in s.notes if verbose or s.recall < 1 or s.surplus else ():
            print(f"      {note}")
    for program, s in resaves.items():
        print(f"  saved by {program}: {s.surplus} findings")
        for note in s.notes[:10]:
            print(f"      {note}")


if __name__ == "__main__":
    sys.exit(main())
