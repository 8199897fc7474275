"""What a judge behind the fake endpoint says, for better or worse."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from fake_openai import Behaviour, Request, answer


def says(verdict: Any = "pass", rationale: str = "Seen in the memo.", **rest: Any) -> Behaviour:
    return answer(json.dumps({"rationale": rationale, "verdict": verdict}), **rest)


def scores(score: Any) -> Behaviour:
    return answer(json.dumps({"rationale": "So so.", "score": score}))


def prompt_of(request: Request) -> str:
    return "\n".join(message["content"] for message in request.json["messages"])


def boundary_of(request: Request) -> str:
    found = re.search(r"<<<BEGIN (\w+)", request.json["messages"][0]["content"])
    assert found is not None
    return found[1]


def outside(request: Request) -> str:
    """The prompt without what stands between boundary lines: what a judge would take for our own words."""
    boundary = re.escape(boundary_of(request))
    user = request.json["messages"][1]["content"]
    return re.sub(rf"^<<<BEGIN {boundary}$.*?^END {boundary}>>>$", "", user, flags=re.DOTALL | re.MULTILINE)


def inside(request: Request) -> str:
    """What stands between boundary lines."""
    boundary = re.escape(boundary_of(request))
    user = request.json["messages"][1]["content"]
    return "\n".join(
        re.findall(rf"^<<<BEGIN {boundary}$(.*?)^END {boundary}>>>$", user, flags=re.DOTALL | re.MULTILINE)
    )


def judging(decide: Callable[[Request], str], pause_s: float = 0.0) -> Behaviour:
    """A judge that reads the request and decides."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        await says(decide(request))(request, writer)

    return behave
