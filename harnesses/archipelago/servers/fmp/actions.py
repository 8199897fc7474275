"""The meta tools of fmp as a table: their fields, and below them each action with the tool that carries it out."""

from __future__ import annotations

__all__ = ["METAS", "RENAMED"]

#: Meta tool -> description, fields, lines of action and tool.
METAS: dict[str, tuple[str, str, str]] = {
    "fmp_analyst": (
        "Analysts: estimates, ratings, grades and price targets.",
        "symbol:s, period:s, limit:i, page:i, from_date:s, to_date:s",
        """
        estimates              get_analyst_estimates
        ratings_snapshot       get_ratings_snapshot
        ratings_historical     get_ratings_historical
        price_target_summary   get_price_target_summary
        price_target_consensus get_price_target_consensus
        price_target_news      get_price_target_news
        price_target_latest    get_price_target_latest_news
        grades                 get_stock_grades
        grades_historical      get_grades_historical
        grades_consensus       get_grades_consensus
        grade_news             get_grade_news
        grade_latest           get_grade_latest_news
        """,
    ),
    "fmp_prices": (
        "Prices: quotes now, after hours, by the day and within the day.",
        "symbol:s, symbols:s, exchange:s, from_date:s, to_date:s, limit:i, short:b",
        """
        quote                        get_stock_quote
        quote_short                  get_stock_quote_short
        price_change                 get_stock_price_change
        aftermarket_quote            get_aftermarket_quote
        aftermarket_trade            get_aftermarket_trade
        batch_quotes                 get_batch_stock_quotes
        batch_quotes_short           get_batch_stock_quotes_short
        batch_aftermarket_trades     get_batch_aftermarket_trades
        batch_aftermarket_quotes     get_batch_aftermarket_quotes
        exchange_quotes              get_exchange_stock_quotes
        historical_light             get_historical_price_light
        historical_full              get_historical_price_full
        historical_unadjusted        get_historical_price_unadjusted
        historical_dividend_adjusted get_historical_price_dividend_adjusted
        intraday_1min                get_intraday_1min
        intraday_5min                get_intraday_5min
        intraday_15min               get_intraday_15min
        intraday_30min               get_intraday_30min
        intraday_1hour               get_intraday_1hour
        intraday_4hour               get_intraday_4hour
        """,
    ),
    "fmp_company": (
        "Companies: profiles, people, segments, searches and lists.",
        (
            "symbol:s, query:s, exchange:s, sector:s, industry:s, country:s, market_cap_min:n, market_cap_max:n, "
            "limit:i, year:i"
        ),
        """
        profile                get_company_profile
        notes                  get_company_notes
        executives             get_company_executives
        peers                  get_stock_peers
        executive_compensation get_executive_compensation
        compensation_benchmark get_executive_comp_benchmark
        share_float            get_shares_float
        employee_count         get_employee_count
        grades                 get_stock_grades
        revenue_geography      get_revenue_by_geography
        revenue_product        get_revenue_by_product
        search_symbol          search_by_symbol
        search_name            search_by_company_name
        search_cik             search_by_cik
        search_cusip           search_by_cusip
        search_isin            search_by_isin
        screener               screen_stocks
        list_exchange          find_exchange_listings
        list_symbols           get_all_stock_symbols
        list_tradeable         get_actively_trading_stocks
        list_etf               get_all_etfs
        list_sp500             get_sp500_constituents
        list_nasdaq            get_nasdaq_constituents
        list_dow               get_dowjones_constituents
        list_index             get_index_list
        list_delisted          get_delisted_companies
        list_cik               get_cik_database
        list_statement_symbols get_stocks_with_financials
        """,
    ),
    "fmp_financials": (
        "Statements, metrics, valuations, dividends, earnings and transcripts.",
        "symbol:s, symbols:s, period:s, limit:i, year:i, quarter:i, from_date:s, to_date:s",
        """
        income_statement    get_income_statement
        balance_sheet       get_balance_sheet
        cash_flow           get_cash_flow_statement
        income_growth       get_income_growth
        balance_growth      get_balance_sheet_growth
        cash_flow_growth    get_cash_flow_growth
        financial_growth    get_financial_growth
        key_metrics         get_key_metrics
        key_metrics_ttm     get_key_metrics_ttm
        ratios              get_financial_ratios
        ratios_ttm          get_ratios_ttm
        financial_score     get_financial_scores
        owner_earnings      get_owner_earnings
        enterprise_value    get_enterprise_values
        dcf                 get_dcf_valuation
        levered_dcf         get_levered_dcf_valuation
        dividend_historical get_company_dividends
        dividend_calendar   get_dividends_calendar
        splits_historical   get_stock_splits
        splits_calendar     get_splits_calendar
        earnings_calendar   get_earnings_calendar
        earnings_historical get_company_earnings
        transcript          get_earning_call_transcript
        transcript_dates    get_transcript_dates_by_symbol
        """,
    ),
    "fmp_market": (
        "Markets: movers, sectors, hours, indexes, rates and economic data.",
        "sector:s, industry:s, symbol:s, indicator:s, date:s, from_date:s, to_date:s, exchange:s, limit:i",
        """
        gainers              get_biggest_gainers
        losers               get_biggest_losers
        most_active          get_most_actives
        sector_performance   get_sector_performance_snapshot
        sector_historical    get_historical_sector_performance
        industry_performance get_industry_performance_snapshot
        industry_historical  get_historical_industry_performance
        market_hours         get_all_exchange_market_hours
        exchange_hours       get_exchange_market_hours
        exchange_holidays    get_holidays_by_exchange
        index_list           get_index_list
        sp500_constituents   get_sp500_constituents
        nasdaq_constituents  get_nasdaq_constituents
        dow_constituents     get_dowjones_constituents
        treasury_rates       get_treasury_rates
        economic_indicators  get_economic_indicators
        economic_calendar    get_economic_calendar
        market_risk_premium  get_market_risk_premium
        """,
    ),
    "fmp_assets": (
        "ETFs, funds, commodities, crypto, forex and IPOs.",
        "symbol:s, query:s, symbols:[s], limit:i, short:b, from_date:s, to_date:s, year:s, quarter:s",
        """
        etf_list               get_all_etfs
        etf_profile            get_etf_info
        etf_holdings           get_etf_holdings
        etf_sector_weightings  get_etf_sector_weightings
        etf_country_weightings get_etf_country_weightings
        etf_exposure           get_etf_asset_exposure
        mutual_fund_search     search_fund_disclosure_by_name
        fund_disclosure        get_fund_disclosure
        crypto_list            get_cryptocurrency_list
        commodity_list         get_commodities_list
        forex_list             get_forex_currency_pairs
        all_etf_quotes         get_all_etf_quotes
        all_mutualfund_quotes  get_all_mutualfund_quotes
        all_commodity_quotes   get_all_commodity_quotes
        all_crypto_quotes      get_all_crypto_quotes
        all_forex_quotes       get_all_forex_quotes
        all_index_quotes       get_all_index_quotes
        ipo_calendar           get_ipos_calendar
        """,
    ),
    "fmp_news": (
        "News and press releases.",
        "symbol:s, symbols:s, page:i, limit:i, from_date:s, to_date:s",
        """
        stock_news               search_stock_news_by_symbol
        forex_news               search_forex_news_by_symbol
        crypto_news              search_crypto_news_by_symbol
        general_news             get_general_news_latest
        press_releases           get_press_releases_latest
        press_releases_by_symbol search_press_releases_by_symbol
        """,
    ),
    "fmp_government": (
        "Trades of congress members, institutional holders, 8-K filings.",
        "symbol:s, page:i, limit:i",
        """
        house_disclosure        get_house_disclosure
        senate_disclosure       get_senate_disclosure
        house_trades            get_house_trades
        senate_trades           get_senate_trades
        institutional_ownership get_institutional_ownership
        filings_8k              get_8k_filings
        """,
    ),
    "fmp_technical": (
        "Technical indicators of a stock.",
        "symbol:s, period:i, interval:s",
        """
        sma                get_sma
        ema                get_ema
        wma                get_wma
        dema               get_dema
        tema               get_tema
        williams           get_williams
        rsi                get_rsi
        adx                get_adx
        standard_deviation get_standard_deviation
        """,
    ),
}

#: Field of a meta tool -> argument of a tool, where they differ (the first that the tool has).
RENAMED: dict[str, tuple[str, ...]] = {
    "query": ("query", "cik", "cusip", "isin", "name"),
    "market_cap_min": ("market_cap_more_than",),
    "market_cap_max": ("market_cap_lower_than",),
    "indicator": ("name",),
    "period": ("period", "periodLength"),
    "interval": ("timeframe",),
    "symbol": ("symbol", "symbols"),
}
