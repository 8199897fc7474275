"""The chat app: spaces and direct messages in Google Chat's export layout below `/.apps_data/chat`.

`Groups/<folder>/messages.json` is changed in place: fields that nobody here knows stay, and a message that isn't
touched stays as it was. A deleted message keeps its place and loses its text. A broken file is named, and the other
channels still work. Who posts is `CHAT_CURRENT_USER_EMAIL` or `CHAT_CURRENT_USER_ID`, else the owner of the mailbox
beside it, else the person who is in most channels.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.app import Action, App, Meta, Tool
from envkit.harnesses.archipelago.servers.chat import models as m

__all__ = ["APP"]

_PAGED = {"page": "page", "limit": "limit"}
_POST = {"channel_id": "channel_id", "post_id": "post_id"}

APP = App(
    name="chat",
    server="chat_server",
    package="chat",
    state="chat",
    tools=(
        Tool("list_channels", "Lists spaces and direct messages.", m.ListChannels, "reading:list_channels",
             wrapper="request", result=m.Channels),
        Tool("get_channel_history", "Reads the messages that open threads in a channel, the newest first.",
             m.GetHistory, "reading:get_channel_history", wrapper="request", result=m.History),
        Tool("get_thread_replies", "Reads a thread: the message that opens it and the answers, the oldest first.",
             m.GetReplies, "reading:get_thread_replies", wrapper="request", result=m.Replies),
        Tool("get_user_profile", "Reads what the directory says of a person.", m.GetProfile,
             "reading:get_user_profile", wrapper="request", result=m.Profile),
        Tool("get_users", "Lists the people of the directory.", m.GetUsers, "reading:get_users", wrapper="request",
             result=m.Users),
        Tool("post_message", "Posts a message that opens a thread in a channel.", m.PostMessage,
             "posting:post_message", wrapper="request", writes=True, result=m.Posted),
        Tool("reply_to_thread", "Answers in the thread of a message.", m.ReplyToThread, "posting:reply_to_thread",
             wrapper="request", writes=True, result=m.Posted),
        Tool("add_reaction", "Adds an emoji to a message.", m.AddReaction, "posting:add_reaction", wrapper="request",
             writes=True, result=m.Reacted),
        Tool("delete_post", "Deletes a message; the answers in its thread stay.", m.DeletePost,
             "posting:delete_post", wrapper="request", writes=True, result=m.Deleted),
    ),
    metas=(
        Meta(
            name="chat",
            description="Chat: list_channels, get_history, post, reply, react, get_replies, list_users, get_profile, "
            "delete. action='help' lists the fields.",
            request=m.ChatRequest,
            actions={
                "list_channels": Action("list_channels", _PAGED, wrap=m.as_channels),
                "get_history": Action("get_channel_history", {"channel_id": "channel_id", **_PAGED},
                                      wrap=m.as_history),
                "post": Action("post_message", {"channel_id": "channel_id", "message": "message"}, wrap=m.as_posted),
                "reply": Action("reply_to_thread", {**_POST, "message": "message"}, wrap=m.as_posted),
                "react": Action("add_reaction", {**_POST, "emoji": "emoji_name"}, wrap=m.as_reacted),
                "get_replies": Action("get_thread_replies", _POST, wrap=m.as_replies),
                "list_users": Action("get_users", _PAGED, wrap=m.as_users),
                "get_profile": Action("get_user_profile", {"user_id": "user_id"}, wrap=m.as_profile),
                "delete": Action("delete_post", _POST, wrap=m.as_deleted),
            },
        ),
    ),
)  # fmt: skip
