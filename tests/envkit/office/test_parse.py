"""Parsing in confined children: every end of a child is a typed outcome, and nothing but plain values comes back."""

from __future__ import annotations

import asyncio
import ctypes
import io
import os
import pickle
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from envkit.office.gate import admit, identify, open_zip
from envkit.office.parse import ParseLimits, ParserPool, Parsing, confined, confined_async, parse, parse_async
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import Table, read_table
from envkit.office.workbook import read_workbook

SMALL = ParseLimits(memory_mb=200, cpu_s=2.0, wall_s=3.0, result_mb=4)


def crash(data: bytes) -> None:
    ctypes.string_at(0)


def spin(data: bytes) -> None:
    while True:
        pass


def sleep(data: bytes) -> None:
    time.sleep(60)


def fill(data: bytes) -> bytes:
    return bytes(1 << 30)


def grow(data: bytes) -> bytes:
    return bytes(16 << 20)


def abort(data: bytes) -> None:
    os.abort()


def odd(data: bytes) -> None:
    raise KeyError("styles")


def leave(data: bytes) -> None:
    os._exit(0)


def deep(data: bytes) -> None:
    deep(data)


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (crash, Problem.PARSER_CRASH), (abort, Problem.PARSER_CRASH), (odd, Problem.PARSER_CRASH),
        (leave, Problem.PARSER_CRASH), (spin, Problem.TIMEOUT), (sleep, Problem.TIMEOUT), (fill, Problem.TOO_BIG),
        (grow, Problem.TOO_BIG), (deep, Problem.CORRUPT),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_every_end_of_a_parser_is_typed(read: Any, problem: Problem) -> None:
    with pytest.raises(Unreadable) as caught:
        parse(b"x", read, SMALL)
    assert caught.value.problem is problem


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 2000)
    expected = {
        "absent": Problem.MISSING,
        "pipe": Problem.NOT_A_FILE,
        ".": Problem.NOT_A_FILE,
        "large": Problem.TOO_BIG,
    }
    for name, problem in expected.items():
        with pytest.raises(Unreadable) as caught:
            parse(tmp_path / name, read_table, ParseLimits(file_bytes=1000))
        assert caught.value.problem is problem, name


def test_models_come_back_equal(tmp_path: Path) -> None:
    data = b"a,b\n1,2\n"
    path = tmp_path / "secret.csv"
    path.write_bytes(data)
    path.chmod(0o600)  # readable by the caller alone: it is opened before the child gives up its rights
    assert parse(path, read_table) == read_table(data)
    assert isinstance(parse(data, read_table), Table)
    assert confined(lambda: {1: ("x", None, 2.5)}) == {1: ("x", None, 2.5)}


class Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/envkit-pickle-was-here",)


class Sneaky:
    def __reduce__(self) -> Any:
        return Path, ("/etc",)


@pytest.mark.parametrize("value", [Bomb(), Sneaky(), [Bomb()]])
def test_what_comes_back_is_data_alone(value: object) -> None:
    with pytest.raises(Unreadable) as caught:
        confined(lambda: value)
    assert caught.value.problem is Problem.PARSER_CRASH
    assert not Path("/tmp/envkit-pickle-was-here").exists()


def test_functions_of_ours_are_not_called_either() -> None:
    class Call:
        def __reduce__(self) -> Any:
            return parse, (b"x", sleep)

    with pytest.raises(Unreadable, match="no value"):
        confined(Call)


def test_a_module_that_is_not_installed_is_no_fault_of_the_file() -> None:
    def read(data: bytes) -> None:
        import module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(ImportError, match="module_that_nobody_has"):
        parse(b"x", read)


@pytest.mark.slow
def test_a_pool_keeps_order_and_goes_on_after_every_fault() -> None:
    def number(data: bytes) -> int:
        value = int(data)
        if value % 5 == 1:
            os.abort()
        if value % 5 == 2:
            raise Unreadable(Problem.CORRUPT, "two")
        time.sleep(0.02 if value % 2 else 0)
        return value

    with ParserPool(limits=SMALL) as pool:
        assert pool.width <= (os.cpu_count() or 1)
        out = list(pool.map(Parsing(str(n).encode(), number) for n in range(30)))
    for n, outcome in enumerate(out):
        match n % 5:
            case 1:
                assert isinstance(outcome, Unreadable)
                assert outcome.problem is Problem.PARSER_CRASH
            case 2:
                assert isinstance(outcome, Unreadable)
                assert outcome.problem is Problem.CORRUPT
            case _:
                assert outcome == n
    assert not _children()


def test_a_pool_that_is_left_early_leaves_no_child() -> None:
    with ParserPool(limits=ParseLimits(wall_s=60)) as pool:
        works = pool.map([Parsing(b"x", len), Parsing(b"x", sleep), Parsing(b"x", sleep)])
        assert next(works) == 1
    assert not _children()


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().strip()


async def test_the_asynchronous_face_lets_other_tasks_run_and_is_bounded() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    task = asyncio.create_task(tick())
    with pytest.raises(Unreadable) as caught:
        await parse_async(b"x", sleep, ParseLimits(wall_s=0.5))
    task.cancel()
    assert caught.value.problem is Problem.TIMEOUT
    assert ticks > 5
    assert await confined_async(lambda: "done") == "done"
    with ParserPool(width=1) as pool:
        assert await asyncio.gather(*(pool.run(Parsing(b"ab", len)) for _ in range(4))) == [2] * 4


# --- the gate ---


def zipped(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_the_gate_reads_the_directory_alone() -> None:
    admit(zipped(a=b"x" * 1000))
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for n in range(5001):
            archive.writestr(str(n), b"")
    lying = bytearray(zipped(a=b"x"))
    struct.pack_into("<L", lying, len(lying) - 22 + 12, 1 << 30)  # a directory of a gigabyte
    cases = {
        "bomb": (zipped(a=bytes(50 << 20)), Problem.TOO_BIG),
        "many": (many.getvalue(), Problem.TOO_BIG),
        "lying": (bytes(lying), Problem.TOO_BIG),
        "cut": (zipped(a=b"x" * 1000)[:-30], Problem.CORRUPT),
        "out": (zipped(**{"../../etc/passwd": b"x"}), Problem.CORRUPT),
    }
    for name, (data, problem) in cases.items():
        with pytest.raises(Unreadable) as caught:
            admit(data)
        assert caught.value.problem is problem, name
        with pytest.raises(Unreadable) as caught:
            parse(data, read_workbook)
        assert caught.value.problem is problem, name


def test_an_encrypted_zip_is_said_to_be_one() -> None:
    data = bytearray(zipped(a=b"x"))
    at = data.rfind(b"PK\x01\x02")
    data[at + 8] |= 1
    with pytest.raises(Unreadable) as caught:
        open_zip(bytes(data))
    assert caught.value.problem is Problem.ENCRYPTED


def test_files_are_known_by_their_first_bytes() -> None:
    assert identify(zipped(a=b"")) == "zip"
    assert identify(b"junk\n%PDF-1.4") == "pdf"
    assert identify(b"RIFF\0\0\0\0WEBPVP8 ") == "webp"
    assert identify(b"plain text") == ""
    assert identify(pickle.dumps(1)) == ""


@pytest.mark.slow
def test_a_sheet_of_a_hundred_thousand_rows_is_read_within_bounds() -> None:
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"constant_memory": True})
    sheet = book.add_worksheet()
    for row in range(100_000):
        sheet.write_row(row, 0, (row, f"item {row}", row * 1.5, "north", row % 7))
    book.close()
    limits = ParseLimits(memory_mb=480, cpu_s=60, wall_s=100)
    rows = parse(out.getvalue(), lambda data: len(read_workbook(data).sheets), limits)
    assert rows == 1
    text = "a,b,c\n" + "".join(f"{row},item {row},{row * 1.5}\n" for row in range(100_000))
    assert len(parse(text.encode(), read_table, limits).rows) == 100_000


def test_a_zip_with_a_part_without_a_name_is_corrupt() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x", b"data")
    # The directory's entry: the length of its name, 18 bytes behind the sizes, becomes 0.
    data = bytearray(out.getvalue())
    entry = data.index(b"PK\x01\x02")
    data[entry + 28 : entry + 30] = b"\0\0"
    data[entry + 30 : entry + 32] = b"\x01\0"  # what was the name is an extra field of one byte
    with pytest.raises(Unreadable) as caught:
        admit(bytes(data))
    assert caught.value.problem is Problem.CORRUPT
    assert "without a name" in str(caught.value)
