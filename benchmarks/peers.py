"""The same trivial task through envkit and its peers: trials per second, at several concurrencies, in one run.

    python benchmarks/peers.py [--classes local,docker] [--concurrency 1,8,32] [--rounds 3] [--json]

A trial starts a fresh place, runs three commands one after the other, scores what the last one left, and cleans up
(`peers/work.py`). Every contestant does that through its own runner of many trials, on its recommended fast path; how
is said at the head of its file in `peers/`. Rounds are interleaved, so that a busy machine is busy for all. Printed are
medians over the rounds, from the first trial's start to the last one's end, without what is paid once a batch (which is
printed too); the ratio to the fastest peer of the class; and the processor time of a trial without that of the Docker
daemon, which says most where the machine is busy. Exits 1 where envkit is not the fastest.

Two classes, which are not alike within themselves:

- `local`, without containers: envkit's bubblewrap sandbox (namespaces, limits, its own file system; a process a trial;
  the conversation and what changed are kept), and envkit's `host` provider, which isolates nothing; against verifiers'
  subprocess runtime and inspect-ai's local sandbox, which are a folder and a subprocess each. "(bubblewrap alone)" and
  "(that, in a process each)" are no contestants: the commands in a bare bubblewrap, without anything else of ours, from
  one process and from a forked one for each trial, which is what isolation by itself costs.
- `docker`, one image and one daemon for all: envkit (no network, no capabilities, read-only root, limits), Harbor
  (compose, no network), inspect-ai (compose, no network, init), verifiers (the CLI; a bridge with a published port,
  since its mode without a network has to build an image from the internet).

The peers are optional. They go into environments of their own, whose Pythons are named here or by these variables:

    python3.12 -m venv ~/peers && ~/peers/bin/pip install verifiers==0.4.0 inspect-ai==0.3.285     ENVKIT_PEERS_PYTHON
    python3.12 -m venv ~/harbor && ~/harbor/bin/pip install harbor==0.26.0                         ENVKIT_HARBOR_PYTHON

(Licences: Harbor Apache-2.0, verifiers MIT, inspect-ai MIT; nothing of theirs is kept here.) Their runners are started
in a temporary folder: from the repository's root, its folders `verifiers/` and `tasks/` would be imported in place of
theirs. The docker class needs a daemon (`DOCKER_HOST`) with the image of `--image`, which `.ci/docker-up` makes;
inspect-ai wants engine 24.0.6 and compose 2.21 or newer, Harbor compose, verifiers a default bridge.
Debian 12 has neither; docker.io 26.1 (with the machine's own runc) and docker-compose 2.26 of Debian 13, unpacked by
`dpkg -x` and started without `--bridge=none`, serve all four.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent / "peers"
#: Trials of a batch: enough that a batch's ends, where fewer run at once, do not decide.
TRIALS = {"local": {1: 12, 8: 48, 32: 96}, "docker": {1: 4, 8: 16, 32: 32}}
LIMIT_S = 900.0


@dataclass(frozen=True)
class Contestant:
    """Who runs, in which class, by which file and which Python."""

    name: str
    kind: str
    argument: str
    script: str
    python: str
    floor: bool = False
    """It shows what a part costs, and competes with nobody."""

    @property
    def ours(self) -> bool:
        return self.script == "envkit_runner.py"


@dataclass
class Row:
    """A contestant's rounds at one concurrency."""

    per_s: list[float] = field(default_factory=list)
    before_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        return statistics.median(self.per_s) if self.per_s else None


def contestants(classes: Sequence[str]) -> list[Contestant]:
    peers, harbor = os.environ.get("ENVKIT_PEERS_PYTHON", ""), os.environ.get("ENVKIT_HARBOR_PYTHON", "")
    ours = sys.executable
    table = [
        Contestant("envkit local", "local", "local", "envkit_runner.py", ours),
        Contestant("envkit host (unisolated)", "local", "host", "envkit_runner.py", ours),
        Contestant("(bubblewrap alone)", "local", "local", "bare_runner.py", ours, floor=True),
        Contestant("(that, in a process each)", "local", "local", "process_runner.py", ours, floor=True),
        Contestant("verifiers subprocess", "local", "local", "verifiers_runner.py", peers),
        Contestant("inspect-ai local", "local", "local", "inspect_runner.py", peers),
        Contestant("envkit docker", "docker", "docker", "envkit_runner.py", ours),
        Contestant("Harbor docker", "docker", "docker", "harbor_runner.py", harbor),
        Contestant("inspect-ai docker", "docker", "docker", "inspect_runner.py", peers),
        Contestant("verifiers docker", "docker", "docker", "verifiers_runner.py", peers),
    ]
    there = [c for c in table if c.kind in classes and c.python]
    for absent in [c for c in table if c.kind in classes and not c.python]:
        print(f"left out, not installed: {absent.name}", file=sys.stderr)
    return there


def run(who: Contestant, trials: int, concurrency: int, image: str, row: Row) -> None:
    """One batch of one contestant, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="envkit-peers-") as folder:
        arguments = [who.python, str(HERE / who.script), who.argument, str(trials), str(concurrency), image]
        environment = {**os.environ, "PYTHONPATH": str(HERE), "HARBOR_TELEMETRY": "off"}
        try:
            done = subprocess.run(
                arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            row.failed.append(f"no end after {LIMIT_S:.0f} s")
            return
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        row.failed.append((done.stderr or done.stdout).strip()[-600:])
        return
    told = json.loads(lines[-1])
    if told["right"] != trials:
        row.failed.append(f"{trials - told['right']} of {trials} trials were not scored 1: {done.stderr[-400:]}")
        return
    row.per_s.append(trials / told["wall_s"])
    row.before_s.append(told["before_s"])
    row.cpu_s.append(told["cpu_s"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--classes", default="local,docker")
    parser.add_argument("--concurrency", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of trials a batch")
    parser.add_argument("--only", default="", help="contestants whose name contains this")
    parser.add_argument("--image", default=os.environ.get("ENVKIT_TEST_IMAGE", "envkit/base:test"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    those = [c for c in contestants(args.classes.split(",")) if args.only in c.name]
    levels = [int(level) for level in args.concurrency.split(",")]
    rows = {(who.name, level): Row() for who in those for level in levels}
    for number in range(args.rounds):
        for level in levels:
            # Who comes first changes from round to round.
            for who in those[number % len(those) :] + those[: number % len(those)]:
                trials = max(level, round(TRIALS[who.kind].get(level, 3 * level) * args.scale))
                row = rows[who.name, level]
                run(who, trials, level, args.image, row)
                last = f"{row.per_s[-1]:.2f}/s" if row.per_s and not row.failed else f"failed: {row.failed[-1:]}"
                print(f"round {number + 1}, {level} at once, {who.name}: {last}", file=sys.stderr, flush=True)
    return _report(those, levels, rows, as_json=args.json)


def _report(those: list[Contestant], levels: list[int], rows: dict[tuple[str, int], Row], *, as_json: bool) -> int:
    told = []
    behind = False
    for kind in dict.fromkeys(who.kind for who in those):
        for level in levels:
            group = [(who, rows[who.name, level]) for who in those if who.kind == kind]
            best = max((row.median or 0.0 for who, row in group if not (who.ours or who.floor)), default=0.0)
            own = max((row.median or 0.0 for who, row in group if who.ours), default=0.0)
            behind |= own < best
            for who, row in group:
                told.append(
                    {
                        "class": kind,
                        "concurrency": level,
                        "name": who.name,
                        "per_s": row.median,
                        "to_fastest_peer": row.median / best if row.median and best else None,
                        "before_s": statistics.median(row.before_s) if row.before_s else None,
                        "cpu_s": statistics.median(row.cpu_s) if row.cpu_s else None,
                        "rounds": row.per_s,
                        "failed": row.failed,
                    }
                )
    if as_json:
        print(json.dumps(told, indent=1))
    else:
        heads = f"{'trials/s':>10}{'to best peer':>14}{'once a batch':>14}{'CPU a trial':>13}"
        print(f"{'class':<8}{'at once':>8}  {'':<26}{heads}")
        for line in told:
            rate = "-" if line["per_s"] is None else f"{line['per_s']:.2f}"
            ratio = "-" if line["to_fastest_peer"] is None else f"{line['to_fastest_peer']:.2f}"
            before = "-" if line["before_s"] is None else f"{line['before_s']:.1f} s"
            # Below 0 where the batch of one that warms up cost more than the whole batch: nothing is known then.
            cpu = "-" if line["cpu_s"] is None or line["cpu_s"] < 0 else f"{1000 * line['cpu_s']:.0f} ms"
            figures = f"{rate:>10}{ratio:>14}{before:>14}{cpu:>13}"
            print(f"{line['class']:<8}{line['concurrency']:>8}  {line['name']:<26}{figures}")
            for failure in line["failed"]:
                print(f"{'':<18}failed: {failure}")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
