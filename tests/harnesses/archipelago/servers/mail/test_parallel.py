"""Fifty calls at once over the real server process: each stored once, nothing lost, every answer its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envkit.office.mail import read_mbox


@pytest.mark.slow
async def test_fifty_calls_at_once(tools: Any) -> None:
    async def send(n: int) -> str:
        answer = await tools.call("mail", {"action": "send", "from_email": "ann@firm.example", "body": f"Text {n}",
                                           "to_email": "bo@firm.example", "subject": f"Subject {n}"})  # fmt: skip
        assert not answer.error, answer.text
        return str(answer.data["send"]["mail_id"])

    async def look() -> int:
        answer = await tools.call("mail", {"action": "list", "limit": 100})
        assert not answer.error, answer.text
        assert len(answer.data["list"]["mails"]) == answer.data["list"]["count"]
        return int(answer.data["list"]["count"])

    found = await asyncio.gather(*(send(n) for n in range(40)), *(look() for _ in range(10)))
    stored = read_mbox((tools.apps_data / "mail" / "sent.mbox").read_bytes())
    assert sorted(m.message_id for m in stored) == sorted(found[:40])
    assert sorted(m.subject for m in stored) == sorted(f"Subject {n}" for n in range(40))
    assert all(m.body.strip() == m.subject.replace("Subject", "Text") for m in stored)
    assert all(0 <= count <= 40 for count in found[40:])


async def test_a_mistake_and_a_broken_file_are_told_as_errors(tools: Any) -> None:
    folder = tools.apps_data / "mail"
    folder.mkdir()
    (folder / "sent.mbox").write_bytes(b"PK\x03\x04 no mailbox")
    wrong = await tools.call("mail", {"action": "send", "to_email": "nobody", "subject": "x", "body": "y"})
    assert wrong.error
    assert "'nobody' is no e-mail address" in wrong.text
    broken = await tools.call("mail", {"action": "send", "to_email": "a@b.example", "subject": "x", "body": "y"})
    assert broken.error
    assert "/.apps_data/mail/sent.mbox can't be read" in broken.text
    listed = await tools.call("mail", {"action": "list"})
    assert not listed.error
    assert "/.apps_data/mail/sent.mbox can't be read" in listed.data["list"]["message"]


async def test_the_individual_tools_over_the_server(start_tools: Any) -> None:
    tools = await start_tools(apps=("mail",), mode="individual")
    sent = await tools.call("send_mail", {"input": {"from_email": "a@b.example", "to_email": "c@d.example",
                                                    "subject": "Hi", "body": "Text"}})  # fmt: skip
    assert not sent.error, sent.text
    listed = await tools.call("list_mails", {"limit": 5})
    [mail] = listed.json["mails"]
    read = await tools.call("read_mail", {"mail_id": mail["mail_id"]})
    assert read.json["body"] == "Text"
    assert "null" not in read.text
    reply = await tools.call("reply_mail", {"input": {"original_mail_id": mail["mail_id"], "body": "Yes"}})
    assert not reply.error, reply.text
    found = await tools.call("search_mail", {"input": {"subject": "re: hi"}})
    assert [m["in_reply_to"] for m in found.json["mails"]] == [mail["mail_id"]]
