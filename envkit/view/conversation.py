"""A conversation in pages: an outline of every message with the size of its parts, and the parts themselves on demand.

Read from `trajectory.json` (ATIF of any version) without insisting on the schema: what an older program or another one
wrote is shown as far as it goes. An item is one message, or the results of its tool calls; long texts come cut, with
their length, and any piece of them can be asked for. Parsed conversations are kept for as long as their file stays the
same, a few at a time. Used by the viewer's pages.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envkit.regular_file import read_regular

__all__ = ["Conversation", "Conversations"]

#: Characters of one text in a page; beyond them it is cut, and the rest is asked for.
CUT = 6_000
_HEAD = 180
_KEPT = 6
_MOST_BYTES = 256 << 20
#: An image's `data:` URL is handed on up to this size, in characters.
_IMAGE = 8 << 20
_IMAGE_KINDS = ("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;")

Item = dict[str, Any]


@dataclass
class Conversation:
    """One conversation, main or a sub-agent's.

    Attributes:
        items: In order; see `_items`.
        about: The agent, its totals, the tools it was offered.
        threads: Sub-agents' conversations by name.
    """

    items: list[Item]
    about: dict[str, Any]
    threads: dict[str, Conversation] = field(default_factory=dict)

    def outline(self) -> list[list[Any]]:
        """Per item: kind, head, characters, number of the turn, tokens sampled, whether something failed, and an
        estimate of the lines that it takes."""
        return [
            [i["kind"], i["head"], i["size"], i["turn"], i.get("tokens"), bool(i.get("bad")), i["lines"]]
            for i in self.items
        ]

    def page(self, start: int, count: int) -> list[Item]:
        return [_cut_item(item) for item in self.items[max(0, start) : max(0, start) + count]]

    def part(self, item: int, part: int, start: int, count: int) -> dict[str, Any]:
        """A piece of one text of an item. Raises `IndexError`."""
        text = self.items[item]["parts"][part].get("text", "")
        return {"start": start, "size": len(text), "text": text[start : start + count]}

    def search(self, words: str, most: int = 2_000) -> list[list[int]]:
        """Where a text occurs, without regard to case: (item, part, position) of at most `most` places."""
        needle = words.lower()
        out: list[list[int]] = []
        for number, item in enumerate(self.items):
            for part, piece in enumerate(item["parts"]):
                for name in ("text", "name"):
                    hay = str(piece.get(name) or "").lower()
                    at = hay.find(needle)
                    while at >= 0 and len(out) < most:
                        out.append([number, part, at if name == "text" else -1])
                        at = hay.find(needle, at + max(1, len(needle)))
        return out


class Conversations:
    """Parsed conversations, kept while their files stay the same. Thread-safe."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, int, int], Conversation] = OrderedDict()

    def get(self, attempt: Path, thread: str | None = None) -> Conversation:
        """The conversation of an attempt.

        Raises:
            FileNotFoundError: It left none, or no such thread.
            ValueError: The file holds no conversation.
        """
        path = attempt / "trajectory.json"
        status = path.lstat()
        key = (str(path), status.st_mtime_ns, status.st_size)
        with self._lock:
            found = self._found.get(key)
            if found is None:
                if status.st_size > _MOST_BYTES:
                    raise ValueError(f"the trajectory has {status.st_size:,} bytes; at most {_MOST_BYTES:,} are read")
                found = self._found[key] = _parse(path)
                while len(self._found) > self._kept:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
        if thread is None:
            return found
        if thread not in found.threads:
            raise FileNotFoundError(f"no thread {thread!r}")
        return found.threads[thread]


def _parse(path: Path) -> Conversation:
    try:
        value = json.loads(read_regular(path, _MOST_BYTES, links=False))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        raise ValueError("it is no trajectory: expected an object with a list `steps`")
    return _conversation(value, 3)


def _conversation(value: dict[str, Any], levels: int) -> Conversation:
    items = list(_items(value["steps"]))
    agent = _dict(value.get("agent"))
    tools = [_dict(_dict(t).get("function") or t) for t in _list(agent.get("tool_definitions"))]
    threads: dict[str, Conversation] = {}
    for number, sub in enumerate(_list(value.get("subagent_trajectories")), start=1):
        if isinstance(sub, dict) and isinstance(sub.get("steps"), list) and levels:
            name = str(sub.get("trajectory_id") or sub.get("session_id") or f"thread {number}")
            threads[name] = _conversation(sub, levels - 1)
    about = {
        "agent": str(agent.get("name") or ""),
        "version": str(agent.get("version") or ""),
        "model": agent.get("model_name") if isinstance(agent.get("model_name"), str) else None,
        "schema": str(value.get("schema_version") or ""),
        "tools": [
            {"name": str(t.get("name") or ""), "description": str(t.get("description") or "")[:600]}
            for t in tools[:500]
        ],
        "totals": _dict(value.get("final_metrics")),
        "count": len(items),
    }
    return Conversation(items, about, threads)


def _items(steps: list[Any]) -> Iterator[Item]:
    """One item a message and one for each run of tool results.

    An item has `kind` (system, user, agent, tool), `parts` (each `type`: text, reasoning, call, result, image), `turn`
    (of the agent, from 1), `head`, `size`.
    """
    turn = 0
    for step in steps:
        if not isinstance(step, dict):
            continue
        kind = step.get("source") if step.get("source") in ("system", "user", "agent") else "system"
        extra = _dict(step.get("extra"))
        metrics = _dict(step.get("metrics"))
        parts: list[dict[str, Any]] = []
        if isinstance(step.get("reasoning_content"), str) and step["reasoning_content"]:
            parts.append({"type": "reasoning", "text": step["reasoning_content"]})
        parts += _content(step.get("message"))
        names: dict[str, str] = {}
        for call in _list(step.get("tool_calls")):
            call = _dict(call)
            more = _dict(call.get("extra"))
            name, id = str(call.get("function_name") or "?"), str(call.get("tool_call_id") or "")
            names[id] = name
            parts.append(_call(id, name, call.get("arguments"), more))
        results = _list(_dict(step.get("observation")).get("results"))
        if kind == "agent" and extra.get("sampled", True) is not False:
            turn += 1
        if parts or not results:
            item: Item = {"kind": kind, "turn": turn if kind == "agent" else None, "parts": parts}
            item["at"] = step.get("timestamp") if isinstance(step.get("timestamp"), str) else None
            item["tokens"] = metrics.get("completion_tokens")
            item["context"] = _dict(metrics.get("extra")).get("context_tokens") or metrics.get("prompt_tokens")
            item["finish"] = extra.get("finish")
            item["node"] = extra.get("trace_node")
            item["copied"] = bool(step.get("is_copied_context"))
            item["sampled"] = extra.get("sampled", True) is not False
            yield _finished(item)
        if results:
            answered = [_result(_dict(result), names) for result in results]
            yield _finished({"kind": "tool", "turn": turn or None, "parts": [p for ps in answered for p in ps]})


def _call(id: str, name: str, arguments: Any, extra: dict[str, Any]) -> dict[str, Any]:
    """A call: `text` is its arguments as the model wrote them, `args` the parsed ones for a reader."""
    raw = extra.get("raw_arguments")
    text = raw if isinstance(raw, str) else json.dumps(arguments, ensure_ascii=False, indent=1)
    part: dict[str, Any] = {"type": "call", "id": id, "name": name, "text": text}
    if extra.get("error") is not None:
        part["error"] = str(extra["error"])
    elif isinstance(arguments, dict):
        part["args"] = arguments
    return part


def _result(result: dict[str, Any], names: dict[str, str]) -> list[dict[str, Any]]:
    extra = _dict(result.get("extra"))
    id = str(result.get("source_call_id") or extra.get("tool_call_id") or "")
    parts = _content(result.get("content")) or [{"type": "text", "text": ""}]
    for part in parts:
        if part["type"] == "text":
            part |= {"type": "result", "id": id, "name": str(extra.get("name") or names.get(id) or "")}
            part["bad"] = bool(extra.get("is_error"))
    return parts


def _content(content: Any) -> list[dict[str, Any]]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    out: list[dict[str, Any]] = []
    for piece in _list(content):
        piece = _dict(piece)
        source = _dict(piece.get("source"))
        url = source.get("path")
        if isinstance(piece.get("text"), str):
            if piece["text"]:
                out.append({"type": "text", "text": piece["text"]})
        elif isinstance(url, str) and url.startswith(_IMAGE_KINDS) and len(url) <= _IMAGE:
            out.append({"type": "image", "url": url, "text": ""})
        else:
            out.append({"type": "text", "text": f"[{piece.get('type')}: {str(url)[:200]}]"})
    return out


def _finished(item: Item) -> Item:
    parts = item["parts"]
    said = next((p for p in parts if p["type"] in ("text", "result") and p["text"].strip()), None)
    calls = [p["name"] for p in parts if p["type"] == "call"]
    head = said["text"].strip()[:_HEAD].partition("\n")[0] if said else ""
    if calls:
        head = f"{', '.join(calls[:4])}{' …' if len(calls) > 4 else ''}" + (f" · {head}" if head else "")
    item["head"] = head or next((p["text"].strip()[:_HEAD] for p in parts if p["text"].strip()), "")
    item["size"] = sum(len(p["text"]) for p in parts)
    item["bad"] = any(p.get("bad") or p.get("error") for p in parts)
    item["lines"] = sum(2 + _lines(p) for p in parts)
    return item


def _lines(part: dict[str, Any]) -> int:
    text = str(part["text"])[:CUT]
    return min(400, text.count("\n") + len(text) // 110 + 1)


def _cut_item(item: Item) -> Item:
    parts = []
    for part in item["parts"]:
        size = len(part["text"])
        cut = {**part, "size": size, "text": part["text"][:CUT]}
        if "args" in cut and size > CUT:
            cut["args"] = {key: _cut_value(value) for key, value in list(cut["args"].items())[:50]}
        parts.append(cut)
    return {**item, "parts": parts}


def _cut_value(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= CUT else text[:CUT] + "…"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
