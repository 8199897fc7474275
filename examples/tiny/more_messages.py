"""Seven more tasks that end in a mail, a post or an event, each made by one short call. See `demonstrations.py`.

The clerk invites nobody to his events, so these are not done in full; `best` says what is earned by the rest. Tasks of
Nordhavn, Vermeulen Roche and Morven belong to the pack's evaluation split.
"""

from __future__ import annotations

from examples.tiny.takes import Call, Demonstration, Look

__all__ = ["MESSAGES"]


def _post(space: str, sender: str, text: str) -> Call:
    """Puts a message before the others of a chat space."""
    said = f'{{"creator":{{"email":"{sender}"}},"text":"{text}","message_id":"a/b/b"}},'
    return "bash", {"command": f"sed -i '2a {said}' '/.apps_data/chat/Groups/Space {space}/messages.json'"}


def _event(title: str, start: str, end: str, place: str) -> Call:
    """Puts an event before the others of the calendar; times in UTC, like 20261110T083000Z."""
    said = f"BEGIN:VEVENT\\nUID:1\\nSUMMARY:{title}\\nDTSTART:{start}\\nDTEND:{end}\\nLOCATION:{place}\\nEND:VEVENT"
    return "bash", {"command": f'sed -i "4a {said}" /.apps_data/calendar/calendar.ics'}


def _mail(day: str, sender: str, to: str, cc: str, subject: str, text: str) -> Call:
    """Appends a mail to the mailbox."""
    said = f"From me {day}\\nFrom: {sender}\\nTo: {to}\\nCc: {cc}\\nSubject: {subject}\\n\\n{text}\\n"
    return "bash", {"command": f"printf '{said}' >> /.apps_data/mail/mailbox.mbox"}


MESSAGES: dict[str, Demonstration] = {
    "nda-status-post": Demonstration(
        (Look(_post("btUP7gTs4OW", "{sender}@calderlane.example", "No NDA: {names}"), 0.4),),
        {
            "sender": ("jonah.feld", "ruth.kaplan"),
            "names": (
                "Borealis Controls, Everline Partners",
                "Borealis Controls, Everline Partners, Pinnacle Water Tech",
                "Everline Partners, Orsted Valve Group",
            ),
        },
        "Posted.",
    ),
    "brasser-missing-documents": Demonstration(
        (Look(_post("L6VOx6yRTHE", "sanne.dewit@vermeulenroche.example", "{start} {numbers}"), 0.4),),
        {
            "start": ("Still missing:", "Missing:"),
            "numbers": (
                "R-03, R-06, R-11, R-16",
                "R-03, R-06, R-10, R-11, R-16",
                "R-03, R-06, R-13, R-16",
                "R-03, R-06, R-16",
            ),
        },
        "Posted.",
    ),
    "kade-hearing-event": Demonstration(
        (Look(_event("Kade hearing", "202611{day}T0{hour}3000Z", "202611{day}T150000Z", "Room {room}"), 0.4),),
        {"day": ("10", "09"), "hour": ("8", "7", "9"), "room": ("Erasmus", "Maas")},
        "The hearing is in the calendar.",
        best=0.7,
    ),
    "lender-call-event": Demonstration(
        (
            Look(
                _event("Curlew lenders' call", "20260528T{start}00Z", "20260528T{end}00Z", "Bridge {bridge}"),
                0.45,
            ),
        ),
        {"start": ("0930", "0900", "1030"), "end": ("1015", "1115"), "bridge": ("4471", "1234")},
        "The call is in the calendar.",
        best=0.778,
    ),
    "fjord-steering-invite": Demonstration(
        (Look(_event("Fjord steering group 3", "202602{day}T{start}00Z", "202602{day}T{end}00Z", "{room}"), 0.45),),
        {
            "day": ("26", "27"),
            "start": ("1200", "1130"),
            "end": ("1330", "1300"),
            "room": ("Kattegat", "Skagerrak"),
            "told": ("13:00", "12:30"),
        },
        "The steering group meets on {day} February 2026 at {told}.",
        best=0.818,
    ),
    "hallmark-exchange-mail": Demonstration(
        (
            Look(
                _mail(
                    "Wed Mar 11 09:00:00 2026",
                    "elin.prosser@tarrantmoss.example",
                    "{to}@sefton-grieve.example",
                    "helena.tarrant@tarrantmoss.example, ruth.lindqvist@corriganjoinery.example",
                    "Corrigan v Hallmark: exchange of lists",
                    "We agree to exchange lists at 4 pm on {day} April 2026. Inspection ends on {last} April 2026.",
                ),
                0.5,
            ),
        ),
        {"to": ("sunita.rao", "mark.tolley"), "day": ("7", "3", "6"), "last": ("21", "17", "20")},
        "The mail is sent.",
    ),
    "overdue-reminder-mail": Demonstration(
        (
            Look(
                _mail(
                    "Wed Jan 14 09:00:00 2026",
                    "alex.moreno@harrowpike.example",
                    "{to}@stonefield.example",
                    "desmond.pike@harrowpike.example",
                    "Reminder",
                    "{invoices} are overdue. Please pay GBP {amount} by {day} January 2026.",
                ),
                0.4,
            ),
        ),
        {
            "to": ("ledger", "accounts"),
            "invoices": ("INV-0289 and INV-0299", "INV-0289, INV-0299 and INV-0309"),
            "amount": ("91,484.40", "96,704.40", "92,354.40"),
            "day": ("21", "28", "20"),
        },
        "The reminder has been sent.",
    ),
}
