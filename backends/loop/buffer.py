"""The experience buffer: every finished trajectory on disk before anything depends on it, and a journal of the rest.

    buffer/groups/g0000012/03            one finished rollout (`codec`), checked by digest whenever it is read
    buffer/journal/000002-000000         the whole state, as of when it was written
    buffer/journal/000002-000001         what happened since, one object per commit: how many lines, and the lines,
                                         each with a checksum

Writing is group commit: what happens while one commit is being written goes into the next, so many trials cost few
flushes and the event loop waits for none of them. In a commit rollouts are written before the journal's object that
names them: a process killed anywhere leaves at most a rollout that nobody names, which is taken in by the next one.
Groups that were trained on stay until a durable policy checkpoint covers their step; then their files go and a new
state is written. Rollouts are not kept in memory: what trains is read back from here, live as on a resume, so both see
the same bytes. Used by the loop; needs nothing of a storage but write-once objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from envkit.backend import Rollout, RolloutRequest
from envkit.backends.data.group import Group
from envkit.backends.loop.clock import Clock
from envkit.backends.loop.codec import Damaged, decode, digest_of, encode
from envkit.backends.loop.state import GroupState, RunState, group_id
from envkit.backends.loop.storage import Storage
from envkit.failure import Boundary, Failure, FailureKind, UserError

__all__ = ["Buffer"]

GROUPS = "buffer/groups/"
JOURNAL = "buffer/journal/"

#: Commits after which the journal starts afresh even if no checkpoint came.
MAX_COMMITS = 2_000


def _rollout_key(ordinal: int, slot: int) -> str:
    return f"{GROUPS}{group_id(ordinal)}/{slot:02d}"


class Buffer:
    """One run's buffer. Not thread-safe; the event loop's thread owns it.

    Args:
        failed: Called once with what keeps it from writing; everything waited for then raises it too.
        report: Called with words about damage that was found and survived.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        failed: Callable[[BaseException], None],
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.state = RunState()
        self._storage = storage
        self._clock = clock
        self._failed = failed
        self._report = report
        self._epoch = 0
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._rollouts: list[tuple[str, bytes]] = []
        self._garbage: list[str] = []
        self._afresh = False
        self._queued = 0  # changes asked for
        self._durable = 0  # changes that are on disk
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        self._noted: list[str] = []  # damage found in a worker thread

    # -- opening ------------------------------------------------------------------------------------------------------

    async def open(self, fingerprint: dict[str, Any]) -> None:
        """Reads what is there (nothing, for a new run) and starts a fresh journal.

        Args:
            fingerprint: Of what must be the same in every life of a run.

        Raises:
            UserError: It is another run's, or was written by a newer envkit.
        """
        self.state = await self._clock.offload(self._read)
        self._say()
        known = self.state.fingerprint
        if known is None:
            self.state.fingerprint = fingerprint
        elif known != fingerprint:
            changed = ", ".join(
                f"{name} was {known.get(name)!r} and is {fingerprint.get(name)!r}"
                for name in sorted({*known, *fingerprint})
                if known.get(name) != fingerprint.get(name)
            )
            raise UserError(f"this folder holds another run ({changed}): use the same settings, or another folder")
        self._afresh = True
        self._queued += 1
        self._wake()
        await self.flush()

    def _read(self) -> RunState:
        keys = self._storage.keys(JOURNAL)
        epochs: dict[int, dict[int, str]] = {}
        for key in keys:
            name, _, number = key.removeprefix(JOURNAL).partition("-")
            if name.isdigit() and number.isdigit():
                epochs.setdefault(int(name), {})[int(number)] = key
        state = RunState()
        for epoch in sorted(epochs, reverse=True):
            found = self._read_epoch(epochs[epoch])
            if found is not None:
                state = found
                break
        self._epoch = max(epochs, default=0)
        self._garbage += keys  # once the fresh journal's beginning is durable
        self._adopt(state)
        return state

    def _read_epoch(self, commits: dict[int, str]) -> RunState | None:
        try:
            (first,) = self._read_commit(commits[0])
        except (KeyError, TypeError, ValueError) as error:
            self._noted.append(f"a journal without a readable beginning is passed over: {error}")
            return None
        try:
            state = RunState.load(first)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"the buffer's journal can't be read ({error}): use the envkit that wrote it") from error
        for expected, number in enumerate(sorted(commits)[1:], start=1):
            try:
                if number != expected:
                    raise ValueError(f"commit {expected} is missing")
                for event in self._read_commit(commits[number]):
                    state.apply(event)
            except (KeyError, TypeError, ValueError) as error:
                lost = len(commits) - expected
                self._noted.append(
                    f"{commits[number]} is damaged ({error}): it and what follows, {lost} commits, is lost"
                )
                break
        return state

    def _read_commit(self, key: str) -> list[dict[str, Any]]:
        lines = []
        for line in self._storage.get(key).splitlines():
            checksum, _, text = line.partition(b" ")
            if int(checksum, 16) != zlib.crc32(text):
                raise ValueError("a line's checksum does not match")
            lines.append(json.loads(text))
        if not lines or lines[0] != len(lines) - 1:
            raise ValueError("it is cut short")
        return lines[1:]

    def _adopt(self, state: RunState) -> None:
        """Rollouts that were written while the commit that names them was not: taken in where their slot is open,
        removed otherwise."""
        by_id = {group.id: group for group in state.groups.values()}
        for key in self._storage.keys(GROUPS):
            name, _, slot = key.removeprefix(GROUPS).partition("/")
            group = by_id.get(name)
            if group is not None and slot.isdigit() and int(slot) in group.done:
                continue
            if group is not None and group.phase == "running" and slot.isdigit():
                with contextlib.suppress(Damaged, FileNotFoundError):
                    data = self._storage.get(key)
                    context = decode(data).context_tokens
                    event = {"e": "done", "g": group.ordinal, "a": int(slot), "d": digest_of(data), "c": context}
                    state.apply(event)
                    continue
            self._garbage.append(key)

    def _say(self) -> None:
        noted, self._noted = self._noted, []
        for text in noted:
            self._report(text)

    # -- changes ------------------------------------------------------------------------------------------------------

    def begin(self, ordinal: int, task: str, step: int) -> GroupState:
        """A group's first rollout starts."""
        self._change({"e": "begin", "g": ordinal, "t": task, "s": step})
        return self.state.groups[ordinal]

    def done(self, ordinal: int, slot: int, rollout: Rollout) -> None:
        """A rollout has its final outcome."""
        data = encode(rollout)
        self._rollouts.append((_rollout_key(ordinal, slot), data))
        self._change({"e": "done", "g": ordinal, "a": slot, "d": digest_of(data), "c": rollout.context_tokens})

    def retry(self, ordinal: int, slot: int, kind: FailureKind) -> None:
        """A rollout failed and is tried again."""
        self._change({"e": "retry", "g": ordinal, "a": slot, "k": kind.value})

    def ready(self, ordinal: int) -> None:
        """A group waits to be trained."""
        self._change({"e": "ready", "g": ordinal})

    def drop(self, ordinal: int) -> None:
        """A group will not be trained."""
        self._change({"e": "drop", "g": ordinal})

    def consume(self, step: int, ordinals: Sequence[int]) -> None:
        """A step trains on these groups, in this order. Flush before training."""
        self._change({"e": "step", "n": step, "g": list(ordinals)})

    def covered(self, step: int) -> None:
        """A durable policy checkpoint has everything up to this step."""
        self._afresh = True
        self._change({"e": "covered", "n": step})

    def restart(self, step: int, next_ordinal: int) -> None:
        """Goes on from a policy checkpoint without what the buffer knows, if anything: it is older than that."""
        self._afresh = True
        self._change({"e": "restart", "n": step, "g": next_ordinal})

    def evaluated(self, trained: int) -> None:
        """The evaluation after this many steps is complete."""
        self._change({"e": "evaluated", "n": trained})

    def _change(self, event: dict[str, Any]) -> None:
        for gone in self.state.apply(event):
            self._garbage += [_rollout_key(gone.ordinal, slot) for slot in gone.done]
        self._events.append(event)
        self._queued += 1
        self._wake()

    # -- reading ------------------------------------------------------------------------------------------------------

    async def load(self, ordinals: Sequence[int]) -> list[Group]:
        """Groups with their rollouts, by slot. One that is damaged is a failed rollout, reported."""
        await self.flush()
        wanted = [self.state.groups[ordinal] for ordinal in ordinals]
        groups = await self._clock.offload(self._load, wanted)
        self._say()
        return groups

    def _load(self, groups: Sequence[GroupState]) -> list[Group]:
        return [
            Group(group.id, group.task, tuple(self._load_one(group, slot) for slot in sorted(group.done)))
            for group in groups
        ]

    def _load_one(self, group: GroupState, slot: int) -> Rollout:
        key = _rollout_key(group.ordinal, slot)
        try:
            data = self._storage.get(key)
            rollout = decode(data)
            if digest_of(data) != group.done[slot].digest:
                raise Damaged("it is whole, but not what was written")
            return rollout
        except (Damaged, FileNotFoundError) as error:
            message = f"{key} can't be read back: {error}"
            self._noted.append(message)
            failure = Failure.of(FailureKind.UNKNOWN, Boundary.ENVKIT, message)
            return Rollout(RolloutRequest(group.task, group.id, slot, 0, 0, ()), None, failure=failure)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Everything asked for so far is durable. Raises what keeps the buffer from writing."""
        if self._broken is not None:
            raise self._broken
        if self._durable >= self._queued:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((self._queued, waiter))
        await waiter

    def _wake(self) -> None:
        if self._writer is None and self._broken is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Commits until nothing is left to write."""
        try:
            while self._durable < self._queued:
                upto = self._queued
                events, self._events = self._events, []
                rollouts, self._rollouts = self._rollouts, []
                garbage, self._garbage = self._garbage, []
                if self._afresh or self._number >= MAX_COMMITS:
                    # A new journal begins with the state, in which the events that were not written yet are.
                    self._afresh = False
                    garbage += [self._key(number) for number in range(self._number)]
                    self._epoch, self._number = self._epoch + 1, 0
                    events = [self.state.dump()]
                await self._clock.offload(self._commit, self._key(self._number), events, rollouts, garbage)
                self._number += 1
                self._durable = upto
                while self._waiters and self._waiters[0][0] <= upto:
                    waiter = self._waiters.pop(0)[1]
                    if not waiter.done():
                        waiter.set_result(None)
        except Exception as error:  # noqa: BLE001 the writer's capture point: it ends the run and never hangs it
            self._broken = error
            for _, waiter in self._waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            self._waiters.clear()
            self._failed(error)
        finally:
            self._writer = None

    def _key(self, number: int) -> str:
        return f"{JOURNAL}{self._epoch:06d}-{number:06d}"

    def _commit(
        self, key: str, events: list[dict[str, Any]], rollouts: list[tuple[str, bytes]], garbage: list[str]
    ) -> None:
        self._storage.put_many(rollouts)
        texts = [json.dumps(line, separators=(",", ":")).encode() for line in (len(events), *events)]
        self._storage.put(key, b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts))
        for old in garbage:
            self._storage.delete(old)
