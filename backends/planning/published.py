"""What the arithmetic gives for the published runs, beside what was published: the table of docs/planning.md.

    python -m envkit.backends.planning.published [docs/planning.md]       # to standard output, or into the page

Made from the recipes in examples/recipes and the published means of trajectories; a test holds page and table together.
`envkit plan` shows the same beside a plan for the model and the machines of a published run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from envkit.backends.planning.estimate import Estimate, Subject, estimate, subject_of
from envkit.backends.planning.gpus import GIB, cluster_of
from envkit.backends.planning.lengths import PUBLISHED, given
from envkit.backends.run.plan import read_plan

__all__ = ["MARKERS", "beside", "document", "table"]

#: What stands around the table in the page.
MARKERS = ("<!-- published: begin -->", "<!-- published: end -->")
#: Recipe, model, machines, published trials out, engines, and nodes for inference of all.
RUNS = (
    ("apex-35b", "qwen3.6-35b-a3b", "14x8xH100", 550, 10, 10, 14),
    ("apex-397b", "qwen3.5-397b-a17b", "20x8xH200", 300, 12, 12, 20),
)


def reckon(recipe: Path, gpus: str, means: str, *sets: str) -> Estimate:
    """A recipe's estimate; the number of trials that it types in is left out, so that what it stands for shows."""
    plan = read_plan(recipe, ["loop.admission.max_running=1000000", *sets])
    lengths = given(*PUBLISHED[means], context=plan.policy.context, source=means)
    return estimate(subject_of(plan, cluster_of(gpus), lengths))


def table(recipes: Path) -> str:
    """The table, in Markdown. Raises `UserError` for a recipe that can't be read."""
    lines = ["| run | figure | published | computed | difference |", "|---|---|---|---|---|"]
    for name, _, gpus, trials, engines, inference, nodes in RUNS:
        found = reckon(recipes / f"{name}.toml", gpus, "chosen")
        short = reckon(recipes / f"{name}.toml", gpus, "untrained")
        label = f"{name}, {gpus}"
        for figure, published, computed, difference in _rows(found, short, trials, engines, inference, nodes):
            lines.append(f"| {label} | {figure} | {published} | {computed} | {difference} |")
            label = ""
    low = reckon(recipes / "apex-397b.toml", "20x8xH200", "chosen", f"engines.arguments={_share(0.84)}")
    lines.append(f"| | trials out by KV with a GPU share of 0.84 | - | {_kv(low)[1]:,.0f} | see below |")
    return "\n".join(lines) + "\n"


def beside(subject: Subject) -> list[str]:
    """Lines of text: what was published for this model on these machines, beside what follows; none for others."""
    batch = (subject.max_staleness, subject.groups_per_step, subject.group_size)
    for _, model, gpus, trials, engines, inference, nodes in RUNS:
        if subject.shape.name == model and subject.cluster == cluster_of(gpus) and batch == (3, 16, 16):
            free = replace(subject, max_running=1_000_000)  # what a typed-in number stands for
            both = [
                estimate(replace(free, lengths=given(*PUBLISHED[means], context=free.context, source=means)))
                for means in ("chosen", "untrained")
            ]
            if any(one.balance is None for one in both):
                return []
            rows = list(_rows(both[0], both[1], trials, engines, inference, nodes))
            head = ("published run", "published", "computed", "difference")
            return [f"{a:<40}{b:>20}{c:>24}  {d}" for a, b, c, d in (head, *rows)]
    return []


def _share(share: float) -> str:
    return f'["--gpu-memory-utilization", "{share}"]'


def _kv(found: Estimate) -> tuple[float, float, float]:
    return next(bound.trials for bound in found.bounds if bound.name == "kv")


def _rows(
    found: Estimate, short: Estimate, trials: int, engines: int, inference: int, nodes: int
) -> Iterator[tuple[str, str, str, str]]:
    shape = found.subject.shape
    total, active = shape.name.split("-")[1:3]
    yield (
        "parameters, of them for a token",
        f"{total.upper()}, {active[1:].upper()}",
        f"{shape.parameters / 1e9:.1f}B, {shape.active / 1e9:.1f}B",
        "names are rounded",
    )
    stale = next(bound.trials[1] for bound in found.bounds if bound.name == "staleness")
    yield "trials out by staleness", "1,024", f"{stale:,.0f}", "none"
    low, middle, high = _kv(found)
    yield (
        "trials out by KV, at 101,441 tokens",
        f"{trials} ({trials // engines} an engine)",
        f"{middle:,.0f} ({low:,.0f}-{high:,.0f})",
        f"{middle / trials - 1:+.0%}",
    )
    low, middle, high = _kv(short)
    yield (
        "the same at 87,703 tokens (untrained)",
        f"{trials}",
        f"{middle:,.0f} ({low:,.0f}-{high:,.0f})",
        f"{middle / trials - 1:+.0%}",
    )
    assert found.balance is not None
    yield (
        "nodes for inference",
        f"{inference} of {nodes}",
        f"{found.balance[1]:.1f} ({min(found.balance):.1f}-{max(found.balance):.1f})",
        f"{found.balance[1] - inference:+.1f} nodes",
    )
    assert found.train is not None
    gpu = found.subject.cluster.gpu
    yield "GiB on a training GPU", "fits", f"{found.train.total / GIB:.0f} of {gpu.memory_gib:g}", "-"
    assert found.step_s is not None
    slow, middle, fast = found.step_s
    yield "seconds of a step", "not published", f"{middle:,.0f} ({fast:,.0f}-{slow:,.0f})", "-"


def document(text: str, recipes: Path) -> str:
    """A page with the table between its markers made anew. Raises `ValueError` for a page without them."""
    before, begin, rest = text.partition(MARKERS[0])
    _, end, after = rest.partition(MARKERS[1])
    if not begin or not end:
        raise ValueError(f"expected the markers {MARKERS[0]} and {MARKERS[1]}")
    return f"{before}{begin}\n\n{table(recipes)}\n{end}{after}"


if __name__ == "__main__":
    folder = Path("examples/recipes")
    if len(sys.argv) > 1:
        page = Path(sys.argv[1])
        page.write_text(document(page.read_text(encoding="utf-8"), folder), encoding="utf-8")
    else:
        print(table(folder), end="")
