"""The one handler of fmp: the rows of a tool's endpoint, filtered by its arguments as `rules.py` says.

Rows come newest first where they have a date. An argument that the data can't be filtered by is named in the answer,
never quietly ignored; a symbol that the data don't hold is an error that names some they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.fmp.rules import RULES, SHAPING, SHORT
from envkit.harnesses.archipelago.servers.fmp.store import Rows, open_store
from envkit.harnesses.archipelago.servers.fmp.tools import TOOLS
from envkit.harnesses.archipelago.servers.tabled import TabledArguments

__all__ = ["Answer", "query"]

#: Rows of one answer, unless the setting of this name says otherwise.
MAX_RESPONSE_ITEMS = 200
_DATES = RULES["from_date"][1]
#: `symbols` that stands for every one (news of all).
EVERY = "*"


class Answer(BaseModel):
    """Rows as the API gives them."""

    model_config = ConfigDict(extra="forbid")

    data: list[dict[str, Any]]
    count: int
    total: int
    message: str


def query(arguments: TabledArguments, context: Context) -> Answer:
    """Carries out any tool of the table."""
    tool: str = arguments.row
    given = {k: v for k, v in arguments.model_dump(exclude_none=True).items() if v not in ("", [])}
    with open_store(context) as store:
        found = store.rows(TOOLS[tool][1])
        if found is None:
            known = store.known()
            wanted = TOOLS[tool][1][0]
            some = ", ".join(known[:40]) + (" ..." if known[40:] else "")
            raise ToolError(f"the data of this world hold nothing of {wanted}; they hold {some or 'nothing'}")
        endpoint, rows = found
    ignored: list[str] = []
    every = len(rows)
    # A peer list is of the symbol that is asked about, not of the one in each row, where the data say so.
    for name, value in given.items():
        if name in SHAPING or value == EVERY:
            continue
        kind, columns = RULES[name]
        if endpoint == "stock-peers" and name == "symbol":
            columns = ("peerOf", *columns)
        present = [c for c in columns if any(c in row for row in rows)]
        if not present:
            if rows:
                ignored.append(name)
            continue
        if name == "query" or kind == "has":
            kept = [r for r in rows if any(_has(r.get(c), value) for c in present)]
        else:
            kept = [r for r in rows if _FILTERS[kind](r.get(present[0]), value)]
        if name in ("symbol", "symbols") and rows and not kept:
            raise _unknown(value, sorted({str(r.get(present[0])) for r in rows if r.get(present[0])}), endpoint)
        rows = kept
    return _shaped(tool, rows, given, every, ignored, _most(context))


def _most(context: Context) -> int:
    given = context.settings.get("MAX_RESPONSE_ITEMS", "")
    return int(given) if given.isdecimal() and int(given) else MAX_RESPONSE_ITEMS


def _unknown(value: Any, known: list[str], endpoint: str) -> ToolError:
    wanted = value if isinstance(value, str) else ",".join(value)
    hint = did_you_mean(wanted.upper(), known)
    some = ", ".join(known[:20]) + (" ..." if known[20:] else "")
    return ToolError(f"the data of {endpoint} hold nothing of {wanted!r}{hint}; they hold {some}")


def _shaped(tool: str, rows: Rows, given: dict[str, Any], every: int, ignored: list[str], most: int) -> Answer:
    column = next((c for c in _DATES if any(row.get(c) for row in rows)), None)
    if column is not None:
        rows = sorted(rows, key=lambda row: str(row.get(column) or ""), reverse=True)
    total = len(rows)
    limit = given.get("limit")
    size = min(limit if limit is not None else most, most)
    page = given.get("page") or 0
    start = page * size
    shown = rows[start : start + size]
    names = SHORT["short"] if given.get("short") else SHORT.get(tool)
    if names is not None:
        shown = [{k: v for k, v in row.items() if k in names} for row in shown]
    said = [f"{len(shown)} of {total} rows" + (f" (of {every} before filters)" if total != every else "")]
    if start + len(shown) < total and (limit is None or limit > most):
        said.append(
            f"at most {most} are given at once; narrow the request" + (", or ask for page 1" if not page else "")
        )
    if ignored:
        said.append(f"the data have no column for {', '.join(ignored)}, so nothing was filtered by it")
    return Answer(data=shown, count=len(shown), total=total, message="; ".join(said))


# --- filters ---


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip().casefold()


def _is(value: Any, wanted: Any) -> bool:
    if value is None:
        return False
    if isinstance(wanted, bool):
        return _text(value) in (("true", "1", "yes") if wanted else ("false", "0", "no"))
    one, two = _float(value), _float(wanted)
    if one is not None and two is not None:
        return abs(one - two) <= 1e-9 * max(abs(one), abs(two), 1.0)
    return _text(value) == _text(wanted)


def _among(value: Any, wanted: Any) -> bool:
    items = wanted.split(",") if isinstance(wanted, str) else wanted
    return _text(value) in {_text(item) for item in items}


def _has(value: Any, wanted: Any) -> bool:
    return value is not None and _text(wanted) in _text(value)


def _float(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError):
        return None


def _above(value: Any, wanted: Any) -> bool:
    number = _float(value)
    return number is not None and number >= wanted


def _below(value: Any, wanted: Any) -> bool:
    number = _float(value)
    return number is not None and number <= wanted


def _from(value: Any, wanted: Any) -> bool:
    return value is not None and str(value)[: len(wanted)] >= wanted


def _to(value: Any, wanted: Any) -> bool:
    return value is not None and str(value)[: len(wanted)] <= wanted


def _number(value: Any, wanted: Any) -> bool:
    one, two = (_text(v).removeprefix("q").removeprefix("cik").lstrip("0") for v in (value, wanted))
    return one == two


def _period(value: Any, wanted: Any) -> bool:
    has, asked = _text(value), _text(wanted)
    if asked in ("annual", "year", "fy"):
        return has in ("annual", "fy", "year")
    if asked in ("quarter", "quarterly"):
        return has in ("quarter", "quarterly") or (has[:1] == "q" and has[1:].isdecimal())
    return has == asked


_FILTERS: dict[str, Callable[[Any, Any], bool]] = {
    "is": _is, "among": _among, "from": _from, "to": _to, "above": _above, "below": _below, "number": _number,
    "period": _period,
}  # fmt: skip
