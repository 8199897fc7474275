"""The viewer's application: pages and their data, all below `/<token>`, all read-only.

    /<token>/                                            the page; everything else is asked for by its scripts
    /<token>/assets/NAME
    /<token>/api/runs                                    the runs
    /<token>/api/runs/RUN                                one run: plan, counts, whether it is at work
    /<token>/api/runs/RUN/trials?offset=&limit=&...      a page of its trials, with facets
    /<token>/api/runs/RUN/trials/TRIAL[/open|/conversation|/page|/part|/search|/files|/file|/raw|/tokens|/stretch|/log]

What blocks (files, JSON) runs in threads. Every name in an address is held against what is there before a path is made
of it. Used by `server`.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from envkit import __version__
from envkit.failure import EnvkitError
from envkit.regular_file import NotRegular
from envkit.trial.store import json_text
from envkit.view import record
from envkit.view.conversation import Conversation, Conversations
from envkit.view.files import FileReader, changed_files
from envkit.view.guard import Guard
from envkit.view.index import RunIndex
from envkit.view.page import Assets
from envkit.view.query import FACETS, Query, Selection, select, summary
from envkit.view.tokens import TokenView, TokenViews

__all__ = ["create_app"]

#: Trials in one page of the list, items in one page of a conversation, characters in one piece of a text.
_TRIALS, _ITEMS, _PIECE = 500, 200, 400_000
#: The pages that the scripts ask for, of messages (reader.js) and of tokens (tokens.js).
_FIRST_ITEMS, _STRETCH = 50, 2048
#: For how long after an answer the reading of records still waits, in seconds.
_PAUSE_S = 0.25


def create_app(runs: Mapping[str, Path], token: str) -> ASGIApp:
    """The application.

    Args:
        runs: Run folders by key (`find_runs`).
        token: The secret first part of every address.
    """
    viewer = _Viewer(runs)
    return Guard(viewer.counted(viewer.app(token)), token)


class _Viewer:
    def __init__(self, runs: Mapping[str, Path]) -> None:
        self._asking, self._asked_s = 0, 0.0
        self._indexes = {key: RunIndex(folder, self._busy) for key, folder in runs.items()}
        self._conversations = Conversations()
        self._tokens = TokenViews()
        self._files = FileReader()
        self._selections: dict[tuple[str, int, int, str], Selection] = {}
        self._assets = Assets(self._known(), __version__)

    def warm(self) -> None:
        """Reads the first run, so that it is there when the page asks for it."""
        for key, index in list(self._indexes.items())[:1]:
            with contextlib.suppress(OSError):
                self._select(key, index, Query())

    def _busy(self) -> bool:
        """Whether somebody waits for an answer, or had one so lately that the next question will come with it."""
        return self._asking > 0 or time.monotonic() - self._asked_s < _PAUSE_S

    def counted(self, app: ASGIApp) -> ASGIApp:
        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            self._asking += 1
            try:
                await app(scope, receive, send)
            finally:
                self._asking -= 1
                self._asked_s = time.monotonic()

        return counting

    def app(self, token: str) -> ASGIApp:
        trial = "/api/runs/{run}/trials/{trial}"
        routes = [
            Route("/", self.page),
            Route("/assets/{name}", self.asset),
            Route("/api/runs", self.runs),
            Route("/api/runs/{run}", self.run),
            Route("/api/runs/{run}/trials", self.trials),
            Route(trial, self.trial),
            Route(trial + "/open", self.open),
            Route(trial + "/conversation", self.conversation),
            Route(trial + "/page", self.conversation_page),
            Route(trial + "/part", self.part),
            Route(trial + "/search", self.search),
            Route(trial + "/files", self.files),
            Route(trial + "/file", self.file),
            Route(trial + "/raw", self.raw),
            Route(trial + "/tokens", self.tokens),
            Route(trial + "/stretch", self.stretch),
            Route(trial + "/log", self.log),
        ]

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            threading.Thread(target=self.warm, name="first run", daemon=True).start()
            yield
            await self._files.close()

        handlers: dict[Any, Any] = {HTTPException: _refused, EnvkitError: _failed, OSError: _unreadable}
        return Starlette(routes=[Mount(f"/{token}", routes=routes)], lifespan=lifespan, exception_handlers=handlers)

    # -- the page -----------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": self._assets.policy}
        return Response(self._assets.page, media_type="text/html", headers=headers)

    async def asset(self, request: Request) -> Response:
        found = self._assets.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, f"no asset {request.path_params['name']!r}")
        # The same for as long as this server lives, and its address is its own.
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=86400, immutable"})

    # -- runs ---------------------------------------------------------------------------------------------------------

    def runs(self, request: Request) -> Response:
        return _json({"version": __version__, "runs": self._known()})

    def _known(self) -> list[dict[str, Any]]:
        return [{"key": k, "name": i.folder.name, "path": str(i.folder)} for k, i in self._indexes.items()]

    def run(self, request: Request) -> Response:
        index = self._index(request)
        version = index.refresh()
        index.deepen()
        return _json(
            {
                "key": request.path_params["run"],
                "name": index.folder.name,
                "path": str(index.folder),
                "version": version,
                "live": index.live(),
                "planned": index.planned,
                "searched": index.searched,
                "damaged": index.damaged_lines,
                "about": index.about,
                "summary": summary(index.rows()),
            }
        )

    def trials(self, request: Request) -> Response:
        index = self._index(request)
        asked = request.query_params
        selection, version = self._selection(request, index)
        offset, limit = _whole(request, "offset", 0), min(_TRIALS, _whole(request, "limit", 200))
        out: dict[str, Any] = {
            "version": version,
            "total": len(selection.rows),
            "offset": offset,
            "rows": selection.rows[offset : offset + limit],
            "searched": index.searched,
            "kept": index.kept,
        }
        if asked.get("around"):
            # Where a trial is in this order, with its neighbours.
            place = next((n for n, row in enumerate(selection.rows) if row["id"] == asked["around"]), None)
            near = range(0) if place is None else range(max(0, place - 1), min(len(selection.rows), place + 2))
            out |= {"place": place, "rows": [selection.rows[n] for n in near], "offset": near.start}
        if asked.get("facets") != "0":
            out |= {"facets": selection.facets, "summary": selection.summary}
        # After the first page, so that it doesn't wait for the records.
        index.deepen()
        return _json(out)

    def _selection(self, request: Request, index: RunIndex) -> tuple[Selection, int]:
        asked = request.query_params
        query = Query(
            chosen={facet: frozenset(asked.getlist(facet)) for facet in FACETS if asked.getlist(facet)},
            text=asked.get("q", "")[:1000],
            low=_number(request, "low"),
            high=_number(request, "high"),
            sort=asked.get("sort", "finished"),
            down=asked.get("down", "1") != "0",
        )
        return self._select(request.path_params["run"], index, query)

    def _select(self, run: str, index: RunIndex, query: Query) -> tuple[Selection, int]:
        version = index.refresh()
        wanted = (run, version, index.searched if query.text else 0, repr(query))
        found = self._selections.get(wanted)
        if found is None:
            found = select(index, query)
            if len(self._selections) > 8:
                self._selections.clear()
            self._selections[wanted] = found
        return found, version

    # -- one trial ----------------------------------------------------------------------------------------------------

    def trial(self, request: Request) -> Response:
        folder = self._trial(request)
        number = _whole(request, "attempt", 0)
        return _json({**record.trial_detail(folder, number or None), **self._named(request)})

    def open(self, request: Request) -> Response:
        """A trial with all that the first look at one of its parts needs, in one answer and of one attempt."""
        folder, asked = self._trial(request), request.query_params
        detail = record.trial_detail(folder, _whole(request, "attempt", 0) or None)
        attempt, first = record.attempt_folder(folder, detail["attempt"]), dict[str, Any]()
        # What can't be read is asked for again by its part, which says why.
        with contextlib.suppress(HTTPException, EnvkitError, OSError):
            if asked.get("tab") == "conversation" and detail["has"]["conversation"]:
                found = self._conversation_of(attempt, asked.get("thread"))
                first = {"conversation": _outline(found), "page": {"start": 0, "items": found.page(0, _FIRST_ITEMS)}}
            elif asked.get("tab") == "tokens" and detail["has"]["tokens"]:
                view, at = self._tokens_of(attempt), _whole(request, "at", 0)
                first = {"tokens": view.about(), "stretch": view.stretch(at - at % _STRETCH, _STRETCH)}
        return _json({**detail, **self._named(request), "first": first})

    def conversation(self, request: Request) -> Response:
        return _json(_outline(self._conversation(request)))

    def conversation_page(self, request: Request) -> Response:
        start, count = _whole(request, "start", 0), min(_ITEMS, _whole(request, "count", 50))
        return _json({"start": start, "items": self._conversation(request).page(start, count)})

    def part(self, request: Request) -> Response:
        item, part, start = (_whole(request, name, 0) for name in ("item", "part", "start"))
        try:
            return _json(self._conversation(request).part(item, part, start, _PIECE))
        except IndexError:
            raise HTTPException(404, f"the conversation has no part {item}.{part}") from None

    def search(self, request: Request) -> Response:
        words = request.query_params.get("q", "")[:1000]
        return _json({"q": words, "hits": self._conversation(request).search(words) if words else []})

    def log(self, request: Request) -> Response:
        name, offset = request.query_params.get("name", ""), _whole(request, "offset", 0, negative=True)
        try:
            return _json(record.read_log(self._attempt(request), name, offset))
        except FileNotFoundError:
            raise HTTPException(404, f"no log {name!r}") from None

    # -- files --------------------------------------------------------------------------------------------------------

    def files(self, request: Request) -> Response:
        try:
            return _json(changed_files(self._attempt(request), request.query_params.get("state", "")))
        except FileNotFoundError as error:
            raise HTTPException(404, str(error)) from None

    async def file(self, request: Request) -> Response:
        attempt, asked = self._attempt(request), request.query_params
        task, digest = self._task(request)
        try:
            found = await self._files.file(attempt, asked.get("state", ""), asked.get("path", ""), task, digest)
        except FileNotFoundError as error:
            raise HTTPException(404, str(error)) from None
        return _json(found)

    async def raw(self, request: Request) -> Response:
        """One side of a file, to be saved: never shown by the browser, whatever it holds."""
        attempt, asked = self._attempt(request), request.query_params
        path, side = asked.get("path", ""), "before" if asked.get("side") == "before" else "after"
        try:
            data = await self._files.raw(attempt, asked.get("state", ""), path, self._task(request)[0], side)
        except FileNotFoundError as error:
            raise HTTPException(404, str(error)) from None
        name = quote(path.rsplit("/", 1)[-1].encode("utf-8", "replace"), safe="")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(data, media_type="application/octet-stream", headers=headers)

    # -- tokens -------------------------------------------------------------------------------------------------------

    def tokens(self, request: Request) -> Response:
        return _json(self._token_view(request).about())

    def stretch(self, request: Request) -> Response:
        view = self._token_view(request)
        extremes = request.query_params.get("extremes")
        if extremes in ("gap", "logprob"):
            return _json({"positions": view.extremes(extremes)})
        return _json(view.stretch(_whole(request, "start", 0), _whole(request, "count", 2048)))

    # -- what an address names ----------------------------------------------------------------------------------------

    def _index(self, request: Request) -> RunIndex:
        found = self._indexes.get(request.path_params["run"])
        if found is None:
            raise HTTPException(404, f"no run {request.path_params['run']!r}")
        return found

    def _trial(self, request: Request) -> Path:
        index, name = self._index(request), str(request.path_params["trial"])
        # Known by name: nothing that the address says becomes a path otherwise.
        folder = None if "/" in name or name in (".", "..") else index.folder_of(name)
        if folder is None or not folder.is_dir():
            raise HTTPException(404, f"no trial {name!r} in this run")
        trials: Path = index.folder / "trials"
        if folder.resolve() != trials.resolve() / folder.relative_to(trials):
            raise HTTPException(404, f"the folder of trial {name!r} leads out of the run")
        return folder

    def _named(self, request: Request) -> dict[str, Any]:
        """What the list knows of the trial that an address names, which for a rollout is more than its record."""
        row = self._index(request).row(request.path_params["trial"]) or {}
        return {"run": request.path_params["run"], **{key: row.get(key) for key in ("id", "sample", "model")}}

    def _attempt(self, request: Request) -> Path:
        folder = self._trial(request)
        return record.attempt_folder(folder, max(1, _whole(request, "attempt", 1)))

    def _task(self, request: Request) -> tuple[str, str | None]:
        detail = record.trial_detail(self._trial(request), _whole(request, "attempt", 1))
        spec = detail["spec"] if isinstance(detail["spec"], dict) else {}
        digest = detail["outcome"].get("task_digest")
        return str(spec.get("task") or detail["task"]), digest if isinstance(digest, str) else None

    def _conversation(self, request: Request) -> Conversation:
        return self._conversation_of(self._attempt(request), request.query_params.get("thread"))

    def _conversation_of(self, attempt: Path, thread: str | None) -> Conversation:
        try:
            return self._conversations.get(attempt, thread)
        except FileNotFoundError:
            raise HTTPException(404, "this attempt left no conversation") from None
        except ValueError as error:
            raise HTTPException(422, f"the trajectory can't be read: {error}") from None

    def _token_view(self, request: Request) -> TokenView:
        return self._tokens_of(self._attempt(request))

    def _tokens_of(self, attempt: Path) -> TokenView:
        try:
            return self._tokens.get(attempt)
        except FileNotFoundError as error:
            raise HTTPException(404, str(error)) from None
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise HTTPException(422, f"the trace can't be read: {error!r}") from None


def _outline(found: Conversation) -> dict[str, Any]:
    threads = {name: len(thread.items) for name, thread in found.threads.items()}
    return {"about": found.about, "outline": found.outline(), "threads": threads}


def _json(value: Any, status: int = 200) -> Response:
    try:
        # ASCII: also half of a surrogate pair is carried, and shown as what it is.
        data = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        data = json_text(value)
    except RecursionError:
        data, status = json.dumps({"error": "what the file holds is nested too deeply to be shown"}), 422
    return Response(data.encode(), status, media_type="application/json")


def _whole(request: Request, name: str, default: int, *, negative: bool = False) -> int:
    """A whole number in the address. Raises `HTTPException` for anything else."""
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-") if negative else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise HTTPException(400, f"{name} must be a whole number, found {text[:80]!r}")
    return int(text)


def _number(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    try:
        return float(text) if text else None
    except ValueError:
        raise HTTPException(400, f"{name} must be a number, found {str(text)[:80]!r}") from None


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 422)


async def _unreadable(request: Request, error: Exception) -> Response:
    return _json({"error": f"a file of the run can't be read: {error}"}, 422 if isinstance(error, NotRegular) else 500)
