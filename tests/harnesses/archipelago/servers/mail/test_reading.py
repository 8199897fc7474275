"""Lists, search by date and thread, whole messages; broken files named and the rest read."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError


def ids(result: Any) -> list[str]:
    return [m.mail_id.strip("<>").partition("@")[0] for m in result.mails]


def test_the_newest_come_first_whatever_zone_they_are_written_in(mail: Any) -> None:
    found = mail.call("list_mails")
    assert ids(found) == ["three", "two", "one"]
    assert (found.count, found.total, found.has_more, found.page) == (3, 3, False, 0)


def test_pages_say_whether_there_is_more(mail: Any) -> None:
    first = mail.call("list_mails", limit=2)
    assert (ids(first), first.has_more) == (["three", "two"], True)
    assert "offset=2" in first.message
    last = mail.call("list_mails", limit=2, offset=2)
    assert (ids(last), last.has_more, last.page) == (["one"], False, 1)
    beyond = mail.call("list_mails", offset=9)
    assert beyond.mails == []
    assert "beyond the last" in beyond.message


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        ("2026-03-03", None, ["three", "two"]),
        ("2026-03-02", None, ["three", "two", "one"]),  # 23:30 at -05:00 is the 2nd on the message's own clock
        (None, "2026-03-02", ["one"]),  # the day itself is included
        (None, "2026-03-03", ["two", "one"]),
        ("2026-03-03", "2026-03-03", ["two"]),
        ("2026-03-03T09:00:00", "2026-03-03T09:00:00", ["two"]),
        ("2026-03-03T04:29:59Z", None, ["three", "two", "one"]),  # the moment of "one" is 04:30 UTC
        ("2026-03-03T04:30:01+00:00", None, ["three", "two"]),
        (None, "2026-03-04T11:00:00Z", ["three", "two", "one"]),
        (None, "2026-03-04T10:59:59Z", ["two", "one"]),
        ("2026/03/04", None, ["three"]),
        ("Tue, 3 Mar 2026 09:00:00 +0000", None, ["three", "two"]),
    ],
)
def test_date_filters(mail: Any, after: str | None, before: str | None, expected: list[str]) -> None:
    assert ids(mail.call("search_mail", after_date=after, before_date=before)) == expected


def test_date_filters_that_are_none(mail: Any) -> None:
    with pytest.raises(ToolError, match=r"after_date 'yesterday' is no date; write YYYY-MM-DD"):
        mail.call("search_mail", after_date="yesterday")
    with pytest.raises(ToolError, match="is later than before_date"):
        mail.call("search_mail", after_date="2026-03-04", before_date="2026-03-01")


def test_messages_without_a_readable_date_are_listed_last_and_match_no_date(mail: Any) -> None:
    text = mail.box.read_text().replace("Date: Wed, 4 Mar 2026 12:00:00 +0100", "Date: soon")
    mail.box.write_text(text)
    assert ids(mail.call("list_mails")) == ["two", "one", "three"]
    assert ids(mail.call("search_mail", after_date="2000-01-01")) == ["two", "one"]


def test_people_and_subjects_match_in_part(mail: Any) -> None:
    assert ids(mail.call("search_mail", from_email="CY LOW")) == ["one"]
    assert ids(mail.call("search_mail", to_email="dan@")) == ["one"]  # copies count as recipients
    assert ids(mail.call("search_mail", subject="quote")) == ["two", "one"]
    nothing = mail.call("search_mail", subject="quota")
    assert (nothing.mails, nothing.has_more) == ([], False)
    assert "of 3 in the mailbox" in nothing.message


def test_a_thread_holds_messages_without_the_header_too(mail: Any) -> None:
    assert ids(mail.call("search_mail", thread_id="<one@firm.example>")) == ["two", "one"]
    assert ids(mail.call("search_mail", thread_id="one@firm.example")) == ["two", "one"]


def test_the_search_says_that_it_was_cut(mail: Any) -> None:
    found = mail.call("search_mail", limit=1)
    assert found.has_more
    assert "before_date=2026-03-04" in found.message


def test_a_whole_message(mail: Any) -> None:
    read = mail.call("read_mail", mail_id="one@firm.example")
    assert read.from_email == "Cy Low <cy@client.example>"
    assert read.to == ["Ann Ash <ann@firm.example>", "bo@firm.example"]
    assert read.cc == ["dan@client.example"]
    assert (read.body, read.body_format) == ("Please send the quote.", "plain")
    assert read.folder == "/.apps_data/mail/mailbox.mbox" or read.folder.endswith("mail/mailbox.mbox")


def test_an_unknown_id_names_near_ones(mail: Any) -> None:
    with pytest.raises(ToolError, match=r"there is no message '<one@elsewhere>' among 3; near it: <one@firm"):
        mail.call("read_mail", mail_id="<one@elsewhere>")
    with pytest.raises(ToolError, match="list or search shows the ids"):
        mail.call("read_mail", mail_id="<zzz@elsewhere>")


def test_attachments_and_html(mail: Any) -> None:
    message = EmailMessage()
    message["Message-ID"] = "<rich@firm.example>"
    message["From"], message["To"], message["Subject"] = "Änne <ae@firm.example>", "ann@firm.example", "Größe"
    message["Date"] = "Thu, 5 Mar 2026 09:00:00 +0000"
    message["X-Attachments"] = "/Deal/terms.txt, /Deal/gone.pdf"
    message.set_content("See <b>below</b>")
    message.add_alternative('<p>See <a href="https://x.example/a?b=1">below</a></p>', subtype="html")
    message.add_attachment(b"old terms", maintype="text", subtype="plain", filename="terms.txt")
    message.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="räte.csv")
    with mail.box.open("ab") as box:
        box.write(b"From ae@firm.example Thu Mar  5 09:00:00 2026\n" + message.as_bytes() + b"\n")
    (mail.files / "Deal").mkdir()
    (mail.files / "Deal" / "terms.txt").write_text("new terms")
    read = mail.call("read_mail", mail_id="<rich@firm.example>")
    assert (read.subject, read.from_email) == ("Größe", "Änne <ae@firm.example>")
    assert (read.body_format, read.links) == ("html", ["https://x.example/a?b=1"])
    by_name = {a.name: a for a in read.attachments}
    assert by_name["terms.txt"].path == "/Deal/terms.txt"
    assert "has changed since" in by_name["terms.txt"].where
    assert (by_name["räte.csv"].text, by_name["räte.csv"].size) == ("a,b\n1,2\n", 8)
    assert by_name["gone.pdf"].where == "nowhere: there is no file /Deal/gone.pdf"
    assert by_name["gone.pdf"].size is None
    listed = mail.call("list_mails").mails[0]
    assert listed.attachments == ["terms.txt", "räte.csv", "gone.pdf"]


def test_every_mbox_is_read_and_a_broken_one_named(mail: Any) -> None:
    (mail.state / "Archive").mkdir()
    text = mail.box.read_text()
    old = text[text.index("From bo@") :].replace("three@", "four@").replace("Lunch?", "Dinner?")
    (mail.state / "Archive" / "2025.mbox").write_text(old)
    (mail.state / "torn.mbox").write_bytes(b"\x00\x01 this is no mailbox")
    found = mail.call("list_mails")
    assert sorted(ids(found)) == ["four", "one", "three", "two"]
    assert {m.folder for m in found.mails} == {"mailbox", "Archive/2025"}
    assert "torn.mbox can't be read: it is no mbox" in found.message
    assert mail.call("read_mail", mail_id="<four@firm.example>").subject == "Dinner?"
    with pytest.raises(ToolError, match=r"torn\.mbox can't be read"):
        mail.call("read_mail", mail_id="<five@firm.example>")


def test_a_mailbox_that_is_not_there_is_empty(mail: Any) -> None:
    mail.box.unlink()
    mail.state.rmdir()
    found = mail.call("list_mails")
    assert (found.mails, found.total, found.message) == ([], 0, "The mailbox is empty.")
    assert not mail.state.exists()


def test_a_link_out_of_the_folder_is_not_followed(mail: Any, tmp_path: Any) -> None:
    outside = tmp_path / "outside.mbox"
    outside.write_text(mail.box.read_text().replace("@firm.example>", "@secret.example>"))
    (mail.state / "link.mbox").symlink_to(outside)
    assert mail.call("list_mails").total == 3
