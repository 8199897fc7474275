"""Recalculation of workbooks: what their formulas yield, with a fixed clock and seed.

Wraps the `formualizer` engine. Deterministic: the clock is fixed, random functions are seeded, one thread. What the
engine does not know (an exotic function, a reference into another file) is an `EngineError`, never a number. Used by
`workbook.py` alone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["NOW", "Engine", "EngineError"]

#: What TODAY() and NOW() see: the clock that agents are shown.
NOW = dt.datetime(2026, 1, 15, 9, 0, 0, tzinfo=dt.UTC)
#: Longest that recalculating one workbook may take.
MAX_SECONDS = 20.0

_ERRORS = {
    "Div": "#DIV/0!", "Na": "#N/A", "Name": "#NAME?", "Null": "#NULL!", "Num": "#NUM!", "Ref": "#REF!",
    "Value": "#VALUE!", "Spill": "#SPILL!", "Calc": "#CALC!", "Circ": "#CIRC!", "Error": "#ERROR!",
}  # fmt: skip

#: Functions that Excel has and the engine has not (version 0.13).
_BEYOND_NAMES = (
    "AMORDEGRC AMORLINC AREAS BAHTTEXT COUPDAYBS COUPDAYS COUPDAYSNC COUPNCD COUPNUM COUPPCD CUBEKPIMEMBER "
    "CUBEMEMBER CUBEMEMBERPROPERTY CUBERANKEDMEMBER CUBESET CUBESETCOUNT CUBEVALUE DISC DURATION ECMA.CEILING "
    "FVSCHEDULE GETPIVOTDATA INFO INTRATE JIS MDETERM MDURATION MINVERSE MMULT ODDFPRICE ODDFYIELD ODDLPRICE "
    "ODDLYIELD PHONETIC PRICEDISC PRICEMAT PROB RECEIVED RTD VDB YIELDDISC YIELDMAT GROUPBY PIVOTBY REGEXTEST "
    "REGEXEXTRACT REGEXREPLACE STOCKHISTORY WEBSERVICE FILTERXML ENCODEURL TRANSLATE DETECTLANGUAGE IMAGE "
    "PERCENTOF TRIMRANGE"
)
_BEYOND = frozenset(_BEYOND_NAMES.split())

_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\(")


class EngineError(Exception):
    """The engine can't load the workbook or compute the cell."""


#: Errors that say that the engine can't compute, not that Excel shows an error.
_GAPS = frozenset(["Error", "NImpl"])

Place = tuple[str, tuple[int, int]]


class Engine:
    """A workbook loaded for recalculation. Raises `EngineError` when it can't be.

    Args:
        data: The file's bytes.
        tables: Tables that its formulas may name: name, sheet, area, columns, whether it has totals.
        formulas: Cells whose formula the engine takes only in other words.
    """

    def __init__(
        self,
        data: bytes,
        tables: Sequence[tuple[str, str, tuple[int, int, int, int], list[str], bool]] = (),
        formulas: Mapping[Place, str] | None = None,
    ) -> None:
        try:
            import formualizer
        except ImportError as error:
            raise EngineError("the formualizer package is not installed") from error
        config = formualizer.EvaluationConfig()
        config.enable_parallel = False
        config.max_threads = 1
        config.workbook_seed = 0
        config.max_eval_time_ms = int(MAX_SECONDS * 1000)
        self._book: Any = _guard(
            lambda: formualizer.Workbook.from_bytes(data, config=formualizer.WorkbookConfig(eval_config=config))
        )
        _guard(lambda: self._book.set_deterministic_clock(NOW))
        _guard(lambda: self._book.set_temporal_egress("serial"))
        for name, sheet, area, columns, totals in tables:
            with contextlib.suppress(EngineError):  # then its formulas have no value
                _guard(lambda a=(name, sheet, area, columns), t=totals: self._book.add_table(*a, totals_row=t))
        for (sheet, address), text in (formulas or {}).items():
            with contextlib.suppress(EngineError):
                _guard(lambda s=sheet, a=address, t=text: self._book.set_formula(s, *a, t))
        try:
            # One formula that the engine can't even bind fails the whole pass; then cells are computed one by one.
            _guard(self._book.evaluate_all)
            self._whole = True
        except EngineError:
            self._whole = False

    def change(self, inputs: Mapping[tuple[str, tuple[int, int]], bool | int | float | str]) -> None:
        """Sets cells, by sheet and address, and recalculates. Raises `EngineError`."""
        for (sheet, address), value in inputs.items():
            _guard(lambda s=sheet, a=address, v=value: self._book.set_value(s, *a, v))
        if self._whole:
            _guard(self._book.evaluate_all)

    def value(self, sheet: str, address: tuple[int, int], formula: str) -> bool | float | str | None:
        """The value of a formula cell: number (dates as serials), text, bool, or an error's name. Raises
        `EngineError`."""
        read = self._book.get_value if self._whole else self._book.evaluate_cell
        value = _guard(lambda: read(sheet, *address))
        while isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, dict):
            kind = str(value.get("kind"))
            if kind not in _ERRORS or kind in _GAPS or (kind == "Name" and _beyond_the_engine(formula)):
                raise EngineError(f"the engine has no value for it: {kind}")
            return _ERRORS[kind]
        if value is None or not isinstance(value, bool | int | float | str):
            raise EngineError(f"the engine gives {type(value).__name__}")
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def spilled(self, sheet: str, address: tuple[int, int]) -> tuple[int, int, int, int] | None:
        """The area that the array formula of a cell fills, None where it fills that cell alone."""
        from envkit.office.workbook.values import parse_area, show_address

        name = sheet.replace("'", "''")
        try:
            found = _guard(lambda: self._book.inspect_cell(f"'{name}'!{show_address(address)}").to_dict())
        except EngineError:
            return None
        spill = found["cell"].get("spill") or {}
        extent = str(spill.get("extent") or "")
        return parse_area(extent.rpartition("!")[2]) if extent else None


def _beyond_the_engine(formula: str) -> bool:
    """Whether a formula calls a function that exists in Excel and not in the engine, so that a name error is the
    engine's gap and not the author's mistake."""
    # Text constants may hold anything that looks like a call.
    called = {name.upper() for name in _CALL.findall(re.sub(r'"[^"]*"', "", formula))}
    return any(name.removeprefix("_XLFN.").removeprefix("_XLWS.") in _BEYOND for name in called)


def _guard(call: Any) -> Any:
    """Runs an engine call. A panic of the engine derives from BaseException; it is an answer about this file too."""
    try:
        return call()
    except Exception as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise EngineError(f"the engine panicked: {error}") from error
        raise
