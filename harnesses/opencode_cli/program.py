"""How OpenCode is started headless, and what its events say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from envkit.proxy import guarded

if TYPE_CHECKING:
    from envkit.harnesses.opencode_cli.harness import OpenCodeCliOptions
    from envkit.sandbox.base import Process, Sandbox

__all__ = ["INSIDE", "OpenCodeProgram"]

#: Where the folder with the programs `opencode` and `rg` is inside the sandbox.
INSIDE = "/opt/opencode"

_HOME = "/tmp/opencode-home"
_DISABLED = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "FFF")


class OpenCodeProgram:
    """One run of `opencode run` on one instruction. Implements `envkit.proxy.Program`."""

    name = "opencode"

    def __init__(self, instruction: str, options: OpenCodeCliOptions) -> None:
        self._instruction = instruction
        self._options = options
        self._errors: list[str] = []
        self.events: dict[str, int] = {}

    async def start(self, sandbox: Sandbox, url: str, token: str) -> Process:
        folder = sandbox.spec.home
        # The key is in the program's own environment, which it hands to its shells; it opens this trial's proxy only.
        process = await sandbox.spawn(
            [
                "sh",
                "-c",
                f'mkdir -p {_HOME} && exec "$@"',
                "sh",
                *guarded([f"{INSIDE}/opencode", *self._arguments(folder)]),
            ],
            env=self._environment(url, token),
            cwd=folder,
        )
        await process.write(self._instruction.encode("utf-8", "replace"))
        await process.close_stdin()
        return process

    def _arguments(self, folder: str) -> list[str]:
        return ["run", "--format", "json", "--title", "task", "--dir", folder, *self._options.arguments]

    def _environment(self, url: str, token: str) -> dict[str, str]:
        return {
            "PATH": f"{INSIDE}:/usr/local/bin:/usr/bin:/bin",
            "HOME": _HOME,
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "OPENCODE_CONFIG_CONTENT": json.dumps(self._config(url, token)),
            **{f"XDG_{kind}_HOME": f"{_HOME}/{kind.lower()}" for kind in ("DATA", "CONFIG", "CACHE", "STATE")},
            **{f"OPENCODE_DISABLE_{what}": "1" for what in _DISABLED},
        }

    def _config(self, url: str, token: str) -> dict[str, Any]:
        o = self._options
        model: dict[str, Any] = {
            "name": o.model_name,
            "tool_call": True,
            "limit": {"context": o.context_limit, "output": o.max_turn_tokens},
        }
        if o.vision:  # else it replaces pictures by a sentence
            model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "envkit",
            "options": {"baseURL": f"{url}/v1", "apiKey": token, "timeout": False},
            "models": {"policy": model},
        }
        build: dict[str, Any] = {"tools": {"webfetch": False, "task": o.sub_agents, "skill": False}}
        if o.prompt is not None:
            build["prompt"] = o.prompt
        return {
            "model": "envkit/policy",
            "small_model": "envkit/policy",
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "permission": {"*": "allow"},
            "compaction": {"auto": o.compaction},
            "provider": {"envkit": provider},
            "agent": {"build": build},
        }

    def said(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type"))[:40]
        if kind in self.events or len(self.events) < 100:  # what runs inside can write to its output too
            self.events[kind] = self.events.get(kind, 0) + 1
        if kind == "error":
            error = event.get("error")
            data = error.get("data") if isinstance(error, Mapping) else None
            message = data.get("message") if isinstance(data, Mapping) else None
            self._errors = [*self._errors[-2:], str(message or json.dumps(error, ensure_ascii=False))[:2000]]

    def trouble(self) -> str | None:
        return "; ".join(self._errors) or None
