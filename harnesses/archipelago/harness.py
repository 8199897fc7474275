"""The Archipelago harness: office apps as MCP tools, for two kinds of agent.

The names, arguments and state formats are those of Archipelago's servers; what its servers and agents get wrong is put
right (docs/harness.md lists it). The tools run in one process inside the sandbox, or behind a gateway's URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envkit.harnesses.archipelago.agents.base import AgentSession
from envkit.harnesses.archipelago.agents.loop import LoopSession
from envkit.harnesses.archipelago.agents.toolbelt import ToolbeltSession
from envkit.harnesses.archipelago.options import ArchipelagoOptions
from envkit.harnesses.archipelago.results import Shortener
from envkit.harnesses.archipelago.toolset import Source, Toolset

if TYPE_CHECKING:
    from envkit.harness import SessionContext
    from envkit.sandbox.base import ProviderReport, Sandbox, SandboxSpec
    from envkit.task import Step, Task

__all__ = ["ArchipelagoHarness", "preload"]

_AGENTS: dict[str, type[AgentSession]] = {"loop": LoopSession, "toolbelt": ToolbeltSession}


def preload() -> None:
    """For a process that forks trials: loads the MCP client, which takes a second, and finds the servers' code."""
    import contextlib

    from envkit.failure import CapabilityError
    from envkit.harnesses.archipelago import bundle, sources  # noqa: F401 for what the second brings

    with contextlib.suppress(CapabilityError):  # a trial that needs it says it better; one behind a gateway does not
        bundle.ensure_bundle()


class ArchipelagoHarness:
    """Implements `envkit.harness.Harness`. Options as keyword arguments; see `ArchipelagoOptions`.

    Raises:
        UserError: An option is unknown or out of range.
    """

    name = "archipelago"
    version = "1"
    #: It offers the MCP servers that a task brings.
    mcp = True

    def __init__(self, **options: Any) -> None:
        self.options = ArchipelagoOptions.of(options)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "options": self.options.model_dump(mode="json")}

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        """Shows our servers' code inside. Raises `CapabilityError` where it can't be made."""
        if self.options.gateway_url is not None:
            return spec
        from envkit.harnesses.archipelago import bundle

        return bundle.with_servers(spec)

    def doctor(self) -> ProviderReport:
        """For `envkit doctor`: starts the servers in a sandbox and looks what code finds there."""
        from envkit.harnesses.archipelago.doctor import report

        return report()

    def session(self, task: Task, step: Step, sandbox: Sandbox, context: SessionContext) -> AgentSession:
        options = self.options
        agent = _AGENTS[options.agent]
        if options.gateway_url is not None:
            from envkit.harnesses.archipelago.sources import remote_world

            world = remote_world(step, sandbox, options, context.deadline)

            async def prepare_there() -> Toolset:
                await world.send()
                # What is cut can't be saved where the agent works: its tools are all that is known of that place.
                return self._toolset([world.source], None, None, context)

            return agent(step, context, options, prepare_there, world.bring_back)

        async def prepare() -> Toolset:
            from envkit.harnesses.archipelago.sources import own_source, task_source

            found = [own_source(sandbox, options, context, context.limits.tool_timeout_s)]
            for config in step.environment.mcp_servers:
                found.append(task_source(config, sandbox, context.deadline, options.ready_s))
            return self._toolset(found, sandbox, "code_exec" if "code" in options.apps else None, context)

        return agent(step, context, options, prepare)

    def _toolset(
        self, sources: list[Source], place: Sandbox | None, reader: str | None, context: SessionContext
    ) -> Toolset:
        """The tools, with long results cut and saved at `place`, where `reader` can read them."""
        options = self.options
        shortener = Shortener(
            place,
            context.deadline,
            head_bytes=options.result_head_bytes,
            tail_bytes=options.result_tail_bytes,
            reader=reader,
        )
        return Toolset(sources, shortener=shortener, max_image_bytes=options.max_image_bytes)
