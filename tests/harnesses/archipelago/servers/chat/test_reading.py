"""Channels, histories, threads and people; what is broken is named and the rest works."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.chat.store import moment, say_date


def test_channels(chat: Any) -> None:
    found = chat.call("list_channels")
    assert [(c.id, c.name, c.member_count, c.message_count) for c in found.groups] == [
        ("DM BBB", "Ann Ash, Bo Berg", 2, 0), ("Space AAA", "Deal team", 2, 3), ("Space CCC", "Alerts", 2, 0),
    ]  # fmt: skip
    assert found.groups[0].members == ["ann@firm.example", "bo@firm.example"]
    page = chat.call("list_channels", limit=2, page=1)
    assert ([c.id for c in page.groups], page.total_count) == (["Space CCC"], 3)
    assert "beyond the last" in chat.call("list_channels", page=5).message


@pytest.mark.parametrize("name", ["Space AAA", "AAA", "deal TEAM", "#Deal team"])
def test_a_history_has_threads_the_newest_first(chat: Any, name: str) -> None:
    found = chat.call("get_channel_history", channel_id=name)
    assert [(m.message_id, m.reply_count) for m in found.messages] == [("AAA/t2/t2", 0), ("AAA/t1/t1", 1)]
    assert (found.has_next, found.has_prev, found.channel_id) == (False, False, "Space AAA")
    first = chat.call("get_channel_history", channel_id=name, limit=1)
    assert (first.has_next, [m.message_id for m in first.messages]) == (True, ["AAA/t2/t2"])
    assert "page=1" in first.message
    last = chat.call("get_channel_history", channel_id=name, limit=1, page=1)
    assert (last.has_next, last.has_prev, last.messages[0].files) == (False, True, ["plan.pdf"])


def test_a_thread(chat: Any) -> None:
    for post in ("AAA/t1/t1", "t1", "AAA/t1/r1"):
        found = chat.call("get_thread_replies", channel_id="Space AAA", post_id=post)
        assert found.root_post.text == "Morning"
        [reply] = found.posts
        assert (reply.text, reply.reaction_count, reply.reactions) == ("Hi Ann 世界", 1, ["👍 ann@firm.example"])


def test_answers_to_a_message_that_is_gone_are_still_seen(chat: Any) -> None:
    history = chat.stored()
    del history["messages"][0]
    chat.put("Groups/Space AAA/messages.json", history)
    assert [m.message_id for m in chat.call("get_channel_history", channel_id="AAA").messages] == [
        "AAA/t1/r1", "AAA/t2/t2",
    ]  # fmt: skip
    found = chat.call("get_thread_replies", channel_id="AAA", post_id="AAA/t1/r1")
    assert (found.root_post, [m.text for m in found.posts]) == (None, ["Hi Ann 世界"])


def test_people(chat: Any) -> None:
    found = chat.call("get_users")
    assert [(u.id, u.username, u.first_name, u.last_name, u.is_bot) for u in found.users] == [
        ("User 1", "ann", "Ann", "Ash", False), ("User 2", "bo", "Bo", "Berg", False),
        ("deploy@firm.example", "deploy", "Deploy", "", True),
    ]  # fmt: skip
    for name in ("User 1", "1", "ANN@firm.example", "ann ash", "@ann"):
        profile = chat.call("get_user_profile", user_id=name)
        assert (profile.position, profile.is_you) == ("Partner", True)
        assert profile.channels == ["DM BBB", "Space AAA", "Space CCC"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("get_channel_history", {"channel_id": "Space AAB"}, r"there is no channel 'Space AAB' \(did you mean 'Space"),
        ("get_thread_replies", {"channel_id": "AAA", "post_id": "AAA/t9/t9"}, "there is no message 'AAA/t9/t9'"),
        ("get_user_profile", {"user_id": "Ann Asch"}, "did you mean 'Ann Ash'"),
        ("get_user_profile", {"user_id": "zzz"}, "list_users shows the ids"),
    ],
)
def test_wrong_names_are_told_near_ones(chat: Any, tool: str, arguments: dict[str, str], reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        chat.call(tool, **arguments)


def test_a_broken_channel_is_named_and_the_others_work(chat: Any) -> None:
    (chat.state / "Groups/Space AAA/messages.json").write_text('{"messages": [')
    (chat.state / "Groups/Space CCC/group_info.json").write_text("[]")
    (chat.state / "Users/User 2/user_info.json").write_text("\x00")
    found = chat.call("list_channels")
    assert len(found.groups) == 3
    for name in (
        "Space AAA/messages.json is broken",
        "Space CCC/group_info.json is broken",
        "User 2/user_info.json is",
    ):
        assert name in found.message
    with pytest.raises(ToolError, match=r"'Space AAA' can't be used: .*messages\.json is broken"):
        chat.call("get_channel_history", channel_id="AAA")
    assert chat.call("get_channel_history", channel_id="DM BBB").messages == []
    assert chat.call("get_user_profile", user_id="User 1").email == "ann@firm.example"


def test_odd_content_is_read_as_far_as_it_goes(chat: Any) -> None:
    chat.put("Groups/Space AAA/messages.json", {"messages": [7, {"message_id": "AAA/x/x"}, {"creator": "Ann", "text": 5,
             "message_id": "AAA/y/y", "reactions": [{"emoji": "ok"}, "?"]}]})  # fmt: skip
    found = chat.call("get_channel_history", channel_id="AAA")
    assert sorted((m.message_id, m.text, m.reaction_count) for m in found.messages) == [
        ("AAA/x/x", "", 0), ("AAA/y/y", "5", 1),
    ]  # fmt: skip


def test_the_folder_of_the_export_and_an_empty_chat(chat: Any) -> None:
    (chat.state / "Google Chat").mkdir()
    for name in ("Groups", "Users"):
        (chat.state / name).rename(chat.state / "Google Chat" / name)
    assert chat.call("list_channels").total_count == 3
    chat.call("post_message", channel_id="AAA", message="here")
    assert (chat.state / "Google Chat/Groups/Space AAA/messages.json").read_text().count('"here"') == 1
    chat.state.rename(chat.state.with_name("elsewhere"))
    assert chat.call("list_channels").groups == []
    assert chat.call("get_users").users == []


def test_links_out_of_the_folder_are_not_followed(chat: Any, tmp_path: Any) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "messages.json").write_text('{"messages": [{"message_id": "a/b/b", "text": "secret"}]}')
    (chat.state / "Groups/Space ZZZ").symlink_to(outside)
    (chat.state / "Groups/Space CCC/messages.json").symlink_to(outside / "messages.json")
    found = chat.call("list_channels")
    assert "Space ZZZ" not in [c.id for c in found.groups]
    with pytest.raises(ToolError, match="leads out of"):
        chat.call("get_channel_history", channel_id="CCC")


def test_dates_go_both_ways() -> None:
    for text in ("Wednesday, October 8, 2025 at 12:41:52 PM UTC", "Thursday, January 1, 2026 at 12:00:00 AM UTC"):
        assert say_date(moment(text)) == text
    assert moment("Monday, March 2, 2026 at 1:05:00\u202fPM UTC").hour == 13
    assert moment("2026-03-02T13:05:00Z").hour == 13
    assert moment("soon").year == 1
