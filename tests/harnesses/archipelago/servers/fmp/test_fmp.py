"""FMP's tools over an invented database, in our layout and in that of the published fixtures."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool, context_for, text_of
from envkit.harnesses.archipelago.servers.fmp import APP
from envkit.harnesses.archipelago.servers.fmp.rules import RULES, SHAPING, SHORT
from envkit.harnesses.archipelago.servers.fmp.store import table_of
from envkit.harnesses.archipelago.servers.fmp.tools import TOOLS
from envkit.harnesses.archipelago.servers.tabled import parse_arguments

#: Table -> columns, rows.
TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "quote": ("symbol, name, price, change, volume, exchange", [
        ("BRLO", "Birlow Tools", 12.5, 0.5, 1000, "NYSE"), ("CNDR", "Cinder Works", 80.0, -1.0, 50, "NASDAQ"),
        ("CNDB", "Cinder Bank", 33.0, 0.0, 70, "NYSE"),
    ]),
    "profile": ("symbol, companyName, sector, marketCap, beta, isEtf, cik, address__json", [
        ("BRLO", "Birlow Tools", "Industrials", 500.0, 0.9, 0, "0000000111", '{"city": "Ulm"}'),
        ("CNDR", "Cinder Works", "Energy", 9000.0, 1.4, 0, "0000000222", None),
        ("CNDB", "Cinder Bank", "Financials", 700.0, 1.1, 1, "0000000333", None),
    ]),
    "income_statement": ("symbol, date, fiscalYear, period, revenue", [
        ("BRLO", "2022-12-31", "2022", "FY", 70), ("BRLO", "2024-12-31", "2024", "FY", 90),
        ("BRLO", "2023-12-31", "2023", "FY", 80), ("BRLO", "2024-03-31", "2024", "Q1", 20),
        ("CNDR", "2024-12-31", "2024", "FY", 1200),
    ]),
    "historical_price_eod_full": ("symbol, date, open, close, volume", [
        ("BRLO", f"2024-01-{day:02d}", 10 + day, 11 + day, 100 * day) for day in range(1, 29)
    ]),
    "technical_indicators_sma": ("symbol, date, periodLength, timeframe, sma", [
        ("BRLO", "2024-01-05", 10, "1day", 11.0), ("BRLO", "2024-01-05", 20, "1day", 12.0),
    ]),
    "news_stock": ("symbol, publishedDate, title", [
        ("BRLO", "2024-02-01 10:00:00", "Hammer sales"), ("CNDR", "2024-02-02 09:00:00", "New furnace"),
    ]),
    "exchange_market_hours": ("exchange, openingHour", [("NYSE", "09:30"), ("XETRA", "09:00")]),
    "economic_indicators": ("name, date, value", [("GDP", "2024-01-01", 1.0), ("CPI", "2024-01-01", 2.0)]),
    "revenue_geographic_segmentation": ("symbol, date, period, data__json", [
        ("BRLO", "2024-12-31", "FY", '{"Europe": 60, "Asia": 30}'),
    ]),
    "stock_peers": ("peerOf, symbol", [("BRLO", "CNDR"), ("BRLO", "CNDB"), ("CNDR", "BRLO")]),
    "sp500_constituent": ("symbol, name", [("BRLO", "Birlow Tools")]),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "apps_data" / "fmp"
    found.mkdir(parents=True)
    return found


def write(path: Path) -> None:
    base = sqlite3.connect(path)
    for table, (columns, rows) in TABLES.items():
        base.execute(f"CREATE TABLE {table} ({columns})")
        base.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    base.commit()
    base.close()


@pytest.fixture
def data(folder: Path) -> Path:
    write(folder / "fmp.db")
    return folder / "fmp.db"


@pytest.fixture
def call(tmp_path: Path):
    (tmp_path / "filesystem").mkdir(exist_ok=True)
    metas = {m.name for m in APP.metas} | {"fmp_schema"}

    def run(name: str, /, settings: dict[str, str] | None = None, **arguments: Any) -> Any:
        context = context_for(APP, tmp_path / "filesystem", tmp_path / "apps_data", settings)
        outcome = (call_meta if name in metas else call_tool)(APP, name, arguments, context)
        assert outcome.fault is None, outcome.fault
        return outcome.text if outcome.error else text_of(outcome)

    return run


def column(answer: Any, name: str) -> list[Any]:
    return [row[name] for row in answer["data"]]


def test_every_argument_of_every_tool_has_a_rule() -> None:
    for tool, (line, endpoints) in TOOLS.items():
        assert endpoints, tool
        for argument in parse_arguments(line):
            assert argument.name in RULES or argument.name in SHAPING, (tool, argument.name)


def test_quotes_one_short_and_several(call, data) -> None:
    assert column(call("get_stock_quote", symbol="brlo"), "price") == [12.5]
    short = call("get_stock_quote_short", symbol="BRLO")["data"]
    assert short == [{"symbol": "BRLO", "price": 12.5, "change": 0.5, "volume": 1000}]
    assert column(call("get_batch_stock_quotes", symbols="CNDB, BRLO"), "symbol") == ["BRLO", "CNDB"]
    assert column(call("get_exchange_stock_quotes", exchange="nyse", short=True), "symbol") == ["BRLO", "CNDB"]


def test_statements_newest_first_by_period_and_limit(call, data) -> None:
    annual = call("get_income_statement", symbol="BRLO", period="annual", limit=2)
    assert column(annual, "fiscalYear") == ["2024", "2023"]
    assert (annual["count"], annual["total"]) == (2, 3)
    assert "2 of 3 rows" in annual["message"]
    assert column(call("get_income_statement", symbol="BRLO", period="quarter"), "period") == ["Q1"]
    assert column(call("get_income_statement", symbol="BRLO", period="Q1"), "revenue") == [20]


def test_date_windows_are_inclusive(call, data) -> None:
    window = {"symbol": "BRLO", "from_date": "2024-01-03", "to_date": "2024-01-05"}
    answer = call("get_historical_price_full", **window)
    assert column(answer, "date") == ["2024-01-05", "2024-01-04", "2024-01-03"]
    light = call("get_historical_price_light", symbol="BRLO", limit=1)["data"]
    assert light == [{"symbol": "BRLO", "date": "2024-01-28", "close": 39, "volume": 2800}]
    news = call("search_stock_news_by_symbol", symbols="BRLO,CNDR", to_date="2024-02-01")
    assert column(news, "title") == ["Hammer sales"], "the whole of the last day"


def test_screens_and_searches(call, data) -> None:
    assert column(call("screen_stocks", market_cap_more_than=600, is_etf=False), "symbol") == ["CNDR"]
    assert column(call("search_by_company_name", query="cinder"), "companyName") == [
        "Cinder Works", "Cinder Bank",
    ]  # fmt: skip
    assert column(call("search_by_cik", cik="222"), "symbol") == ["CNDR"]
    assert call("get_company_profile", symbol="BRLO")["data"][0]["address"] == {"city": "Ulm"}
    assert column(call("get_sma", symbol="BRLO", periodLength=20, timeframe="1day"), "sma") == [12.0]
    assert column(call("get_stock_peers", symbol="BRLO"), "symbol") == ["CNDR", "CNDB"]


def test_what_cannot_be_filtered_is_said(call, data) -> None:
    answer = call("screen_stocks", sector="energy", price_more_than=5)
    assert column(answer, "symbol") == ["CNDR"]
    assert "no column for price_more_than" in answer["message"]


def test_no_answer_has_more_than_200_rows(call, data) -> None:
    base = sqlite3.connect(data)
    base.executemany("INSERT INTO quote VALUES (?, 'n', 1, 0, 0, 'X')", [(f"S{i}",) for i in range(300)])
    base.commit()
    answer = call("get_exchange_stock_quotes", exchange="X")
    assert (answer["count"], answer["total"]) == (200, 300)
    assert "at most 200" in answer["message"]
    assert call("get_exchange_stock_quotes", {"MAX_RESPONSE_ITEMS": "10"}, exchange="X")["count"] == 10


@pytest.mark.parametrize(
    ("meta", "request_of", "tool", "arguments"),
    [
        ("fmp_prices", {"action": "quote", "symbol": "BRLO"}, "get_stock_quote", {"symbol": "BRLO"}),
        ("fmp_prices", {"action": "batch_quotes", "symbols": "BRLO"}, "get_batch_stock_quotes", {"symbols": "BRLO"}),
        ("fmp_company", {"action": "search_cik", "query": "111"}, "search_by_cik", {"cik": "111"}),
        ("fmp_company", {"action": "screener", "market_cap_min": 600}, "screen_stocks", {"market_cap_more_than": 600}),
        ("fmp_company", {"action": "revenue_geography", "symbol": "BRLO"}, "get_revenue_by_geography",
         {"symbol": "BRLO", "period": "annual"}),
        ("fmp_financials", {"action": "income_statement", "symbol": "BRLO", "period": "annual"}, "get_income_statement",
         {"symbol": "BRLO", "period": "annual"}),
        ("fmp_market", {"action": "economic_indicators", "indicator": "GDP"}, "get_economic_indicators",
         {"name": "GDP"}),
        ("fmp_market", {"action": "exchange_hours", "exchange": "NYSE"}, "get_exchange_market_hours",
         {"exchange": "NYSE"}),
        ("fmp_market", {"action": "exchange_hours", "symbol": "NYSE"}, "get_exchange_market_hours",
         {"exchange": "NYSE"}),
        ("fmp_news", {"action": "stock_news", "symbol": "CNDR"}, "search_stock_news_by_symbol", {"symbols": "CNDR"}),
        ("fmp_news", {"action": "stock_news"}, "get_stock_news_latest", {}),
        ("fmp_technical", {"action": "sma", "symbol": "BRLO", "period": 10, "interval": "1day"}, "get_sma",
         {"symbol": "BRLO", "periodLength": 10, "timeframe": "1day"}),
    ],
)  # fmt: skip
def test_meta_tools_rename_fields(call, data, meta, request_of, tool, arguments) -> None:
    answer = call(meta, **request_of)
    assert answer[request_of["action"]] == call(tool, **arguments)
    assert answer[request_of["action"]]["count"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("get_stock_quote", {"symbol": "BRL"}, "did you mean 'BRLO'"),
        ("get_stock_quote", {}, "`symbol` is required"),
        (
            "get_dcf_valuation",
            {"symbol": "BRLO"},
            "hold nothing of discounted-cash-flow; they hold economic_indicators",
        ),
        ("fmp_prices", {"action": "quotes"}, "did you mean 'quote'"),
        ("fmp_prices", {"action": "quote", "symbol": "BRLO", "limit": 3}, "does not take `limit`"),
        ("fmp_news", {"action": "press_releases_by_symbol"}, "give symbols"),
    ],
)
def test_user_errors(call, data, name, arguments, said) -> None:
    assert said in call(name, **arguments)


def test_a_sample_of_tools_over_tables_of_their_own(call, folder) -> None:
    """Every third tool of the table, over a table with the columns that its arguments look at."""
    values = {"i": 3, "n": 2.5, "b": True, "s": "Q1", "[s]": "Q1"}
    for number, (tool, (line, endpoints)) in enumerate(sorted(TOOLS.items())):
        if number % 3 or tool in SHORT:
            continue
        arguments = {a.name: a.type for a in parse_arguments(line) if a.name not in SHAPING}
        dated = {name: "2024-05-01" for name in arguments if "date" in name}
        given = {**{n: values[t] for n, t in arguments.items()}, **dated}
        columns = {RULES[name][1][0]: given[name] for name in arguments}
        path = folder / "fmp.db"
        path.unlink(missing_ok=True)
        base = sqlite3.connect(path)
        names = ["marker", *dict.fromkeys(columns)]
        base.execute(f"CREATE TABLE {table_of(endpoints[0])} ({', '.join(names)})")
        row = ["wanted", *(columns[n] for n in names[1:])]
        other = ["other", *("1900-01-01" if isinstance(v, str) else 0.0 for v in row[1:])]
        base.executemany(f"INSERT INTO {table_of(endpoints[0])} VALUES ({', '.join('?' * len(names))})", [other, row])
        base.commit()
        base.close()
        answer = call(tool, **given)
        assert isinstance(answer, dict), (tool, answer)
        unfiltered = not arguments or all(kind in ("below", "to") for kind in (RULES[a][0] for a in arguments))
        assert "wanted" in column(answer, "marker"), tool
        assert unfiltered or column(answer, "marker") == ["wanted"], tool


def test_the_layout_of_the_published_fixtures(call, folder) -> None:
    base = sqlite3.connect(folder / "market.sqlite")
    base.executescript("""
        CREATE TABLE companies (symbol TEXT, company_name TEXT, sector TEXT, profile_data TEXT, created_at TEXT);
        CREATE TABLE stock_quotes (symbol TEXT, price FLOAT, quote_data TEXT);
        CREATE TABLE historical_prices (id INTEGER, symbol TEXT, date TEXT, close FLOAT, price_data TEXT);
        CREATE TABLE financial_statements (id INTEGER, symbol TEXT, statement_type TEXT, period TEXT, fiscal_date TEXT,
            statement_data TEXT);
        CREATE TABLE technical_indicators (symbol TEXT, indicator_type TEXT, period INTEGER, interval TEXT, date TEXT,
            value FLOAT, indicator_data TEXT);
        CREATE TABLE generic_api_responses (id INTEGER, endpoint TEXT, params_json TEXT, symbol TEXT,
            response_data TEXT);
        INSERT INTO companies VALUES ('BRLO', 'Birlow', 'Industrials', '{"symbol": "BRLO", "ceo": "Ann"}', 'x');
        INSERT INTO companies VALUES ('CNDR', 'Cinder', 'Energy', NULL, 'x');
        INSERT INTO stock_quotes VALUES ('BRLO', 12.5, NULL);
        INSERT INTO historical_prices VALUES (1, 'BRLO', '2024-01-02', 11.0, NULL);
        INSERT INTO historical_prices VALUES (2, 'BRLO', '2024-01-03', 12.0, NULL);
        INSERT INTO financial_statements VALUES (1, 'BRLO', 'income', 'FY', '2024-12-31', '{"revenue": 90}');
        INSERT INTO technical_indicators VALUES ('BRLO', 'sma', 10, '1day', '2024-01-03', 11.5, NULL);
    """)
    answers = [
        (1, "/economic-indicators", {"name": "GDP"}, None, [{"date": "2024-01-01", "value": 1}]),
        (2, "/economic-indicators", {"name": "CPI"}, None, [{"date": "2024-01-01", "value": 2}]),
        (3, "/stock-peers", {"symbol": "BRLO"}, "BRLO", [{"symbol": "CNDR"}]),
        (4, "/dividends-calendar", {"from": "2024-01-01"}, None, [{"symbol": "BRLO", "date": "2024-03-01"}]),
    ]
    rows = [(i, e, json.dumps(p), s, json.dumps(r)) for i, e, p, s, r in answers]
    base.executemany("INSERT INTO generic_api_responses VALUES (?, ?, ?, ?, ?)", rows)
    base.commit()
    base.close()
    assert call("get_company_profile", symbol="BRLO")["data"] == [{"symbol": "BRLO", "ceo": "Ann"}]
    assert call("get_company_profile", symbol="CNDR")["data"][0]["companyName"] == "Cinder"
    assert column(call("get_stock_quote", symbol="BRLO"), "price") == [12.5]
    assert column(call("get_historical_price_full", symbol="BRLO"), "close") == [12.0, 11.0]
    assert column(call("get_income_statement", symbol="BRLO", period="annual"), "revenue") == [90]
    assert column(call("get_sma", symbol="BRLO", periodLength=10, timeframe="1day"), "value") == [11.5]
    assert column(call("get_economic_indicators", name="CPI"), "value") == [2]
    assert column(call("get_stock_peers", symbol="BRLO"), "symbol") == ["CNDR"]
    assert column(call("get_dividends_calendar", from_date="2024-02-01"), "symbol") == ["BRLO"]
    assert "dividends_calendar" in call("get_treasury_rates")


def test_missing_broken_and_foreign_databases(call, folder, tmp_path) -> None:
    assert "no market data" in call("get_stock_quote", symbol="BRLO")
    (folder / "fmp.db").write_bytes(b"not a database")
    assert "not this format" in call("get_stock_quote", symbol="BRLO")
    write(tmp_path / "good.db")
    whole = (tmp_path / "good.db").read_bytes()
    (folder / "fmp.db").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert "corrupt" in call("get_stock_quote", symbol="BRLO")
    (folder / "fmp.db").unlink()
    (folder / "fmp.db").symlink_to(tmp_path / "good.db")
    assert "no market data" in call("get_stock_quote", symbol="BRLO"), "a link that leads out"
    named = {"FMP_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/good.db"}
    assert column(call("get_stock_quote", named, symbol="BRLO"), "price") == [12.5]


def test_nothing_of_the_database_is_run_or_written(call, data) -> None:
    base = sqlite3.connect(data)
    base.execute("DROP TABLE quote")
    base.execute("CREATE VIEW quote AS SELECT load_extension('x') AS symbol")
    base.commit()
    base.close()
    before = data.read_bytes()
    assert "hold nothing of quote" in call("get_stock_quote", symbol="BRLO"), "views are no tables"
    assert data.read_bytes() == before
    assert [p.name for p in data.parent.iterdir()] == ["fmp.db"]


async def test_behind_the_real_server(start_tools) -> None:
    tools = await start_tools(("fmp",))
    assert len(tools.listed) == 10
    (tools.apps_data / "fmp").mkdir()
    write(tools.apps_data / "fmp" / "fmp.db")
    answer = await tools.call("fmp_prices", {"action": "quote", "symbol": "BRLO"})
    assert answer.data["quote"]["data"][0]["price"] == 12.5
    schema = await tools.call("fmp_schema", {"tool_name": "fmp_news"})
    assert "press_releases_by_symbol" in schema.text
