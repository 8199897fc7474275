"""Markdown as blocks: headings, paragraphs, list items, code, quotes and tables, with their inline text normalised.

What renders the same reads the same: `*a*` and `_a_`, wrapped and unwrapped paragraphs, `*` and `-` bullets, both kinds
of headings. Used by the diff and the tool servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text

__all__ = ["Markdown", "MarkdownBlock", "read_markdown"]

MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """One block.

    Attributes:
        kind: `heading`, `paragraph`, `item`, `code`, `table row`, `html`, `rule`, `front matter`.
        level: A heading's level, an item's depth; 0 otherwise.
        text: Its text, links as `text <target>`, emphasis with stars, code with backticks, cells joined by ` | `.
        detail: A code block's language, an item's number or bullet, quotes around it (`>`).
        heading: The number of the heading it stands under, 0 before the first; `index` counts blocks under it from 1.
    """

    kind: str
    level: int
    text: str
    detail: str
    heading: int
    index: int


@dataclass(frozen=True, slots=True)
class Markdown:
    blocks: tuple[MarkdownBlock, ...]


def read_markdown(data: bytes) -> Markdown:
    """Reads a Markdown file; an empty one has no blocks. Raises `Unreadable`."""
    from markdown_it import MarkdownIt

    if len(data) > MAX_BYTES:
        raise Unreadable(Problem.TOO_BIG, f"it has {len(data)} bytes; at most {MAX_BYTES} are read as Markdown")
    text = decode_text(data) if data else ""
    reader = _Reader()
    if text.startswith("---\n") and (end := text.find("\n---\n", 4)) > 0:
        reader.add("front matter", 0, text[4:end].strip(), "")
        text = text[end + 5 :]
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    reader.read(parser.parse(text))
    return Markdown(tuple(reader.blocks))


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[MarkdownBlock] = []
        self.heading = self.index = 0

    def add(self, kind: str, level: int, text: str, detail: str) -> None:
        if kind == "heading":
            self.heading, self.index = self.heading + 1, 0
        else:
            self.index += 1
        self.blocks.append(MarkdownBlock(kind, level, text, detail, self.heading, self.index))

    def read(self, tokens: Sequence[Any]) -> None:
        lists: list[tuple[bool, list[int]]] = []
        quotes = 0
        fresh = False  # the next paragraph is an item's first
        row: list[str] | None = None
        kind, level = "paragraph", 0
        for token in tokens:
            quote = ">" * quotes
            match token.type:
                case "heading_open":
                    kind, level = "heading", int(token.tag[1:])
                case "heading_close":
                    kind, level = "paragraph", 0
                case "bullet_list_open":
                    lists.append((False, [0]))
                case "ordered_list_open":
                    lists.append((True, [int(token.attrs.get("start", 1)) - 1]))
                case "bullet_list_close" | "ordered_list_close":
                    lists.pop()
                case "list_item_open":
                    lists[-1][1][0] += 1
                    fresh = True
                case "list_item_close":
                    fresh = False
                case "blockquote_open":
                    quotes += 1
                case "blockquote_close":
                    quotes -= 1
                case "tr_open":
                    row = []
                case "tr_close":
                    self.add("table row", 0, " | ".join(row or ()), quote)
                    row = None
                case "inline" if row is not None:
                    row.append(_inline(token.children or ()))
                case "inline" if kind == "heading":
                    self.add(kind, level, _inline(token.children or ()), quote)
                case "inline" if lists and fresh:
                    ordered, number = lists[-1]
                    mark = f"{number[0]}." if ordered else "-"
                    self.add("item", len(lists), _inline(token.children or ()), quote + mark)
                    fresh = False
                case "inline":
                    self.add("paragraph", len(lists), _inline(token.children or ()), quote)
                case "fence" | "code_block":
                    self.add("code", 0, token.content.rstrip("\n"), quote + token.info.strip())
                case "html_block":
                    self.add("html", 0, token.content.strip(), quote)
                case "hr":
                    self.add("rule", 0, "", quote)
                case _:
                    pass


def _inline(tokens: Sequence[Any]) -> str:
    out: list[str] = []
    targets: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special":
                out.append(token.content)
            case "softbreak":
                out.append(" ")
            case "hardbreak":
                out.append("\n")
            case "code_inline":
                out.append(f"`{token.content}`")
            case "em_open" | "em_close":
                out.append("*")
            case "strong_open" | "strong_close":
                out.append("**")
            case "s_open" | "s_close":
                out.append("~~")
            case "link_open":
                targets.append(str(token.attrs.get("href", "")))
            case "link_close":
                out.append(f" <{targets.pop()}>" if targets else "")
            case "image":
                out.append(f"![{token.content}]({token.attrs.get('src', '')})")
            case "html_inline":
                out.append(token.content)
            case _:
                pass
    return " ".join("".join(out).split(" "))
