"""What the arguments of fmp's tools do to rows: data for the handler in `query.py`."""

from __future__ import annotations

__all__ = ["DESCRIPTIONS", "RULES", "SHAPING", "SHORT"]

#: Argument -> what it does to the rows, and the columns it looks at (the first that a table has).
#: `is`: equal, without case; `among`: one of a list; `has`: contains; `from`, `to`: dates, inclusive; `above`, `below`:
#: numbers, inclusive; `number`: equal without leading zeros; `period`: annual, quarter, or a period by name.
RULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "symbol": ("is", ("symbol", "etfSymbol", "baseSymbol")),
    "symbols": ("among", ("symbol", "tickers")),
    "from_date": ("from", ("date", "publishedDate", "filingDate", "transactionDate", "acceptedDate")),
    "to_date": ("to", ("date", "publishedDate", "filingDate", "transactionDate", "acceptedDate")),
    "date": ("is", ("date",)),
    "exchange": ("is", ("exchange", "exchangeShortName", "stockExchange", "exchangeFullName")),
    "sector": ("is", ("sector",)),
    "industry": ("is", ("industry", "industryTitle")),
    "country": ("is", ("country",)),
    "cik": ("number", ("cik",)),
    "cusip": ("is", ("cusip",)),
    "isin": ("is", ("isin",)),
    "year": ("is", ("year", "fiscalYear", "calendarYear")),
    "quarter": ("number", ("quarter", "period")),
    "period": ("period", ("period",)),
    "name": ("has", ("name", "companyName", "targetedCompanyName", "entityName", "holder")),
    "query": ("has", ("symbol", "name", "companyName")),
    "active": ("is", ("active",)),
    "invalid": ("is", ("invalid",)),
    "nonadjusted": ("is", ("nonadjusted",)),
    "periodLength": ("is", ("periodLength", "period")),
    "timeframe": ("is", ("timeframe", "interval")),
    "is_etf": ("is", ("isEtf",)),
    "is_fund": ("is", ("isFund",)),
    "is_actively_trading": ("is", ("isActivelyTrading",)),
    "market_cap_more_than": ("above", ("marketCap", "mktCap")),
    "market_cap_lower_than": ("below", ("marketCap", "mktCap")),
    "price_more_than": ("above", ("price",)),
    "price_lower_than": ("below", ("price",)),
    "beta_more_than": ("above", ("beta",)),
    "beta_lower_than": ("below", ("beta",)),
    "volume_more_than": ("above", ("volume",)),
    "volume_lower_than": ("below", ("volume",)),
    "dividend_more_than": ("above", ("lastAnnualDividend", "lastDividend")),
    "dividend_lower_than": ("below", ("lastAnnualDividend", "lastDividend")),
    "revenue_growth_pct": ("is", ("revenueGrowthPct",)),
    "ebitda_pct": ("is", ("ebitdaPct",)),
    "tax_rate": ("is", ("taxRate",)),
    "long_term_growth_rate": ("is", ("longTermGrowthRate",)),
    "cost_of_debt": ("is", ("costOfDebt",)),
    "cost_of_equity": ("is", ("costOfEquity",)),
    "beta": ("is", ("beta",)),
    "risk_free_rate": ("is", ("riskFreeRate",)),
}
#: Arguments that shape the answer rather than choose its rows.
SHAPING = ("limit", "page", "short")
#: The columns of a short quote and of a light history.
SHORT: dict[str, tuple[str, ...]] = {
    "short": ("symbol", "price", "change", "volume"),
    "get_stock_quote_short": ("symbol", "price", "change", "volume"),
    "get_batch_stock_quotes_short": ("symbol", "price", "change", "volume"),
    "get_historical_price_light": ("symbol", "date", "price", "close", "volume"),
}
DESCRIPTIONS: dict[str, str] = {
    "symbol": "Ticker, e.g. AAPL",
    "symbols": "Tickers, e.g. AAPL,MSFT",
    "limit": "How many rows at most",
    "page": "Page, from 0",
    "period": "annual or quarter, or one such as Q1 or FY",
    "periodLength": "Length of the indicator's window",
    "timeframe": "Interval: 1min, 5min, 15min, 30min, 1hour, 4hour, 1day",
    "interval": "Interval: 1min, 5min, 15min, 30min, 1hour, 4hour, 1day",
    "from_date": "First day, YYYY-MM-DD",
    "to_date": "Last day, YYYY-MM-DD",
    "date": "Day, YYYY-MM-DD",
    "short": "Only symbol, price, change and volume",
    "nonadjusted": "Prices that are not adjusted for splits",
    "exchange": "Exchange, e.g. NASDAQ",
    "sector": "Sector, e.g. Technology",
    "industry": "Industry, e.g. Software",
    "country": "Country, e.g. US",
    "query": "What to look for",
    "name": "Name to look for",
    "indicator": "Name of the indicator, e.g. GDP",
    "cik": "CIK",
    "cusip": "CUSIP",
    "isin": "ISIN",
    "year": "Year, e.g. 2024",
    "quarter": "Quarter, 1 to 4",
    "active": "Only people in office",
    "invalid": "Changes of symbols that are not valid",
    "market_cap_min": "Market capitalisation of at least this",
    "market_cap_max": "Market capitalisation of at most this",
}
