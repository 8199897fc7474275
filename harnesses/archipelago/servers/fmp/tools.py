"""The tools of fmp as a table: a line of arguments, and below it each tool with the endpoint whose rows it gives.

Endpoints are those of the public API; further ones, after `|`, are looked at where the data lack the first. The
arguments are read by `tabled.py`; what each does to the rows is in `rules.py`.
"""

from __future__ import annotations

__all__ = ["GROUPS", "TOOLS"]

#: Arguments -> lines of tool and endpoints.
GROUPS: tuple[tuple[str, str], ...] = (
    (
        "symbol*:s",
        """
        get_grades_consensus           grades-consensus
        get_price_target_consensus     price-target-consensus
        get_price_target_summary       price-target-summary
        get_ratings_snapshot           ratings-snapshot
        get_stock_grades               grades
        get_company_notes              company-notes
        get_company_profile            profile
        get_executive_compensation     governance-executive-compensation
        get_market_cap                 market-capitalization
        get_shares_float               shares-float
        get_stock_peers                stock-peers
        get_dcf_valuation              discounted-cash-flow
        get_levered_dcf_valuation      levered-discounted-cash-flow
        get_transcript_dates_by_symbol earning-call-transcript-dates
        get_etf_asset_exposure         etf/asset-exposure
        get_etf_country_weightings     etf/country-weightings
        get_etf_info                   etf/info
        get_etf_sector_weightings      etf/sector-weightings
        get_financial_reports_dates    financial-reports-dates
        get_financial_scores           financial-scores
        get_key_metrics_ttm            key-metrics-ttm
        get_ratios_ttm                 ratios-ttm
        get_aftermarket_quote          aftermarket-quote
        get_aftermarket_trade          aftermarket-trade
        get_stock_price_change         stock-price-change
        get_stock_quote                quote
        get_stock_quote_short          quote-short|quote
        """,
    ),
    (
        "limit:i",
        """
        get_commodities_list           commodities-list
        get_cryptocurrency_list        cryptocurrency-list
        get_forex_currency_pairs       forex-list
        get_index_list                 index-list
        get_sp500_constituents         sp500-constituent
        get_all_exchange_market_hours  all-exchange-market-hours|exchange-market-hours
        get_biggest_gainers            biggest-gainers
        get_biggest_losers             biggest-losers
        get_most_actives               most-actives
        get_actively_trading_stocks    actively-trading-list|stock-list
        get_all_countries              available-countries
        get_all_etfs                   etf-list
        get_all_industries             available-industries
        get_all_sectors                available-sectors
        get_all_stock_symbols          stock-list|profile
        get_companies_with_transcripts earnings-transcript-list
        get_stocks_with_financials     financial-statement-symbol-list
        """,
    ),
    (
        "symbol*:s, period*:s, limit:i",
        """
        get_balance_sheet               balance-sheet-statement
        get_balance_sheet_as_reported   balance-sheet-statement-as-reported
        get_balance_sheet_growth        balance-sheet-statement-growth
        get_cash_flow_as_reported       cash-flow-statement-as-reported
        get_cash_flow_growth            cash-flow-statement-growth
        get_cash_flow_statement         cash-flow-statement
        get_enterprise_values           enterprise-values
        get_financial_growth            financial-growth
        get_financial_ratios            ratios
        get_full_financials_as_reported financial-statement-full-as-reported
        get_income_as_reported          income-statement-as-reported
        get_income_growth               income-statement-growth
        get_income_statement            income-statement
        get_key_metrics                 key-metrics
        get_revenue_by_geography        revenue-geographic-segmentation
        get_revenue_by_product          revenue-product-segmentation
        """,
    ),
    (
        "symbol*:s, limit:i",
        """
        get_grade_news                     grades-news
        get_grades_historical              grades-historical
        get_price_target_news              price-target-news
        get_ratings_historical             ratings-historical
        get_employee_count                 employee-count
        get_historical_employee_count      historical-employee-count
        get_company_dividends              dividends
        get_company_earnings               earnings
        get_stock_splits                   splits
        get_etf_holdings                   etf/holdings
        get_fund_disclosure_holders_latest funds/disclosure-holders-latest
        get_balance_sheet_ttm              balance-sheet-statement-ttm
        get_cash_flow_ttm                  cash-flow-statement-ttm
        get_income_statement_ttm           income-statement-ttm
        get_owner_earnings                 owner-earnings
        """,
    ),
    (
        "page:i, limit:i",
        """
        get_grade_latest_news           grades-latest-news|grades-news
        get_price_target_latest_news    price-target-latest-news|price-target-news
        get_all_shares_float            shares-float-all|shares-float
        get_delisted_companies          delisted-companies
        get_latest_mergers_acquisitions mergers-acquisitions-latest
        get_house_disclosure            house-latest
        get_senate_disclosure           senate-latest
        get_latest_financials           latest-financial-statements
        get_fmp_articles                fmp-articles
        get_8k_filings                  sec-filings-8k
        get_institutional_ownership     institutional-ownership/latest
        get_cik_database                cik-list
        """,
    ),
    (
        "symbol*:s, periodLength*:i, timeframe*:s, from_date:s, to_date:s",
        """
        get_adx                technical-indicators/adx
        get_dema               technical-indicators/dema
        get_ema                technical-indicators/ema
        get_rsi                technical-indicators/rsi
        get_sma                technical-indicators/sma
        get_standard_deviation technical-indicators/standarddeviation
        get_tema               technical-indicators/tema
        get_williams           technical-indicators/williams
        get_wma                technical-indicators/wma
        """,
    ),
    (
        "",
        """
        get_market_risk_premium   market-risk-premium
        get_dowjones_constituents dowjones-constituent
        get_historical_dowjones   historical-dowjones-constituent
        get_historical_nasdaq     historical-nasdaq-constituent
        get_historical_sp500      historical-sp500-constituent
        get_nasdaq_constituents   nasdaq-constituent
        get_supported_exchanges   available-exchanges
        """,
    ),
    (
        "symbol*:s, from_date:s, to_date:s, nonadjusted:b",
        """
        get_intraday_15min historical-chart/15min
        get_intraday_1hour historical-chart/1hour
        get_intraday_1min  historical-chart/1min
        get_intraday_30min historical-chart/30min
        get_intraday_4hour historical-chart/4hour
        get_intraday_5min  historical-chart/5min
        """,
    ),
    (
        "short:b, limit:i, symbols:[s]",
        """
        get_all_commodity_quotes  batch-commodity-quotes
        get_all_crypto_quotes     batch-crypto-quotes
        get_all_etf_quotes        batch-etf-quotes
        get_all_forex_quotes      batch-forex-quotes
        get_all_index_quotes      batch-index-quotes
        get_all_mutualfund_quotes batch-mutualfund-quotes
        """,
    ),
    (
        "from_date:s, to_date:s, limit:i",
        """
        get_dividends_calendar dividends-calendar|dividends
        get_earnings_calendar  earnings-calendar|earnings
        get_ipos_calendar      ipos-calendar
        get_splits_calendar    splits-calendar|splits
        get_economic_calendar  economic-calendar
        """,
    ),
    (
        "from_date:s, to_date:s, page:i, limit:i",
        """
        get_crypto_news_latest    news/crypto-latest|news/crypto
        get_forex_news_latest     news/forex-latest|news/forex
        get_general_news_latest   news/general-latest
        get_press_releases_latest news/press-releases-latest|news/press-releases
        get_stock_news_latest     news/stock-latest|news/stock
        """,
    ),
    (
        "symbol*:s, from_date:s, to_date:s, limit:i",
        """
        get_historical_price_dividend_adjusted historical-price-eod/dividend-adjusted
        get_historical_price_full              historical-price-eod/full
        get_historical_price_light             historical-price-eod/light|historical-price-eod/full
        get_historical_price_unadjusted        historical-price-eod/non-split-adjusted
        """,
    ),
    (
        "symbols*:s, from_date:s, to_date:s, page:i, limit:i",
        """
        search_crypto_news_by_symbol    news/crypto|news/crypto-latest
        search_forex_news_by_symbol     news/forex|news/forex-latest
        search_press_releases_by_symbol news/press-releases|news/press-releases-latest
        search_stock_news_by_symbol     news/stock|news/stock-latest
        """,
    ),
    (
        "from_date:s, to_date:s",
        """
        get_ipos_disclosure ipos-disclosure
        get_ipos_prospectus ipos-prospectus
        get_treasury_rates  treasury-rates
        """,
    ),
    (
        "symbols*:s, limit:i",
        """
        get_batch_aftermarket_quotes batch-aftermarket-quote|aftermarket-quote
        get_batch_stock_quotes       batch-quote|quote
        get_batch_stock_quotes_short batch-quote-short|quote-short|quote
        """,
    ),
    (
        "symbols*:s",
        """
        get_batch_market_cap         market-capitalization-batch|market-capitalization
        get_batch_aftermarket_trades batch-aftermarket-trade|aftermarket-trade
        """,
    ),
    (
        "name*:s",
        """
        search_ma                      mergers-acquisitions-search|mergers-acquisitions-latest
        search_fund_disclosure_by_name funds/disclosure-holders-search|funds/disclosure-holders-latest
        """,
    ),
    (
        "query*:s, limit:i, exchange:s",
        """
        search_by_company_name search-name|stock-list|profile
        search_by_symbol       search-symbol|stock-list|profile
        """,
    ),
    (
        "symbol*:s, page:i, limit:i",
        """
        get_house_trades  house-trades
        get_senate_trades senate-trades
        """,
    ),
    (
        (
            "symbol*:s, revenue_growth_pct:n, ebitda_pct:n, tax_rate:n, long_term_growth_rate:n, cost_of_debt:n, "
            "cost_of_equity:n, beta:n, risk_free_rate:n"
        ),
        """
        get_custom_dcf_valuation         custom-discounted-cash-flow
        get_custom_levered_dcf_valuation custom-levered-discounted-cash-flow
        """,
    ),
    (
        "symbol*:s, year*:s, period*:s",
        """
        get_financial_report_json financial-reports-json
        get_financial_report_xlsx financial-reports-xlsx
        """,
    ),
    (
        "industry*:s, exchange:s, from_date:s, to_date:s",
        """
        get_historical_industry_pe          historical-industry-pe
        get_historical_industry_performance historical-industry-performance
        """,
    ),
    (
        "sector*:s, exchange:s, from_date:s, to_date:s",
        """
        get_historical_sector_pe          historical-sector-pe
        get_historical_sector_performance historical-sector-performance
        """,
    ),
    (
        "date*:s, exchange:s, industry:s",
        """
        get_industry_pe_snapshot          industry-pe-snapshot
        get_industry_performance_snapshot industry-performance-snapshot
        """,
    ),
    (
        "date*:s, exchange:s, sector:s",
        """
        get_sector_pe_snapshot          sector-pe-snapshot
        get_sector_performance_snapshot sector-performance-snapshot
        """,
    ),
    (
        "symbol*:s, period:s, limit:i, from_date:s, to_date:s, page:i",
        """
        get_analyst_estimates analyst-estimates
        """,
    ),
    (
        "symbol*:s, active:b",
        """
        get_company_executives key-executives
        """,
    ),
    (
        "year:s",
        """
        get_executive_comp_benchmark executive-compensation-benchmark
        """,
    ),
    (
        "symbol*:s, limit:i, from_date:s, to_date:s",
        """
        get_historical_market_cap historical-market-capitalization
        """,
    ),
    (
        "cik*:s",
        """
        get_profile_by_cik profile-cik|profile
        """,
    ),
    (
        "exchange*:s, limit:i",
        """
        find_exchange_listings company-screener|profile
        """,
    ),
    (
        (
            "market_cap_more_than:n, market_cap_lower_than:n, price_more_than:n, price_lower_than:n, "
            "beta_more_than:n, beta_lower_than:n, volume_more_than:i, volume_lower_than:i, dividend_more_than:n, "
            "dividend_lower_than:n, is_etf:b, is_fund:b, is_actively_trading:b, sector:s, industry:s, country:s, "
            "exchange:s, limit:i"
        ),
        """
        screen_stocks company-screener|profile
        """,
    ),
    (
        "cik*:s, limit:i",
        """
        search_by_cik search-cik|profile
        """,
    ),
    (
        "cusip*:s",
        """
        search_by_cusip search-cusip|profile
        """,
    ),
    (
        "isin*:s",
        """
        search_by_isin search-isin|profile
        """,
    ),
    (
        "symbol*:s, year*:s, quarter*:s, limit:i",
        """
        get_earning_call_transcript earning-call-transcript
        """,
    ),
    (
        "limit:i, page:i",
        """
        get_latest_earning_transcripts earning-call-transcript-latest
        """,
    ),
    (
        "name*:s, from_date:s, to_date:s",
        """
        get_economic_indicators economic-indicators
        """,
    ),
    (
        "symbol*:s, year*:s, quarter*:s, cik:s",
        """
        get_fund_disclosure funds/disclosure
        """,
    ),
    (
        "symbol*:s, cik:s",
        """
        get_fund_disclosure_dates funds/disclosure-dates
        """,
    ),
    (
        "exchange*:s",
        """
        get_exchange_market_hours exchange-market-hours|all-exchange-market-hours
        """,
    ),
    (
        "exchange*:s, from_date:s, to_date:s",
        """
        get_holidays_by_exchange holidays-by-exchange
        """,
    ),
    (
        "exchange*:s, short:b, limit:i",
        """
        get_exchange_stock_quotes batch-exchange-quote|quote
        """,
    ),
    (
        "invalid:b, limit:i",
        """
        get_recent_symbol_changes symbol-change
        """,
    ),
)

#: Tool -> its arguments and endpoints.
TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    tool: (line, tuple(endpoints.split("|")))
    for line, table in GROUPS
    for tool, endpoints in (entry.split() for entry in table.strip().splitlines())
}
