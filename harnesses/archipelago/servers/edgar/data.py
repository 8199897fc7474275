"""The data folder of edgar: tickers, submissions, reported facts and filings' documents, as the SEC publishes them.

`company_tickers.json`, `submissions/CIK##########.json`, `companyfacts/CIK##########.json`, and documents in
`filings/<accession>/<name>`. It is `EDGAR_OFFLINE_DATA_DIR`, else the app's state folder. Links that lead out of it
are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.office.data import read_json
from envkit.office.problem import Problem, Unreadable

__all__ = ["Company", "EdgarData"]


class Company:
    """A company of the list of tickers."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.cik = str(entry.get("cik_str", "")).strip().zfill(10)
        self.ticker = str(entry.get("ticker", ""))
        self.name = str(entry.get("title", ""))


class EdgarData:
    """The data of one call. Raises `ToolError` where there are none."""

    def __init__(self, context: Context) -> None:
        self.context = context
        given = context.settings.get("EDGAR_OFFLINE_DATA_DIR", "").strip()
        folder = Path(given) if given else context.state
        if folder is None:
            folder = context.apps_data / "edgar"
        inner = folder / "edgar_offline"
        self.folder = Path(os.path.realpath(inner if inner.is_dir() else folder))

    @property
    def there(self) -> bool:
        return any((self.folder / name).exists() for name in ("company_tickers.json", "submissions", "companyfacts"))

    def _path(self, *parts: str) -> Path | None:
        path = Path(os.path.realpath(self.folder.joinpath(*parts)))
        return path if path.is_relative_to(self.folder) and path.is_file() else None

    def _json(self, *parts: str) -> Any:
        path = self._path(*parts)
        if path is None:
            if not self.there:
                raise ToolError("there are no EDGAR data in this world; nothing can be looked up")
            return None
        value = self.context.parse(path, read_json).value
        if not isinstance(value, dict):
            raise Unreadable(Problem.NOT_THIS_FORMAT, f"expected an object, found {type(value).__name__}")
        return value

    def companies(self) -> list[Company]:
        """The listed companies, by ticker. Raises `ToolError`, `Unreadable`."""
        found = self._json("company_tickers.json")
        entries = [e for e in (found or {}).values() if isinstance(e, dict)]
        return sorted((Company(e) for e in entries), key=lambda c: (c.ticker, c.cik))

    def company(self, cik: str | None, ticker: str | None, name: str | None) -> Company:
        """The one company that is meant. Raises `ToolError` where none or several are."""
        if not any((cik, ticker, name)):
            raise ToolError("say which company: one of cik, ticker, name is required")
        companies = self.companies()
        if cik:
            digits = cik.strip().upper().removeprefix("CIK").strip()
            if not digits.isdecimal() or len(digits) > 10:
                raise ToolError(f"cik is a number of up to 10 digits such as 320193, found {cik!r}")
            number = digits.zfill(10)
            listed = next((c for c in companies if c.cik == number), None)
            return listed or Company({"cik_str": number, "ticker": ticker or "", "title": name or ""})
        if ticker:
            wanted = ticker.strip().upper()
            found = [c for c in companies if c.ticker.upper() == wanted]
            if not found:
                hint = did_you_mean(wanted, [c.ticker for c in companies])
                some = ", ".join(c.ticker for c in companies[:20])
                raise ToolError(f"there is no ticker {ticker!r} in the data{hint}; known are {some or 'none'}")
            return found[0]
        wanted = " ".join((name or "").casefold().split())
        exact = [c for c in companies if c.name.casefold() == wanted]
        found = exact or [c for c in companies if wanted in c.name.casefold()]
        if len({c.cik for c in found}) > 1:
            some = "; ".join(f"{c.name} ({c.ticker}, CIK {c.cik})" for c in found[:10])
            raise ToolError(f"several companies are called {name!r}: {some}. Give the ticker or the cik")
        if not found:
            hint = did_you_mean(name or "", [c.name for c in companies])
            raise ToolError(f"there is no company {name!r} in the data{hint}")
        return found[0]

    def submissions(self, company: Company) -> dict[str, Any]:
        return self._of(company, "submissions")

    def facts(self, company: Company) -> dict[str, Any]:
        return self._of(company, "companyfacts")

    def _of(self, company: Company, folder: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self._json(folder, f"CIK{company.cik}.json")
        if found is None:
            have = ", ".join(
                sorted(c.ticker or c.cik for c in self.companies() if self._path(folder, f"CIK{c.cik}.json"))
            )
            raise ToolError(
                f"the data hold no {folder} of {company.name or 'the company'} (CIK {company.cik}); they hold those of "
                f"{have or 'no listed company'}"
            )
        return found

    def every_facts(self) -> Iterator[dict[str, Any]]:
        """The reported facts of all companies, by CIK. Raises `Unreadable`."""
        holder = self.folder / "companyfacts"
        for name in sorted(os.listdir(holder)) if holder.is_dir() else ():
            if name.startswith("CIK") and name.endswith(".json"):
                found = self._json("companyfacts", name)
                if found is not None:
                    yield found

    def documents(self, company: Company, accession: str) -> dict[str, Path]:
        """The documents of a filing that are there: name -> path."""
        plain = accession.replace("-", "")
        for parts in (("filings", accession), ("filings", plain), ("filings", company.cik.lstrip("0"), plain)):
            holder = Path(os.path.realpath(self.folder.joinpath(*parts)))
            if holder.is_relative_to(self.folder) and holder.is_dir():
                found = {name: self._path(*parts, name) for name in sorted(os.listdir(holder))}
                return {name: path for name, path in found.items() if path is not None}
        return {}
