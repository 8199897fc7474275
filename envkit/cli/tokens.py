"""`envkit tokens audit`: renders finished traces anew, reports drifts and their causes, and checks what they export."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envkit import plugins
from envkit.cli import options
from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    audit = commands.add_parser("audit", help="what rendering the conversations anew would have changed")
    audit.add_argument("trial", type=Path, help="a trace's folder, or any folder above: an attempt, a trial, a run")
    audit.add_argument("--tokenizer", help="the model's tokenizer (default: the one that the trace names)")
    audit.add_argument("--renderer", help="default: the one that the trace names")
    audit.add_argument("--logprobs", metavar="MODEL", help="a Hugging Face model folder: compare its logprobs, in fp32")
    audit.add_argument("--version", type=int, help="with --logprobs: only tokens sampled by this policy version")
    audit.add_argument(
        "--keep", action="store_true", help="with --logprobs: keep them beside the trace, for the gap in `envkit view`"
    )
    audit.add_argument("--all", action="store_true", help="print every drift, not only the first few of a trace")
    audit.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON value instead of text"
    )


def run(args: argparse.Namespace) -> int:
    if args.keep and args.logprobs is None:
        raise UserError("--keep goes with --logprobs MODEL: there is nothing else to keep")
    folders = sorted(set(_traces(args.trial)))
    if not folders:
        raise UserError(
            f"no trace in {args.trial}: expected trace.json or trace.journal in it or below; only trials of the "
            "`token` policy have one"
        )
    score = None if args.logprobs is None else _scorer(args.logprobs)
    reports = [_report(folder, args, score) for folder in folders]
    if args.json:
        options.dump({"traces": reports})
    else:
        for report in reports:
            _print(report, everything=args.all)
    return 0 if all(report["sound"] for report in reports) else 1


def _traces(root: Path) -> Iterator[Path]:
    from envkit.tokens.store import TRACE_JOURNAL, TRACE_JSON

    for name in (TRACE_JSON, TRACE_JOURNAL):
        if (root / name).is_file():
            yield root
        yield from (path.parent for path in root.rglob(name))


def _scorer(model: str) -> Any:
    """`score(temperature)` of the embedded backend: a wing, hence found by name."""
    from_model = getattr(plugins.resolve("backends", "torch"), "scorer_of", None)
    if from_model is None:
        raise UserError("the torch backend can't score; install it with: pip install 'envkit-rl[torch]'")
    return from_model(model)


def _report(folder: Path, args: argparse.Namespace, score: Any) -> dict[str, Any]:
    from envkit.tokens import export, read_trace
    from envkit.tokens.audit import audit, logprob_gap
    from envkit.tokens.render import load_renderer, load_tokenizer
    from envkit.tokens.trace import TraceError

    trace = read_trace(folder)
    source = args.tokenizer or trace.meta.get("tokenizer")
    if not source:
        raise UserError(f"{folder} does not name its tokenizer; give it with --tokenizer")
    name = args.renderer or str(trace.meta.get("renderer") or "auto")
    same = name == trace.meta.get("renderer")
    renderer = load_renderer(load_tokenizer(source), name, trace.meta.get("options") if same else None)
    found = audit(trace, renderer)
    report: dict[str, Any] = {
        "folder": str(folder),
        "model": trace.meta.get("model"),
        "renderer": name,
        "nodes": len(trace),
        "tokens": found.tokens,
        "sampled": found.sampled_tokens,
        "drifts": [asdict(drift) for drift in found.drifts],
        "counts": found.counts,
        "sound": True,
    }
    try:
        out = export(trace)
    except TraceError as error:
        return report | {"sound": False, "unsound": str(error)}
    report |= {"samples": len(out.samples), "delivered": out.delivered, "dropped": dict(out.dropped)}
    if score is not None:
        scorer = score(float(trace.meta.get("temperature") or 1.0))
        gap = logprob_gap(out.samples, scorer, version=args.version)
        if args.keep:
            from envkit.tokens.scored import score_trace, write_scored

            scored = score_trace(trace, out, scorer, version=args.version)
            write_scored(folder, scored, {"model": args.logprobs, "version": args.version})
        report["logprobs"] = {"tokens": gap.tokens, "mean": gap.mean, "largest": gap.largest}
    return report


def _print(report: dict[str, Any], *, everything: bool) -> None:
    print(f"{report['folder']}: {report['model']}, renderer {report['renderer']}")
    print(f"  {report['nodes']} nodes, {report['tokens']} tokens, {report['sampled']} of them sampled")
    if not report["sound"]:
        print(f"  UNSOUND, nothing may be trained on it: {report['unsound']}")
    else:
        dropped = ", ".join(f"{count} {reason}" for reason, count in report["dropped"].items()) or "none"
        print(f"  exports {report['samples']} samples; {report['delivered']} delivered, dropped: {dropped}")
    drifts = report["drifts"]
    counts = ", ".join(f"{count} {cause}" for cause, count in report["counts"].items()) or "none"
    print(f"  drifts that exact ids avoided: {counts}")
    for drift in drifts if everything else drifts[:5]:
        what = "sampled" if drift["sampled"] else "shown"
        print(
            f"    node {drift['node']} ({drift['thread']}, {what}) at {drift['at']}, {drift['tokens']} tokens: "
            f"{drift['cause']}" + (f": {drift['note']}" if drift["note"] else "")
        )
        if drift["rendered"]:
            print(f"      was      {drift['actual']!r}\n      rendered {drift['rendered']!r}")
    if len(drifts) > 5 and not everything:
        print(f"    and {len(drifts) - 5} more (--all)")
    gap = report.get("logprobs")
    if gap is not None:
        print(f"  logprobs: mean |difference| {gap['mean']:.2e}, largest {gap['largest']:.2e}, {gap['tokens']} tokens")
