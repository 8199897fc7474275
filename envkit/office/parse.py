"""Parsing in a confined child: a file that nobody vouches for never meets a parser in the caller's own process.

    book = parse(path, read_workbook)                      # the model, or Unreadable with a typed reason
    findings = confined(lambda: diff(read(a), read(b)))    # any work, of which only the result comes back
    with ParserPool() as pool:                             # many files, no more children at once than cores
        for outcome in pool.map(Parsing(p, read_pdf) for p in paths): ...

A child per file, forked from a caller that has the parsers loaded (`preload`), with limits on memory, processor time
and wall time (`jail.py`), behind the gate (`gate.py`). However it ends, the caller gets a result or `Unreadable`: a
crash is PARSER_CRASH, time is TIMEOUT, memory or output is TOO_BIG. Results come back as data alone: nothing but plain
values and the frozen models of this package and of the diff is ever built from what a child sends.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import io
import os
import pickle
import select
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from envkit.deadline import Deadline
from envkit.office.gate import MAX_FILE_BYTES, admit
from envkit.office.jail import OUT_OF_MEMORY, Ended, Jail, Limits, Running, warm
from envkit.office.problem import Problem, Unreadable

__all__ = ["ParseLimits", "ParserPool", "Parsing", "confined", "confined_async", "parse", "parse_async", "preload"]

T = TypeVar("T")
#: Bytes of one line of a result, before they are encoded.
_CHUNK = 3 << 18
_CPU_SIGNALS = (-signal.SIGPROF, -signal.SIGXCPU)


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What reading one file may take.

    Attributes:
        memory_mb: Memory (address space) beyond what the process has when it starts.
        cpu_s: Processor time.
        wall_s: Time by the clock.
        file_bytes: The largest file that is read.
        result_mb: The largest result that is taken back.
    """

    memory_mb: int = 480
    cpu_s: float = 60.0
    wall_s: float = 120.0
    file_bytes: int = MAX_FILE_BYTES
    result_mb: int = 128


_DEFAULT = ParseLimits()
_MODULES = (
    "lxml.etree", "pypdfium2.raw", "PIL.Image", "envkit.office.pdf", "envkit.office.workbook",
    "envkit.office.document", "envkit.office.deck", "envkit.office.mail", "envkit.office.table",
)  # fmt: skip


def preload() -> None:
    """Loads the parsers, so that no child has to: worth it before many files. Those not installed are passed over."""
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            import_module(name)
    warm()


@dataclass(frozen=True)
class Parsing(Generic[T]):
    """One piece of work for `ParserPool.map`: reading a file (bytes, or a path) with a reader."""

    source: bytes | Path
    read: Callable[[bytes], T]
    max_bytes: int = MAX_FILE_BYTES

    def prepare(self) -> None:
        """In the child, with the caller's rights: opens the file, so that it can be read without them."""
        if isinstance(self.source, Path):
            object.__setattr__(self, "_opened", _open(self.source))

    def __call__(self) -> T:
        data: bytes
        if isinstance(self.source, Path):
            opened = self._opened  # type: ignore[attr-defined]
            if isinstance(opened, Unreadable):
                raise opened
            with os.fdopen(opened, "rb") as file:
                data = file.read(self.max_bytes + 1)
            if len(data) > self.max_bytes:
                size = self.source.stat().st_size
                raise Unreadable(Problem.TOO_BIG, f"it has {size} bytes; at most {self.max_bytes} are read")
        else:
            data = self.source
        admit(data, self.max_bytes)
        return self.read(data)


def _open(path: Path) -> int | Unreadable:
    try:
        # Without NONBLOCK, opening a named pipe would wait for somebody to write to it.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Unreadable(Problem.MISSING, "there is no such file")
    except OSError as error:
        return Unreadable(Problem.NOT_A_FILE, f"it can't be opened: {error.strerror}")
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return Unreadable(Problem.NOT_A_FILE, "it is not a regular file")
    return number


class _Result:
    """What comes back from one child: fed with its lines, opened when it has ended."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def open(self, ended: Ended) -> Any:
        """The result. Raises `Unreadable`, or `ImportError` for a parser that is not installed."""
        if ended.timed_out or ended.status in _CPU_SIGNALS:
            raise Unreadable(Problem.TIMEOUT, f"reading it was given up: {ended.text}")
        if ended.too_much:
            raise Unreadable(Problem.TOO_BIG, "what is in it is more than is taken back")
        if ended.status == OUT_OF_MEMORY:
            raise Unreadable(Problem.TOO_BIG, "reading it takes more memory than is allowed")
        if ended.status or not self.lines or self.lines[-1] != b".":
            raise Unreadable(Problem.PARSER_CRASH, f"the process reading it died: {ended.text}")
        try:
            kind, *rest = _plain_load(base64.b64decode(b"".join(self.lines[:-1])))
        except (pickle.UnpicklingError, ValueError, TypeError, EOFError, AttributeError, IndexError) as error:
            raise Unreadable(Problem.PARSER_CRASH, f"what its parser sent back is no result: {error}") from error
        if kind == "value":
            return rest[0]
        if kind == "import":
            raise ImportError(str(rest[0]))
        raise Unreadable(Problem(rest[0]), str(rest[1]))


def _jail(work: Callable[[], Any], limits: ParseLimits) -> Jail:
    prepare = getattr(work, "prepare", None) or (lambda: None)
    inner = Limits(memory_mb=limits.memory_mb, cpu_s=limits.cpu_s)
    return Jail(prepare, lambda jail: _work(jail, work), inner, max_output=limits.result_mb << 20)


def _work(jail: Jail, work: Callable[[], Any]) -> None:
    """In the child: does the work and sends its outcome."""
    import logging

    # Parsers log what they dislike about a file, native ones print it.
    logging.disable(logging.CRITICAL)
    os.dup2(0, 2)
    try:
        outcome: tuple[Any, ...] = ("value", work())
    except Unreadable as error:
        outcome = ("unreadable", str(error.problem), str(error)[:2000])
    except ImportError as error:
        outcome = ("import", str(error))
    except RecursionError:
        outcome = ("unreadable", str(Problem.CORRUPT), "it is nested too deeply to be read")
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 the capture point: parsers raise anything
        message = f"its parser failed: {type(error).__name__}: {error}"
        outcome = ("unreadable", str(Problem.PARSER_CRASH), message[:2000])
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # What a parser written in Rust raises where it gives up on a file.
        outcome = ("unreadable", str(Problem.PARSER_CRASH), f"its parser panicked: {error}"[:2000])
    data = pickle.dumps(outcome, protocol=5)
    del outcome
    for start in range(0, len(data), _CHUNK):
        jail.say(base64.b64encode(data[start : start + _CHUNK]))
    jail.say(b".")


#: Callables by which pickle builds plain values of the standard library.
_PLAIN = {
    ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "complex"),
    ("datetime", "datetime"), ("datetime", "date"), ("datetime", "time"), ("datetime", "timedelta"),
    ("datetime", "timezone"), ("decimal", "Decimal"), ("zoneinfo", "ZoneInfo._unpickle"),
    ("collections", "OrderedDict"),
}  # fmt: skip
_OURS = ("envkit.office.", "envkit.verifiers.diff.", "envkit.snapshot.")


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values, and dataclasses, enums and pydantic models of ours; nothing else is ever looked up."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.startswith(_OURS) and "." not in name:
            found = super().find_class(module, name)
            if name == "UNKNOWN" and module == "envkit.office.workbook.values":
                return found
            if isinstance(found, type) and found.__module__ == module and _is_model(found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no value")


def _is_model(kind: type) -> bool:
    plain = issubclass(kind, enum.Enum | tuple | str | int | float)
    return plain or is_dataclass(kind) or hasattr(kind, "model_fields")


def _plain_load(data: bytes) -> Any:
    return _PlainUnpickler(io.BytesIO(data)).load()


def confined(work: Callable[[], T], limits: ParseLimits = _DEFAULT) -> T:
    """Does some work in a confined child and returns its result.

    Args:
        work: Runs in the child. What it returns must be plain values and models of ours.

    Raises:
        Unreadable: As raised by the work, or for how the child ended.
        ImportError: A module that the work needs is not installed.
    """
    result = _Result()
    ended = _jail(work, limits).run(Deadline.after(limits.wall_s), result.lines.append)
    value: T = result.open(ended)
    return value


async def confined_async(work: Callable[[], T], limits: ParseLimits = _DEFAULT) -> T:
    """`confined` for an event loop: other tasks go on meanwhile; cancelling it ends the child."""
    result = _Result()
    ends: list[Ended] = []
    lines = _jail(work, limits).lines(Deadline.after(limits.wall_s), ends.append)
    async with contextlib.aclosing(lines):
        async for line in lines:
            result.lines.append(line)
    value: T = result.open(ends[-1])
    return value


def parse(source: bytes | Path, read: Callable[[bytes], T], limits: ParseLimits = _DEFAULT) -> T:
    """Reads one file in a confined child, behind the gate. Raises `Unreadable`."""
    return confined(Parsing(source, read, limits.file_bytes), limits)


async def parse_async(source: bytes | Path, read: Callable[[bytes], T], limits: ParseLimits = _DEFAULT) -> T:
    """`parse` for an event loop."""
    return await confined_async(Parsing(source, read, limits.file_bytes), limits)


class ParserPool:
    """Confined children for many files, never more at once than `width` (the cores, when None). A context manager:
    leaving it ends what is still at work."""

    def __init__(self, width: int | None = None, limits: ParseLimits = _DEFAULT) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.width = max(1, min(width or cores, cores))
        self.limits = limits
        self._running: dict[int, tuple[int, Running, _Result, float]] = {}
        self._slots: Any = None
        preload()

    def __enter__(self) -> ParserPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every child."""
        for _, running, _, _ in self._running.values():
            running.finish(timed_out=True)
        self._running.clear()

    def map(self, works: Iterable[Callable[[], T]]) -> Iterator[T | Unreadable]:
        """The outcomes of pieces of work, in their order: results, or the `Unreadable` that stands for one. Work is
        taken from the iterable only when a child is free for it."""
        waiting = enumerate(works)
        done: dict[int, Any] = {}
        following, exhausted = 0, False
        try:
            while True:
                # The first condition bounds how many finished results wait for a slow one before them.
                while not exhausted and len(done) < 4 * self.width and len(self._running) < self.width:
                    item = next(waiting, None)
                    if item is None:
                        exhausted = True
                        break
                    running = _jail(item[1], self.limits).start()
                    until = time.monotonic() + self.limits.wall_s
                    self._running[running.fileno()] = (item[0], running, _Result(), until)
                if self._running:
                    done.update(self._watch())
                while following in done:
                    yield done.pop(following)
                    following += 1
                if exhausted and not self._running and not done:
                    return
        finally:
            self.close()

    def _watch(self) -> dict[int, Any]:
        """Waits until something happens in a child; the outcomes of those that have ended."""
        now = time.monotonic()
        first = min(until for *_, until in self._running.values())
        ready, _, _ = select.select(list(self._running), [], [], max(0.0, first - now))
        over: dict[int, Any] = {}
        now = time.monotonic()
        for number, (index, running, result, until) in list(self._running.items()):
            going = running.step(result.lines.append) if number in ready else True
            if going and now < until:
                continue
            del self._running[number]
            ended = running.finish(timed_out=going)
            try:
                over[index] = result.open(ended)
            except Unreadable as error:
                over[index] = error
        return over

    async def run(self, work: Callable[[], T]) -> T:
        """One piece of work on an event loop, waiting its turn. Raises `Unreadable`."""
        import asyncio

        if self._slots is None:
            self._slots = asyncio.Semaphore(self.width)
        async with self._slots:
            return await confined_async(work, self.limits)
