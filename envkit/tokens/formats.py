"""Reading tool calls and reasoning out of sampled ids, for templates that no package knows.

Delimiters that a tokenizer holds as one token are recognised by that token alone: a model that *writes about*
`<tool_call>` with ordinary tokens has made no call. Where the tokenizer has no such token the text decides. Formats:
`hermes` (JSON inside `<tool_call>`), `xml` (`<function=name><parameter=key>`), `json` (the whole answer is one object
with a name), `none`. Used by `template`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from envkit.messages import ToolCall, ToolSpec
from envkit.tokens.render import Parsed, arguments_json
from envkit.tokens.shield import Tokenizer

__all__ = ["FORMATS", "Reader", "guess_format"]

FORMATS = ("hermes", "xml", "json", "none")

_MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_THINK, _UNTHINK, _CALL, _UNCALL = (chr(0x100000 + i) for i in range(4))  # plane 16: no sampled text means them
_MARK_CHARS = (_THINK, _UNTHINK, _CALL, _UNCALL)
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


def guess_format(chat_template: str) -> str:
    """The tool call format a chat template asks for, by the words it uses; `none` where it mentions no known one."""
    if "<function=" in chat_template:
        return "xml"
    if "<tool_call>" in chat_template:
        return "hermes"
    if '"parameters"' in chat_template and '"name"' in chat_template:
        return "json"
    return "none"


class Reader:
    """Parses completions of one tokenizer in one format."""

    def __init__(self, tokenizer: Tokenizer, format: str) -> None:
        self._tokenizer = tokenizer
        self._format = format
        added = tokenizer.get_added_vocab()
        self._by_id = {added[m]: c for m, c in zip(_MARKS, _MARK_CHARS, strict=True) if m in added}
        self._by_text = [(m, c) for m, c in zip(_MARKS, _MARK_CHARS, strict=True) if m not in added]

    def _marked(self, ids: Sequence[int]) -> str:
        """Decoded text with one private character per delimiter."""
        out: list[str] = []
        run: list[int] = []
        for id in [*ids, None]:
            char = None if id is None else self._by_id.get(id)
            if id is not None and char is None:
                run.append(id)
                continue
            if run:
                text = self._tokenizer.decode(run, skip_special_tokens=False)
                for mark in _MARK_CHARS:
                    text = text.replace(mark, "\ufffd")
                for literal, mark in self._by_text:
                    text = text.replace(literal, mark)
                out.append(text)
                run = []
            if char is not None:
                out.append(char)
        return "".join(out)

    def _plain(self, text: str) -> str:
        for mark, char in zip(_MARKS, _MARK_CHARS, strict=True):
            text = text.replace(char, mark)
        return text

    def read(self, ids: Sequence[int], tail: Sequence[int], tools: Sequence[ToolSpec] | None) -> Parsed:
        """Reads a completion without its stop token; `tail` is the end of the prompt (it may have opened `<think>`)."""
        text = self._marked(ids)
        prompt = self._marked(tail)
        reasoning: str | None = None
        opened = prompt.rfind(_THINK) > prompt.rfind(_UNTHINK)
        if opened or text.lstrip().startswith(_THINK):
            body = text if opened else text.lstrip()[1:]
            thought, closed, rest = body.partition(_UNTHINK)
            if not closed:
                return Parsed(text="", reasoning=self._plain(thought).strip(), open_reasoning=True)
            reasoning, text = self._plain(thought).strip() or None, rest.lstrip("\n")
        if self._format == "none":
            return Parsed(text=self._plain(text), reasoning=reasoning)
        if self._format == "json":
            return self._whole_json(text, reasoning)
        return self._blocks(text, reasoning, tools)

    def _blocks(self, text: str, reasoning: str | None, tools: Sequence[ToolSpec] | None) -> Parsed:
        before, *blocks = text.split(_CALL)
        if not blocks and self._format == "xml" and "<function=" in before:
            # some models leave the outer tag out
            before, found = before[: before.index("<function=")], before[before.index("<function=") :]
            blocks = [found + _UNCALL]
        calls: list[ToolCall] = []
        for block in blocks:
            body, closed, _ = block.partition(_UNCALL)
            raw = self._plain(body).strip()
            if self._format == "xml":
                found_calls = _FUNCTION.findall(raw)
                if not found_calls or not closed:
                    calls.append(_broken(len(calls), raw, "the tool call is not closed" if not closed else _WANT_XML))
                for name, inner in found_calls if closed else ():
                    arguments = {k: _typed(v, name, k, tools) for k, v in _PARAMETER.findall(inner)}
                    calls.append(
                        ToolCall(
                            id=f"call_{len(calls)}",
                            name=name.strip(),
                            arguments=arguments,
                            raw_arguments=arguments_json(arguments),
                        )
                    )
            else:
                calls.append(
                    _json_call(len(calls), raw) if closed else _broken(len(calls), raw, "the tool call is not closed")
                )
        return Parsed(text=self._plain(before).strip(), reasoning=reasoning, tool_calls=tuple(calls))

    def _whole_json(self, text: str, reasoning: str | None) -> Parsed:
        plain = self._plain(text).strip()
        if plain.startswith("{") and '"name"' in plain:
            call = _json_call(0, plain)
            if call.error is None:
                return Parsed(text="", reasoning=reasoning, tool_calls=(call,))
        return Parsed(text=plain, reasoning=reasoning)


_WANT_JSON = 'expected {"name": ..., "arguments": {...}}'
_WANT_XML = "expected <function=name><parameter=key>value</parameter></function>"


def _broken(number: int, raw: str, why: str, name: str = "") -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, raw_arguments=raw, error=why)


def _json_call(number: int, raw: str) -> ToolCall:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return _broken(number, raw, f"the tool call is not valid JSON ({error}); {_WANT_JSON}")
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return _broken(number, raw, f"the tool call has no name; {_WANT_JSON}")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        return ToolCall.parse(f"call_{number}", value["name"], arguments)
    if not isinstance(arguments, dict):
        return _broken(number, raw, f"the arguments are no object; {_WANT_JSON}", value["name"])
    return ToolCall(
        id=f"call_{number}", name=value["name"], arguments=arguments, raw_arguments=arguments_json(arguments)
    )


def _typed(text: str, tool: str, key: str, tools: Sequence[ToolSpec] | None) -> Any:
    """An XML parameter in the type the tool's schema asks for: text stays text, everything else is read as JSON."""
    schema: Any = next((t.parameters.get("properties", {}).get(key) for t in tools or () if t.name == tool), None)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
