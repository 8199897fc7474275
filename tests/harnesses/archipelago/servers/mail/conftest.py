"""A mailbox of its own for each test, and calls of its tools as the server makes them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import Context
from envkit.harnesses.archipelago.servers.mail import APP

ANN, BO, CY = "ann@firm.example", "bo@firm.example", "cy@client.example"


def message(key: str, sender: str, to: str, subject: str, date: str, body: str = "Hello.", *, extra: str = "") -> str:
    return (
        f"From {sender} Mon Mar  2 09:00:00 2026\nMessage-ID: <{key}@firm.example>\nDate: {date}\nFrom: {sender}\n"
        f"To: {to}\nSubject: {subject}\n{extra}\n{body}\n\n"
    )


MAILBOX = (
    message("one", f"Cy Low <{CY}>", f"Ann Ash <{ANN}>, {BO}", "Quote for March", "Mon, 2 Mar 2026 23:30:00 -0500",
            "Please send the quote.", extra="X-Thread-ID: <one@firm.example>\nCc: dan@client.example\n")
    + message("two", ANN, CY, "Re: Quote for March", "Tue, 3 Mar 2026 09:00:00 +0000", "Here it is.",
              extra="In-Reply-To: <one@firm.example>\nReferences: <one@firm.example>\n")
    + message("three", BO, ANN, "Lunch?", "Wed, 4 Mar 2026 12:00:00 +0100", "At noon.")
)  # fmt: skip


class Mailbox:
    def __init__(self, root: Path) -> None:
        self.files, self.state = root / "filesystem", root / "apps" / "mail"
        self.files.mkdir()
        self.state.mkdir(parents=True)
        self.settings: dict[str, str] = {}
        self.box = self.state / "mailbox.mbox"
        self.box.write_text(MAILBOX)

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
def mail(tmp_path: Path) -> Mailbox:
    return Mailbox(tmp_path)
