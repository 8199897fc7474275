"""The `opencode-cli` harness: OpenCode itself, inside the sandbox, answered by any policy of ours.

Everything the model sees is OpenCode's own: prompts, tools, results, compaction. Its model requests come through the
model proxy over a unix socket, so that the sandbox needs no network. The white-box harness `opencode` behaves like it
at a fraction of the cost; this one says whether that is still true, and measures a model under the real program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envkit.behaviours.nudge import DEFAULT_NUDGE, ContextNudge
from envkit.failure import CapabilityError, FailureKind, UserError, did_you_mean
from envkit.harnesses.opencode_cli.install import VERSION, find_program
from envkit.harnesses.opencode_cli.program import INSIDE, OpenCodeProgram
from envkit.proxy import SOCKET, BlackBoxSession

if TYPE_CHECKING:
    from envkit.harness import SessionContext
    from envkit.sandbox.base import Sandbox, SandboxSpec
    from envkit.task import Step, Task

__all__ = ["OpenCodeCliHarness", "OpenCodeCliOptions"]

#: OpenCode is a large program: what it may use beyond what the task asks for.
_MEMORY_MB = 1024


class OpenCodeCliOptions(BaseModel):
    """Options of `OpenCodeCliHarness`.

    Attributes:
        program: A folder with the programs `opencode` and `rg`; None for the pinned ones of `install`.
        prompt: Replaces the head of OpenCode's system prompt.
        model_name: What the system prompt calls the model.
        context_limit, max_turn_tokens: What OpenCode is told of the model, in tokens; it compacts by these.
        vision: Whether OpenCode is told that the model sees pictures, and then shows it those that it reads; None for
            what the policy says.
        compaction: Whether it compacts its history by itself.
        sub_agents: Whether its `task` tool is offered.
        arguments: Further arguments of `opencode run`.
        nudge_share, nudge_text: The context nudge, in training only; a share of None turns it off.
        start_timeout_s: Seconds until its first model request; 2 s, but minutes where the machine is overloaded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: Path | None = None
    prompt: str | None = None
    model_name: str = "policy"
    context_limit: int = Field(default=128_000, ge=1024)
    max_turn_tokens: int = Field(default=8192, ge=16)
    vision: bool | None = None
    compaction: bool = True
    sub_agents: bool = False
    arguments: tuple[str, ...] = ()
    nudge_share: float | None = Field(default=0.8, gt=0, le=1)
    nudge_text: str = DEFAULT_NUDGE
    start_timeout_s: float = Field(default=300.0, gt=0)


class OpenCodeCliHarness:
    """Implements `envkit.harness.Harness`. Options as keyword arguments; see `OpenCodeCliOptions`.

    Raises:
        UserError: An option is unknown or out of range.
    """

    name = "opencode-cli"
    version = VERSION

    def __init__(self, **options: Any) -> None:
        try:
            self.options = OpenCodeCliOptions.model_validate(options)
        except ValidationError as error:
            raise UserError(_explain(error), kind=FailureKind.CAPABILITY) from error
        self._folder: Path | None = None

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "options": self.options.model_dump(mode="json")}

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        """Adds what the program needs: itself, the way to the model, and room to run. Raises `CapabilityError`."""
        program = find_program(self.options.program)
        return spec.model_copy(
            update={
                "readonly": {**spec.readonly, INSIDE: str(program)},
                "sockets": {**spec.sockets, SOCKET: str(self._socket())},
                "memory_mb": spec.memory_mb + _MEMORY_MB,
            }
        )

    def session(self, task: Task, step: Step, sandbox: Sandbox, context: SessionContext) -> BlackBoxSession:
        o = self.options
        host = sandbox.spec.sockets.get(SOCKET)
        if host is None:
            raise CapabilityError(
                f"the sandbox has no model socket at {SOCKET}; open the session on a sandbox of `harness.sandbox(spec)`"
            )
        if o.vision is None:
            o = o.model_copy(update={"vision": context.vision})
        nudge = ContextNudge(o.nudge_share, o.nudge_text) if context.training and o.nudge_share else None
        return BlackBoxSession(
            OpenCodeProgram(step.instruction, o),
            sandbox,
            context,
            socket=Path(host),
            nudge=nudge,
            start_timeout_s=o.start_timeout_s,
        )

    def _socket(self) -> Path:
        if self._folder is None or not self._folder.is_dir():
            self._folder = Path(tempfile.mkdtemp(prefix=f"envkit-env-{os.getpid()}-", dir=_open_place()))
            self._folder.chmod(0o711)  # the sandbox's user must reach the socket; its credential is in the trial
            weakref.finalize(self, _remove, self._folder, os.getpid())
        return self._folder / "model.sock"


def _open_place() -> str:
    """The temporary folder, or the system's where that one is private (a trial's is) and a sandbox's user, who has a
    user id of its own, could not enter it. `envkit gc` looks after both."""
    given = os.path.realpath(tempfile.gettempdir())
    for place in (given, "/tmp", "/var/tmp"):
        path = Path(place)
        with contextlib.suppress(OSError):
            if all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents)) and os.access(path, os.W_OK):
                return place
    return given


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child's copy of the harness is not the owner
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


def _explain(error: ValidationError) -> str:
    known = tuple(OpenCodeCliOptions.model_fields)
    lines = ["the opencode-cli harness's options are wrong:"]
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            lines.append(f"  {where}: no such option{did_you_mean(where, known)}; there are {', '.join(known)}")
        else:
            lines.append(f"  {where}: {item['msg']}, found {item['input']!r}")
    return "\n".join(lines)
