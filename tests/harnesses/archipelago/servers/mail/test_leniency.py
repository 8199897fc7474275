"""What models call the fields of a message elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool
from envkit.harnesses.archipelago.servers.mail import APP


def test_recipients_by_their_usual_name_and_the_sender_left_out(mail: Any) -> None:
    fields = {"to": ["cy@client.example", "dan@client.example"], "subject": "Sum", "body": "Six."}
    for made in (
        call_tool(APP, "send_mail", fields, mail.context),
        call_meta(APP, "mail", {"action": "send", **fields}, mail.context),
    ):
        assert not made.error, made.text
    text = mail.box.read_text()
    assert text.count("Subject: Sum") == 2
    assert text.count("cy@client.example, dan@client.example") == 2


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("search", {"from_email": "cy"}),
        ("search", {"subject": "quote"}),
        ("read", {"message_id": "<one@firm.example>"}),
        ("reply", {"original_mail_id": "<one@firm.example>", "body": "x"}),
    ],
)
def test_fields_of_one_action_in_another(mail: Any, action: str, fields: dict[str, Any]) -> None:
    made = call_meta(APP, "mail", {"action": action, **fields}, mail.context)
    assert not made.error, made.text
    assert "one@firm.example" in made.text or action == "reply"
