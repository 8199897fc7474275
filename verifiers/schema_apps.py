"""The kinds of check on app state (mail, chat, calendar) and on what must not change. Public through `schema.py`.

Each docstring is the reference of its kind's keys, for those who write tasks.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envkit.verifiers.schema_files import TextualCheck
from envkit.verifiers.values import Alternatives, BaseCheck, CellValue, TreePath, TreePattern

#: Where a world keeps its mail, chat and calendar.
MAIL_ROOT, CHAT_ROOT, CALENDAR_ROOT = ".apps_data/mail", ".apps_data/chat", ".apps_data/calendar"


class MailCheck(TextualCheck):
    """A message in the mailbox that was not there at the start.

    `to`, `cc`, `bcc`, `from`, `subject` and `in_reply_to` choose the messages; the number of new messages chosen must
    be `times` (1 by default: sent twice is wrong); each of them must then meet the phrase rules, numbers and names,
    which look at the body, and have the attachments.

    Attributes:
        from: The sender's address.
        to, cc, bcc: Addresses that must be among the recipients; names and case don't matter.
        exact_recipients: And no other recipients of any sort.
        subject: Phrases that the subject must contain, all of them.
        in_reply_to: The Message-ID it answers.
        attachments: Files attached, as base names or paths; with `X-Attachments` headers the file must exist too.
        times: How many such messages; 0: none may have been sent.
        max_new: No more than so many new messages in all.
        mailbox: A folder that is searched for `*.mbox`, or one mbox file.
    """

    kind: Literal["mail"]
    from_: str | None = Field(default=None, alias="from")
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    exact_recipients: bool = False
    subject: tuple[Alternatives, ...] | str = ()
    in_reply_to: str | None = None
    attachments: tuple[str, ...] = ()
    times: int = Field(default=1, ge=0)
    max_new: int | None = Field(default=None, ge=0)
    mailbox: TreePath = MAIL_ROOT


class ChatCheck(TextualCheck):
    """A chat message that was not there at the start; the phrase rules, numbers and names choose it.

    Attributes:
        channel: The space or direct message: its folder name, or its display name (without case).
        sender: Name or e-mail of the author.
        thread: The topic id it must answer in.
        times: How many new messages of the channel meet all this; 0: none may. Default 1.
        max_new: No more than so many new messages in the channel.
        root: The folder with `Groups/` and `Users/`.
    """

    kind: Literal["chat"]
    channel: str
    sender: str | None = None
    thread: str | None = None
    times: int = Field(default=1, ge=0)
    max_new: int | None = Field(default=None, ge=0)
    root: TreePath = CHAT_ROOT


class CalendarCheck(TextualCheck):
    """An event in the calendar; `summary` and `uid` choose it, the rest must hold for it.

    Attributes:
        summary: Phrases that the title must contain, all of them.
        uid: The event's id.
        start, end: Compared as points in time. A TOML datetime with an offset is one; without an offset it is read in
            `time_zone` (an IANA name; default UTC). A TOML date means an all-day event (`end` = the last day).
        same_zone: The event's own time zone must be `time_zone` too.
        attendees: E-mail addresses that must be invited; `exact_attendees`: and no others.
        location: Phrases that the place must contain, all of them.
        recurring: It must repeat (true) or not (false).
        times: How many events are chosen and meet all this; 0: none may be chosen (it was cancelled). Default 1.
        new: Only events count that were not there, with the same content, at the start. Default true (false with
            times = 0).
        contains ...: Phrase rules, numbers and names look at the description.
        root: The folder with the `*.ics` files.
    """

    kind: Literal["calendar"]
    summary: tuple[Alternatives, ...] | str = ()
    uid: str | None = None
    start: CellValue | None = None
    end: CellValue | None = None
    time_zone: str | None = None
    same_zone: bool = False
    attendees: tuple[str, ...] = ()
    exact_attendees: bool = False
    location: tuple[Alternatives, ...] | str = ()
    recurring: bool | None = None
    times: int = Field(default=1, ge=0)
    new: bool | None = None
    root: TreePath = CALENDAR_ROOT

    @model_validator(mode="after")
    def _sound(self) -> CalendarCheck:
        import datetime as dt
        import zoneinfo

        for key, value in (("start", self.start), ("end", self.end)):
            if value is not None and not isinstance(value, dt.date):
                raise ValueError(f"{key} must be a TOML date or datetime without quotes, found {value!r}")
        if not self.summary and self.uid is None:
            raise ValueError("a calendar check needs summary or uid to choose an event")
        if self.same_zone and self.time_zone is None:
            raise ValueError("same_zone needs time_zone")
        if self.time_zone is not None:
            try:
                zoneinfo.ZoneInfo(self.time_zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
                raise ValueError(f"time_zone {self.time_zone!r} is not an IANA name like 'Europe/Berlin'") from error
        return self


class UnchangedCheck(BaseCheck):
    """Files that must be as they were at the start: nothing else was changed.

    Attributes:
        paths: Patterns, e.g. `["/filesystem/**"]`; files of the initial state that match must still be there,
            unchanged.
        except_: Written `except`: patterns that are left out.
        allow_new: New files that match are accepted. On by default.
        compare: `bytes`; or `meaning`: a file that was saved anew without any change that `envkit diff` finds is
            unchanged too.
    """

    kind: Literal["unchanged"]
    paths: tuple[TreePattern, ...] = Field(min_length=1)
    except_: tuple[TreePattern, ...] = Field(default=(), alias="except")
    allow_new: bool = True
    compare: Literal["bytes", "meaning"] = "bytes"


class ChangesCheck(BaseCheck):
    """What changed inside a file since the start: what was asked for, and nothing else.

    The file is compared with itself in the initial state as `envkit diff` does: by what it says and shows, so that
    saving it anew, or with another program, changes nothing. Run `envkit diff` on two versions to see addresses and
    kinds. A change is allowed when its address matches `where` (if given) and its kind matches `kinds` (if given);
    every other change fails the check. With neither, no change is allowed.

    Attributes:
        path: The file, of the final state.
        before: What it was at the start, where it was renamed or copied.
        where: Patterns of addresses: `Summary!B*`, `slide 3*`, `§2 *`. Upper and lower case are alike.
        kinds: Patterns of kinds: `cell.*`, `paragraph.text`.
        ignore: Patterns of kinds that are not looked at: what the program at hand loses when it saves, say (`chart.*`).
        must: Patterns of addresses; at each something must have changed.
        max_changes: At most so many changes, allowed ones counted.
        derived: Also look at values that only follow from other changes. Off by default.
    """

    kind: Literal["changes"]
    path: TreePath
    before: TreePath | None = None
    where: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    max_changes: int | None = Field(default=None, ge=0)
    derived: bool = False

    @model_validator(mode="after")
    def _comparable(self) -> ChangesCheck:
        for path in (self.path, self.before or self.path):
            if path.rpartition(".")[2].lower() in _CONVERTED:
                raise ValueError(f"{path!r} is of a type that only LibreOffice reads; it can't be compared by a check")
        if self.before is not None and _suffix(self.before) != _suffix(self.path):
            raise ValueError(f"{self.before!r} and {self.path!r} are of different types")
        return self


#: Types that are converted before they are read, which no confined child does.
_CONVERTED = ("doc", "dot", "odt", "rtf", "ppt", "pps", "odp")


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()
