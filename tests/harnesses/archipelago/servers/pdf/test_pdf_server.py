"""The pdf app in a real server process, through the official client."""

from __future__ import annotations

from typing import Any


async def test_a_pdf_is_made_read_searched_and_looked_at(tools: Any) -> None:
    content = [{"type": "heading", "text": "Costs €"}, {"type": "table", "rows": [["Item", "Sum"], ["Rent", 5]]}]
    made = await tools.call("pdf", {"action": "create", "directory": "/r", "file_name": "a.pdf", "content": content})
    assert made.data["create"] == {
        "status": "success",
        "file_path": "/r/a.pdf",
        "message": made.data["create"]["message"],
    }
    read = await tools.call("pdf", {"action": "read_pages", "file_path": "/r/a.pdf", "pages": [1]})
    assert "| Rent | 5 |" in read.data["read_pages"]["raw_output"]
    found = await tools.call("pdf", {"action": "search", "file_path": "/r/a.pdf", "query": "costs €"})
    assert "Found 1 match" in found.data["search"]["raw_output"]
    page = await tools.call("pdf", {"action": "page_as_image", "file_path": "/r/a.pdf", "page_number": 1})
    assert page.images[0].startswith(b"\x89PNG")
    assert not page.error
