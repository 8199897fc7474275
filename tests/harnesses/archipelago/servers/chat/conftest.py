"""A small chat for each test, and calls of its tools as the server makes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import Context
from envkit.harnesses.archipelago.servers.chat import APP

ANN = {"name": "Ann Ash", "email": "ann@firm.example", "user_type": "Human"}
BO = {"name": "Bo Berg", "email": "bo@firm.example", "user_type": "Human"}
BOT = {"name": "Deploy", "email": "deploy@firm.example", "user_type": "Bot"}


def said(who: dict[str, str], when: str, text: str, message_id: str, **more: Any) -> dict[str, Any]:
    return {"creator": who, "created_date": when, "text": text, "topic_id": message_id.split("/")[1],
            "message_id": message_id, **more}  # fmt: skip


HISTORY = {
    "messages": [
        said(ANN, "Monday, March 2, 2026 at 9:00:00 AM UTC", "Morning", "AAA/t1/t1",
             attached_files=[{"original_name": "plan.pdf", "export_name": "File-plan.pdf"}], secret_field={"n": 1.50}),
        said(BO, "Monday, March 2, 2026 at 1:05:00\u202fPM UTC", "Hi Ann 世界", "AAA/t1/r1",
             reactions=[{"emoji": {"unicode": "👍", "id": 7}, "reactor_emails": ["ann@firm.example"]}]),
        said(BO, "Monday, March 2, 2026 at 12:30:00 PM UTC", "Lunch?", "AAA/t2/t2"),
    ],
    "quoted": {"by": "nobody"},
}  # fmt: skip


class Chat:
    def __init__(self, root: Path) -> None:
        self.files, self.state = root / "filesystem", root / "apps" / "chat"
        self.files.mkdir()
        self.settings: dict[str, str] = {}
        self.put("Groups/Space AAA/group_info.json", {"name": "Deal team", "members": [ANN, BO]})
        self.put("Groups/Space AAA/messages.json", HISTORY)
        self.put("Groups/DM BBB/group_info.json", {"name": "", "members": [ANN, BO]})
        self.put("Groups/DM BBB/messages.json", {"messages": []})
        self.put("Groups/Space CCC/group_info.json", {"name": "Alerts", "members": [ANN, BOT], "kind": "x"})
        self.put("Users/User 1/user_info.json", {"user": {**ANN, "position": "Partner"}, "membership_info": []})
        self.put("Users/User 2/user_info.json", {"user": BO, "membership_info": []})

    def put(self, path: str, value: Any) -> Path:
        target = self.state / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return target

    def stored(self, folder: str = "Space AAA") -> Any:
        return json.loads((self.state / "Groups" / folder / "messages.json").read_bytes())

    @property
    def context(self) -> Context:
        return Context(self.files, self.state.parent, self.state, self.settings)

    def call(self, name: str, **arguments: Any) -> Any:
        tool = next(t for t in APP.tools if t.name == name)
        module, _, function = tool.handler.partition(":")
        handler: Callable[..., Any] = getattr(
            import_module(f"envkit.harnesses.archipelago.servers.{APP.package}.{module}"), function
        )
        return handler(tool.arguments.model_validate(arguments), self.context)


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    return Chat(tmp_path)
