"""Messages, answers, reactions, deletions: exactly the change, everything else as it was."""

from __future__ import annotations

import copy
import os
import signal
import time
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.chat import read_chat

NOW = "2026-03-04T14:05:06+00:00"


def raw(chat: Any, folder: str = "Space AAA") -> bytes:
    return bytes((chat.state / "Groups" / folder / "messages.json").read_bytes())


def test_a_post_appends_one_message_and_keeps_every_unknown_field(chat: Any) -> None:
    chat.settings["ENVKIT_NOW"] = NOW
    before, text = chat.stored(), raw(chat)
    posted = chat.call("post_message", channel_id="deal team", message='Ünïcode "quoted"\n世界')
    after = chat.stored()
    added = after["messages"].pop()
    assert after == before
    assert raw(chat).startswith(text[: text.rindex(b"\n    }\n  ],")])  # not one byte of what was there changed
    code, topic, own = added["message_id"].split("/")
    assert (code, topic, own) == ("AAA", added["topic_id"], added["topic_id"])
    assert added["creator"] == {"name": "Ann Ash", "email": "ann@firm.example", "user_type": "Human"}
    assert added["created_date"] == "Wednesday, March 4, 2026 at 2:05:06 PM UTC"
    assert (posted.message_id, posted.group_id, posted.is_reply) == (added["message_id"], "Space AAA", False)
    assert "as ann@firm.example" in posted.message


def test_direct_messages_have_ids_without_their_prefix(chat: Any) -> None:
    posted = chat.call("post_message", channel_id="DM BBB", message="psst")
    assert posted.message_id.startswith("BBB/")


def test_a_channel_without_messages_gets_its_file(chat: Any) -> None:
    chat.call("post_message", channel_id="Alerts", message="red")
    assert chat.stored("Space CCC")["messages"][0]["text"] == "red"


def test_an_answer_is_in_the_thread(chat: Any) -> None:
    for post in ("AAA/t1/t1", "AAA/t1/r1"):
        posted = chat.call("reply_to_thread", channel_id="AAA", post_id=post, message="Yes.")
        assert (posted.topic_id, posted.is_reply) == ("t1", True)
        assert posted.message_id.startswith("AAA/t1/")
        assert posted.message_id not in ("AAA/t1/t1", "AAA/t1/r1")
    [room] = [c for c in read_chat(["Groups/Space AAA/messages.json"], lambda _: raw(chat))]
    assert [m.text for m in room.messages if m.topic_id == "t1"] == ["Morning", "Hi Ann 世界", "Yes.", "Yes."]


def test_who_posts_can_be_set(chat: Any) -> None:
    chat.settings["CHAT_CURRENT_USER_EMAIL"] = "BO@firm.example"
    chat.call("post_message", channel_id="AAA", message="me")
    chat.settings["CHAT_CURRENT_USER_EMAIL"] = "new@firm.example"
    posted = chat.call("post_message", channel_id="AAA", message="I am new")
    chat.settings = {"CHAT_CURRENT_USER_ID": "User 2"}
    chat.call("post_message", channel_id="AAA", message="me again")
    emails = [m["creator"]["email"] for m in chat.stored()["messages"][-3:]]
    assert emails == ["bo@firm.example", "new@firm.example", "bo@firm.example"]
    assert "new@firm.example is no member of this channel" in posted.message


def test_a_reaction_is_added_once(chat: Any) -> None:
    before = chat.stored()
    done = chat.call("add_reaction", channel_id="AAA", post_id="AAA/t2/t2", emoji_name=":thumbsup:")
    assert (done.emoji_name, done.user_id) == ("👍", "ann@firm.example")
    with pytest.raises(ToolError, match=r"have reacted with 👍 .* already"):
        chat.call("add_reaction", channel_id="AAA", post_id="AAA/t2/t2", emoji_name="👍")
    chat.settings["CHAT_CURRENT_USER_EMAIL"] = "bo@firm.example"
    chat.call("add_reaction", channel_id="AAA", post_id="r1", emoji_name="👍")
    after = chat.stored()
    assert after["messages"][1]["reactions"] == [
        {"emoji": {"unicode": "👍", "id": 7}, "reactor_emails": ["ann@firm.example", "bo@firm.example"]}
    ]
    assert after["messages"][2].pop("reactions") == [
        {"emoji": {"unicode": "👍"}, "reactor_emails": ["ann@firm.example"]}
    ]
    after["messages"][1]["reactions"] = copy.deepcopy(before["messages"][1]["reactions"])
    assert after == before


@pytest.mark.parametrize(("name", "sign"), [("tada", "🎉"), ("ROCKET", "🚀"), ("❤️", "❤️"), ("1️⃣", "1️⃣"),
                                            ("rolling on the floor laughing", "🤣")])  # fmt: skip
def test_emoji_by_name(chat: Any, name: str, sign: str) -> None:
    assert chat.call("add_reaction", channel_id="AAA", post_id="t2", emoji_name=name).emoji_name == sign


def test_a_deletion_is_soft_and_leaves_the_answers(chat: Any) -> None:
    chat.settings["ENVKIT_NOW"] = NOW
    done = chat.call("delete_post", channel_id="AAA", post_id="AAA/t1/t1")
    assert (done.deleted_replies, done.deleted_reactions) == (1, 0)
    record = chat.stored()["messages"][0]
    assert "text" not in record
    assert record["secret_field"] == {"n": 1.5}
    assert (record["message_state"], record["deletion_metadata"]) == ("DELETED", {"deletion_type": "CREATOR"})
    assert record["deleted_date"] == "Wednesday, March 4, 2026 at 2:05:06 PM UTC"
    [room] = read_chat(["Groups/Space AAA/messages.json"], lambda _: raw(chat))
    assert [m.message_id for m in room.messages] == ["AAA/t1/r1", "AAA/t2/t2"]
    shown = chat.call("get_channel_history", channel_id="AAA").messages[-1]
    assert (shown.is_deleted, shown.text, shown.reply_count) == (True, "", 1)
    assert chat.call("list_channels").groups[1].message_count == 2
    with pytest.raises(ToolError, match="deleted already"):
        chat.call("delete_post", channel_id="AAA", post_id="AAA/t1/t1")
    with pytest.raises(ToolError, match="is deleted; nobody can react"):
        chat.call("add_reaction", channel_id="AAA", post_id="AAA/t1/t1", emoji_name="👍")
    assert chat.call("delete_post", channel_id="AAA", post_id="AAA/t1/r1").deleted_reactions == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("post_message", {"channel_id": "Nowhere", "message": "x"}, "there is no channel 'Nowhere'"),
        ("post_message", {"channel_id": "AAA", "message": " \n"}, "the message is empty"),
        ("reply_to_thread", {"channel_id": "AAA", "post_id": "nope", "message": "x"}, "there is no message 'nope'"),
        ("add_reaction", {"channel_id": "AAA", "post_id": "t2", "emoji_name": "flibber"}, "is no emoji that is known"),
        ("delete_post", {"channel_id": "AAA", "post_id": ""}, "there is no message ''"),
    ],
)
def test_what_cant_be_done_changes_nothing(chat: Any, tool: str, arguments: dict[str, str], reason: str) -> None:
    before = raw(chat)
    with pytest.raises(ToolError, match=reason):
        chat.call(tool, **arguments)
    assert raw(chat) == before


def test_a_broken_file_is_never_overwritten(chat: Any) -> None:
    path = chat.state / "Groups/Space AAA/messages.json"
    path.write_text('{"messages": {"a": 1}}')
    with pytest.raises(ToolError, match="`messages` must be a list"):
        chat.call("post_message", channel_id="AAA", message="x")
    assert path.read_text() == '{"messages": {"a": 1}}'
    chat.call("post_message", channel_id="DM BBB", message="x")


@pytest.mark.parametrize(
    "written",
    ['{"messages": []}', '{\n    "messages": []\n}\n', '{"messages": [{"message_id": "AAA/a/a", "text": "\\u4e16"}]}',
     '\ufeff{"messages": []}', '{"messages": [{"message_id": "AAA/a/a", "text": "\\ud83d cut"}]}'],
)  # fmt: skip
def test_files_of_other_shapes_are_written_as_they_were_and_stay_readable(chat: Any, written: str) -> None:
    path = chat.state / "Groups/Space AAA/messages.json"
    path.write_text(written, encoding="utf-8")
    chat.call("post_message", channel_id="AAA", message="né")
    text = path.read_bytes().decode()
    assert ("\n" in text) == ("\n" in written)
    assert ("\\u" in text) == ("\\u" in written)
    assert chat.call("get_channel_history", channel_id="AAA").messages[0].text == "né"


@pytest.mark.slow
def test_a_call_killed_at_any_moment_leaves_the_old_file_or_the_new_one(chat: Any) -> None:
    big = chat.stored()
    big["messages"] += [
        {**big["messages"][0], "message_id": f"AAA/n{n}/n{n}", "topic_id": f"n{n}"} for n in range(5000)
    ]
    path = chat.put("Groups/Space AAA/messages.json", big)
    before = path.read_bytes()
    for delay_s in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
        path.write_bytes(before)
        pid = os.fork()
        if pid == 0:
            try:
                chat.call("post_message", channel_id="AAA", message="x")
            finally:
                os._exit(0)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert len(chat.stored()["messages"]) in (5003, 5004)
