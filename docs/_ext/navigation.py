"""The site's navigation, from docs/README.md alone: each of its sections becomes a caption, the pages that the section
links to become its entries, in their order. So the list that people read in the repository is the one beside every
page, and a page that it leaves out is an error of the build ("not included in any toctree")."""

from __future__ import annotations

import re

__all__ = ["with_navigation"]

_HEADING = re.compile(r"^## +(.+?)\s*$")
_PAGE = re.compile(r"\]\(([a-z0-9_/-]+)\.md(?:#[^)]*)?\)")


def with_navigation(readme: str) -> str:
    """The text of docs/README.md with a hidden list of pages for each of its sections."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    seen: set[str] = set()
    for line in readme.splitlines():
        heading = _HEADING.match(line)
        if heading:
            sections.append((heading[1], []))
        for page in _PAGE.findall(line):
            if page not in seen:
                seen.add(page)
                sections[-1][1].append(page)
    lists = []
    for caption, pages in sections:
        if pages:
            head = ["```{toctree}", ":hidden:", ":maxdepth: 1", *([f":caption: {caption}"] if caption else []), ""]
            lists.append("\n".join([*head, *pages, "```"]))
    return readme.rstrip() + "\n\n" + "\n\n".join(lists) + "\n"
