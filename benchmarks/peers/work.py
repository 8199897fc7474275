"""What every contestant does: three commands, and a score by what the last one left. Imports nothing of anybody's."""

from __future__ import annotations

import json

#: Relative to where a command is started, which is the agent's own folder everywhere.
COMMANDS = (
    "mkdir -p out && echo alpha > out/a.txt",
    "tr a-z A-Z < out/a.txt > out/b.txt",
    "wc -c out/b.txt",
)
RESULT = "out/b.txt"
EXPECTED = "ALPHA"


def tell(*, trials: int, right: int, wall_s: float, before_s: float) -> None:
    """The last line that a contestant prints.

    Args:
        wall_s: From the first trial's start to the last one's end.
        before_s: From the call to the first trial's start: what is paid once a batch.
    """
    print(json.dumps({"trials": trials, "right": right, "wall_s": wall_s, "before_s": before_s}), flush=True)
