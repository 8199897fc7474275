"""The docs app in a real server process, through the official client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from envkit.office.document import read_document


async def test_a_document_is_made_read_and_edited(tools: Any) -> None:
    made = await tools.call(
        "docs", {"action": "create", "directory": "/r", "file_name": "a.docx", "content": ["one", "two"]}
    )
    assert made.data["create"]["file_path"] == "/r/a.docx", made.text
    read = await tools.call("docs", {"action": "read_content", "file_path": "/filesystem/r/a.docx"})
    assert "[body.p.1] two" in read.data["read_content"]["raw_output"]
    changed = await tools.call(
        "docs", {"action": "edit_text", "file_path": "/r/a.docx", "identifier": "body.p.1", "new_text": "2"}
    )
    assert "'two' -> '2'" in changed.data["edit_text"]["message"]
    refused = await tools.call(
        "docs", {"action": "edit_text", "file_path": "/r/a.docx", "identifier": "body.p.9", "new_text": "2"}
    )
    assert refused.error
    assert "there is no body.p.9" in refused.text


async def test_calls_at_once_lose_no_edit(tools: Any) -> None:
    content = [f"paragraph {n}" for n in range(6)]
    await tools.call("docs", {"action": "create", "directory": "/", "file_name": "a.docx", "content": content})
    edits = [
        tools.call(
            "docs", {"action": "edit_text", "file_path": "/a.docx", "identifier": f"body.p.{n}", "new_text": f"new {n}"}
        )
        for n in range(6)
    ]
    for made in await asyncio.gather(*edits):
        assert not made.error, made.text
    model = read_document(Path(tools.root, "a.docx").read_bytes())
    assert [p.text for p in model.paragraphs] == [f"new {n}" for n in range(6)]


@pytest.mark.slow
async def test_older_formats_are_read_inside_the_server_too(tools: Any) -> None:
    Path(tools.root, "old.rtf").write_bytes(rb"{\rtf1\ansi Hello from \b rtf\b0 .\par}")
    read = await tools.call("docs", {"action": "read_content", "file_path": "/old.rtf"}, timeout_s=120)
    assert not read.error, read.text
    assert "Hello from rtf." in read.text
