"""Whether the diff finds what was edited, and nothing else.

    python benchmarks/diff_accuracy.py [--type deck] [--every 3] [--json] [--verbose]

For each type (a module of `diff_edits/`), every kind of single edit is applied to every sample, by another library or
on the XML, and the two files are compared. Recall: expected findings that are there. Precision: findings that were
expected; values that follow from an edit (`.derived`) are neither. Then the samples are opened and saved by other
programs, which must give no finding but for what the program itself does not keep (stated by the module, as narrowly
as it is known, with the reason: `diff_edits/losses.py`); and every diff is taken both ways, which must mirror. Samples
are generated files and, where it is present, the corpus (`ENVKIT_CORPUS`); `--every 3` takes a third of the corpus.

Exits 1 below 100 % recall or 99 % precision, where a kind of edit found no sample to be applied to, where a diff does
not mirror, or on any finding of a re-save that no stated loss explains.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import diff_edits
from diff_edits.losses import Loss, explained

from envkit.office.problem import Unreadable
from envkit.verifiers.diff import Finding, diff_bytes
from envkit.verifiers.diff.types import type_of


@dataclass
class Score:
    """Counts of one kind of edit, or of one program's re-saves, over all samples."""

    expected: int = 0
    found: int = 0
    surplus: int = 0
    unmirrored: int = 0
    notes: list[str] = field(default_factory=list)
    #: Of re-saves: files compared, those without any finding, and how many findings each loss explains.
    files: int = 0
    free: int = 0
    losses: Counter[str] = field(default_factory=Counter)

    @property
    def recall(self) -> float:
        return self.found / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.surplus) if self.found + self.surplus else 1.0


def _expected(given: Any) -> list[tuple[str, str | None]]:
    return [given] if isinstance(given, tuple) else list(given)


@lru_cache(maxsize=8)
def _model(name: str, data: bytes) -> Any:
    kind = type_of(name)
    assert kind is not None
    return kind.read(data)


def diff(name: str, before: bytes, after: bytes) -> list[Finding]:
    """As `diff_bytes`, but in this process, and reading what was read just before but once: half of the time."""
    kind = type_of(name)
    try:
        return [] if kind is None or before == after else kind.diff(_model(name, before), _model(name, after))
    except Unreadable:
        return diff_bytes(name, before, after)


def _mirrors(name: str, before: bytes, after: bytes, findings: list[Finding]) -> bool:
    return Counter(f.mirrored() for f in findings) == Counter(diff(name, after, before))


def judge(
    name: str, before: bytes, after: bytes, wanted: list[tuple[str, str | None]], score: Score, sample: str = ""
) -> None:
    """Adds one edit of one sample to a score."""
    findings = diff(name, before, after)
    if not _mirrors(name, before, after, findings):
        score.unmirrored += 1
        score.notes.append(f"{sample}: does not mirror")
    rest = [f for f in findings if not f.kind.endswith(".derived")]
    score.expected += len(wanted)
    for kind, where in wanted:
        match = next((f for f in rest if f.kind == kind and where in (None, f.where, f.to)), None)
        if match is None:
            score.notes.append(f"{sample}: missed {kind} at {where}")
        else:
            rest.remove(match)
            score.found += 1
    score.surplus += len(rest)
    score.notes += [f"{sample}: surplus {_said(f)}" for f in rest[:5]]


def judge_resave(
    name: str, before: bytes, after: bytes, score: Score, losses: tuple[Loss, ...] = (), sample: str = ""
) -> None:
    """Adds a file that another program saved again to a score."""
    findings = diff(name, before, after)
    if not _mirrors(name, before, after, findings):
        score.unmirrored += 1
        score.notes.append(f"{sample}: does not mirror")
    score.files += 1
    score.free += not findings
    rest: list[Finding] = []
    for finding in findings:
        loss = explained(finding, before, losses)
        if loss is None:
            rest.append(finding)
        else:
            score.losses[f"{loss.kind}: {loss.why}"] += 1
    score.surplus += len(rest)
    score.notes += [f"{sample}: {_said(f)}" for f in rest[:5]]


def _said(finding: Finding) -> str:
    return f"{finding.kind} {finding.change} at {finding.where}: {finding.before!r} -> {finding.after!r}"


def modules(only: str | None) -> Iterator[tuple[str, Any]]:
    for info in sorted(pkgutil.iter_modules(diff_edits.__path__), key=lambda i: i.name):
        if only in (None, info.name):
            module = importlib.import_module(f"diff_edits.{info.name}")
            if hasattr(module, "EDITS"):
                yield info.name, module


def _chosen(samples: dict[str, bytes], every: int) -> dict[str, bytes]:
    """All generated samples, and of those of the corpus (known by their extension) each so manyth."""
    real = sorted(name for name in samples if "." in name)
    kept = set(real[::every])
    return {name: data for name, data in samples.items() if "." not in name or name in kept}


def run(module: Any, every: int = 1) -> tuple[dict[str, Score], dict[str, Score]]:
    """Scores of edits and of re-saves."""
    samples = _chosen(dict(module.samples()), every)
    suffix_of = getattr(module, "suffix_of", lambda sample: module.SUFFIX)
    names = {sample: f"file.{suffix_of(sample)}" for sample in samples}
    edits: dict[str, Score] = {}
    for kind, edit in module.EDITS.items():
        score = edits[kind] = Score()
        for sample, before in samples.items():
            done = edit(before)
            if done is not None:
                judge(names[sample], before, done[0], _expected(done[1]), score, sample)
        if not score.expected:
            score.notes.append("applied to no sample")
    saved: dict[str, list[bytes | None]] = {}
    for program, save in getattr(module, "RESAVES", {}).items():
        saved[program] = [save(data) for data in samples.values()]
    for program, save_all in getattr(module, "BATCHES", {}).items():
        results: dict[str, bytes | None] = {}
        for suffix in {name.rpartition(".")[2] for name in names.values()}:
            group = [s for s in samples if names[s].endswith(f".{suffix}")]
            results |= dict(zip(group, save_all([samples[s] for s in group], suffix), strict=True))
        saved[program] = [results[sample] for sample in samples]
    resaves: dict[str, Score] = {}
    for program, files in saved.items():
        score = resaves[program] = Score()
        losses = getattr(module, "LOSSES", {}).get(program, ())
        for (sample, before), after in zip(samples.items(), files, strict=True):
            if after is not None:
                judge_resave(names[sample], before, after, score, losses, sample)
    return edits, resaves


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", help="only this module of diff_edits")
    parser.add_argument("--every", type=int, default=1, help="only each so manyth file of the corpus")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="say what was missed or too much, and each loss")
    args = parser.parse_args()
    good = True
    results: dict[str, Any] = {}
    for type_name, module in modules(args.type):
        edits, resaves = run(module, max(args.every, 1))
        total = Score(
            *(sum(getattr(s, f) for s in edits.values()) for f in ("expected", "found", "surplus", "unmirrored"))
        )
        unused = [kind for kind, score in edits.items() if not score.expected]
        good &= total.recall == 1 and total.precision >= 0.99 and not total.unmirrored and not unused
        good &= not any(s.surplus or s.unmirrored for s in resaves.values())
        results[type_name] = {
            "kinds": len(edits),
            "expected": total.expected,
            "recall": total.recall,
            "precision": total.precision,
            "unmirrored": total.unmirrored,
            "unused": unused,
            "resaves": {
                program: {"files": s.files, "free": s.free, "explained": s.losses.total(), "surplus": s.surplus}
                for program, s in resaves.items()
            },
            "edits": {k: {"recall": s.recall, "precision": s.precision} for k, s in edits.items()},
        }
        if not args.json:
            report(type_name, edits, resaves, total, args.verbose)
    if not results:
        parser.error(f"there is no type {args.type!r}; types are {', '.join(name for name, _ in modules(None))}")
    print(json.dumps(results, indent=1) if args.json else "\n" + summary(results, good))
    return 0 if good else 1


def report(name: str, edits: dict[str, Score], resaves: dict[str, Score], total: Score, verbose: bool) -> None:
    print(f"\n{name}: {len(edits)} kinds of edits")
    print(f"  {'edit':<34}{'expected':>9}{'recall':>9}{'precision':>11}  mirrors")
    for kind, s in [*edits.items(), ("all", total)]:
        mirrors = "yes" if not s.unmirrored else "NO"
        print(f"  {kind:<34}{s.expected:>9}{s.recall:>9.0%}{s.precision:>11.1%}  {mirrors}")
        for note in s.notes if verbose or s.recall < 1 or s.surplus or s.unmirrored else ():
            print(f"      {note}")
    for program, s in resaves.items():
        stated = f", {s.losses.total()} of stated losses" if s.losses else ""
        print(f"  saved by {program}: {s.files} files, {s.free} without any finding, {s.surplus} findings{stated}")
        for note in s.notes[: None if verbose else 20]:
            print(f"      {note}")
        for loss, count in sorted(s.losses.items()) if verbose else ():
            print(f"      lost, {count}x {loss}")


def summary(results: dict[str, Any], good: bool) -> str:
    lines = [f"{'type':<16}{'kinds':>6}{'edits':>7}{'recall':>8}{'precision':>11}  re-saves: free of findings / files"]
    for name, r in results.items():
        programs = "; ".join(
            f"{program} {s['free']}/{s['files']}"
            + (f" (+{s['explained']} lost)" if s["explained"] else "")
            + (f" {s['surplus']} TOO MANY" if s["surplus"] else "")
            for program, s in r["resaves"].items()
        )
        lines.append(
            f"{name:<16}{r['kinds']:>6}{r['expected']:>7}{r['recall']:>8.1%}{r['precision']:>11.2%}  {programs}"
        )
    return "\n".join([*lines, "all targets met" if good else "TARGETS MISSED"])


if __name__ == "__main__":
    sys.exit(main())
