"""What every contestant does: three commands, and a score by what the last one left. Imports nothing of anybody's."""

from __future__ import annotations

import json
import resource

#: Relative to where a command is started, which is the agent's own folder everywhere.
COMMANDS = (
    "mkdir -p out && echo alpha > out/a.txt",
    "tr a-z A-Z < out/a.txt > out/b.txt",
    "wc -c out/b.txt",
)
RESULT = "out/b.txt"
EXPECTED = "ALPHA"


def cpu_s() -> float:
    """Processor time of this process and of its children that have ended, so far."""
    those = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in those)


def tell(*, trials: int, right: int, wall_s: float, before_s: float, cpu: tuple[float, float, float]) -> None:
    """The last line that a contestant prints.

    Args:
        wall_s: From the first trial's start to the last one's end.
        before_s: From the call to the first trial's start: what is paid once a batch.
        cpu: `cpu_s` before the batch of one trial that warms up, after it, and after the batch itself.
    """
    # What a batch costs beyond a batch of one: the price of a trial, whatever else the machine does meanwhile.
    each = (cpu[2] - 2 * cpu[1] + cpu[0]) / (trials - 1) if trials > 1 else cpu[2] - cpu[1]
    told = {"trials": trials, "right": right, "wall_s": wall_s, "before_s": before_s, "cpu_s": each}
    print(json.dumps(told), flush=True)
