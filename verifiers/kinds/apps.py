"""Judges of app state: mail sent, chat messages posted, calendar events made."""

from __future__ import annotations

import datetime as dt
import hashlib
import zoneinfo
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from envkit.office.calendar import Event, read_calendar
from envkit.office.chat import Channel, ChatMessage, read_chat
from envkit.office.mail import Message, parse_addresses, read_mbox
from envkit.office.problem import Unreadable
from envkit.snapshot import Snapshot
from envkit.verifiers.judging import AgentFault, Context, Finding, text_misses
from envkit.verifiers.phrases import Miss, find_phrase, normalise, same_text
from envkit.verifiers.schema import CalendarCheck, ChatCheck, MailCheck
from envkit.verifiers.values import Alternatives

__all__ = ["judge_calendar", "judge_chat", "judge_mail"]

T = TypeVar("T")


def _files(tree: Snapshot, root: str, extension: str) -> list[str]:
    """The files of one extension below a folder, or the folder's own path where it is such a file."""
    return [p for p in tree.paths() if p.endswith(extension) and (p == root or p.startswith(root + "/"))]


def _phrases(rules: tuple[Alternatives, ...] | str) -> tuple[Alternatives, ...]:
    return (rules,) if isinstance(rules, str) else rules


def _says(text: str, rules: tuple[Alternatives, ...] | str) -> bool:
    """Whether a short text contains all phrases."""
    plain = normalise(text)
    return all(
        any(find_phrase(plain, spelling) >= 0 for spelling in ((entry,) if isinstance(entry, str) else entry))
        for entry in _phrases(rules)
        if entry
    )


def _new(final: Sequence[T], initial: Sequence[T], key: Callable[[T], object]) -> list[T]:
    """What is in `final` beyond `initial`, copies counted."""
    known = Counter(key(item) for item in initial)
    out: list[T] = []
    for item in final:
        if known[key(item)] > 0:
            known[key(item)] -= 1
        else:
            out.append(item)
    return out


# --- mail ---


def _mail_key(message: Message) -> object:
    return message.message_id or hashlib.sha256(message.content).hexdigest()


def _addresses(written: Sequence[str]) -> set[str]:
    return {address for entry in written for address in parse_addresses(entry)}


def _chosen_mail(check: MailCheck, message: Message) -> bool:
    return (
        (check.from_ is None or message.sender in _addresses([check.from_]))
        and _addresses(check.to) <= set(message.to)
        and _addresses(check.cc) <= set(message.cc)
        and _addresses(check.bcc) <= set(message.bcc)
        and (check.in_reply_to is None or check.in_reply_to.strip("<> ") == message.in_reply_to.strip("<> "))
        and _says(message.subject, check.subject)
    )


def _show_mail(message: Message) -> str:
    return f"{message.subject!r} to {', '.join(sorted(message.recipients)) or 'nobody'}"


def judge_mail(check: MailCheck, context: Context) -> Finding:
    boxes = _files(context.final, check.mailbox, ".mbox")
    before = [
        message
        for path in (_files(context.initial, check.mailbox, ".mbox") if context.initial else [])
        for message in context.load_initial(path, read_mbox)
    ]
    after = [message for path in boxes for message in context.load(path, read_mbox)]
    new = _new(after, before, _mail_key)
    where = f"/{check.mailbox}"
    shown = "; ".join(_show_mail(m) for m in new[:5]) or "no new message"
    chosen = [m for m in new if _chosen_mail(check, m)]
    misses: list[Miss] = []
    if check.max_new is not None and len(new) > check.max_new:
        misses.append(
            Miss(f"at most {check.max_new} new messages", shown, f"{len(new)} new messages in {where}", where)
        )
    if len(chosen) != check.times:
        what = f"{len(chosen)} new messages with these addresses and subject, must be {check.times}"
        misses.append(Miss(f"{check.times} such message(s)", shown, f"{what}; new: {shown}", where))
        return Finding(misses, where=where)
    for message in chosen:
        misses += _mail_misses(check, message, context, f"{where} {message.message_id or message.subject!r}")
    return Finding(misses, actual=shown, where=where)


def _mail_misses(check: MailCheck, message: Message, context: Context, where: str) -> list[Miss]:
    misses, _ = text_misses(check, [message.body], f"the message {message.subject!r}", None)
    if check.exact_recipients:
        wanted = _addresses([*check.to, *check.cc, *check.bcc])
        extra = message.recipients - wanted
        if extra:
            found = ", ".join(sorted(extra))
            misses.append(Miss(", ".join(sorted(wanted)), found, f"the message also went to {found}", where))
    for name in check.attachments:
        held = next((a for a in message.attachments if _same_file(a, name)), None)
        if held is None:
            found = ", ".join(message.attachments) or "none"
            misses.append(Miss(f"attachment {name}", found, f"{name!r} is not attached (attached: {found})", where))
        elif held in message.declared and not _file_exists(context, held):
            misses.append(Miss(f"attachment {name}", f"{held} (no such file)", f"{held!r} does not exist", where))
    return misses


def _same_file(attached: str, wanted: str) -> bool:
    if "/" in wanted.strip("/"):
        return attached.strip("/").removeprefix("filesystem/") == wanted.strip("/").removeprefix("filesystem/")
    return attached.rpartition("/")[2] == wanted.strip("/")


def _file_exists(context: Context, attached: str) -> bool:
    path = attached.strip("/")
    if not path.startswith(("filesystem/", ".apps_data/")):
        path = "filesystem/" + path
    try:
        context.final.find(path)
    except Unreadable:
        return False
    return True


# --- chat ---


def _channels(tree: Snapshot, root: str, read: Callable[[str], bytes]) -> tuple[Channel, ...]:
    return read_chat([p for p in tree.paths() if p.startswith(root + "/")], read)


def judge_chat(check: ChatCheck, context: Context) -> Finding:
    where = f"/{check.root}"
    with context.working_on(check.root):
        after = _channels(context.final, check.root, context.final.read)
    before: tuple[Channel, ...] = ()
    if context.initial is not None:
        before = context.load_initial_state(partial(_channels, context.initial, check.root, context.initial.read))
    channel = next((c for c in after if c.folder == check.channel), None)
    channel = channel or next((c for c in after if c.name and same_text(c.name, check.channel)), None)
    if channel is None:
        names = ", ".join(c.name or c.folder for c in after) or "none"
        raise AgentFault(f"{where} has no channel {check.channel!r}; channels: {names}"[:600], where=where)
    old = next((c.messages for c in before if c.folder == channel.folder), ())
    new = _new(channel.messages, old, lambda m: m.message_id or (m.sender_email, m.text, m.created))
    where = f"{where}/Groups/{channel.folder}"
    misses: list[Miss] = []
    if check.max_new is not None and len(new) > check.max_new:
        misses.append(Miss(f"at most {check.max_new} new messages", str(len(new)), f"{len(new)} new messages", where))
    reasons = [(m, _chat_misses(check, m)) for m in new]
    right = [m for m, why in reasons if not why]
    shown = "; ".join(repr(m.text[:120]) for m in new[:5]) or "no new message"
    if len(right) != check.times:
        nearest = min((why for _, why in reasons if why), key=len, default=[])
        hint = f"; nearest: {nearest[0].message}" if nearest else ""
        what = f"{len(right)} new messages in {channel.name or channel.folder!r} meet this, must be {check.times}"
        misses.append(Miss(f"{check.times} such message(s)", shown, what + hint, where))
    return Finding(misses, actual=shown, where=where)


def _chat_misses(check: ChatCheck, message: ChatMessage) -> list[Miss]:
    misses, _ = text_misses(check, [message.text], "the message", None)
    if check.sender is not None and check.sender.strip().lower() not in (
        message.sender_email,
        message.sender_name.strip().lower(),
    ):
        misses.append(Miss(check.sender, message.sender_email or message.sender_name, "it is by somebody else"))
    if check.thread is not None and not _in_thread(message, check.thread):
        misses.append(Miss(f"in thread {check.thread}", message.topic_id, "it is not an answer in the thread"))
    return misses


def _in_thread(message: ChatMessage, thread: str) -> bool:
    topic = thread.rpartition("/")[2]
    return message.topic_id in (thread, topic) and message.message_id.rpartition("/")[2] != topic


# --- calendar ---


def _events(
    tree: Snapshot, root: str, load: Callable[[str, Callable[[bytes], tuple[Event, ...]]], tuple[Event, ...]]
) -> list[Event]:
    return [e for path in _files(tree, root, ".ics") for e in load(path, read_calendar) if not e.cancelled]


def judge_calendar(check: CalendarCheck, context: Context) -> Finding:
    where = f"/{check.root}"
    after = _events(context.final, check.root, context.load)
    only_new = check.new if check.new is not None else check.times > 0
    candidates = after
    if only_new and context.initial is not None:
        candidates = _new(after, _events(context.initial, check.root, context.load_initial), lambda e: e)
    chosen = [e for e in candidates if (check.uid is None or e.uid == check.uid) and _says(e.summary, check.summary)]
    shown = "; ".join(f"{e.summary!r} {e.start}" for e in candidates[:5]) or "no event"
    if len(chosen) != check.times:
        what = f"{len(chosen)} {'new ' if only_new else ''}events of this name, must be {check.times}"
        return Finding([Miss(f"{check.times} such event(s)", shown, what, where)], where=where)
    misses = [m for e in chosen for m in _event_misses(check, e, f"{where} {e.uid or e.summary!r}")]
    return Finding(misses, actual=shown, where=where)


def _event_misses(check: CalendarCheck, event: Event, where: str) -> list[Miss]:
    misses, _ = text_misses(check, [event.description], "the event's description", None)
    for name, expected, actual in (("start", check.start, event.start), ("end", check.end, event.end)):
        if expected is None:
            continue
        assert isinstance(expected, dt.date)
        if (
            actual is not None
            and name == "end"
            and not isinstance(expected, dt.datetime)
            and not isinstance(actual, dt.datetime)
        ):
            actual = actual - dt.timedelta(days=1)  # the file gives the day after the last
        if not _same_moment(expected, actual, event.zone, check.time_zone):
            zone = f" {event.zone}" if event.zone else ""
            misses.append(
                Miss(f"{name} {expected}", f"{actual}{zone}", f"it must {name} {expected}, not {actual}{zone}", where)
            )
    if check.same_zone and event.zone != check.time_zone:
        misses.append(Miss(f"time zone {check.time_zone}", event.zone or "none", "its time zone is another", where))
    absent = _addresses(check.attendees) - set(event.attendees)
    if absent:
        found = ", ".join(event.attendees) or "nobody"
        misses.append(Miss(", ".join(check.attendees), found, f"not invited: {', '.join(sorted(absent))}", where))
    extra = set(event.attendees) - _addresses(check.attendees) - {event.organizer}
    if check.exact_attendees and extra:
        misses.append(
            Miss(
                ", ".join(check.attendees),
                ", ".join(event.attendees),
                f"also invited: {', '.join(sorted(extra))}",
                where,
            )
        )
    if check.location and not _says(event.location, check.location):
        misses.append(Miss(str(check.location), event.location, f"its place is {event.location!r}", where))
    if check.recurring is not None and check.recurring != bool(event.recurrence):
        wanted = "recurring" if check.recurring else "not recurring"
        misses.append(Miss(wanted, event.recurrence or "once", f"it must be {wanted}", where))
    return misses


def _same_moment(expected: dt.date, actual: dt.date | None, zone: str, time_zone: str | None) -> bool:
    """Whether an event's time is the expected one, as points in time; days for all-day events."""
    if actual is None or isinstance(expected, dt.datetime) != isinstance(actual, dt.datetime):
        return False
    if not isinstance(expected, dt.datetime) or not isinstance(actual, dt.datetime):
        return expected == actual
    default = zoneinfo.ZoneInfo(time_zone or "UTC")
    if actual.tzinfo is None:
        if zone:
            return False  # a zone that nobody knows
        actual = actual.replace(tzinfo=default)
    if expected.tzinfo is None:
        expected = expected.replace(tzinfo=default)
    return expected == actual
