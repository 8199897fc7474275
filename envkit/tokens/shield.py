"""Keeps text that came from outside from turning into control tokens.

A workbook cell may contain the characters of `<|im_end|>`. Tokenizers map them, wherever they stand in a rendered
prompt, to the token that ends a turn: the content would forge the conversation's structure. The shield replaces every
such literal in message contents by a private character before a template sees it, and encodes it as plain text pieces
when that character comes out of the template again. Text without such literals is encoded exactly as without the
shield. Used by both renderers; `Shield` stands in for the tokenizer that they are handed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from envkit.failure import EnvkitError

__all__ = ["RenderError", "Shield", "Tokenizer"]

_FIRST = 0xF0000  # plane 15, a private use area: no text means anything by it
_LAST = 0xFFFFD
_PRIVATE = f"[{chr(_FIRST)}-{chr(_LAST)}]"
#: How JSON with ensure_ascii would write a private character: a template that does it would hide them from us. Contents
#: that spell such an escape out are covered like control literals, so that what is found afterwards is the template's.
_ESCAPE = r"\\ud(?i:b[89ab][0-9a-f]\\ud[c-f][0-9a-f]{2})"
_ESCAPED = re.compile(_ESCAPE)


class RenderError(EnvkitError):
    """A conversation can't be rendered: the template refuses it, or uses something the shield can't follow."""


class Tokenizer(Protocol):
    """What is needed of a Hugging Face tokenizer."""

    eos_token_id: int | None

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str: ...

    def convert_tokens_to_ids(self, tokens: str) -> Any: ...

    def get_added_vocab(self) -> dict[str, int]: ...

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


class Shield:
    """A tokenizer that reads private characters as the literals they stand for.

    `cover` puts them in; `encode` (and calling the object, with offsets) takes them out. Everything else is the
    wrapped tokenizer's.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        literals = sorted((t for t in tokenizer.get_added_vocab() if len(t) > 1), key=len, reverse=True)
        self._literal = re.compile("|".join([*map(re.escape, literals), _PRIVATE, _ESCAPE]))
        self._private = re.compile(_PRIVATE)
        self._texts: list[str] = []
        self._chars: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    # ---- putting in -----------------------------------------------------------------------------------------------

    def cover(self, value: Any) -> Any:
        """A JSON-shaped value with every control literal in its strings (values, not keys) covered."""
        if isinstance(value, str):
            return self._literal.sub(self._char, value)
        if isinstance(value, dict):
            return {k: self.cover(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.cover(v) for v in value]
        return value

    def _char(self, match: re.Match[str]) -> str:
        text = match.group()
        char = self._chars.get(text)
        if char is None:
            if _FIRST + len(self._texts) > _LAST:
                raise RenderError("too many different control literals in one conversation's contents")
            char = self._chars[text] = chr(_FIRST + len(self._texts))
            self._texts.append(text)
        return char

    def uncover(self, text: str) -> str:
        """The text with its literals back in place, for people and comparisons."""
        return self._private.sub(lambda m: self._text(m.group()), text)

    def _text(self, char: str) -> str:
        index = ord(char) - _FIRST
        if index >= len(self._texts):
            raise RenderError(f"the template produced the private character U+{ord(char):X}, which nobody put in")
        return self._texts[index]

    # ---- taking out -----------------------------------------------------------------------------------------------

    def encode(self, text: str, *args: Any, add_special_tokens: bool = False, **kwargs: Any) -> list[int]:
        if self._texts and _ESCAPED.search(text):
            raise RenderError("the chat template escapes non-ASCII text; contents can't be kept from control tokens")
        if not self._private.search(text):
            return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))
        out: list[int] = []
        at = 0
        for match in self._private.finditer(text):
            if match.start() > at:
                out += self._tokenizer.encode(text[at : match.start()], add_special_tokens=False)
            out += self._plain(self._text(match.group()))
            at = match.end()
        if at < len(text):
            out += self._tokenizer.encode(text[at:], add_special_tokens=False)
        return out

    def __call__(
        self, text: str, *, add_special_tokens: bool = False, return_offsets_mapping: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """Encodes with character offsets, as fast tokenizers do."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        at = 0
        spans = [(m.start(), m.end()) for m in self._private.finditer(text)]
        for start, end in [*spans, (len(text), len(text))]:
            if start > at:
                piece = self._tokenizer(
                    text[at:start], add_special_tokens=add_special_tokens, return_offsets_mapping=True
                )
                ids += piece["input_ids"]
                offsets += [(a + at, b + at) for a, b in piece["offset_mapping"]]
            if end > start:
                plain = self._plain(self._text(text[start]))
                ids += plain
                offsets += [(start, end)] * len(plain)
            at = end
        out: dict[str, Any] = {"input_ids": ids}
        if return_offsets_mapping:
            out["offset_mapping"] = offsets
        return out

    def _plain(self, text: str) -> list[int]:
        """Text in which no control literal is recognised: each is cut behind its first character."""
        out: list[int] = []
        at = 0
        for match in self._literal.finditer(text):
            literal = match.group()
            for piece in (text[at : match.start()], literal[0]):
                if piece:
                    out += self._tokenizer.encode(piece, add_special_tokens=False)
            out += self._plain(literal[1:])
            at = match.end()
        if text[at:]:
            out += self._tokenizer.encode(text[at:], add_special_tokens=False)
        return out
