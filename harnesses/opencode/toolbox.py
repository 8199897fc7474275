"""Carries out tool calls in a sandbox and turns every outcome into text for the model.

What goes wrong through the agent's own doing (bad arguments, a missing file, a full disk, a command that runs too long
or out of memory) is text. A sandbox that died, the trial's deadline and a bug of ours are not: they are raised.
"""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envkit.behaviours.repair import explain_unknown_tool, explain_unparsable, match_tool
from envkit.behaviours.truncate import Cut, keep_head, keep_tail, save_inside
from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded
from envkit.harnesses.opencode import bundle
from envkit.harnesses.opencode.arguments import ArgumentError, check
from envkit.harnesses.opencode.options import OpenCodeOptions
from envkit.harnesses.opencode.tools import TOOL_NAMES, TOOLS
from envkit.messages import ToolCall
from envkit.sandbox.base import ExecResult, InsideError, InsideKilled, InsideModule

if TYPE_CHECKING:
    from envkit.sandbox.base import Sandbox

__all__ = ["READ_ONLY", "Answer", "Toolbox"]

#: Tools that change nothing, so that several of them may run at once.
READ_ONLY = frozenset({"glob", "grep", "read"})

_OUTPUT_FOLDER = "/tmp/tool-output"
_BASH_ENV = {"AGENT": "1", "OPENCODE": "1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model is told about one call, and what is recorded beside it."""

    text: str
    is_error: bool = False


class Toolbox:
    """The seven tools of one session.

    Args:
        sandbox: Where they work.
        options: The harness's options.
        deadline: The end of the agent's phase; passing it raises `DeadlineExceeded`.
        tool_timeout_s: Longest any one call may take.
    """

    def __init__(self, sandbox: Sandbox, options: OpenCodeOptions, deadline: Deadline, tool_timeout_s: float) -> None:
        self._sandbox = sandbox
        self._home = sandbox.spec.home
        self._options = options
        self._deadline = deadline
        self._tool_timeout_s = tool_timeout_s
        self._saved = 0
        self._tools: dict[str, Callable[[dict[str, Any], float], Awaitable[Answer]]] = {
            "bash": self._bash,
            "edit": self._edit,
            "glob": self._glob,
            "grep": self._grep,
            "read": self._read,
            "todowrite": self._todowrite,
            "write": self._write,
        }

    async def run(self, call: ToolCall, budget_s: float = math.inf) -> Answer:
        """Carries out one call.

        Args:
            budget_s: Seconds that the episode's working time still allows.

        Raises:
            SandboxDied, DeadlineExceeded, InsideError: Faults, never told to the model.
        """
        name = match_tool(call.name, TOOL_NAMES)
        if call.arguments is None:
            return Answer(explain_unparsable(call), is_error=True)
        if name is None:
            return Answer(explain_unknown_tool(call.name, TOOL_NAMES), is_error=True)
        try:
            arguments = check(TOOLS[name], call.arguments)
        except ArgumentError as error:
            return Answer(str(error), is_error=True)
        return await self._tools[name](arguments, min(self._tool_timeout_s, budget_s))

    # --- bash ---

    async def _bash(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        command = arguments["command"]
        if not command.strip():
            return Answer("command is empty; nothing was run.", is_error=True)
        if "\0" in command:
            return Answer("command contains a NUL character, which no shell accepts; nothing was run.", is_error=True)
        asked_s = arguments["timeout"] / 1000 if "timeout" in arguments else self._options.bash_default_timeout_s
        timeout_s = min(asked_s, budget_s)
        folder = self._folder(arguments.get("workdir"))
        result = await self._sandbox.exec(
            ["bash", "-c", command],
            env=_BASH_ENV,
            cwd=folder,
            deadline=self._deadline,
            timeout_s=timeout_s,
            output_cap=self._options.bash_output_keep_bytes,
            keep="tail",
            merge_stderr=True,
        )
        if result.exit_code == 126 and "workdir" in arguments and not await self._is_folder(folder):
            return Answer(f"The command could not be started: there is no folder {folder}.", is_error=True)
        return Answer(await self._shown(result) + self._remarks(result, asked_s, timeout_s))

    def _folder(self, workdir: str | None) -> str:
        if not workdir:
            return self._home
        return workdir if workdir.startswith("/") else f"{self._home}/{workdir}"

    async def _is_folder(self, path: str) -> bool:
        return (await self._sandbox.exec(["test", "-d", path], deadline=self._deadline, timeout_s=30.0)).ok

    async def _shown(self, result: ExecResult) -> str:
        text = result.stdout.decode("utf-8", "replace")
        cut = keep_tail(text, max_lines=self._options.max_output_lines, max_bytes=self._options.max_output_bytes)
        if not cut.is_cut and not result.stdout_dropped:
            return text or "(no output)"
        where = await self._save(result.stdout)
        dropped = result.stdout_dropped
        head = f"[The output is long: {len(result.stdout) + dropped} bytes; only its end is shown. "
        if dropped:
            head += f"Its first {dropped} bytes were not kept; the other {len(result.stdout)} bytes are {where}.]"
        else:
            head += f"All {cut.lines} lines are {where}.]"
        return f"{head}\n\n{cut.text}"

    def _remarks(self, result: ExecResult, asked_s: float, timeout_s: float) -> str:
        """What the output itself does not say, on lines of their own at the end."""
        out = []
        if result.timed_out:
            out.append(
                f"<stopped after {_seconds(timeout_s)}, the time it was given; its processes were ended."
                + (
                    f" A call may take {_seconds(self._tool_timeout_s)} at most; do the work in smaller parts.>"
                    if asked_s > timeout_s
                    else " If it needs longer, call again with a larger timeout, in milliseconds.>"
                )
            )
        if result.oom_killed:
            out.append(f"<a process was killed: the memory limit of {self._sandbox.spec.memory_mb} MB was reached>")
        code = result.exit_code
        if self._options.show_exit_code and code:
            out.append(f"<exit code: {code}>" if code > 0 else f"<ended by signal {-code}>")
        newline = "" if result.stdout.endswith(b"\n") else "\n"
        return newline + "\n".join(out) if out else ""

    # --- files ---

    async def _read(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        return await self._inside(
            bundle.reading(),
            "read",
            {
                "path": arguments["filePath"],
                "offset": arguments.get("offset", 1),
                "limit": arguments.get("limit", self._options.max_output_lines),
                "max_bytes": self._options.max_output_bytes,
            },
            budget_s,
        )

    async def _write(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        values = {"path": arguments["filePath"], "content": arguments["content"]}
        return await self._inside(bundle.writing(), "write", values, budget_s)

    async def _edit(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        values = {
            "path": arguments["filePath"],
            "old": arguments["oldString"],
            "new": arguments["newString"],
            "replace_all": arguments.get("replaceAll", False),
            "exact": self._options.edit_mode == "exact",
        }
        return await self._inside(bundle.writing(), "edit", values, budget_s)

    async def _glob(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        values = {"pattern": arguments["pattern"], "path": arguments.get("path", "")}
        return await self._head(await self._inside(bundle.searching(), "glob", values, budget_s))

    async def _grep(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        values = {
            "pattern": arguments["pattern"],
            "path": arguments.get("path", ""),
            "include": arguments.get("include", ""),
        }
        return await self._head(await self._inside(bundle.searching(), "grep", values, budget_s))

    async def _todowrite(self, arguments: dict[str, Any], budget_s: float) -> Answer:
        return await self._head(Answer(json.dumps(arguments["todos"], indent=2, ensure_ascii=False)))

    async def _inside(self, module: InsideModule, function: str, values: dict[str, Any], budget_s: float) -> Answer:
        if "\0" in "".join(value for key, value in values.items() if key == "path"):
            return Answer("The path contains a NUL character, which no file name can.", is_error=True)
        deadline = self._deadline.within(budget_s if math.isfinite(budget_s) else None, "the call's time")
        try:
            outcome = await self._sandbox.call(module, function, {**values, "cwd": self._home}, deadline=deadline)
        except DeadlineExceeded:
            if deadline is self._deadline or self._deadline.expired:
                raise
            return Answer(
                f"{function} was stopped after {_seconds(budget_s)} without a result. Narrow it down: a simpler "
                "expression, a smaller folder, a smaller part of the file.",
                is_error=True,
            )
        except InsideKilled:
            return Answer(
                f"{function} was killed before it had a result, most likely by the memory limit of "
                f"{self._sandbox.spec.memory_mb} MB. Narrow it down, or use bash.",
                is_error=True,
            )
        except InsideError as error:
            cause = _own_doing(error)
            if cause is None:
                raise
            return Answer(f"{function} was not carried out: {cause}.", is_error=True)
        return Answer(outcome["text"], is_error=outcome["error"])

    # --- long results ---

    async def _head(self, answer: Answer) -> Answer:
        cut: Cut = keep_head(
            answer.text, max_lines=self._options.max_output_lines, max_bytes=self._options.max_output_bytes
        )
        if not cut.is_cut:
            return answer
        where = await self._save(answer.text.encode("utf-8", "replace"))
        return Answer(
            f"{cut.text}\n\n[The result is long: {cut.size} bytes; only its beginning is shown. "
            f"All {cut.lines} lines are {where}.]",
            answer.is_error,
        )

    async def _save(self, data: bytes) -> str:
        self._saved += 1
        path = f"{_OUTPUT_FOLDER}/{self._saved:03d}.txt"
        if await save_inside(self._sandbox, path, data, deadline=self._deadline):
            return f"in {path}: look into them with grep, or with read and an offset"
        return "lost, since the disk has no room for them"


def _own_doing(error: InsideError) -> str | None:
    """In words, what a call ran into that only its arguments or the state of the files can bring about: no fault.
    None for anything else, which is a bug of ours."""
    kind = getattr(builtins, error.error_type, None)
    if not isinstance(kind, type):
        return None
    if issubclass(kind, RecursionError):
        return "what it was given is nested too deeply; use something simpler"
    if issubclass(kind, MemoryError):
        return "the memory was not enough; use something smaller"
    return str(error) if issubclass(kind, OSError) else None


def _seconds(value: float) -> str:
    return f"{value:g} s"
