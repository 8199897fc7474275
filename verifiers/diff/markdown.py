"""The diff of Markdown by its blocks: what renders the same gives no finding.

Kinds: `heading`, `heading.text`, `heading.level`, `paragraph`, `paragraph.text`, `item...`, `code...`, `table row...`,
`html...`, `rule`, each also with `.order`; `block.kind` where a block became one of another kind; `item.detail` for its
number, `code.detail` for its language.
"""

from __future__ import annotations

from envkit.office.markdown import Markdown, MarkdownBlock
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.sequences import one
from envkit.verifiers.diff.wording import alikeness

__all__ = ["diff_markdown"]


def _place(block: MarkdownBlock) -> str:
    return f"§{block.heading}" if block.kind == "heading" else f"§{block.heading} ¶{block.index}"


def diff_markdown(before: Markdown, after: Markdown) -> list[Finding]:
    """The differences of two Markdown files."""
    a, b = before.blocks, after.blocks
    keys = [[(x.kind, x.text) for x in side] for side in (a, b)]
    texts = [[x.text if x.text.strip() else None for x in side] for side in (a, b)]

    def likeness(i: int, j: int) -> float:
        return alikeness(a[i].text, b[j].text) - (0 if a[i].kind == b[j].kind else 0.3)

    found = align(
        keys[0], keys[1], similarity=likeness, threshold=0.4, coarser=[(texts[0], texts[1])],
        movable=lambda key: bool(key[1].strip()),  # type: ignore[index]
    )  # fmt: skip
    out: list[Finding] = []
    for i, j in found.pairs:
        x, y = a[i], b[j]
        where, to = _place(x), _place(y)
        if x.kind != y.kind:
            out.append(one("block.kind", Change.CHANGED, where, to, x.kind, y.kind))
        if x.text != y.text:
            kind = x.kind if x.kind == y.kind else "block"
            out.append(one(f"{kind}.text", Change.CHANGED, where, to, x.text, y.text))
        if x.kind == y.kind and x.level != y.level:
            out.append(one(f"{x.kind}.level", Change.CHANGED, where, to, x.level, y.level))
        if x.kind == y.kind and x.detail != y.detail and not _renumbered(x, y):
            out.append(one(f"{x.kind}.detail", Change.CHANGED, where, to, x.detail, y.detail))
    out += [one(f"{a[i].kind}.order", Change.MOVED, _place(a[i]), _place(b[j]), a[i].text, b[j].text)
            for i, j in found.moved]  # fmt: skip
    out += [one(a[i].kind, Change.REMOVED, _place(a[i]), None, a[i].text) for i in found.removed]
    out += [one(b[j].kind, Change.ADDED, None, _place(b[j]), None, b[j].text) for j in found.added]
    return out


def _renumbered(x: MarkdownBlock, y: MarkdownBlock) -> bool:
    """Both are numbered items: their numbers follow from what comes before them."""
    return x.kind == "item" and x.detail.endswith(".") and y.detail.endswith(".")
