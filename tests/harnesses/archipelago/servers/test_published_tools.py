"""The tools of every app, in both modes, are those that are published: names, envelopes, arguments, required flags,
actions. The published table is held here as data; nothing of it is made from our declarations.

A line is `name | envelope | arguments | arguments beside the envelope`; `*` after a name: required. Nested types are
finer in our schemas than in the published ones, so only their existence is compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from envkit.harnesses.archipelago.servers import catalog

INDIVIDUAL = {
    "filesystem": """
        list_files | | path
        read_image_file | | file_path*
        read_text_file | | file_path* encoding max_size
        search_files | | pattern* path recursive max_results
        get_file_metadata | | file_path*
        get_directory_tree | | path max_depth include_files show_size
    """,
    "code": """
        code_exec | request | code*
    """,
    "calendar": """
        list_events | request | limit offset
        read_event | request | event_id*
        create_event | request | summary* description start* end* location attendees colorId reminders recurrence
        update_event | request | event_id* summary description start end location attendees colorId reminders recurrence
        delete_event | request | event_id*
    """,
    "chat": """
        list_channels | request | limit page
        get_channel_history | request | channel_id* limit page
        get_thread_replies | request | channel_id* post_id*
        get_user_profile | request | user_id*
        get_users | request | limit page
        post_message | request | channel_id* message*
        reply_to_thread | request | channel_id* post_id* message*
        add_reaction | request | channel_id* post_id* emoji_name*
        delete_post | request | channel_id* post_id*
    """,
    "mail": """
        list_mails | | limit offset
        read_mail | | mail_id*
        search_mail | input | from_email to_email subject after_date before_date thread_id limit
        send_mail | input | from_email* to_email* subject* body* cc bcc attachments body_format thread_id in_reply_to \
            references
        reply_mail | input | original_mail_id* body* attachments body_format
        reply_all_mail | input | original_mail_id* body* attachments body_format
        forward_mail | input | original_mail_id* to_email* body cc bcc attachments body_format
    """,
    "pdf": """
        create_pdf | input | directory* file_name* content* metadata page_size
        read_pdf_pages | input | file_path* pages
        read_image | | file_path* annotation*
        read_page_as_image | | file_path* page_number*
        search_pdf | | file_path* query* case_sensitive whole_word max_results context_chars
    """,
    "docs": """
        create_document | input | directory* file_name* content* metadata
        delete_document | | file_path*
        get_document_overview | | file_path*
        read_document_content | input | file_path* page_index
        read_image | | file_path* annotation*
        add_content_text | | file_path* identifier* text* position
        edit_content_text | | file_path* identifier* new_text*
        delete_content_text | | file_path* identifier* scope collapse_whitespace
        add_image | input | file_path* image_path* identifier* position width height
        modify_image | input | file_path* image_index* operation* rotation flip brightness contrast
        apply_formatting | input | file_path* identifier* bold italic underline strikethrough font_size font_color
        header_footer | input | file_path* action* area* section_index content link_to_previous
        page_margins | input | file_path* action* section_index top bottom left right
        page_orientation | input | file_path* action* section_index orientation
        comments | input | file_path* action* identifier text author comment_id
    """,
    "sheets": """
        create_spreadsheet | input | directory* file_name* sheets*
        delete_spreadsheet | | file_path*
        read_tab | input | file_path* tab_index* cell_range include_formulas max_rows max_cols compact
        read_csv | input | file_path* delimiter encoding has_header row_limit compact
        list_tabs_in_spreadsheet | | file_path*
        add_tab | input | file_path* tab_name* sheet_data
        delete_tab | | file_path* tab_index*
        edit_spreadsheet | input | file_path* operations*
        add_content_text | | file_path* tab_index* cell* value*
        delete_content_cell | | file_path* tab_index* cell*
        create_chart | input | file_path* sheet* data_range* chart_type title position categories_column include_header
        filter_tab | input | file_path* tab_index* filters* cell_range match_all use_headers include_diagnostics compact
    """,
    "slides": """
        create_deck | request | directory* file_name* slides* metadata
        delete_deck | request | file_path*
        add_slide | request | file_path* index* layout title subtitle bullets
        edit_slides | request | file_path* operations* metadata
        add_image | request | file_path* image_path* slide_index* x y width height
        modify_image | request | file_path* slide_index* image_index* operation* rotation flip brightness contrast \
            crop_left crop_top crop_right crop_bottom
        insert_chart | request | presentation_path* slide_index* spreadsheet_path* sheet_name* data_range* chart_type \
            title position include_header
        insert_table | request | file_path* slide_index* rows* header x y width height
        add_shape | request | file_path* slide_index* shape_type* x y width height fill_color line_color line_width \
            text text_color font_size
        read_slides | request | file_path* start end
        read_completedeck | request | file_path*
        read_individualslide | request | file_path* slide_index*
        read_image | request | file_path* annotation*
    """,
    "edgar": """
        get_company_submissions | request | cik ticker name limit page form_types summary_only
        get_company_facts | request | cik ticker name limit_concepts
        get_company_concept | request | cik ticker name taxonomy* tag*
        get_frames | request | taxonomy* tag* unit* period* min_value sort_descending max_results | page_number limit
        lookup_cik | request | ticker name
        health_check | |
        list_filing_documents | request | cik ticker name filing_accession* | page_number limit
        get_filing_document | request | cik ticker name filing_accession* document
        get_debt_schedule | request | cik ticker name filing_accession*
        get_equity_compensation | request | cik ticker name filing_accession*
        extract_html_table | request | cik ticker name filing_accession* table_keyword*
        server_info | | input
    """,
}

#: FMP's tools by their arguments; every one has the envelope `request`.
FMP = {
    "symbol*": """get_grades_consensus get_price_target_consensus get_price_target_summary get_ratings_snapshot
        get_stock_grades get_company_notes get_company_profile get_executive_compensation get_market_cap
        get_shares_float get_stock_peers get_dcf_valuation get_levered_dcf_valuation get_transcript_dates_by_symbol
        get_etf_asset_exposure get_etf_country_weightings get_etf_info get_etf_sector_weightings
        get_financial_reports_dates get_financial_scores get_key_metrics_ttm get_ratios_ttm get_aftermarket_quote
        get_aftermarket_trade get_stock_price_change get_stock_quote get_stock_quote_short""",
    "limit": """get_commodities_list get_cryptocurrency_list get_forex_currency_pairs get_index_list
        get_sp500_constituents get_all_exchange_market_hours get_biggest_gainers get_biggest_losers get_most_actives
        get_actively_trading_stocks get_all_countries get_all_etfs get_all_industries get_all_sectors
        get_all_stock_symbols get_companies_with_transcripts get_stocks_with_financials""",
    "symbol* period* limit": """get_balance_sheet get_balance_sheet_as_reported get_balance_sheet_growth
        get_cash_flow_as_reported get_cash_flow_growth get_cash_flow_statement get_enterprise_values
        get_financial_growth get_financial_ratios get_full_financials_as_reported get_income_as_reported
        get_income_growth get_income_statement get_key_metrics get_revenue_by_geography get_revenue_by_product""",
    "symbol* limit": """get_grade_news get_grades_historical get_price_target_news get_ratings_historical
        get_employee_count get_historical_employee_count get_company_dividends get_company_earnings get_stock_splits
        get_etf_holdings get_fund_disclosure_holders_latest get_balance_sheet_ttm get_cash_flow_ttm
        get_income_statement_ttm get_owner_earnings""",
    "page limit": """get_grade_latest_news get_price_target_latest_news get_all_shares_float get_delisted_companies
        get_latest_mergers_acquisitions get_house_disclosure get_senate_disclosure get_latest_financials
        get_fmp_articles get_8k_filings get_institutional_ownership get_cik_database""",
    "symbol* periodLength* timeframe* from_date to_date": """get_adx get_dema get_ema get_rsi get_sma
        get_standard_deviation get_tema get_williams get_wma""",
    "": """get_market_risk_premium get_dowjones_constituents get_historical_dowjones get_historical_nasdaq
        get_historical_sp500 get_nasdaq_constituents get_supported_exchanges""",
    "symbol* from_date to_date nonadjusted": """get_intraday_15min get_intraday_1hour get_intraday_1min
        get_intraday_30min get_intraday_4hour get_intraday_5min""",
    "short limit symbols": """get_all_commodity_quotes get_all_crypto_quotes get_all_etf_quotes get_all_forex_quotes
        get_all_index_quotes get_all_mutualfund_quotes""",
    "from_date to_date limit": """get_dividends_calendar get_earnings_calendar get_ipos_calendar get_splits_calendar
        get_economic_calendar""",
    "from_date to_date page limit": """get_crypto_news_latest get_forex_news_latest get_general_news_latest
        get_press_releases_latest get_stock_news_latest""",
    "symbol* from_date to_date limit": """get_historical_price_dividend_adjusted get_historical_price_full
        get_historical_price_light get_historical_price_unadjusted""",
    "symbols* from_date to_date page limit": """search_crypto_news_by_symbol search_forex_news_by_symbol
        search_press_releases_by_symbol search_stock_news_by_symbol""",
    "from_date to_date": "get_ipos_disclosure get_ipos_prospectus get_treasury_rates",
    "symbols* limit": "get_batch_aftermarket_quotes get_batch_stock_quotes get_batch_stock_quotes_short",
    "symbols*": "get_batch_market_cap get_batch_aftermarket_trades",
    "name*": "search_ma search_fund_disclosure_by_name",
    "query* limit exchange": "search_by_company_name search_by_symbol",
    "symbol* page limit": "get_house_trades get_senate_trades",
    "symbol* revenue_growth_pct ebitda_pct tax_rate long_term_growth_rate cost_of_debt cost_of_equity beta "
    "risk_free_rate": "get_custom_dcf_valuation get_custom_levered_dcf_valuation",
    "symbol* year* period*": "get_financial_report_json get_financial_report_xlsx",
    "industry* exchange from_date to_date": "get_historical_industry_pe get_historical_industry_performance",
    "sector* exchange from_date to_date": "get_historical_sector_pe get_historical_sector_performance",
    "date* exchange industry": "get_industry_pe_snapshot get_industry_performance_snapshot",
    "date* exchange sector": "get_sector_pe_snapshot get_sector_performance_snapshot",
    "symbol* period limit from_date to_date page": "get_analyst_estimates",
    "symbol* active": "get_company_executives",
    "year": "get_executive_comp_benchmark",
    "symbol* limit from_date to_date": "get_historical_market_cap",
    "cik*": "get_profile_by_cik",
    "exchange* limit": "find_exchange_listings",
    "market_cap_more_than market_cap_lower_than price_more_than price_lower_than beta_more_than beta_lower_than "
    "volume_more_than volume_lower_than dividend_more_than dividend_lower_than is_etf is_fund is_actively_trading "
    "sector industry country exchange limit": "screen_stocks",
    "cik* limit": "search_by_cik",
    "cusip*": "search_by_cusip",
    "isin*": "search_by_isin",
    "symbol* year* quarter* limit": "get_earning_call_transcript",
    "limit page": "get_latest_earning_transcripts",
    "name* from_date to_date": "get_economic_indicators",
    "symbol* year* quarter* cik": "get_fund_disclosure",
    "symbol* cik": "get_fund_disclosure_dates",
    "exchange*": "get_exchange_market_hours",
    "exchange* from_date to_date": "get_holidays_by_exchange",
    "exchange* short limit": "get_exchange_stock_quotes",
    "invalid limit": "get_recent_symbol_changes",
}

#: App -> meta tool -> actions, fields of the request besides `action`.
META = {
    "calendar": {
        "calendar": (
            "help create read update delete list",
            """event_id summary description location start_date start_datetime end_date end_datetime timezone attendees
            page limit""",
        )
    },
    "chat": {
        "chat": (
            "help list_channels get_history post reply react get_replies list_users get_profile delete",
            "channel_id post_id message emoji user_id page limit",
        )
    },
    "mail": {
        "mail": (
            "help send read list search reply reply_all forward",
            """mail_id from_email to_email subject body cc bcc attachments body_format thread_id in_reply_to references
            page limit offset search_from search_to search_subject after_date before_date search_thread_id""",
        )
    },
    "pdf": {
        "pdf": (
            "help create read_pages read_image page_as_image search",
            """file_path directory file_name content metadata page_size pages page_number annotation query
            case_sensitive whole_word max_results context_chars""",
        )
    },
    "docs": {
        "docs": (
            """help create delete overview read_content read_image add_text edit_text delete_text add_image modify_image
            format header_footer page_margins page_orientation comments""",
            """file_path directory file_name content metadata identifier text new_text position scope
            collapse_whitespace page_index section_index annotation image_path image_index operation rotation flip
            brightness contrast width height bold italic underline strikethrough font_size font_color hf_action area
            link_to_previous pm_action margin_top margin_bottom margin_left margin_right po_action orientation
            comments_action comment_text comment_author comment_id""",
        )
    },
    "sheets": {
        "sheets": (
            """help create delete read_tab read_csv list_tabs add_tab delete_tab edit add_content delete_content
            create_chart filter_tab""",
            """file_path directory file_name tab_index tab_name cell_range include_formulas max_rows max_cols compact
            include_diagnostics sheets sheet_data operations cell value sheet data_range chart_type title position
            categories_column include_header delimiter encoding has_header row_limit filters match_all use_headers""",
        )
    },
    "slides": {
        "slides": (
            """create delete add_slide edit add_image modify_image insert_chart insert_table add_shape read_range
            read_deck read_slide read_image""",
            """file_path directory file_name slides metadata input_data operations image_path slide_index x y width
            height image_index operation rotation flip brightness contrast crop_left crop_top crop_right crop_bottom
            spreadsheet_path sheet_name data_range chart_type title position include_header rows header shape_type
            fill_color line_color line_width text text_color font_size start end annotation""",
        )
    },
    "edgar": {
        "edgar_filings": (
            "help submissions facts concept frames",
            """cik ticker name limit page form_types summary_only limit_concepts taxonomy tag unit period min_value
            sort_descending max_results""",
        ),
        "edgar_analysis": (
            "help debt_schedule equity_compensation html_table",
            "cik ticker name filing_accession table_keyword",
        ),
        "edgar_documents": ("help list get_text", "cik ticker name filing_accession document"),
        "edgar_lookup": ("help cik health", "ticker name"),
    },
    "fmp": {
        "fmp_analyst": (
            """help estimates ratings_snapshot ratings_historical price_target_summary price_target_consensus
            price_target_news price_target_latest grades grades_historical grades_consensus grade_news grade_latest""",
            "symbol period limit page from_date to_date",
        ),
        "fmp_prices": (
            """help quote quote_short price_change aftermarket_quote aftermarket_trade batch_quotes batch_quotes_short
            batch_aftermarket_trades batch_aftermarket_quotes exchange_quotes historical_light historical_full
            historical_unadjusted historical_dividend_adjusted intraday_1min intraday_5min intraday_15min
            intraday_30min intraday_1hour intraday_4hour""",
            "symbol symbols exchange from_date to_date limit short",
        ),
        "fmp_company": (
            """help profile notes executives peers executive_compensation compensation_benchmark share_float
            employee_count grades revenue_geography revenue_product search_symbol search_name search_cik search_cusip
            search_isin screener list_exchange list_symbols list_tradeable list_etf list_sp500 list_nasdaq list_dow
            list_index list_delisted list_cik list_statement_symbols""",
            "symbol query exchange sector industry country market_cap_min market_cap_max limit year",
        ),
        "fmp_financials": (
            """help income_statement balance_sheet cash_flow income_growth balance_growth cash_flow_growth
            financial_growth key_metrics key_metrics_ttm ratios ratios_ttm financial_score owner_earnings
            enterprise_value dcf levered_dcf dividend_historical dividend_calendar splits_historical splits_calendar
            earnings_calendar earnings_historical transcript transcript_dates""",
            "symbol symbols period limit year quarter from_date to_date",
        ),
        "fmp_market": (
            """help gainers losers most_active sector_performance sector_historical industry_performance
            industry_historical market_hours exchange_hours exchange_holidays index_list sp500_constituents
            nasdaq_constituents dow_constituents treasury_rates economic_indicators economic_calendar
            market_risk_premium""",
            "sector industry symbol indicator date from_date to_date exchange limit",
        ),
        "fmp_assets": (
            """help etf_list etf_profile etf_holdings etf_sector_weightings etf_country_weightings etf_exposure
            mutual_fund_search fund_disclosure crypto_list commodity_list forex_list all_etf_quotes
            all_mutualfund_quotes all_commodity_quotes all_crypto_quotes all_forex_quotes all_index_quotes
            ipo_calendar""",
            "symbol query symbols limit short from_date to_date year quarter",
        ),
        "fmp_news": (
            "help stock_news forex_news crypto_news general_news press_releases press_releases_by_symbol",
            "symbol symbols page limit from_date to_date",
        ),
        "fmp_government": (
            "help house_disclosure senate_disclosure house_trades senate_trades institutional_ownership filings_8k",
            "symbol page limit",
        ),
        "fmp_technical": ("help sma ema wma dema tema williams rsi adx standard_deviation", "symbol period interval"),
    },
}
#: App -> further tools of meta mode, with the arguments inside their envelope (or, without one, their own).
COMPANIONS = {
    **{app: {f"{app}_schema": ("request", "model")} for app in ("calendar", "chat", "mail", "pdf", "docs", "sheets")},
    "slides": {"slides_schema": ("request", "schema_name")},
    "edgar": {"edgar_schema": ("request", "tool_name"), "server_info": ("", "input")},
    "fmp": {"fmp_schema": ("request", "tool_name")},
}
#: App -> tool -> optional arguments of ours that the published tool has not.
ADDED = {"pdf": {"read_pdf_pages": ("layout",), "pdf": ("layout",)}}
SERVERS = {
    "filesystem": "filesystem_server", "code": "code_execution_server", "calendar": "calendar_server",
    "chat": "chat_server", "mail": "mail_server", "pdf": "pdf_server", "docs": "docs_server",
    "sheets": "sheets_server", "slides": "slides_server", "edgar": "edgar_sec", "fmp": "fmp_server",
}  # fmt: skip

Shape = tuple[str, dict[str, bool], dict[str, bool]]


def individual(app: str) -> dict[str, Shape]:
    """Tool -> envelope, its arguments, those beside it; argument -> whether it is required."""
    if app == "fmp":
        return {tool: ("request", _flags(line), {}) for line, tools in FMP.items() for tool in tools.split()}
    out: dict[str, Shape] = {}
    for line in INDIVIDUAL[app].replace("\\\n", " ").strip().splitlines():
        name, envelope, inner, *beside = (part.strip() for part in line.split("|"))
        out[name] = (envelope, _flags(inner), _flags(beside[0] if beside else ""))
    return out


def _flags(words: str) -> dict[str, bool]:
    return {word.rstrip("*"): word.endswith("*") for word in words.split()}


def shape_of(schema: dict[str, Any]) -> Shape:
    """The same of a schema that we give to clients."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    for envelope in ("request", "input"):
        inner = properties.get(envelope)
        # server_info has an argument called input that is no envelope: it is not required.
        if inner is not None and envelope in required and inner.get("type") == "object":
            beside = {name: name in required for name in properties if name != envelope}
            fields = inner.get("properties", {})
            return envelope, {name: name in inner.get("required", []) for name in fields}, beside
    return "", {name: name in required for name in properties}, {}


@pytest.fixture(params=catalog.APPS)
def app(request: pytest.FixtureRequest) -> Any:
    try:
        return catalog.load_app(request.param)
    except ModuleNotFoundError as error:
        pytest.fail(f"there is no app {request.param}: {error}")


def test_servers_have_their_published_names(app: Any) -> None:
    assert app.server == SERVERS[app.name]


def test_individual_mode(app: Any) -> None:
    found = {e.name: shape_of(e.input_schema) for e in catalog.build(app, "individual")}
    wanted = individual(app.name)
    assert sorted(found) == sorted(wanted)
    added = ADDED.get(app.name, {})
    different = {}
    for name, (envelope, inner, beside) in found.items():
        kept = {field: required for field, required in inner.items() if field not in added.get(name, ())}
        if (envelope, kept, beside) != wanted[name]:
            different[name] = ((envelope, kept, beside), wanted[name])
    assert different == {}


def test_meta_mode(app: Any) -> None:
    entries = {e.name: e for e in catalog.build(app, "meta")}
    if app.name not in META:  # filesystem and code have the same tools in both modes
        assert {n: shape_of(e.input_schema) for n, e in entries.items()} == individual(app.name)
        return
    assert sorted(entries) == sorted([*META[app.name], *COMPANIONS[app.name]])
    for name, (actions, fields) in META[app.name].items():
        properties = entries[name].input_schema["properties"]["request"]["properties"]
        assert sorted(properties["action"]["enum"]) == sorted(actions.split()), name
        added = ADDED.get(app.name, {}).get(name, ())
        assert sorted(set(properties) - set(added)) == sorted(["action", *fields.split()]), name
        envelope, flags, beside = shape_of(entries[name].input_schema)
        assert (envelope, beside) == ("request", {})
        assert [field for field, required in flags.items() if required] == ["action"], name
        meta = next(meta for meta in app.metas if meta.name == name)
        assert [*(["help"] if meta.has_help else []), *meta.actions] == actions.split(), "in the published order"
    for name, (envelope, argument) in COMPANIONS[app.name].items():
        found = shape_of(entries[name].input_schema)
        assert (found[0], list(found[1])) == (envelope, [argument]), name


def test_every_action_leads_to_a_tool_and_its_arguments(app: Any) -> None:
    """What the table of a meta tool says exists: fields in its request, arguments in the tool."""
    tools = {tool.name: tool for tool in app.tools}
    for meta in app.metas:
        request = {f.alias or name for name, f in meta.request.model_fields.items()}
        for action, entry in meta.actions.items():
            arguments = {f.alias or name for name, f in tools[entry.tool].arguments.model_fields.items()}
            assert set(entry.fields) <= request, (meta.name, action)
            if entry.build is None:
                assert set(entry.fields.values()) <= arguments, (meta.name, action)
                model = tools[entry.tool].arguments
                required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
                assert required <= set(entry.fields.values()), f"{meta.name} {action} can never be carried out"


def _objects(schema: Any, path: str = "") -> list[str]:
    """Places where a schema says `object` or `array` and no more."""
    found: list[str] = []
    if isinstance(schema, dict):
        bare = schema.get("type") == "object" and "properties" not in schema and "additionalProperties" not in schema
        if (bare and path) or (schema.get("type") == "array" and not schema.get("items")):
            found.append(path)
        for key, value in schema.items():
            found += _objects(value, f"{path}.{key}")
    elif isinstance(schema, list):
        for number, item in enumerate(schema):
            found += _objects(item, f"{path}[{number}]")
    return found


#: Published as free-form.
FREE = {("server_info", ".properties.input")}


@pytest.mark.parametrize("mode", ["meta", "individual"])
def test_nested_types_are_written_out(app: Any, mode: Any) -> None:
    for entry in catalog.build(app, mode):
        bare = [place for place in _objects(entry.input_schema) if (entry.name, place) not in FREE]
        assert bare == [], entry.name


def test_a_standard_run_has_its_21_tools() -> None:
    found = catalog.published(catalog.STANDARD, "meta")
    files = "get_directory_tree get_file_metadata list_files read_image_file read_text_file search_files"
    names = [f"filesystem_server_{name}" for name in files.split()] + ["code_execution_server_code_exec"]
    for app in ("calendar", "chat", "mail", "pdf", "docs", "sheets", "slides"):
        names += [f"{app}_server_{app}", f"{app}_server_{app}_schema"]
    assert sorted(found) == sorted(names)
    assert len(names) == 21
