"""Who sends mail and posts in the worlds that ship with us: the person at whose desk the agent sits."""

from __future__ import annotations

import re

import pytest

from envkit.harnesses.archipelago.servers.app import Context
from envkit.harnesses.archipelago.servers.calendar.book import open_book
from envkit.harnesses.archipelago.servers.chat.store import open_store
from envkit.harnesses.archipelago.servers.mail.box import open_box
from envkit.harnesses.archipelago.servers.mail.sending import _me
from envkit.tasks.office import OfficePack
from envkit.tasks.office.catalog import WORLDS


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_the_owner_is_found_and_all_state_is_read(world: str) -> None:
    folder = OfficePack().build_world(world)
    apps = folder / ".apps_data"
    told = re.search(r"<(\S+@\S+)>", (apps / "README.md").read_text())
    assert told is not None
    contexts = {app: Context(folder / "filesystem", apps, apps / app) for app in ("mail", "chat", "calendar")}
    box, chat, book = open_box(contexts["mail"]), open_store(contexts["chat"]), open_book(contexts["calendar"])
    assert box.owner() == told[1]
    assert {_me(entry, box)[1] for entry in box.entries} == {told[1]}
    assert chat.me().email == told[1]
    assert not box.broken
    assert not chat.broken
    assert not book.broken
    assert not [entry.problem for entry in book.entries if entry.problem]
