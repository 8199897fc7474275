"""Reading the chat: channels, histories, threads, people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.chat.models import (
    Channel,
    Channels,
    GetHistory,
    GetProfile,
    GetReplies,
    GetUsers,
    History,
    ListChannels,
    Post,
    Profile,
    Replies,
    User,
    Users,
)
from envkit.harnesses.archipelago.servers.chat.store import (
    Person,
    Room,
    Store,
    is_deleted,
    moment,
    open_store,
    text_of,
)

__all__ = ["get_channel_history", "get_thread_replies", "get_user_profile", "get_users", "list_channels"]

T = TypeVar("T")
_FEW_MEMBERS = 12


def list_channels(arguments: ListChannels, context: Context) -> Channels:
    store = open_store(context)
    shown = _page(store.rooms, arguments.page, arguments.limit)
    return Channels(
        groups=[
            Channel(
                id=room.id,
                name=room.name,
                member_count=len(room.members),
                message_count=sum(not is_deleted(r) for r in room.messages),
                members=[text_of(m.get("email")) for m in room.members] if len(room.members) <= _FEW_MEMBERS else None,
            )
            for room in shown
        ],
        total_count=len(store.rooms),
        page=arguments.page,
        per_page=arguments.limit,
        message=store.remarks(_said("Channels", shown, store.rooms, arguments.page, arguments.limit)),
    )


def get_channel_history(arguments: GetHistory, context: Context) -> History:
    store = open_store(context)
    room = store.room(arguments.channel_id)
    known = {room.topic(r).rpartition("/")[2] for r in room.messages if room.is_root(r)}
    # The answers to a message that isn't there would be seen by nobody: they stand for themselves.
    roots = [r for r in room.messages if room.is_root(r) or room.topic(r).rpartition("/")[2] not in known]
    order = {id(r): n for n, r in enumerate(room.messages)}
    roots.sort(key=lambda r: (moment(text_of(r.get("created_date"))), order[id(r)]), reverse=True)
    shown = _page(roots, arguments.page, arguments.limit)
    text = _said(f"Threads of {room.name!r}, the newest first:", shown, roots, arguments.page, arguments.limit)
    if any(room.replies(r) for r in shown if room.is_root(r)):
        text += " get_replies shows the answers in a thread."
    return History(
        messages=[_post(room, r, replies=len(room.replies(r)) if room.is_root(r) else None) for r in shown],
        has_next=(arguments.page + 1) * arguments.limit < len(roots),
        has_prev=arguments.page > 0 and bool(roots),
        page=arguments.page,
        per_page=arguments.limit,
        channel_id=room.id,
        total=len(roots),
        message=store.remarks(text),
    )


def get_thread_replies(arguments: GetReplies, context: Context) -> Replies:
    store = open_store(context)
    room = store.room(arguments.channel_id)
    asked = room.find(arguments.post_id)
    topic = room.topic(asked).rpartition("/")[2]
    root = next((r for r in room.messages if room.is_root(r) and room.topic(r).rpartition("/")[2] == topic), None)
    replies = room.replies(root or asked)
    answers = "1 answer" if len(replies) == 1 else f"{len(replies)} answers"
    text = f"{answers} in the thread {topic} of {room.name!r}, the oldest first."
    if root is None:
        text += " The message that opened the thread isn't there any more."
    return Replies(
        posts=[_post(room, r) for r in replies],
        root_post=None if root is None else _post(room, root, replies=len(replies)),
        message=store.remarks(text),
    )


def get_users(arguments: GetUsers, context: Context) -> Users:
    store = open_store(context)
    shown = _page(store.people, arguments.page, arguments.limit)
    return Users(
        users=[User(**_facts(person)) for person in shown],
        total_count=len(store.people),
        page=arguments.page,
        per_page=arguments.limit,
        message=store.remarks(_said("People", shown, store.people, arguments.page, arguments.limit)),
    )


def get_user_profile(arguments: GetProfile, context: Context) -> Profile:
    store = open_store(context)
    person = _person(store, arguments.user_id)
    facts = person.record
    zone = facts.get("timezone")
    picture = facts.get("last_picture_update")
    rooms = [r.id for r in store.rooms if person.email.lower() in {text_of(m.get("email")).lower() for m in r.members}]
    return Profile(
        **_facts(person),
        locale=text_of(facts.get("locale")),
        timezone={str(k): text_of(v) for k, v in zone.items()} if isinstance(zone, dict) else {},
        bot_description=text_of(facts.get("bot_description")),
        last_picture_update=picture if isinstance(picture, int) else 0,
        channels=rooms,
        is_you=bool(person.email) and person.email.lower() == store.me().email.lower(),
    )


def _person(store: Store, wanted: str) -> Person:
    plain = wanted.strip().lstrip("@")
    tests: tuple[Callable[[Person], bool], ...] = (
        lambda p: p.id == plain,
        lambda p: p.email.lower() == plain.lower() != "",
        lambda p: p.id.rpartition(" ")[2] == plain,
        lambda p: p.name.casefold() == plain.casefold() != "",
        lambda p: p.email.partition("@")[0].lower() == plain.lower() != "",
    )
    for test in tests:
        found = [p for p in store.people if test(p)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ToolError(f"{wanted!r} names several people: {', '.join(p.id for p in found)}; give an id")
    known = [name for p in store.people for name in (p.id, p.email, p.name) if name]
    raise ToolError(f"there is no user {wanted!r}{did_you_mean(plain, known)}; list_users shows the ids")


def _facts(person: Person) -> dict[str, Any]:
    record = person.record
    first, _, last = person.name.rpartition(" ")
    return {
        "id": person.id,
        "username": text_of(record.get("username")) or person.email.partition("@")[0] or person.id,
        "email": person.email,
        "first_name": text_of(record.get("first_name")) or first or last,
        "last_name": text_of(record.get("last_name")) or (last if first else ""),
        "nickname": text_of(record.get("nickname")),
        "position": text_of(record.get("position")),
        "roles": text_of(record.get("roles")),
        "is_bot": record.get("is_bot") is True or text_of(record.get("user_type")).lower() == "bot",
    }


def _post(room: Room, record: dict[str, Any], replies: int | None = None) -> Post:
    creator = record.get("creator")
    creator = creator if isinstance(creator, dict) else {}
    gone = is_deleted(record)
    given: list[str] = []
    count = 0
    raw = record.get("reactions")
    for reaction in raw if isinstance(raw, list) else []:
        if isinstance(reaction, dict):
            emoji = reaction.get("emoji")
            people = reaction.get("reactor_emails")
            names = [text_of(p) for p in people] if isinstance(people, list) else []
            count += max(1, len(names))
            sign = text_of(emoji.get("unicode")) if isinstance(emoji, dict) else text_of(emoji)
            given.append(f"{sign} {', '.join(names)}".strip())
    files = record.get("attached_files")
    carried = [
        text_of(f.get("original_name") or f.get("export_name"))
        for f in (files if isinstance(files, list) else [])
        if isinstance(f, dict)
    ]
    return Post(
        message_id=room.message_id(record),
        creator_name=text_of(creator.get("name")) or "Unknown",
        creator_email=text_of(creator.get("email")),
        text="" if gone else text_of(record.get("text")),
        created_date=text_of(record.get("created_date")),
        topic_id=room.topic(record),
        reaction_count=0 if gone else count,
        is_deleted=gone,
        reply_count=replies,
        reactions=None if gone else given or None,
        files=None if gone else carried or None,
    )


def _page(items: Sequence[T], page: int, limit: int) -> Sequence[T]:
    return items[page * limit : (page + 1) * limit]


def _said(what: str, shown: Sequence[object], everything: Sequence[object], page: int, limit: int) -> str:
    if not everything:
        return f"{what.rstrip(':')}: none."
    if not shown:
        return f"{what} {len(everything)} in all; page {page} is beyond the last, {(len(everything) - 1) // limit}."
    first = page * limit + 1
    more = f" Ask with page={page + 1} for more." if page * limit + len(shown) < len(everything) else ""
    return f"{what} {first}-{first + len(shown) - 1} of {len(everything)}.{more}"
