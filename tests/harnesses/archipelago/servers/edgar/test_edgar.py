"""Every tool of edgar over two invented companies, by itself and through the meta tools."""

from __future__ import annotations

import json

import pytest

from envkit.harnesses.archipelago.servers.edgar import APP, spec

ACCESSION = "0000000111-24-000009"
#: Tool -> arguments that succeed.
CALLS = {
    "get_company_submissions": {"ticker": "brlo"},
    "get_company_facts": {"cik": "111"},
    "get_company_concept": {"name": "birlow", "taxonomy": "us-gaap", "tag": "Revenues"},
    "get_frames": {"taxonomy": "us-gaap", "tag": "Revenues", "unit": "USD", "period": "CY2024"},
    "lookup_cik": {"ticker": "BRLO"},
    "health_check": {},
    "list_filing_documents": {"ticker": "BRLO", "filing_accession": ACCESSION},
    "get_filing_document": {"ticker": "BRLO", "filing_accession": ACCESSION},
    "get_debt_schedule": {"ticker": "BRLO", "filing_accession": ACCESSION},
    "get_equity_compensation": {"ticker": "BRLO", "filing_accession": ACCESSION},
    "extract_html_table": {"ticker": "BRLO", "filing_accession": ACCESSION, "table_keyword": "segment"},
    "server_info": {},
}


def test_every_tool_succeeds(call, data) -> None:
    assert set(CALLS) == {tool.name for tool in APP.tools}
    for name, arguments in CALLS.items():
        answer = call(name, **arguments)
        assert isinstance(answer, dict), (name, answer)
        assert "null" not in json.dumps(answer), name


def test_every_action_gives_what_its_tool_gives(call, data) -> None:
    for meta, (_, actions) in spec.METAS.items():
        for action, tool in actions.items():
            answer = call(meta, action=action, **CALLS[tool])
            assert answer["action"] == action
            assert answer[action] == {"success": True, **call(tool, **CALLS[tool])}


def test_filings_come_newest_first_by_form_and_page(call, data) -> None:
    answer = call("get_company_submissions", ticker="BRLO", limit=2)
    assert [f["form"] for f in answer["filings"]] == ["10-Q", "10-K"]
    assert answer["pagination"]["total_pages"] == 2
    assert answer["pagination"]["has_next"]
    assert answer["form_type_summary"][0] == {
        "form_type": "10-K", "count": 2, "earliest_date": "2024-02-03", "latest_date": "2025-02-01",
    }  # fmt: skip
    assert [f["form"] for f in call("get_company_submissions", ticker="BRLO", form_types=["10-q"])["filings"]] == [
        "10-Q"
    ]
    assert call("get_company_submissions", ticker="BRLO", summary_only=True)["filings"] == []
    assert "no page 3" in call("get_company_submissions", ticker="BRLO", limit=2, page=3)


def test_facts_concepts_and_frames(call, data) -> None:
    values = call("get_company_concept", cik="0000000111", taxonomy="us-gaap", tag="revenues")["data"]["units"]["USD"]
    assert [v["val"] for v in values] == [800.0, 900.0]
    frame = call("get_frames", **CALLS["get_frames"], sort_descending=True)["data"]
    assert [(r["entityName"], r["val"]) for r in frame["data"]] == [
        ("Cinder Works Corp", 1200.0), ("Birlow Tools Inc.", 900.0),
    ], "by its dates too, where a value has no frame"  # fmt: skip
    assert call("get_frames", **CALLS["get_frames"], min_value=1000)["data"]["pts"] == 1
    assert len(call("get_frames", **CALLS["get_frames"], max_results=1)["data"]["data"]) == 1
    two = call("get_frames", request=CALLS["get_frames"], page_number=2, limit=1)
    assert [r["cik"] for r in two["data"]["data"]] == [222], "arguments beside the envelope"
    instant = {"taxonomy": "us-gaap", "tag": "LongTermDebtNoncurrent", "unit": "USD", "period": "CY2023Q4I"}
    assert [r["val"] for r in call("get_frames", **instant)["data"]["data"]] == [44.0]


def test_what_one_filing_reports(call, data) -> None:
    debt = call("get_debt_schedule", **CALLS["get_debt_schedule"])
    assert debt["total_noncurrent_debt"] == 55.0, "of the filing's own period"
    assert "total_current_debt" not in debt, "what is not reported is left out, not zero"
    assert (
        call("get_equity_compensation", **CALLS["get_debt_schedule"])["stock_options"]["outstanding"]["value"] == 12.0
    )
    assert "reports no debt" in call("get_debt_schedule", ticker="BRLO", filing_accession="0000000111-24-000020")


def test_documents_and_tables(call, data) -> None:
    listed = call("list_filing_documents", **CALLS["list_filing_documents"])
    assert [d["filename"] for d in listed["documents"]] == ["main.htm", "ex21.txt"]
    text = call("get_filing_document", **CALLS["get_filing_document"])["text"]
    assert text.startswith("Part I\n")
    assert "Sales of tools rose." in text
    assert "Hammers\t600" in text
    assert "p{}" not in text
    plain = call("get_filing_document", ticker="BRLO", filing_accession=ACCESSION, document="ex21.txt")["text"]
    assert plain == "Subsidiaries:\n  Birlow GmbH\n"
    tables = call("extract_html_table", **CALLS["extract_html_table"])["tables"]
    assert tables == [{"caption": "Segment results", "rows": [["Segment", "Sales"], ["Hammers", "600"]]}]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("lookup_cik", {}, "one of cik, ticker, name"),
        ("lookup_cik", {"ticker": "BRLOO"}, "did you mean 'BRLO'"),
        ("lookup_cik", {"name": "cinder"}, "Cinder Bank (CNDB, CIK 0000000333)"),
        ("get_company_facts", {"cik": "12x"}, "up to 10 digits"),
        ("get_company_facts", {"ticker": "CNDB"}, "hold those of BRLO, CNDR"),
        ("get_company_concept", {"ticker": "BRLO", "taxonomy": "us-gaap", "tag": "Revenue"}, "did you mean 'Revenues'"),
        ("get_company_concept", {"ticker": "BRLO", "taxonomy": "gaap", "tag": "x"}, "there are us-gaap, dei"),
        ("get_company_concept", {"ticker": "BRLO", "taxonomy": "us-gaap"}, "`tag` is required"),
        (
            "list_filing_documents",
            {"ticker": "BRLO", "filing_accession": "1-2-3"},
            "its newest are 0000000111-24-000020",
        ),
        ("get_filing_document", {"ticker": "BRLO", "filing_accession": ACCESSION, "document": "../x"}, "main.htm"),
    ],
)
def test_user_errors_say_what_there_is(call, data, tool, arguments, said) -> None:
    assert said in call(tool, **arguments)


def test_a_frame_nobody_reported_is_said(call, data) -> None:
    answer = call("get_frames", **{**CALLS["get_frames"], "period": "CY1999"})
    assert answer["data"]["data"] == []
    assert "no company" in answer["message"]


def test_broken_data_are_told(call, data) -> None:
    (data / "companyfacts/CIK0000000111.json").write_text('{"facts": ')
    assert "corrupt" in call("get_company_facts", ticker="BRLO")
    (data / "company_tickers.json").write_text("[1]")
    assert "not this format" in call("lookup_cik", ticker="BRLO")


@pytest.mark.parametrize("content", ['{"filings": [1]}', '{"filings": {"recent": {"accessionNumber": 3}}}'])
def test_data_of_another_shape_are_corrupt(call, data, content) -> None:
    (data / "submissions/CIK0000000111.json").write_text(content)
    assert "corrupt" in call("get_company_submissions", ticker="BRLO")


def test_a_world_without_data(call, tmp_path) -> None:
    assert call("health_check")["status"] == "unavailable"
    assert "no EDGAR data" in call("lookup_cik", ticker="X")


def test_links_that_lead_out_of_the_data_are_not_followed(call, data, tmp_path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"entityName": "secret", "facts": {}}')
    (data / "companyfacts/CIK0000000333.json").symlink_to(secret)
    (data / f"filings/{ACCESSION}/link.txt").symlink_to(secret)
    assert "secret" not in json.dumps(call("get_company_facts", ticker="CNDB"))
    assert "link.txt" not in json.dumps(call("list_filing_documents", **CALLS["list_filing_documents"]))


async def test_behind_the_real_server(start_tools, tmp_path) -> None:
    import importlib.util
    from pathlib import Path

    spec_of = importlib.util.spec_from_file_location("edgar_fixtures", Path(__file__).with_name("conftest.py"))
    assert spec_of is not None
    assert spec_of.loader is not None
    fixtures = importlib.util.module_from_spec(spec_of)
    spec_of.loader.exec_module(fixtures)
    tools = await start_tools(("edgar",))
    fixtures.write(tools.apps_data / "edgar")
    assert "server_info" in tools.listed
    answer = await tools.call("edgar_lookup", {"action": "cik", "ticker": "BRLO"})
    assert answer.data["cik"]["exchange"] == "NYSE"
    schema = await tools.call("edgar_schema", {"tool_name": "edgar_filings"})
    assert "form_types" in schema.text
    helped = await tools.call("edgar_documents", {"action": "help"})
    assert "get_text" in helped.text
