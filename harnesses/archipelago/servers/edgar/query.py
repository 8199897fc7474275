"""The one handler of edgar: a tool's row says what is read and how the answer is shaped.

Values are given as they were reported; nothing is estimated. What an answer leaves out it says in `message`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.edgar import spec
from envkit.harnesses.archipelago.servers.edgar.data import Company, EdgarData
from envkit.harnesses.archipelago.servers.edgar.documents import document_text, tables_with
from envkit.harnesses.archipelago.servers.tabled import TabledArguments
from envkit.office.problem import Problem, Unreadable

__all__ = ["Answer", "query"]

#: Values of one concept in an overview of all.
_NEWEST = 20
_PAGE = 100


class Answer(BaseModel):
    """What a tool returns: an object whose fields depend on the tool."""

    model_config = ConfigDict(extra="allow")


def query(arguments: TabledArguments, context: Context) -> Answer:
    """Carries out any tool of the table."""
    row: spec.Row = arguments.row
    given = arguments.model_dump(exclude_none=True)
    try:
        return Answer(**_VIEWS[row.view](EdgarData(context), given))
    except (AttributeError, TypeError, KeyError) as error:
        # Files of a world are anybody's: an object where the SEC has a list is a broken file, not a fault of ours.
        raise Unreadable(Problem.CORRUPT, f"it is not in the shape that the SEC publishes: {error}") from error


def _company(data: EdgarData, given: dict[str, Any]) -> Company:
    return data.company(given.get("cik"), given.get("ticker"), given.get("name"))


# --- filings ---


def _filings_of(found: dict[str, Any]) -> list[dict[str, str]]:
    """The parallel lists of the file as one entry a filing, newest first."""
    recent = found.get("filings", {}).get("recent", {})
    names = {
        "accession_number": "accessionNumber", "form": "form", "filing_date": "filingDate",
        "report_date": "reportDate", "primary_document": "primaryDocument", "description": "primaryDocDescription",
    }  # fmt: skip
    count = len(recent.get("accessionNumber", []))
    out: list[dict[str, str]] = []
    for i in range(count):
        entry = {}
        for name, key in names.items():
            values = recent.get(key, [])
            value = str(values[i]) if i < len(values) and values[i] is not None else ""
            if value or name in ("accession_number", "form", "filing_date"):
                entry[name] = value
        out.append(entry)
    return sorted(out, key=lambda e: e["filing_date"], reverse=True)


def _page(items: list[Any], page: int, size: int) -> tuple[list[Any], dict[str, Any]]:
    pages = max(1, -(-len(items) // size))
    if page > pages:
        raise ToolError(f"there is no page {page}: the {len(items)} entries make {pages} pages of {size}")
    return items[(page - 1) * size : page * size], {
        "page": page, "page_size": size, "total_items": len(items), "total_pages": pages,
        "has_next": page < pages, "has_previous": page > 1,
    }  # fmt: skip


def _submissions(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company = _company(data, given)
    found = data.submissions(company)
    filings = _filings_of(found)
    forms = [f.strip().upper() for f in given.get("form_types", [])]
    if forms:
        filings = [f for f in filings if f["form"].upper() in forms]
    counts: dict[str, list[str]] = {}
    for filing in filings:
        counts.setdefault(filing["form"], []).append(filing["filing_date"])
    summary = [
        {"form_type": form, "count": len(dates), "earliest_date": min(dates), "latest_date": max(dates)}
        for form, dates in sorted(counts.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    out: dict[str, Any] = {
        "company_name": str(found.get("name") or company.name),
        "cik": company.cik,
        "sic": str(found.get("sic") or ""),
        "sic_description": str(found.get("sicDescription") or ""),
        "total_filings": len(filings),
        "form_type_summary": summary,
        "filings": [],
    }
    if forms:
        out["filter_applied"] = f"form_types: {', '.join(forms)}"
    if not given.get("summary_only"):
        size = min(given.get("limit") or 20, 50)
        out["filings"], out["pagination"] = _page(filings, max(given.get("page") or 1, 1), size)
    more = found.get("filings", {}).get("files") or []
    if more:
        out["message"] = f"older filings are in {len(more)} further files that these data don't hold"
    return out


def _filing(data: EdgarData, given: dict[str, Any]) -> tuple[Company, dict[str, str]]:
    company = _company(data, given)
    wanted = given["filing_accession"].strip()
    filings = _filings_of(data.submissions(company))
    flat = wanted.replace("-", "")
    found = next((f for f in filings if f["accession_number"].replace("-", "") == flat), None)
    if found is None:
        names = [f["accession_number"] for f in filings]
        raise ToolError(
            f"{company.name or company.cik} has no filing {wanted!r}{did_you_mean(wanted, names)}; its newest are "
            + ", ".join(f"{f['accession_number']} ({f['form']})" for f in filings[:5])
        )
    return company, found


def _documents(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company, filing = _filing(data, given)
    main = filing.get("primary_document", "")
    names = list(dict.fromkeys([*([main] if main else []), *data.documents(company, filing["accession_number"])]))
    entries = [
        {
            "filename": name,
            "description": filing.get("description", "main document") if name == main else "further document",
            "url": _url(company, filing, name),
        }
        for name in names
    ]
    shown, pages = _page(entries, max(given.get("page_number") or 1, 1), given.get("limit") or _PAGE)
    return {
        "filing_accession": filing["accession_number"], "primary_document": main, "documents": shown,
        "total_documents": len(entries), "data_source": "offline", "pagination": pages,
    }  # fmt: skip


def _url(company: Company, filing: dict[str, str], name: str) -> str:
    plain = filing["accession_number"].replace("-", "")
    return f"https://www.sec.gov/Archives/edgar/data/{company.cik.lstrip('0')}/{plain}/{name}"


def _document(data: EdgarData, given: dict[str, Any]) -> tuple[Company, dict[str, str], str, str]:
    """A document's company, filing, name and text (HTML or plain)."""
    company, filing = _filing(data, given)
    there = data.documents(company, filing["accession_number"])
    name = given.get("document") or filing.get("primary_document", "")
    path = there.get(name)
    if path is None:
        have = ", ".join(there) or "no documents, only what companies reported as data (facts, concept)"
        raise ToolError(
            f"document {name!r} of filing {filing['accession_number']} is not in the data"
            f"{did_you_mean(name, list(there))}; of this filing they hold {have}"
        )
    return company, filing, name, data.context.read(path).decode("utf-8", "replace")


def _text(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company, filing, name, content = _document(data, given)
    return {
        "filing_accession": filing["accession_number"], "filename": name, "text": document_text(content),
        "url": _url(company, filing, name), "data_source": "offline",
    }  # fmt: skip


def _tables(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    _, filing, name, content = _document(data, given)
    word = given["table_keyword"]
    found = tables_with(content, word)
    message = f"{len(found)} tables of {name} hold {word!r}"
    return {"filing_accession": filing["accession_number"], "tables": found, "confidence": "high", "message": message}


# --- facts ---


def _facts(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    found = data.facts(_company(data, given))
    most = min(given.get("limit_concepts") or 50, 100)
    shown: dict[str, Any] = {}
    left: list[str] = []
    for taxonomy, concepts in found.get("facts", {}).items():
        names = sorted(concepts)
        if len(names) > most:
            left.append(f"{len(names) - most} of {len(names)} concepts of {taxonomy}")
        shown[taxonomy] = {name: _shortened(concepts[name]) for name in names[:most]}
    content: dict[str, Any] = {"cik": found.get("cik"), "entityName": found.get("entityName", ""), "facts": shown}
    out: dict[str, Any] = {"data": content, "message": f"at most the {_NEWEST} newest values of each concept"}
    if left:
        out["message"] += f"; left out: {', '.join(left)} (get_company_concept has any one of them)"
    return out


def _shortened(concept: dict[str, Any]) -> dict[str, Any]:
    units = {u: sorted(v, key=_ends)[-_NEWEST:] for u, v in concept.get("units", {}).items()}
    return {"label": concept.get("label") or "", "units": units}


def _ends(fact: dict[str, Any]) -> tuple[str, str]:
    return str(fact.get("end", "")), str(fact.get("filed", ""))


def _concept(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    found = data.facts(_company(data, given))
    taxonomies = found.get("facts", {})
    taxonomy = next((t for t in taxonomies if t.casefold() == given["taxonomy"].casefold()), None)
    if taxonomy is None:
        raise ToolError(f"there is no taxonomy {given['taxonomy']!r} in the data; there are {', '.join(taxonomies)}")
    tag = next((t for t in taxonomies[taxonomy] if t.casefold() == given["tag"].casefold()), None)
    if tag is None:
        names = sorted(taxonomies[taxonomy])
        raise ToolError(
            f"{found.get('entityName', 'the company')} reports no {taxonomy} concept {given['tag']!r}"
            f"{did_you_mean(given['tag'], names)}; it reports {', '.join(names[:20])}" + (" ..." if names[20:] else "")
        )
    concept = taxonomies[taxonomy][tag]
    return {"data": {
        "cik": found.get("cik"), "taxonomy": taxonomy, "tag": tag, "label": concept.get("label") or tag,
        "description": concept.get("description") or "", "entityName": found.get("entityName", ""),
        "units": {unit: sorted(values, key=_ends) for unit, values in concept.get("units", {}).items()},
    }}  # fmt: skip


def _frames(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    taxonomy, tag, unit, period = (given[k] for k in ("taxonomy", "tag", "unit", "period"))
    period = period.strip().upper()
    rows: list[dict[str, Any]] = []
    label = tag
    for facts in data.every_facts():
        concept = facts.get("facts", {}).get(taxonomy, {}).get(tag)
        if concept is None:
            continue
        label = concept.get("label") or tag
        fitting = [f for f in concept.get("units", {}).get(unit, []) if period in (f.get("frame"), _frame(f))]
        if fitting:
            # Of several reports of one period the last counts, as in the SEC's own frames.
            fact = max(fitting, key=lambda f: (f.get("frame") == period, str(f.get("filed", ""))))
            rows.append({
                "accn": fact.get("accn"), "cik": facts.get("cik"), "entityName": facts.get("entityName"),
                "start": fact.get("start"), "end": fact.get("end"), "val": fact.get("val"),
            })  # fmt: skip
    found = len(rows)
    if given.get("min_value") is not None:
        rows = [r for r in rows if isinstance(r["val"], int | float) and r["val"] >= given["min_value"]]
    if given.get("sort_descending"):
        rows.sort(key=lambda r: r["val"] if isinstance(r["val"], int | float) else float("-inf"), reverse=True)
    kept = len(rows)
    if given.get("max_results") is not None:
        rows = rows[: max(given["max_results"], 0)]
    shown, pages = _page(rows, max(given.get("page_number") or 1, 1), given.get("limit") or _PAGE)
    content = {
        "taxonomy": taxonomy,
        "tag": tag,
        "ccp": period,
        "uom": unit,
        "label": label,
        "pts": len(rows),
        "data": shown,
    }
    message = f"{found} companies reported it"
    if kept < found:
        message += f", {kept} of them at least {given['min_value']:g}"
    if not found:
        message = (
            "no company of these data reported it; check taxonomy, tag, unit and period (CY2023, CY2023Q1, CY2023Q1I)"
        )
    return {"data": content, "message": message, "pagination": pages}


def _frame(fact: dict[str, Any]) -> str:
    """The frame that a value belongs to by its dates; "" where it fits none."""
    try:
        end = dt.date.fromisoformat(str(fact.get("end")))
        start = dt.date.fromisoformat(str(fact["start"])) if fact.get("start") else None
    except ValueError:
        return ""
    if start is None:
        return f"CY{end.year}Q{(end.month - 1) // 3 + 1}I"
    days = (end - start).days + 1
    middle = start + dt.timedelta(days=days // 2)
    if 335 <= days <= 395:
        return f"CY{middle.year}"
    return f"CY{middle.year}Q{(middle.month - 1) // 3 + 1}" if 60 <= days <= 120 else ""


def _reported(found: dict[str, Any], accession: str, concepts: tuple[spec.Concept, ...]) -> dict[str, dict[str, Any]]:
    """What one filing reports of concepts: for each, the value of the newest period."""
    tags = found.get("facts", {}).get("us-gaap", {})
    out: dict[str, dict[str, Any]] = {}
    flat = accession.replace("-", "")
    for name, candidates in concepts:
        for tag in candidates:
            values = [
                {**fact, "unit": unit}
                for unit, facts in tags.get(tag, {}).get("units", {}).items()
                for fact in facts
                if str(fact.get("accn", "")).replace("-", "") == flat
            ]
            if values:
                newest = max(values, key=_ends)
                out[name] = {
                    "value": newest.get("val"),
                    "unit": newest["unit"],
                    "end": newest.get("end"),
                    "concept": f"us-gaap:{tag}",
                }
                break
    return out


def _nothing(filing: dict[str, str], what: str) -> ToolError:
    return ToolError(
        f"filing {filing['accession_number']} ({filing['form']}) reports no {what} as data; its text may have it "
        "(get_filing_document, extract_html_table)"
    )


def _debt(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company, filing = _filing(data, given)
    found = _reported(data.facts(company), filing["accession_number"], spec.DEBT)
    if not found:
        raise _nothing(filing, "debt")
    return {
        "cik": company.cik, "filing_accession": filing["accession_number"],
        "report_date": filing.get("report_date", ""),
        "total_current_debt": found.get("total_current_debt", {}).get("value"),
        "total_noncurrent_debt": found.get("total_noncurrent_debt", {}).get("value"),
        "debt_instruments": [{"name": name, **value} for name, value in found.items()],
        "data_source": "xbrl_api", "confidence": "high",
    }  # fmt: skip


def _equity(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company, filing = _filing(data, given)
    facts = data.facts(company)
    parts = {name: _reported(facts, filing["accession_number"], concepts) for name, concepts in spec.EQUITY.items()}
    parts = {name: values for name, values in parts.items() if values}
    if not parts:
        raise _nothing(filing, "stock compensation")
    return {
        "cik": company.cik, "filing_accession": filing["accession_number"],
        "report_date": filing.get("report_date", ""), **parts, "data_source": "xbrl_api", "confidence": "high",
    }  # fmt: skip


# --- the rest ---


def _cik(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    company = _company(data, given)
    out = {"cik": company.cik, "name": company.name, "ticker": company.ticker}
    try:
        exchanges = data.submissions(company).get("exchanges") or []
    except ToolError:
        exchanges = []
    return {**out, "exchange": str(exchanges[0])} if exchanges and exchanges[0] else out


def _health(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    if not data.there:
        return {"status": "unavailable", "mode": "offline", "message": "there are no EDGAR data in this world"}
    count = len({c.cik for c in data.companies()})
    message = f"data of {count} companies"
    return {"status": "healthy", "mode": "offline", "companies_available": count, "message": message}


def _info(data: EdgarData, given: dict[str, Any]) -> dict[str, Any]:
    tools = [{"name": meta, "actions": list(actions)} for meta, (_, actions) in spec.METAS.items()]
    return {
        "name": "edgar_sec", "version": "1", "status": "running",
        "description": "SEC EDGAR filings and reported values, from data of this world",
        "features": {"authentication": False, "persistence": "none"},
        "tool_categories": [{"name": "edgar", "tools": tools}],
    }  # fmt: skip


_VIEWS: dict[str, Callable[[EdgarData, dict[str, Any]], dict[str, Any]]] = {
    "filings": _submissions, "facts": _facts, "concept": _concept, "frames": _frames, "cik": _cik,
    "documents": _documents, "text": _text, "tables": _tables, "debt": _debt, "equity": _equity, "health": _health,
    "info": _info,
}  # fmt: skip
