"""Where envkit keeps what outlives one run: `envkit_home()`.

Built worlds, sandbox runtimes and run folders that have no other place live below it. It is `$ENVKIT_HOME` where that
is set, `/var/lib/envkit` for root and `~/.local/share/envkit` for everybody else. Nothing below it is precious: all of
it can be deleted while no run is active, and is then built again.
"""

from __future__ import annotations

import os
from pathlib import Path

from envkit.failure import FailureKind, UserError

__all__ = ["envkit_home"]


def envkit_home() -> Path:
    """The folder for data that outlives a run, absolute and created.

    Raises:
        UserError: It can't be created or is no folder; the message says how to choose another.
    """
    chosen = os.environ.get("ENVKIT_HOME")
    if chosen:
        home = Path(os.path.abspath(os.path.expanduser(chosen)))
    elif os.geteuid() == 0:
        home = Path("/var/lib/envkit")
    else:
        try:
            home = Path.home() / ".local" / "share" / "envkit"
        except RuntimeError as error:
            raise UserError(
                "this user has no home directory; set ENVKIT_HOME to a folder that envkit may write",
                kind=FailureKind.CAPABILITY,
            ) from error
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise UserError(
            f"envkit keeps its data in {home}, which can't be created ({error.strerror}); "
            "set ENVKIT_HOME to a folder that envkit may write",
            kind=FailureKind.CAPABILITY,
        ) from error
    return home
