"""Mail sent, chat posted, events made; and the files as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Judge = Callable[..., Any]
MBOX, CHAT, ICS = ".apps_data/mail/all.mbox", ".apps_data/chat/Groups/Space deals", ".apps_data/calendar/calendar.ics"


def mail(number: int, to: str, subject: str, body: str, more: str = "") -> str:
    return (
        f"From x@y.z Thu Jan 15 09:00:00 2026\nMessage-ID: <m{number}@y.z>\nFrom: Ann <ann@firm.com>\nTo: {to}\n"
        f"Subject: {subject}\n{more}\n{body}\n\n"
    )


OLD = mail(1, "ann@firm.com", "Please send the memo", "From the client:\n>From where is it?\nThanks")


def test_a_message_must_be_sent_once_to_the_right_people(judge: Judge) -> None:
    def check(keys: str) -> str:
        return f'kind = "mail"\n{keys}'

    sent = mail(
        2,
        "Bob <BOB@firm.com>, cy@x.org",
        "Re: Please send the memo",
        "Fees are EUR 12.4k.",
        "Cc: dee@x.org\nIn-Reply-To: <m1@y.z>\n",
    )
    checks = (
        check('to = ["bob@firm.com"]\nsubject = ["memo"]\n'
        'number = {value = 12.4, unit = "EUR", scale = "thousand"}\nin_reply_to = "m1@y.z"'),
        check('to = ["bob@firm.com"]\ncc = ["dee@x.org"]\nexact_recipients = true'),
        check('to = ["bob@firm.com", "cy@x.org"]\ncc = ["dee@x.org"]\nexact_recipients = true\nmax_new = 1'),
        check('to = ["eve@firm.com"]'),
        check('to = ["eve@firm.com"]\ntimes = 0'),
        check('to = ["bob@firm.com"]\nsubject = "budget"'),
        check('to = ["bob@firm.com"]\nnot_contains = ["Fees"]'),
        check('from = "ann@firm.com"\nsubject = ["Please send the memo"]'),
    )  # fmt: skip
    initial = {MBOX: OLD.encode()}
    assert judge(*checks, initial=initial, final={MBOX: (OLD + sent).encode()}).outcomes == "pfpfpffp"
    # Sent twice is not sent once, with a new id or with the same one.
    for again in (sent, sent.replace("<m2@", "<m3@")):
        judged = judge(checks[0], initial=initial, final={MBOX: (OLD + sent + again).encode()})
        assert judged.outcomes == "f"
        assert "2 new messages" in judged["0"].message
    # What was there at the start was not sent.
    assert judge(check('to = ["ann@firm.com"]'), initial=initial, final={MBOX: OLD.encode()}).outcomes == "f"
    assert judge(check('to = ["ann@firm.com"]'), initial=initial, final={}).outcomes == "f"


def test_attachments_must_be_there(judge: Judge) -> None:
    sent = mail(2, "bob@x.org", "Memo", "See attached", "X-Attachments: /filesystem/out/memo.docx, gone.pdf\n")
    judged = judge(
        'kind = "mail"\nto = ["bob@x.org"]\nattachments = ["memo.docx"]',
        'kind = "mail"\nto = ["bob@x.org"]\nattachments = ["/filesystem/out/memo.docx"]',
        'kind = "mail"\nto = ["bob@x.org"]\nattachments = ["/filesystem/memo.docx"]',
        'kind = "mail"\nto = ["bob@x.org"]\nattachments = ["gone.pdf"]',
        'kind = "mail"\nto = ["bob@x.org"]\nattachments = ["other.pdf"]',
        initial={},
        final={MBOX: sent.encode(), "filesystem/out/memo.docx": b"x"},
    )
    assert judged.outcomes == "ppfff"


def test_mime_messages_are_decoded(judge: Judge) -> None:
    sent = (
        "From x\nMessage-ID: <2@x>\nFrom: a@b.c\nTo: =?utf-8?q?Bj=C3=B6rn?= <b@b.c>\n"
        "Subject: =?utf-8?b?R3LDvMOfZQ==?=\n"
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="q"\n\n--q\n'
        "Content-Type: text/html; charset=utf-8\n"
        "Content-Transfer-Encoding: quoted-printable\n\n<p>Fee: =E2=82=AC5k</p><style>x</style>\n--q\n"
        'Content-Type: application/pdf; name="a.pdf"\nContent-Disposition: attachment; filename="a.pdf"\n\nxx\n--q--\n'
    )
    check = (
        'kind = "mail"\nto = ["b@b.c"]\nsubject = "Grüße"\nattachments = ["a.pdf"]\n'
        'number = {value = 5000, unit = "EUR"}'
    )
    assert judge(check, initial={}, final={MBOX: sent.encode()}).outcomes == "p"


def chat(*texts: tuple[str, str]) -> dict[str, bytes]:
    creator = {"name": "Ann", "email": "ann@firm.com", "user_type": "Human"}
    messages = [
        {
            "creator": creator,
            "created_date": f"day {n}",
            "text": text,
            "topic_id": topic,
            "message_id": f"s/{topic}/m{n}",
        }
        for n, (topic, text) in enumerate(texts)
    ]
    info = {"name": "Deal room", "members": [creator]}
    return {
        f"{CHAT}/messages.json": json.dumps({"messages": messages}).encode(),
        f"{CHAT}/group_info.json": json.dumps(info).encode(),
    }


def test_chat_messages(judge: Judge) -> None:
    initial = chat(("t1", "How much is it?"))
    final = chat(("t1", "How much is it?"), ("t1", "It is EUR 12.4m"), ("t2", "Lunch?"))
    judged = judge(
        'kind = "chat"\nchannel = "deal room"\nnumber = {value = 12.4, unit = "EUR", scale = "million"}\n'
        'thread = "t1"\nsender = "ann@firm.com"',
        'kind = "chat"\nchannel = "Space deals"\ncontains = ["lunch"]\nthread = "t1"',
        'kind = "chat"\nchannel = "Space deals"\ncontains = ["how much"]',
        'kind = "chat"\nchannel = "Space deals"\ncontains = ["how much"]\ntimes = 0',
        'kind = "chat"\nchannel = "Space deals"\ncontains = ["12.4m"]\nmax_new = 1',
        'kind = "chat"\nchannel = "General"\ncontains = ["x"]',
        initial=initial,
        final=final,
    )  # fmt: skip
    assert judged.outcomes == "pffpff"
    broken = {**final, f"{CHAT}/messages.json": b"{"}
    assert (
        judge('kind = "chat"\nchannel = "deal room"\ncontains = ["x"]', initial=initial, final=broken).outcomes == "f"
    )


def event(uid: str, summary: str, times: str, more: str = "") -> str:
    return f"BEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{summary}\r\n{times}{more}END:VEVENT\r\n"


def ics(*events: str) -> bytes:
    return ("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n" + "".join(events) + "END:VCALENDAR\r\n").encode()


BERLIN = "DTSTART;TZID=Europe/Berlin:20260120T100000\r\nDTEND;TZID=Europe/Berlin:20260120T110000\r\n"
UTC = "DTSTART:20260120T090000Z\r\nDURATION:PT1H\r\n"
FLOATING = "DTSTART:20260120T100000\r\nDTEND:20260120T110000\r\n"
WRONG = "DTSTART:20260120T100000Z\r\nDTEND:20260120T110000Z\r\n"


def test_events_are_points_in_time(judge: Judge) -> None:
    check = (
        'kind = "calendar"\nsummary = "kick-off"\nstart = 2026-01-20T10:00:00\nend = 2026-01-20T11:00:00\n'
        'time_zone = "Europe/Berlin"\nattendees = ["bob@x.org"]\nlocation = ["Room 4"]\n'
    )
    more = 'ATTENDEE;CN="Bob; B:";PARTSTAT=NEEDS-ACTION:mailto:Bob@x.org\r\nLOCATION:Room 4\\, first\r\n  floor\r\n'
    for times, outcomes in ((BERLIN, "pp"), (UTC, "pf"), (FLOATING, "pf"), (WRONG, "ff")):
        final = {ICS: ics(event("1", "Project kick-off", times, more))}
        judged = judge(check, check + "same_zone = true", initial={ICS: ics()}, final=final)
        assert judged.outcomes == outcomes, times


def test_only_new_events_count_and_each_once(judge: Judge) -> None:
    made, old = event("1", "Kick-off", BERLIN), event("0", "Kick-off old", UTC)
    check = 'kind = "calendar"\nsummary = "kick-off"'
    gone = 'kind = "calendar"\nsummary = "kick-off old"\ntimes = 0'
    initial = {ICS: ics(old)}
    assert judge(check, gone, initial=initial, final={ICS: ics(old, made)}).outcomes == "pf"
    assert judge(check, gone, initial=initial, final={ICS: ics(made)}).outcomes == "pp"
    assert judge(check, initial=initial, final={ICS: ics(old)}).outcomes == "f"
    assert judge(check, initial=initial, final={ICS: ics(old, made, event("2", "Kick-off", BERLIN))}).outcomes == "f"
    cancelled = event("1", "Kick-off", BERLIN, "STATUS:CANCELLED\r\n")
    assert judge(check, initial=initial, final={ICS: ics(old, cancelled)}).outcomes == "f"
    assert judge(check, initial=initial, final={ICS: ics(old, made)[:-20]}).outcomes == "f"


def test_all_day_events(judge: Judge) -> None:
    made = event(
        "1", "Retreat", "DTSTART;VALUE=DATE:20260201\r\nDTEND;VALUE=DATE:20260204\r\n", "RRULE:FREQ=YEARLY\r\n"
    )
    judged = judge(
        'kind = "calendar"\nsummary = "retreat"\nstart = 2026-02-01\nend = 2026-02-03\nrecurring = true',
        'kind = "calendar"\nsummary = "retreat"\nend = 2026-02-04',
        'kind = "calendar"\nuid = "1"\nrecurring = false',
        initial={ICS: ics()},
        final={ICS: ics(made)},
    )
    assert judged.outcomes == "pff"


def test_files(judge: Judge) -> None:
    judged = judge(
        'kind = "file"\npath = "a.json"\nmin_bytes = 2\nunchanged = true',
        'kind = "file"\npath = "b.json"',
        'kind = "file"\npath = "b.json"\nvalid = false\nchanged = true',
        'kind = "file"\npath = "gone.txt"',
        'kind = "file"\npath = "gone.txt"\nexists = false',
        'kind = "file"\npath = "a.json"\nexists = false',
        'kind = "file"\npath = "fake.xlsx"',
        'kind = "file"\npath = "copy.json"\nsame_as = "a.json"',
        'kind = "file"\npath = "b.json"\nvalid = false\nsame_as = "a.json"',
        'kind = "file"\npath = "a.json"\nchanged = true',
        'kind = "file"\npath = "new.txt"\nunchanged = true',
        initial={"filesystem/a.json": b"{}", "filesystem/b.json": b"{}"},
        final={"filesystem/a.json": b"{}", "filesystem/b.json": b"{", "filesystem/fake.xlsx": b"not a zip",
        "filesystem/copy.json": b"{}",
               "filesystem/new.txt": b"x"},
    )  # fmt: skip
    assert judged.outcomes == "pfpfpffpff" + "m"
    assert judged["10"].failure.kind == "reference_invalid"


def test_nothing_else_was_changed(judge: Judge) -> None:
    initial = {"filesystem/a.txt": b"a", "filesystem/sub/b.txt": b"b", ".apps_data/mail/x.mbox": b""}
    checks = (
        'kind = "unchanged"\npaths = ["/filesystem/**"]',
        'kind = "unchanged"\npaths = ["/filesystem/**"]\nexcept = ["/filesystem/sub/*.txt"]',
        'kind = "unchanged"\npaths = ["/filesystem/*.txt"]\nallow_new = false',
        'kind = "unchanged"\npaths = ["/filesystem/nothing/*"]',
    )
    assert judge(*checks, initial=initial, final=initial).outcomes == "pppm"
    edited = {**initial, "filesystem/sub/b.txt": b"B", "filesystem/c.txt": b"new"}
    assert judge(*checks, initial=initial, final=edited).outcomes == "fpfm"
    removed = {"filesystem/sub/b.txt": b"b"}
    judged = judge(*checks, initial=initial, final=removed)
    assert judged.outcomes == "fffm"
    assert "/filesystem/a.txt is missing" in judged["0"].message
