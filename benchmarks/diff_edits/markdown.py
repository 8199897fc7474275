"""Single edits of Markdown, on the text; written again in the other of Markdown's ways to say the same."""

from __future__ import annotations

from collections.abc import Callable

from diff_edits.edit import Edit, Expected

SUFFIX = "md"

_SAMPLE = """# Quarterly report

The first paragraph speaks of *revenue* and of [the plan](https://example.org/plan), which
goes on in a second line.

Another paragraph about the costs of freight.

## Figures

- north 12.4
- south 9.1
- east 3.3

1. collect
2. review
3. publish

| Region | Sales |
|--------|-------|
| North  | 12.4  |
| South  | 9.1   |

```python
print("hello")
```

> A quotation of some length.

## Outlook

The last paragraph is **confident** and has `code` in it.

![a chart](chart.png)
"""


def samples() -> dict[str, bytes]:
    return {"report": _SAMPLE.encode()}


def put(old: str, new: str, *expected: tuple[str, str | None]) -> Edit:
    def edit(data: bytes) -> tuple[bytes, Expected]:
        assert data.count(old.encode()) == 1, old
        return data.replace(old.encode(), new.encode()), list(expected)

    return edit


EDITS: dict[str, Edit] = {
    "word": put("costs of freight", "costs of storage", ("paragraph.text", "§1 ¶2")),
    "heading": put("## Outlook", "## Outlook for 2027", ("heading.text", "§3")),
    "level of a heading": put("## Outlook", "### Outlook", ("heading.level", "§3")),
    "paragraph inserted": put("## Figures", "An insertion that is new to everybody.\n\n## Figures",
        ("paragraph", "§1 ¶3")),
    "paragraph removed": put("Another paragraph about the costs of freight.\n\n", "", ("paragraph", "§1 ¶2")),
    "item": put("- south 9.1", "- south 9.2", ("item.text", "§2 ¶2")),
    "item inserted": put("- south 9.1", "- south 9.1\n- west 44.7", ("item", "§2 ¶3")),
    "item removed": put("- east 3.3\n", "", ("item", "§2 ¶3")),
    "item nested": put("- south 9.1", "  - south 9.1", ("item.level", "§2 ¶2")),
    "numbered item": put("2. review", "2. review twice", ("item.text", "§2 ¶5")),
    "bullets to numbers": put("- north 12.4\n- south 9.1\n- east 3.3", "1. north 12.4\n2. south 9.1\n3. east 3.3",
                              *[("item.detail", f"§2 ¶{n}") for n in (1, 2, 3)]),
    "target of a link": put("example.org/plan", "example.org/draft", ("paragraph.text", "§1 ¶1")),
    "text of a link": put("[the plan]", "[the draft]", ("paragraph.text", "§1 ¶1")),
    "emphasis": put("*revenue*", "revenue", ("paragraph.text", "§1 ¶1")),
    "strength": put("**confident**", "*confident*", ("paragraph.text", "§3 ¶1")),
    "code in a line": put("`code`", "code", ("paragraph.text", "§3 ¶1")),
    "cell": put("| South  | 9.1   |", "| South  | 9.9   |", ("table row.text", "§2 ¶9")),
    "row inserted": put("| South  | 9.1   |", "| South  | 9.1   |\n| West | 70.5 |", ("table row", "§2 ¶10")),
    "header of a table": put("| Sales |", "| Gross |", ("table row.text", "§2 ¶7")),
    "line of code": put('print("hello")', 'print("bye")', ("code.text", "§2 ¶10")),
    "language of code": put("```python", "```ruby", ("code.detail", "§2 ¶10")),
    "quotation": put("some length", "great length", ("paragraph.text", "§2 ¶11")),
    "quotation to prose": put("> A quotation", "A quotation", ("paragraph.detail", "§2 ¶11")),
    "picture": put("(chart.png)", "(other.png)", ("paragraph.text", "§3 ¶2")),
    "rule": put("## Outlook", "---\n\n## Outlook", ("rule", "§2 ¶12")),
}  # fmt: skip


def _otherwise(data: bytes) -> bytes:
    text = data.decode().replace("*revenue*", "_revenue_").replace("**confident**", "__confident__")
    text = (
        text.replace("- ", "* ")
        .replace("# Quarterly report", "Quarterly report\n===")
        .replace("which\ngoes", "which goes")
    )
    return text.replace("| North  | 12.4  |", "|North|12.4|").replace("2. review\n3.", "2. review\n3.").encode()


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "the other ways": lambda data: _otherwise(data.replace(b"|--------|-------|", b"|---|---|")),
    "other line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "lazy numbers": lambda data: data.replace(b"2. review", b"1. review").replace(b"3. publish", b"1. publish"),
}
