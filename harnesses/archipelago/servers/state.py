"""What the apps with state (mail, chat, calendar) share: their folder, its files, a lock on it, ids and time zones.

The server runs writing calls on one app's state one after another; the lock here also keeps two server processes (an
app that runs alone beside the joint one) apart. It is held on the folder itself, so it leaves no file in the state, and
the kernel frees it when a call is killed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import os
import secrets
import stat
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.office.mail import read_mbox
from envkit.office.problem import Unreadable

__all__ = ["desk_owner", "find_zone", "fresh", "locked", "state_files", "state_folder", "state_name"]

#: How many bytes of a mailbox tell whose it is.
_LOOKED_AT = 4 << 20


def state_folder(context: Context, variable: str, name: str) -> Path:
    """The folder of an app's state: the environment variable's, else the server's choice, else `/.apps_data/<name>`."""
    given = context.settings.get(variable, "").strip()
    return Path(given) if given else context.state or context.apps_data / name


def state_name(context: Context, path: Path) -> str:
    """A state file's path as the model knows it: `/.apps_data/mail/sent.mbox`."""
    with contextlib.suppress(ValueError):
        return f"/.apps_data/{path.relative_to(context.apps_data).as_posix()}"
    return str(path)


def state_files(root: Path, suffix: str) -> list[Path]:
    """The files below a folder whose names end so (in any case), in the order of their paths.

    Links that lead out of the folder, and whatever is no regular file, are left out.
    """
    out: list[Path] = []
    home = root.resolve()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if not name.lower().endswith(suffix) or name.startswith("."):
                continue
            real = path.resolve()
            with contextlib.suppress(OSError):
                if real.is_relative_to(home) and stat.S_ISREG(real.stat().st_mode):
                    out.append(path)
    return sorted(out, key=lambda p: p.relative_to(root).as_posix())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock on a folder, which is made where it isn't there yet. Waits; the call's deadline ends the wait."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"the app's state can't be written: {error.strerror} ({folder.name})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def desk_owner(context: Context) -> str:
    """Whose desk this is: the address that takes part in most messages of the mailbox; "" where mail says nothing."""
    count: Counter[str] = Counter()
    named = context.settings.get("APP_MAIL_DATA_ROOT", "").strip()
    for path in state_files(Path(named) if named else context.apps_data / "mail", ".mbox"):
        with contextlib.suppress(OSError, Unreadable):
            with path.open("rb") as file:
                head = file.read(_LOOKED_AT)
            for message in read_mbox(head):
                count.update({message.sender, *message.recipients} - {""})
    first = count.most_common(2)
    return first[0][0] if first and (len(first) < 2 or first[0][1] > first[1][1]) else ""


def fresh(length: int) -> str:
    """A new id of small letters and digits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(length))


def find_zone(name: str) -> dt.tzinfo | None:
    """The time zone of an IANA name, `UTC` or an offset such as `+02:00`; None where nobody knows it."""
    text = name.strip()
    if text.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return dt.UTC
    with contextlib.suppress(ValueError):
        return dt.datetime.strptime(text.removeprefix("UTC").removeprefix("GMT"), "%z").tzinfo
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
