"""Sending, answering, forwarding: stored once, whole, and as other programs read it (Python's `mailbox` judges)."""

from __future__ import annotations

import email.policy
import mailbox
import os
import signal
import time
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

import pytest
from pydantic import ValidationError

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.mail import read_mbox

ME = "ann@firm.example"


def stored(path: Any) -> list[EmailMessage]:
    """The messages of a file, as the standard library reads them."""
    box = mailbox.mbox(str(path), create=False)
    parser = BytesParser(EmailMessage, policy=email.policy.default)
    return [parser.parsebytes(box.get_bytes(key)) for key in box.keys()]  # noqa: SIM118


def send(mail: Any, **more: Any) -> Any:
    arguments = {"from_email": ME, "to_email": "cy@client.example", "subject": "Hi", "body": "Hello.", **more}
    return mail.call("send_mail", **arguments)


def test_a_send_is_stored_exactly_once_and_nothing_else_changes(mail: Any) -> None:
    before = mail.box.read_bytes()
    sent = send(mail, to_email="Cy Low <cy@client.example>, bo@firm.example; dan@client.example", cc="e@f.example",
                bcc="g@h.example")  # fmt: skip
    assert mail.box.read_bytes().startswith(before)
    assert list(mail.state.iterdir()) == [mail.box]
    messages = stored(mail.box)
    assert len(messages) == 4
    last = messages[-1]
    assert last["Message-ID"] == sent.mail_id == last["X-Thread-ID"]
    assert [str(a) for a in last["To"].addresses] == [
        "Cy Low <cy@client.example>", "bo@firm.example", "dan@client.example",
    ]  # fmt: skip
    assert (last["Cc"], last["Bcc"], last["X-Body-Format"]) == ("e@f.example", "g@h.example", "plain")
    assert last["Date"].datetime.tzinfo is not None
    assert (sent.success, sent.recipients_count) == (True, 5)
    assert "Sent once" in sent.message
    assert "mailbox.mbox" in sent.message


def test_the_date_is_the_worlds(mail: Any) -> None:
    mail.settings["ENVKIT_NOW"] = "2026-03-05T08:15:00+00:00"
    send(mail)
    assert str(stored(mail.box)[-1]["Date"]).startswith("Thu, 05 Mar 2026 08:15:")


def test_an_empty_state_gets_its_file(mail: Any) -> None:
    mail.box.unlink()
    mail.state.rmdir()
    send(mail, from_email="")
    [message] = stored(mail.state / "sent.mbox")
    assert message["From"] == "user@example.com"  # nobody's mailbox yet


@pytest.mark.parametrize(
    ("names", "setting", "expected"),
    [
        (["a.mbox", "b.mbox"], "", "a.mbox"),
        (["a.mbox", "Sent.mbox"], "", "Sent.mbox"),
        (["a.mbox", "Sent Items.mbox"], "", "Sent Items.mbox"),
        (["a.mbox", "out.mbox"], "out.mbox", "out.mbox"),
        (["a.mbox"], "out.mbox", "a.mbox"),
    ],
)
def test_which_file_a_message_goes_to(mail: Any, names: list[str], setting: str, expected: str) -> None:
    text = mail.box.read_bytes()
    mail.box.unlink()
    for name in names:
        (mail.state / name).write_bytes(text)
    if setting:
        mail.settings["APP_MAIL_MBOX_FILENAME"] = setting
    send(mail)
    grown = [p.name for p in mail.state.iterdir() if p.read_bytes() != text]
    assert grown == [expected]


def test_a_broken_file_is_never_written_to(mail: Any) -> None:
    torn = mail.state / "sent.mbox"
    torn.write_bytes(b"no mailbox")
    sent = send(mail)
    assert torn.read_bytes() == b"no mailbox"
    assert len(stored(mail.box)) == 4
    assert "sent.mbox can't be read" in sent.message
    mail.box.unlink()
    with pytest.raises(ToolError, match=r"nothing was sent: .*sent\.mbox can't be read"):
        send(mail)
    assert torn.read_bytes() == b"no mailbox"


def test_text_survives_as_it_is(mail: Any) -> None:
    body = (
        "From here on:\n>From there\n\nFrom nobody Mon Mar  2 09:00:00 2026\nSubject: no\n\nÄrger, 世界 \U0001f600\n"
        + "x" * 3000
    )
    send(mail, subject="Grüße aus Köln " + "ü" * 200, body=body)
    assert len(read_mbox(mail.box.read_bytes())) == 4
    last = read_mbox(mail.box.read_bytes())[-1]
    assert last.body.rstrip("\n") == body
    assert last.subject == "Grüße aus Köln " + "ü" * 200
    assert len(stored(mail.box)) == 4
    assert mail.call("list_mails").mails[0].subject.startswith("Grüße aus Köln")


def test_lone_surrogates_and_nul_can_be_stored(mail: Any) -> None:
    send(mail, body="a\ud800b\0c", subject="x\udfffy")
    assert len(stored(mail.box)) == 4
    assert mail.call("list_mails").total == 4


def test_a_file_without_a_last_newline_is_not_joined_to_the_new_message(mail: Any) -> None:
    mail.box.write_bytes(mail.box.read_bytes().rstrip(b"\n"))
    send(mail)
    assert len(stored(mail.box)) == 4
    assert stored(mail.box)[2].get_content().strip() == "At noon."


def test_attachments_are_stored_beside_their_paths(mail: Any) -> None:
    (mail.files / "Deal, old").mkdir()
    (mail.files / "Deal, old" / "größe.bin").write_bytes(bytes(range(256)) * 5)
    (mail.files / "a.txt").write_text("From me\n")
    sent = send(mail, attachments=["/Deal, old/größe.bin", "filesystem/a.txt", "/a.txt"])
    message = stored(mail.box)[-1]
    parts = {p.get_filename(): p.get_content() for p in message.iter_attachments()}
    assert parts == {"größe.bin": bytes(range(256)) * 5, "a.txt": "From me\n"}
    last = read_mbox(mail.box.read_bytes())[-1]
    assert last.declared == ("/Deal, old/größe.bin", "/a.txt")
    assert "größe.bin, a.txt" in sent.message
    read = mail.call("read_mail", mail_id=sent.mail_id)
    assert [(a.name, a.size, a.path) for a in read.attachments] == [
        ("größe.bin", 1280, "/Deal, old/größe.bin"), ("a.txt", 8, "/a.txt"),
    ]  # fmt: skip


def test_html_has_a_plain_text_beside_it(mail: Any) -> None:
    send(mail, body="<p>Tariff &lt; 5 &amp; &gt; 3</p><p>Two</p>", body_format="html")
    last = stored(mail.box)[-1]
    assert last.get_content_type() == "multipart/alternative"
    assert last.get_body(("html",)).get_content().strip() == "<p>Tariff &lt; 5 &amp; &gt; 3</p><p>Two</p>"
    assert mail.call("list_mails").mails[0].mail_id == last["Message-ID"]
    read = mail.call("read_mail", mail_id=last["Message-ID"])
    assert (read.body, read.body_format) == ("Tariff < 5 & > 3\nTwo", "html")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"to_email": ""}, "to_email is empty"),
        ({"to_email": "cy"}, "to_email: 'cy' is no e-mail address"),
        ({"to_email": "cy@client"}, "is no e-mail address"),
        ({"to_email": "cy@client.example\nBcc: x@y.example"}, "must be on one line"),
        ({"cc": "a@b.example, nobody"}, "cc: 'nobody' is no e-mail address"),
        ({"from_email": "a@b.example, c@d.example"}, "from_email must be one address, found 2"),
        ({"subject": "  "}, "the subject is empty"),
        ({"subject": "a\nBcc: x@y.example"}, "subject must be on one line"),
        ({"subject": "s" * 999}, "at most 998"),
        ({"attachments": ["/no/such.pdf"]}, r"there is no /no/such\.pdf"),
        ({"attachments": ["/../../etc/passwd"]}, "leads out of"),
        ({"attachments": ["/"]}, "is a folder"),
        ({"in_reply_to": "a\nb"}, "must be on one line"),
    ],
)
def test_what_cant_be_sent_stores_nothing(mail: Any, change: dict[str, Any], reason: str) -> None:
    before = mail.box.read_bytes()
    with pytest.raises(ToolError, match=reason):
        send(mail, **change)
    assert mail.box.read_bytes() == before


def test_a_name_with_a_line_break_cant_become_a_header(mail: Any) -> None:
    (mail.files / "a\nBcc: x@y.example").write_text("a")
    before = mail.box.read_bytes()
    with pytest.raises(ToolError, match="control character in its name"):
        send(mail, attachments=["/a\nBcc: x@y.example"])
    assert mail.box.read_bytes() == before


def test_a_received_message_cant_smuggle_headers_into_the_answer(mail: Any) -> None:
    hostile = EmailMessage()
    hostile.set_content("hi")
    hostile.add_attachment(b"x", maintype="application", subtype="x", filename="f.bin")
    text = hostile.as_string().replace('filename="f.bin"', 'filename="=?utf-8?q?f=0ABcc:_x@y.example?="')
    head = (
        "From e@vil.example Thu Mar  5 09:00:00 2026\nMessage-ID: =?utf-8?q?<h@x>=0ABcc:_x@y.example?=\n"
        "Date: Thu, 5 Mar 2026 09:00:00 +0000\nFrom: E <e@vil.example>\n"
        f"To: {ME}\nSubject: =?utf-8?q?S=0ABcc:_x@y.example?=\nX-Thread-ID: =?utf-8?q?t=0ABcc:_x@y.example?=\n"
    )
    with mail.box.open("a") as box:
        box.write(head + text + "\n")
    mail_id = mail.call("list_mails").mails[0].mail_id
    for tool, more in (("reply_mail", {"body": "no"}), ("forward_mail", {"to_email": "bo@firm.example"})):
        mail.call(tool, original_mail_id=mail_id, **more)
        last = stored(mail.box)[-1]
        assert last["Bcc"] is None
        assert read_mbox(mail.box.read_bytes())[-1].bcc == ()


def test_addresses_beyond_ascii(mail: Any) -> None:
    sent = send(mail, to_email="Jürgen Groß <jürgen@bücher.example>", subject="Grüße")
    assert mail.call("read_mail", mail_id=sent.mail_id).to == ["Jürgen Groß <jürgen@bücher.example>"]
    mail.call("reply_mail", original_mail_id=sent.mail_id, body="Und?")
    last = read_mbox(mail.box.read_bytes())[-1]
    assert (last.to, last.subject) == (("jürgen@bücher.example",), "Re: Grüße")


def test_harmless_mistakes_are_taken_as_meant(mail: Any) -> None:
    (mail.files / "a.txt").write_text("a")
    send(mail, to_email=["cy@client.example", "Low, Dan <dan@client.example>"], attachments="/a.txt")
    last = stored(mail.box)[-1]
    assert [a.display_name for a in last["To"].addresses] == ["", "Low, Dan"]
    assert last["X-Attachments"] == "/a.txt"
    with pytest.raises(ValidationError):
        send(mail, body_format="rtf")


def test_a_named_parent_brings_its_thread(mail: Any) -> None:
    send(mail, in_reply_to="two@firm.example")
    last = stored(mail.box)[-1]
    assert last["In-Reply-To"] == "<two@firm.example>"
    assert last["References"] == "<one@firm.example> <two@firm.example>"
    assert last["X-Thread-ID"] == "<one@firm.example>"


def test_a_reply_goes_to_the_sender_from_the_owner_with_the_text_quoted(mail: Any) -> None:
    sent = mail.call("reply_mail", original_mail_id="<one@firm.example>", body="Coming up.")
    last = stored(mail.box)[-1]
    assert [str(a) for a in last["To"].addresses] == ["Cy Low <cy@client.example>"]
    assert (last["From"], last["Cc"], last["Subject"]) == (f"Ann Ash <{ME}>", None, "Re: Quote for March")
    assert (last["In-Reply-To"], last["References"]) == ("<one@firm.example>", "<one@firm.example>")
    assert last["X-Thread-ID"] == "<one@firm.example>"
    assert last.get_content().splitlines() == [
        "Coming up.", "", "On Mon, 02 Mar 2026 23:30 -0500, Cy Low <cy@client.example> wrote:",
        "> Please send the quote.",
    ]  # fmt: skip
    assert sent.recipients_count == 1


def test_a_reply_to_all_leaves_oneself_out(mail: Any) -> None:
    mail.call("reply_all_mail", original_mail_id="<one@firm.example>", body="Coming up.")
    last = stored(mail.box)[-1]
    assert [a.addr_spec for a in last["To"].addresses] == ["cy@client.example", "bo@firm.example"]
    assert [a.addr_spec for a in last["Cc"].addresses] == ["dan@client.example"]


def test_a_reply_to_ones_own_message_goes_on_to_its_recipients(mail: Any) -> None:
    mail.call("reply_mail", original_mail_id="<two@firm.example>", body="And?")
    last = stored(mail.box)[-1]
    assert (last["From"], last["To"], last["Subject"]) == (ME, "cy@client.example", "Re: Quote for March")
    assert last["References"] == "<one@firm.example> <two@firm.example>"


def test_reply_to_goes_before_from(mail: Any) -> None:
    text = mail.box.read_text().replace("Subject: Lunch?", "Subject: Lunch?\nReply-To: desk@firm.example")
    mail.box.write_text(text)
    mail.call("reply_mail", original_mail_id="<three@firm.example>", body="Yes.")
    assert stored(mail.box)[-1]["To"] == "desk@firm.example"


def test_a_reply_in_html_quotes_escaped(mail: Any) -> None:
    text = mail.box.read_text().replace("At noon.", "At <noon> & later.")
    mail.box.write_text(text)
    mail.call("reply_mail", original_mail_id="<three@firm.example>", body="<p>Yes.</p>", body_format="html")
    last = stored(mail.box)[-1]
    assert "At &lt;noon&gt; &amp; later." in last.get_body(("html",)).get_content()
    assert "> At <noon> & later." in last.get_body(("plain",)).get_content()


def test_a_forward_takes_text_and_attachments_along(mail: Any) -> None:
    (mail.files / "offer.txt").write_text("offer")
    (mail.files / "more.txt").write_text("more")
    first = send(mail, subject="Offer", attachments=["/offer.txt"])
    (mail.files / "offer.txt").write_text("changed meanwhile")
    sent = mail.call("forward_mail", original_mail_id=first.mail_id, to_email="zoe@bank.example", body="FYI",
                     attachments=["/more.txt"])  # fmt: skip
    last = stored(mail.box)[-1]
    assert (last["Subject"], last["To"], last["From"]) == ("Fwd: Offer", "zoe@bank.example", ME)
    assert (last["In-Reply-To"], last["X-Thread-ID"]) == (None, sent.mail_id)
    assert {p.get_filename(): p.get_content() for p in last.iter_attachments()} == {
        "offer.txt": "offer",
        "more.txt": "more",
    }
    text = last.get_body(("plain",)).get_content()
    assert text.startswith("FYI\n\n---------- Forwarded message ---------\nFrom: ann@firm.example\n")
    assert text.rstrip().endswith("Hello.")


def test_a_forward_of_a_file_that_is_gone_says_so(mail: Any) -> None:
    text = mail.box.read_text().replace("Subject: Lunch?", "Subject: Lunch?\nX-Attachments: Menus/menu.pdf")
    mail.box.write_text(text)
    sent = mail.call("forward_mail", original_mail_id="<three@firm.example>", to_email="zoe@bank.example")
    assert "names Menus/menu.pdf, but there is no such file" in sent.message
    assert stored(mail.box)[-1]["X-Attachments"] == "Menus/menu.pdf"


def test_the_sender_who_is_a_stranger_and_the_repetition_are_remarked(mail: Any) -> None:
    sent = send(mail, from_email="who@ever.example")
    assert "takes part in no other message; this mailbox is that of ann@firm.example" in sent.message
    again = send(mail, from_email="who@ever.example")
    assert f"was sent shortly before: {sent.mail_id}" in again.message


def test_a_call_killed_at_any_moment_leaves_the_old_file_or_the_new_one(mail: Any) -> None:
    (mail.files / "big.bin").write_bytes(os.urandom(1 << 20))
    before = mail.box.read_bytes()
    kinds = set()
    for delay_s in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2):
        mail.box.write_bytes(before)
        pid = os.fork()
        if pid == 0:
            try:
                send(mail, attachments=["/big.bin"])
            finally:
                os._exit(0)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        after = mail.box.read_bytes()
        assert after == before or len(read_mbox(after)) == 4
        assert after.startswith(before)
        kinds.add(after == before)
        assert mail.call("list_mails").total == (3 if after == before else 4)
    assert True in kinds
