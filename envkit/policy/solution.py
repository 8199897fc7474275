"""A task's solution as the oracle reads it: scripted tool calls, or a folder packed for the sandbox."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.messages import AssistantMessage, ToolCall
from envkit.policy.options import describe_faults

__all__ = ["Call", "Script", "broken", "pack", "read_script"]

#: A solution is scripts and the odd template; more than this is a world put in the wrong folder.
MAX_SOLUTION_BYTES = 256 << 20


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(_Frozen):
    """One tool call of a script."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


class Script(_Frozen):
    """`solution/<harness>.json`: turns of tool calls and the final answer. A turn may hold several parallel calls."""

    calls: tuple[tuple[Call, ...], ...]
    answer: str = ""

    @field_validator("calls", mode="before")
    @classmethod
    def _turns(cls, value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list of calls, found {type(value).__name__}")
        if [] in value:
            raise ValueError(f"turn {value.index([])} is an empty list; expected a call or a list of calls")
        return [turn if isinstance(turn, list) else [turn] for turn in value]

    def messages(self) -> list[AssistantMessage]:
        """One message per turn, then the answer."""
        turns = [
            AssistantMessage(
                tool_calls=tuple(
                    ToolCall(id=f"oracle_{turn}_{position}", name=call.name, arguments=call.arguments)
                    for position, call in enumerate(calls)
                )
            )
            for turn, calls in enumerate(self.calls)
        ]
        return [*turns, AssistantMessage(text=self.answer)]

    def mentions(self, text: str) -> bool:
        """Whether any call's arguments contain `text`."""
        return any(text in json.dumps(call.arguments, ensure_ascii=False) for calls in self.calls for call in calls)


def broken(message: str) -> EnvkitError:
    """The error for a solution that can't be played: the task's fault, never a score."""
    return EnvkitError(message, kind=FailureKind.SOLUTION_FAILED, boundary=Boundary.POLICY)


def read_script(path: Path) -> Script:
    """Reads scripted tool calls.

    Raises:
        EnvkitError: SOLUTION_FAILED, naming the file and the place in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise broken(f"{path} can't be read: {error}") from error
    except json.JSONDecodeError as error:
        raise broken(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise broken(f"{path} is nested too deeply") from error
    try:
        return Script.model_validate(value)
    except ValidationError as error:
        raise broken(f"{path}: {describe_faults(error, Script)}") from error


def pack(folder: Path, *, skip: tuple[str, ...] = ()) -> bytes:
    """A tar of a solution folder in memory, modes kept, members below `solution/`, equal for equal folders.

    Args:
        skip: Files that stay out, relative to the folder.

    Raises:
        EnvkitError: SOLUTION_FAILED where it is too large or holds anything but files, folders and links.
    """
    buffer = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for root, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted([*folders, *names]):
                path = Path(root, name)
                relative = str(path.relative_to(folder))
                if relative in skip:
                    continue
                status = path.lstat()
                info = tarfile.TarInfo(f"solution/{relative}")
                info.mode = stat.S_IMODE(status.st_mode)
                if stat.S_ISDIR(status.st_mode):
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                elif stat.S_ISLNK(status.st_mode):
                    info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
                    tar.addfile(info)
                elif stat.S_ISREG(status.st_mode):
                    data = path.read_bytes()
                    info.size = len(data)
                    total += len(data)
                    if total > MAX_SOLUTION_BYTES:
                        raise broken(f"the solution in {folder} is larger than {MAX_SOLUTION_BYTES >> 20} MiB")
                    tar.addfile(info, io.BytesIO(data))
                else:
                    raise broken(f"{path} is neither a file, a folder nor a link; a solution may hold nothing else")
    return buffer.getvalue()
