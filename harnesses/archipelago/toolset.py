"""All tools of a trial under the names that the model sees, and what becomes of a call to one of them.

The list is made once, when every server is ready, and stays. A call is matched to its tool, its envelope put back, its
time limited, its result made into text and images. What the agent did wrong is an `Answer` with `is_error`; faults are
raised. Used by the harness's agents and by the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mcp import types

from envkit.behaviours.repair import explain_unknown_tool, explain_unparsable, match_tool
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.harnesses.archipelago import schemas
from envkit.harnesses.archipelago.results import Answer, Shortener, read_result
from envkit.harnesses.archipelago.toolserver import ToolServer, Trouble
from envkit.messages import ToolCall, ToolSpec

__all__ = ["CODE_TOOL", "Offer", "Source", "Toolset"]

#: The published name of the tool that runs the agent's programs.
CODE_TOOL = "code_exec"


@dataclass(frozen=True, slots=True)
class Source:
    """A server and how its tools are named: with a prefix, by a rule, or else as the server names them."""

    server: ToolServer
    prefix: str | None = None
    rename: Callable[[str], str] | None = None

    def named(self, tool: str) -> str:
        name = tool if self.prefix is None else f"{self.prefix}_{tool}"
        return schemas.function_name(name if self.rename is None else self.rename(name))


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as the model sees it, and where it comes from."""

    spec: ToolSpec
    server: ToolServer
    tool: types.Tool
    envelope: str | None

    @property
    def reads_only(self) -> bool:
        return self.tool.annotations is not None and bool(self.tool.annotations.readOnlyHint)

    @property
    def runs_programs(self) -> bool:
        return self.server.runs_programs or self.tool.name == CODE_TOOL or self.tool.name.endswith(f"_{CODE_TOOL}")


class Toolset:
    """The tools of several servers. Open it before use, close it in every case."""

    def __init__(self, sources: Sequence[Source], *, shortener: Shortener | None, max_image_bytes: int) -> None:
        self._sources = tuple(sources)
        self._shortener = shortener
        self._max_image_bytes = max_image_bytes
        self._acted = False
        self.offers: Mapping[str, Offer] = {}
        self.failures: list[tuple[str, str]] = []

    async def open(self, *, patient: bool = False) -> None:
        """Waits until every server lists its tools; the first that does not is the failure, and all are ended.

        Args:
            patient: Wait for the others too, so that `failures` has them all.

        Raises:
            EnvkitError: A server is not ready, or two tools have one name.
        """
        opening = [asyncio.ensure_future(source.server.open()) for source in self._sources]
        try:
            for failed in await asyncio.gather(*opening, return_exceptions=True) if patient else ():
                if isinstance(failed, EnvkitError):
                    self.failures = [
                        (source.server.name, str(task.exception()))
                        for source, task in zip(self._sources, opening, strict=True)
                        if task.exception() is not None
                    ]
                    raise failed
            await asyncio.gather(*opening)
            self.offers = self._named()
        except BaseException:
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            await self.close()
            raise

    async def close(self) -> None:
        await asyncio.gather(*(source.server.close() for source in self._sources))

    def _named(self) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for source in self._sources:
            for tool in source.server.tools:
                name = source.named(tool.name)
                if name in found:
                    raise EnvkitError(
                        f"tool servers {found[name].server.name!r} and {source.server.name!r} both offer a tool "
                        f"{name!r}; name one of the servers otherwise",
                        kind=FailureKind.CAPABILITY,
                        boundary=Boundary.HARNESS,
                    )
                parameters, envelope = schemas.flatten(tool.inputSchema)
                spec = ToolSpec(name=name, description=tool.description or tool.title or name, parameters=parameters)
                found[name] = Offer(spec, source.server, tool, envelope)
        return found

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(offer.spec for offer in self.offers.values())

    @property
    def restarts(self) -> int:
        """How often servers were started again so far."""
        return sum(source.server.restarts for source in self._sources)

    def find(self, name: str, among: Sequence[str] | None = None) -> Offer | None:
        """The tool that the model means by a name."""
        known = tuple(self.offers) if among is None else among
        matched = match_tool(name, known)
        return None if matched is None else self.offers[matched]

    async def call(self, call: ToolCall, timeout_s: float) -> Answer:
        """Carries out one call of the model's.

        Raises:
            EnvkitError: A fault (a server that broke by itself, a sandbox that died, the trial's deadline).
        """
        offer = self.find(call.name)
        if call.arguments is None:
            return Answer(explain_unparsable(call), is_error=True)
        if offer is None:
            return Answer(explain_unknown_tool(call.name, tuple(self.offers)), is_error=True)
        result = await self.raw(offer, schemas.wrap(call.arguments, offer.envelope, offer.spec.parameters), timeout_s)
        if isinstance(result, Trouble):
            return Answer(f"Error: {result.message}", is_error=True)
        answer = read_result(result, max_image_bytes=self._max_image_bytes)
        return answer if self._shortener is None else await self._shortener.shorten(answer)

    async def raw(self, offer: Offer, arguments: dict[str, object], timeout_s: float) -> types.CallToolResult | Trouble:
        """Calls a tool with arguments as its server takes them, and gives what the server gave."""
        self._acted = self._acted or offer.runs_programs
        return await offer.server.call(offer.tool.name, arguments, timeout_s, acted=self._acted)
