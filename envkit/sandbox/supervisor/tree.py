"""Process trees: found through /proc, killed until none is left.

Every command's leader is a subreaper, so whatever a command starts, double-forked or setsid, stays below its leader.
Where a leader was itself killed, its orphans come to the supervisor: they are *strays*, direct children that it never
started, and they are killed too. Killing stops everything it finds before it kills, so that a tree that forks faster
than we scan runs dry.
"""

# ruff: noqa: SIM105 - contextlib takes longer to import than the whole supervisor

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Container

    from envkit.sandbox.supervisor.loop import Loop
else:
    import _signal as signal  # `signal` itself imports enum, which takes longer than all the rest

#: After so many seconds of one tree outrunning us, everything inside is killed at once instead.
ESCALATE_S = 3.0


def processes() -> dict[int, tuple[int, bool]]:
    """All processes that are visible: pid -> (parent, whether anything of it still runs)."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fd = os.open("/proc/" + name + "/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            line = os.read(fd, 4096)
        except OSError:
            continue
        finally:
            os.close(fd)
        # The command name may hold anything, parentheses too; what follows the last one is ours.
        fields = line[line.rfind(b")") + 2 :].split()
        # A main thread that has exited looks like a zombie while its siblings run on: count the threads.
        running = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
        found[int(name)] = (int(fields[1]), running)
    return found


def below(roots: Container[int], table: dict[int, tuple[int, bool]]) -> list[int]:
    """The processes below the roots, without them."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found = []
    queue = [pid for pid in table if pid in roots]
    seen = set(queue)
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in seen:
                seen.add(pid)
                found.append(pid)
                queue.append(pid)
    return found


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class TreeKill:
    """Kills what is below a leader, then the leader, in steps of the loop; calls `done` when none is left.

    Args:
        leader: The root; None for strays only.
        ours: The children that the supervisor started itself, looked up at every step.
        everything: Called when a tree can't be caught up with.
    """

    def __init__(
        self,
        loop: Loop,
        leader: int | None,
        ours: Container[int],
        done: Callable[[], None],
        everything: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._leader = leader
        self._ours = ours
        self._done = done
        self._everything = everything
        self._wait_s = 0.001
        self._spent_s = 0.0
        self._me = os.getpid()
        self._step()

    def _targets(self) -> list[int]:
        table = processes()
        if self._leader not in self._ours:
            self._leader = None  # it ended and was reaped; its number may be somebody else's by now
        roots = {pid for pid, (parent, _) in table.items() if parent == self._me and pid not in self._ours}
        strays = list(roots)
        if self._leader is not None:
            roots.add(self._leader)
        return [pid for pid in strays + below(roots, table) if pid in table and table[pid][1] and pid != self._leader]

    def _step(self) -> None:
        targets = self._targets()
        stopped: set[int] = set()
        for _ in range(20):
            fresh = [pid for pid in targets if pid not in stopped]
            if not fresh:
                break
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            stopped.update(fresh)
            targets = self._targets()
        for pid in stopped.union(targets):
            send(pid, signal.SIGKILL)
        if not targets:
            if self._leader is not None:
                send(self._leader, signal.SIGKILL)
            self._done()
            return
        self._spent_s += self._wait_s
        if self._spent_s > ESCALATE_S:
            self._spent_s = 0.0
            self._everything()
        self._loop.after(self._wait_s, self._step)
        self._wait_s = min(0.05, self._wait_s * 2)
