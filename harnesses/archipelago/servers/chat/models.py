"""The arguments and results of the chat tools, as the model sees them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from envkit.harnesses.archipelago.servers.app import Arguments

__all__ = [
    "AddReaction", "Channel", "Channels", "ChatRequest", "DeletePost", "Deleted", "GetHistory", "GetProfile",
    "GetReplies", "GetUsers", "History", "ListChannels", "Post", "PostMessage", "Posted", "Profile", "Reacted",
    "Replies", "ReplyToThread", "User", "Users", "as_channels", "as_deleted", "as_history", "as_posted", "as_profile",
    "as_reacted", "as_replies", "as_users",
]  # fmt: skip

MAX_MESSAGE = 40_000
Limit = Annotated[int, Field(ge=1, le=200, description="How many, 1 to 200")]
Page = Annotated[int, Field(ge=0, description="Page; the first is 0")]
ChannelId = Annotated[str, Field(description="The channel's id as list_channels shows it, or its name")]
PostId = Annotated[str, Field(description="The message's id, e.g. CODE/topic/message; its last part will do")]
Message = Annotated[str, Field(max_length=MAX_MESSAGE, description="The text")]


class ListChannels(Arguments):
    limit: Limit = 20
    page: Page = 0


class GetHistory(Arguments):
    channel_id: ChannelId
    limit: Limit = 20
    page: Page = 0


class GetReplies(Arguments):
    channel_id: ChannelId
    post_id: PostId


class GetProfile(Arguments):
    user_id: str = Field(description="The user's id as list_users shows it, the e-mail address or the name")


class GetUsers(Arguments):
    limit: Limit = 20
    page: Page = 0


class PostMessage(Arguments):
    channel_id: ChannelId
    message: Message


class ReplyToThread(Arguments):
    channel_id: ChannelId
    post_id: PostId
    message: Message


class AddReaction(Arguments):
    channel_id: ChannelId
    post_id: PostId
    emoji_name: str = Field(description="The emoji itself, or its name such as thumbsup")


class DeletePost(Arguments):
    channel_id: ChannelId
    post_id: PostId


class ChatRequest(Arguments):
    """Every field of every action of the meta tool."""

    action: Literal["help", "list_channels", "get_history", "post", "reply", "react", "get_replies", "list_users",
                    "get_profile", "delete"] = Field(
        description="What to do; help lists the fields of each action"
    )  # fmt: skip
    channel_id: str | None = Field(
        default=None, description="Channel id or name (get_history, post, reply, react, get_replies, delete)"
    )
    post_id: str | None = Field(default=None, description="Message id (reply, react, get_replies, delete)")
    message: str | None = Field(default=None, max_length=MAX_MESSAGE, description="Text (post, reply)")
    emoji: str | None = Field(default=None, description="Emoji, itself or by name (react)")
    user_id: str | None = Field(default=None, description="User id, e-mail address or name (get_profile)")
    page: int | None = Field(
        default=None, ge=0, description="Page, the first is 0 (list_channels, get_history, list_users)"
    )
    limit: int | None = Field(
        default=None, ge=1, le=200, description="How many, 20 by default (list_channels, get_history, list_users)"
    )


class Channel(BaseModel):
    """A space or a direct message."""

    id: str
    name: str
    member_count: int = 0
    message_count: int = 0
    members: list[str] | None = Field(default=None, description="Addresses, where there are few")


class Channels(BaseModel):
    groups: list[Channel]
    total_count: int
    page: int
    per_page: int
    message: str


class Post(BaseModel):
    """A message."""

    message_id: str
    creator_name: str
    creator_email: str
    text: str
    created_date: str
    topic_id: str
    reaction_count: int = 0
    is_deleted: bool = False
    reply_count: int | None = Field(default=None, description="Answers in its thread, on a message that opens one")
    reactions: list[str] | None = Field(default=None, description="Each emoji with the people who gave it")
    files: list[str] | None = Field(default=None, description="Names of the files that it carries")


class History(BaseModel):
    messages: list[Post]
    has_next: bool
    has_prev: bool
    page: int
    per_page: int
    channel_id: str
    total: int = Field(description="How many threads there are in all")
    message: str


class Replies(BaseModel):
    posts: list[Post]
    root_post: Post | None = None
    message: str


class User(BaseModel):
    """A person in the directory."""

    id: str
    username: str
    email: str = ""
    first_name: str = ""
    last_name: str = ""
    nickname: str = ""
    position: str = ""
    roles: str = ""
    is_bot: bool = False


class Users(BaseModel):
    users: list[User]
    total_count: int
    page: int
    per_page: int
    message: str


class Profile(User):
    locale: str = ""
    timezone: dict[str, str] = Field(default_factory=dict)
    bot_description: str = ""
    last_picture_update: int = 0
    channels: list[str] = Field(default_factory=list, description="Ids of the channels the person is a member of")
    is_you: bool = Field(default=False, description="Whether it is the person who posts here")


class Posted(BaseModel):
    message_id: str
    group_id: str
    text: str
    created_date: str
    topic_id: str
    is_reply: bool = False
    message: str


class Reacted(BaseModel):
    post_id: str
    user_id: str
    emoji_name: str
    create_at: str
    message: str


class Deleted(BaseModel):
    post_id: str
    deleted_replies: int = Field(default=0, description="Answers in its thread; they stay")
    deleted_reactions: int = 0
    message: str


# --- the payloads of the meta tool ---


def as_channels(result: Channels) -> Any:
    return {"channels": result.groups, "total": result.total_count, "page": result.page, "limit": result.per_page,
            "message": result.message}  # fmt: skip


def as_history(result: History) -> Any:
    return {"messages": result.messages, "channel_id": result.channel_id, "total": result.total, "page": result.page,
            "has_next": result.has_next, "message": result.message}  # fmt: skip


def as_replies(result: Replies) -> Any:
    return {"replies": result.posts, "root_message": result.root_post, "total_replies": len(result.posts),
            "message": result.message}  # fmt: skip


def as_users(result: Users) -> Any:
    return {"users": result.users, "total": result.total_count, "page": result.page, "message": result.message}


def as_profile(result: Profile) -> Any:
    return {"user": result}


def as_posted(result: Posted) -> Any:
    return {"message_id": result.message_id, "channel_id": result.group_id, "content": result.text,
            "timestamp": result.created_date, "message": result.message}  # fmt: skip


def as_reacted(result: Reacted) -> Any:
    return {"post_id": result.post_id, "emoji": result.emoji_name, "added": True, "message": result.message}


def as_deleted(result: Deleted) -> Any:
    return {"post_id": result.post_id, "deleted": True, "deleted_replies": result.deleted_replies,
            "deleted_reactions": result.deleted_reactions, "message": result.message}  # fmt: skip
