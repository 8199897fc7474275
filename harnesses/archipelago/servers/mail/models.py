"""The arguments and results of the mail tools, as the model sees them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from envkit.harnesses.archipelago.servers.app import Arguments

__all__ = [
    "Attached", "ForwardMail", "ListMails", "Mail", "MailRequest", "MailSummary", "Mails", "ReadMail", "ReplyMail",
    "SearchMail", "SendMail", "Sent", "as_mail", "list_arguments", "send_arguments",
]  # fmt: skip


def _joined(value: Any) -> Any:
    """A list of addresses where one text is meant."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return ", ".join(value)
    return value


def _listed(value: Any) -> Any:
    """A single text where a list is meant."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    return [value] if value.strip() else []


Addresses = Annotated[str, BeforeValidator(_joined)]
Texts = Annotated[list[str], BeforeValidator(_listed)]
BodyFormat = Literal["plain", "html"]
Limit = Annotated[int, Field(ge=1, le=100)]

_TO = "Recipients: one address or several with commas between them; `Name <address>` is fine"
_FILES = "Paths of files to attach; each must exist"
_FORMAT = "`plain` or `html`"


#: What the fields of a message are called elsewhere, and the ids of one tool in another.
_ALSO = {
    "to": "to_email", "from": "from_email", "recipient": "to_email", "recipients": "to_email", "message": "body",
    "mail_id": "original_mail_id", "original_mail_id": "mail_id", "message_id": "mail_id",
}  # fmt: skip


class _MailModel(Arguments):
    also: ClassVar[Mapping[str, str]] = _ALSO


class ListMails(_MailModel):
    limit: Limit = Field(default=50, description="How many messages, 1 to 100")
    offset: int = Field(default=0, ge=0, description="How many of the newest to leave out")


class ReadMail(_MailModel):
    mail_id: str = Field(description="The Message-ID, as list and search show it")


class SearchMail(_MailModel):
    from_email: str | None = Field(default=None, description="Part of the sender's address or name, in any case")
    to_email: str | None = Field(
        default=None, description="Part of the address or name of a recipient (To, Cc or Bcc), in any case"
    )
    subject: str | None = Field(default=None, description="Part of the subject, in any case")
    after_date: str | None = Field(
        default=None,
        description="Messages of this day or time and later: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS, as the message's own "
        "date says it; with an offset or Z it is that moment",
    )
    before_date: str | None = Field(
        default=None, description="Messages up to this day (that day included) or time; written as after_date"
    )
    thread_id: str | None = Field(default=None, description="All messages of one thread")
    limit: Limit = Field(default=50, description="How many messages, 1 to 100; the newest come first")


class SendMail(_MailModel):
    @classmethod
    def meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"from_email": "", **super().meant(given)}  # who sends is clear

    from_email: str = Field(description="Your own address; empty: that of the mailbox's owner")
    to_email: Addresses = Field(description=_TO)
    subject: str = Field(description="The subject, at most 998 characters, one line")
    body: str = Field(description="The text")
    cc: Addresses | None = Field(default=None, description="Copy: addresses as in to_email")
    bcc: Addresses | None = Field(default=None, description="Blind copy: addresses as in to_email")
    attachments: Texts | None = Field(default=None, description=_FILES)
    body_format: BodyFormat = Field(default="plain", description=_FORMAT)
    thread_id: str | None = Field(default=None, description="The thread it belongs to; by itself that of in_reply_to")
    in_reply_to: str | None = Field(default=None, description="The Message-ID of the message it answers")
    references: Texts | None = Field(
        default=None, description="Message-IDs of the thread, oldest first; by itself those of in_reply_to"
    )


class ReplyMail(_MailModel):
    original_mail_id: str = Field(description="The Message-ID of the message to answer")
    body: str = Field(description="Your text; the original is quoted below it")
    attachments: Texts | None = Field(default=None, description=_FILES)
    body_format: BodyFormat = Field(default="plain", description=_FORMAT)


class ForwardMail(_MailModel):
    original_mail_id: str = Field(description="The Message-ID of the message to forward; its attachments go along")
    to_email: Addresses = Field(description=_TO)
    body: str | None = Field(default=None, description="Your text above the forwarded message")
    cc: Addresses | None = Field(default=None, description="Copy: addresses as in to_email")
    bcc: Addresses | None = Field(default=None, description="Blind copy: addresses as in to_email")
    attachments: Texts | None = Field(default=None, description="Further files to attach; each must exist")
    body_format: BodyFormat = Field(default="plain", description=_FORMAT)


class MailRequest(_MailModel):
    """Every field of every action of the meta tool."""

    action: Literal["help", "send", "read", "list", "search", "reply", "reply_all", "forward"] = Field(
        description="What to do; help lists the fields of each action"
    )
    mail_id: str | None = Field(default=None, description="Message-ID (read, reply, reply_all, forward)")
    from_email: str | None = Field(default=None, description="Your own address (send); left out: the mailbox's owner")
    to_email: Addresses | None = Field(default=None, description=f"{_TO} (send, forward)")
    subject: str | None = Field(default=None, max_length=998, description="Subject (send)")
    body: str | None = Field(default=None, description="Text (send, reply, reply_all, forward)")
    cc: Addresses | None = Field(default=None, description="Copy to (send, forward)")
    bcc: Addresses | None = Field(default=None, description="Blind copy to (send, forward)")
    attachments: Texts | None = Field(default=None, description=f"{_FILES} (send, reply, reply_all, forward)")
    body_format: BodyFormat | None = Field(default=None, description=f"{_FORMAT}, plain by default")
    thread_id: str | None = Field(default=None, description="Thread it belongs to (send)")
    in_reply_to: str | None = Field(default=None, description="Message-ID it answers (send)")
    references: Texts | None = Field(default=None, description="Message-IDs of the thread (send)")
    page: int | None = Field(default=None, ge=0, description="Page of the list; the first is 0 (list)")
    limit: Limit | None = Field(default=None, description="How many messages, 1 to 100, 50 by default (list, search)")
    offset: int | None = Field(default=None, ge=0, description="How many to leave out, in place of page (list)")
    search_from: str | None = Field(default=None, description="Part of the sender's address or name (search)")
    search_to: str | None = Field(default=None, description="Part of a recipient's address or name (search)")
    search_subject: str | None = Field(default=None, description="Part of the subject (search)")
    after_date: str | None = Field(default=None, description="From this day or time on, YYYY-MM-DD[THH:MM:SS] (search)")
    before_date: str | None = Field(default=None, description="Up to this day, included, or time (search)")
    search_thread_id: str | None = Field(default=None, description="One thread (search)")


class Sent(BaseModel):
    """A message that was stored."""

    success: bool = True
    mail_id: str = Field(description="Its Message-ID")
    recipients_count: int
    message: str = Field(description="What happened")


class MailSummary(BaseModel):
    """A message in a list."""

    mail_id: str
    timestamp: str
    from_email: str
    to: list[str]
    subject: str
    thread_id: str | None = None
    in_reply_to: str | None = None
    attachments: list[str] | None = Field(default=None, description="Names of the files it carries")
    folder: str | None = Field(default=None, description="Its mailbox file, where there are several")


class Mails(BaseModel):
    """Messages, the newest first."""

    mails: list[MailSummary]
    count: int
    page: int = 0
    limit: int
    has_more: bool
    total: int = Field(description="How many there are in all")
    message: str = Field(description="What is shown and how to get the rest")


class Attached(BaseModel):
    """A file that a message carries."""

    name: str
    type: str | None = Field(default=None, description="Its MIME type")
    size: int | None = Field(default=None, description="Bytes; absent where there is no such file")
    where: str = Field(description="Where its content is")
    path: str | None = Field(default=None, description="The file, where it lies among the files")
    text: str | None = Field(
        default=None, description="The beginning of its text, where it has any and lies in the message only"
    )


class Mail(BaseModel):
    """A whole message."""

    mail_id: str
    timestamp: str
    from_email: str
    to: list[str]
    cc: list[str] = Field(default_factory=list)
    bcc: list[str] = Field(default_factory=list)
    reply_to: list[str] = Field(default_factory=list)
    subject: str
    body: str = Field(description="The text; that of the HTML where there is no other")
    body_format: BodyFormat
    links: list[str] = Field(default_factory=list, description="Addresses that the HTML links to")
    attachments: list[Attached] = Field(default_factory=list)
    thread_id: str | None = None
    in_reply_to: str | None = None
    references: list[str] = Field(default_factory=list)
    folder: str = Field(description="The mailbox file it lies in")


def as_mail(result: Any) -> Any:
    """The payload of the meta tool's `read`."""
    return {"mail": result}


def list_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """`page` counts in steps of `limit`; an `offset` goes first."""
    limit = given.get("limit")
    limit = 50 if limit is None else limit
    offset = given.get("offset")
    if offset is None:
        offset = (given.get("page") or 0) * limit
    return {"limit": limit, "offset": offset}


def send_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without a sender the mailbox's owner sends."""
    return {"from_email": "", **given}
