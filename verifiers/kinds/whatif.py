"""What becomes of a cell when inputs change: tells a computed number from one that was typed in.

The workbook is loaded anew, its inputs are set, and everything is recalculated. Used by the judge of cells.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from envkit.office.recalc import Engine, EngineError
from envkit.office.workbook import UNKNOWN, Address, ErrorValue, Sheet, Workbook, column_letters
from envkit.office.workbook.engine_input import engine_input
from envkit.office.workbook.values import ErrorNames, shown_serial
from envkit.verifiers.compare import is_number, number_matches, show, value_matches
from envkit.verifiers.kinds.workbook import target
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import CellCheck, Survives

__all__ = ["survival_misses"]


def survival_misses(
    check: CellCheck, book: Workbook, sheet: Sheet, address: Address, before: Any, where: str
) -> list[Miss]:
    """What of `survives` does not hold for a cell whose value is `before`."""
    out: list[Miss] = []
    for wish in check.survives:
        changes: list[tuple[Sheet, Address, Any]] = []
        for change in wish.change:
            owner, at = target(change, book, check.path)
            at = owner.anchor(at)
            name = f"{owner.name}!{column_letters(at[1])}{at[0]}"
            cell = owner.cells.get(at)
            if cell is None or cell.formula is not None or (change.times is not None and not is_number(cell.value)):
                found = "empty" if cell is None else cell.formula or show(cell.value)
                wanted = "a number" if change.times is not None else "a constant"
                out.append(Miss(f"{wanted} as input", str(found), f"the input {name} must hold {wanted}", where))
                continue
            old: Any = cell.value
            changes.append((owner, at, change.to if change.times is None else old * change.times))
        if len(changes) < len(wish.change):
            continue
        told = ", ".join(f"{s.name}!{column_letters(a[1])}{a[0]} = {show(v)}" for s, a, v in changes)
        after = _after(book, sheet, address, changes)
        wanted = _wanted(_strict(wish, check), before, after)
        if wanted:
            message = f"with {told}, {where} must be {wanted}, found {show(after)}"
            out.append(Miss(wanted, show(after), message, where))
    return out


def _after(book: Workbook, sheet: Sheet, address: Address, changes: list[tuple[Sheet, Address, Any]]) -> Any:
    """The cell's value with the changed inputs; `UNKNOWN` where the engine has none."""
    own = next((value for owner, at, value in changes if owner.name == sheet.name and at == address), None)
    if own is not None:
        return own
    cell = sheet.cells.get(address)
    if cell is None or cell.formula is None:
        return None if cell is None else cell.value  # typed in: nothing moves it
    try:
        engine = Engine(book.data, *engine_input(book.sheets))
        engine.change({(owner.name, at): _entered(value, book.date1904) for owner, at, value in changes})
        value: Any = engine.value(sheet.name, address, cell.formula)
    except EngineError:
        return UNKNOWN
    # As the cell shows it: a date and not its serial number, an error and not the text of one.
    if isinstance(value, str) and value in ErrorNames:
        return ErrorValue(value)
    if isinstance(value, float) and cell.style.serial:
        return shown_serial(value, cell.style.serial, book.date1904)
    return value


def _strict(wish: Survives, check: CellCheck) -> Survives:
    """The wish with the tolerance of its check, where it states none of its own."""
    if wish.abs_tol is not None or wish.rel_tol is not None:
        return wish
    return wish.model_copy(update={"abs_tol": check.abs_tol, "rel_tol": check.rel_tol})


def _entered(value: Any, date1904: bool) -> bool | int | float | str:
    """A value as the engine takes it: dates, times and durations as days, counted as this workbook does."""
    if isinstance(value, dt.timedelta):
        return value / dt.timedelta(days=1)
    if isinstance(value, dt.time):
        return (dt.datetime.combine(dt.date.min, value) - dt.datetime.min) / dt.timedelta(days=1)
    if isinstance(value, dt.date):
        moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
        epoch = dt.datetime(1904, 1, 1) if date1904 else dt.datetime(1899, 12, 30)
        return (moment.replace(tzinfo=None) - epoch) / dt.timedelta(days=1)
    entered: bool | int | float | str = value
    return entered


def _wanted(wish: Survives, before: Any, after: Any) -> str:
    """What the value should have been; "" where it is."""
    accepted = ((wish.value,) if wish.value is not None else ()) + wish.any_of
    if accepted and not any(value_matches(v, after, wish.abs_tol, wish.rel_tol) for v in accepted):
        return " or ".join(show(v) for v in accepted)
    if wish.becomes is None and wish.ratio is None:
        return ""
    numbers = (is_number(before) and is_number(after)) or (
        isinstance(before, dt.date | dt.time | dt.timedelta) and type(before) is type(after)
    )
    same = value_matches(before, after, wish.abs_tol, wish.rel_tol) if before is not None else after is None
    holds = {
        "same": same,
        "different": not same and after is not UNKNOWN and before is not UNKNOWN,
        "higher": numbers and not same and after > before,
        "lower": numbers and not same and after < before,
    }
    if wish.becomes is not None and not holds[wish.becomes]:
        than = {"same": "the same as", "different": "different from"}.get(wish.becomes, f"{wish.becomes} than")
        return f"{than} {show(before)}"
    if wish.ratio is not None:
        expected = before * wish.ratio if is_number(before) else None
        if expected is None or not is_number(after) or not number_matches(expected, after, wish.abs_tol, wish.rel_tol):
            return f"{wish.ratio:g} times {show(before)}"
    return ""
