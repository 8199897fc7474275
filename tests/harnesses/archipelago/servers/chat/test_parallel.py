"""Fifty calls at once over the real server process: each stored once, nothing lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest


@pytest.mark.slow
async def test_fifty_calls_at_once(tools: Any) -> None:
    folder = tools.apps_data / "chat" / "Groups" / "Space AAA"
    folder.mkdir(parents=True)
    member = {"name": "Ann Ash", "email": "ann@firm.example", "user_type": "Human"}
    root = {"creator": member, "created_date": "Monday, March 2, 2026 at 9:00:00 AM UTC", "text": "Go",
            "topic_id": "t", "message_id": "AAA/t/t", "extra": [1, 2]}  # fmt: skip
    (folder / "group_info.json").write_text(json.dumps({"name": "Team", "members": [member]}))
    (folder / "messages.json").write_text(json.dumps({"messages": [root], "kept": True}))

    async def act(n: int) -> str:
        request: dict[str, Any] = {"channel_id": "Team", "message": f"m{n}"}
        request |= {"action": "post"} if n % 2 else {"action": "reply", "post_id": "AAA/t/t"}
        answer = await tools.call("chat", request)
        assert not answer.error, answer.text
        return str(answer.data[request["action"]]["message_id"])

    ids = await asyncio.gather(*(act(n) for n in range(50)))
    stored = json.loads((folder / "messages.json").read_text())
    assert stored["kept"] is True
    assert stored["messages"][0] == root
    assert sorted(m["message_id"] for m in stored["messages"][1:]) == sorted(ids)
    assert sorted(m["text"] for m in stored["messages"][1:]) == sorted(f"m{n}" for n in range(50))
    seen = await tools.call("chat", {"action": "get_replies", "channel_id": "Team", "post_id": "AAA/t/t"})
    assert seen.data["get_replies"]["total_replies"] == 25


async def test_every_action_and_a_broken_file(tools: Any) -> None:
    base = tools.apps_data / "chat" / "Groups"
    for name in ("Space AAA", "Space BBB"):
        (base / name).mkdir(parents=True)
        (base / name / "group_info.json").write_text(json.dumps({"name": name[-3:], "members": []}))
    (base / "Space BBB" / "messages.json").write_text("{")
    posted = await tools.call("chat", {"action": "post", "channel_id": "AAA", "message": "x"})
    post_id = posted.data["post"]["message_id"]
    for action, more in (("react", {"emoji": "tada"}), ("get_history", {}), ("delete", {})):
        request = {"action": action, "channel_id": "AAA", **({"post_id": post_id} if action != "get_history" else {})}
        done = await tools.call("chat", {**request, **more})
        assert not done.error, done.text
        assert "null" not in done.text
    broken = await tools.call("chat", {"action": "post", "channel_id": "BBB", "message": "x"})
    assert broken.error
    assert "/.apps_data/chat/Groups/Space BBB/messages.json is broken" in broken.text
    for action in ("list_channels", "list_users"):
        listed = await tools.call("chat", {"action": action})
        assert "Space BBB/messages.json is broken" in listed.data[action]["message"]
    me = await tools.call("chat", {"action": "get_profile", "user_id": "user@example.com"})
    assert me.data["get_profile"]["user"]["is_you"] is True
