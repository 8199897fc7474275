"""The database of fmp: rows of an endpoint, from a table of its own or from the tables of the published fixtures.

A table per endpoint is named after it with `_` for `-` and `/` (`income_statement`, `etf_holdings`); its columns are
named as the public API names its fields; a column that ends in `__json` holds JSON. Also read is the layout of the
original's fixtures: whole answers by endpoint (`generic_api_responses`), and tables of companies, quotes, prices,
statements and indicators. The file is the one that `FMP_DATABASE_URL` names, else `fmp.db` (or the only database) in
the app's state folder. It is opened read-only, and nothing of its own code is run.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.office.problem import Problem, Unreadable

__all__ = ["Rows", "Store", "open_store"]

Rows = list[dict[str, Any]]
#: Rows of one table beyond which a call gives up: filters come after.
MAX_ROWS = 500_000
_URL = re.compile(r"sqlite(?:\+\w+)?:/{2,3}(?P<path>.+)$")
#: Endpoint -> kind of statement in the published fixtures.
_STATEMENTS = {
    "income-statement": "income", "balance-sheet-statement": "balance_sheet", "cash-flow-statement": "cash_flow",
    "key-metrics": "key_metrics", "ratios": "ratios", "financial-growth": "growth",
    "income-statement-growth": "income_growth", "balance-sheet-statement-growth": "balance_sheet_growth",
    "cash-flow-statement-growth": "cash_flow_growth",
}  # fmt: skip
#: Endpoint -> table and the column with the whole answer, there.
_FIXTURES = {
    "profile": ("companies", "profile_data"), "quote": ("stock_quotes", "quote_data"),
    "historical-price-eod/full": ("historical_prices", "price_data"),
}  # fmt: skip
_OWN = ("created_at", "updated_at", "id")


@contextmanager
def open_store(context: Context) -> Iterator[Store]:
    """The database of a call. Raises `ToolError` where there is none, `Unreadable` where it is broken."""
    path = _path(context)
    context.file = path
    with path.open("rb") as file:
        if not file.read(16).startswith(b"SQLite format 3\0"):
            raise Unreadable(Problem.NOT_THIS_FORMAT, "it is no SQLite database")
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.text_factory = lambda value: value.decode("utf-8", "replace")
        yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    finally:
        connection.close()


def _path(context: Context) -> Path:
    given = context.settings.get("FMP_DATABASE_URL", "").strip()
    if given:
        match = _URL.match(given)
        path = Path(match["path"] if match else given)
        if not path.is_file():
            raise ToolError("the database of market data that is set up is not there; nothing can be looked up")
        return path.resolve()
    folder = context.state or context.apps_data / "fmp"
    found = [p for p in sorted(folder.glob("*")) if p.suffix in (".db", ".sqlite", ".sqlite3") and p.is_file()]
    named = [p for p in found if p.name == "fmp.db"] or (found if len(found) == 1 else [])
    if not named or not named[0].resolve().is_relative_to(folder.resolve()):
        raise ToolError("there are no market data in this world; nothing can be looked up")
    return named[0].resolve()


def table_of(endpoint: str) -> str:
    """`etf/holdings` -> `etf_holdings`."""
    return re.sub(r"[-/]", "_", endpoint)


class Store:
    """An opened database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        self.tables = {str(name) for name, sql in listed if not re.match(r"(?i)\s*create\s+virtual", str(sql or ""))}

    def rows(self, endpoints: Sequence[str]) -> tuple[str, Rows] | None:
        """The rows of the first of endpoints that the data hold, and its name; None where they hold none of them."""
        for endpoint in endpoints:
            table = table_of(endpoint)
            found = [_row(entry) for entry in self._read(table)] if table in self.tables else self._fixture(endpoint)
            if found is not None:
                return endpoint, found
        return None

    def known(self) -> list[str]:
        """What the data hold, for messages."""
        own = {t for t in self.tables if not t.startswith("sqlite_")} - set(_ORIGINAL)
        if "generic_api_responses" in self.tables:
            own |= {table_of(str(e["endpoint"]).strip("/")) for e in self._read("generic_api_responses")}
        return sorted(own)

    def _read(self, table: str, where: str = "", values: Sequence[Any] = ()) -> Rows:
        cursor = self._connection.execute(f'SELECT * FROM "{table}" {where} LIMIT {MAX_ROWS + 1}', values)
        names = [column[0] for column in cursor.description]
        out = [dict(zip(names, entry, strict=True)) for entry in cursor]
        if len(out) > MAX_ROWS:
            raise ToolError(f"table {table} has more than {MAX_ROWS:,} rows, which is more than can be looked through")
        return out

    def _fixture(self, endpoint: str) -> Rows | None:
        """The same from the published fixtures."""
        kind = _STATEMENTS.get(endpoint)
        if kind is not None and "financial_statements" in self.tables:
            found = self._read("financial_statements", "WHERE statement_type = ?", (kind,))
            if found:
                return [_unpacked(e, "statement_data", {"date": e.get("fiscal_date")}) for e in found]
        if endpoint.startswith("technical-indicators/") and "technical_indicators" in self.tables:
            name = endpoint.rpartition("/")[2]
            aliases = (name, "standard_deviation" if name == "standarddeviation" else name)
            found = self._read("technical_indicators", "WHERE lower(indicator_type) IN (?, ?)", aliases)
            if found:
                rows = [_unpacked(e, "indicator_data", {"periodLength": e.get("period")}) for e in found]
                return [{**row, "timeframe": e.get("interval")} for row, e in zip(rows, found, strict=True)]
        if endpoint in _FIXTURES and _FIXTURES[endpoint][0] in self.tables:
            table, column = _FIXTURES[endpoint]
            found = self._read(table)
            if found:
                return [_unpacked(e, column) for e in found]
        return self._answers(endpoint)

    def _answers(self, endpoint: str) -> Rows | None:
        if "generic_api_responses" not in self.tables:
            return None
        names = (f"/{endpoint}", endpoint)
        found = self._read("generic_api_responses", "WHERE endpoint IN (?, ?) ORDER BY id", names)
        if not found:
            return None
        rows: Rows = []
        for entry in found:
            given = {
                k: v for k, v in (_loaded(entry.get("params_json")) or {}).items() if isinstance(v, str | int | float)
            }
            # What was asked for says what the rows are about, where they don't say it themselves.
            asked = {k: v for k, v in given.items() if k not in ("limit", "page", "offset", "from", "to")}
            answer = _loaded(entry.get("response_data"))
            subject = entry.get("symbol") or given.get("symbol")
            for row in answer if isinstance(answer, list) else [answer]:
                content = row if isinstance(row, dict) else {"value": row}
                if subject and endpoint == "stock-peers":
                    content = {**content, "peerOf": subject}
                elif subject and "symbol" not in content:
                    content = {"symbol": subject, **content}
                if row is not None and {**asked, **content} not in rows[-50:]:
                    rows.append({**asked, **content})
        return rows


_ORIGINAL = (
    "companies", "stock_quotes", "historical_prices", "financial_statements", "technical_indicators",
    "generic_api_responses",
)  # fmt: skip


def _loaded(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str | bytes) and text else None
    except ValueError as error:
        raise Unreadable(Problem.CORRUPT, f"a column holds what is no JSON: {error}") from error


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """A row as the API would give it: JSON unpacked, blobs left out."""
    out: dict[str, Any] = {}
    for name, value in entry.items():
        if name.endswith("__json"):
            out[name.removesuffix("__json")] = _loaded(value)
        elif not isinstance(value, bytes):
            out[name] = value
    return out


def _unpacked(entry: dict[str, Any], column: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row of the published fixtures: the whole answer where it is kept, else its columns under the API's names."""
    whole = _loaded(entry.get(column))
    if isinstance(whole, list):
        whole = whole[0] if whole and isinstance(whole[0], dict) else None
    plain = {_camel(k): v for k, v in entry.items() if v is not None and k not in (*_OWN, column)}
    plain |= {k: v for k, v in (more or {}).items() if v is not None}
    if not isinstance(whole, dict) or not whole:
        return plain
    keep = {k: plain[k] for k in ("symbol", "date", "period", "periodLength") if k in plain and k not in whole}
    return {**keep, **whole}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
