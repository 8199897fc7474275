"""The mail app: one or more mbox files below `/.apps_data/mail`, read as one mailbox; what is sent is appended to one.

Every `*.mbox` below the folder is read; a broken one is named and the rest still works. A sent message is stored
exactly once, in `sent.mbox` where there is one, else in the mailbox's only file (`APP_MAIL_MBOX_FILENAME` names
another). Attachments are stored in the message, their paths also in an `X-Attachments` header as the published format
has it.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.app import Action, App, Meta, Tool
from envkit.harnesses.archipelago.servers.mail.models import (
    ForwardMail,
    ListMails,
    MailRequest,
    ReadMail,
    ReplyMail,
    SearchMail,
    SendMail,
    as_mail,
    list_arguments,
    send_arguments,
)

__all__ = ["APP"]

_REPLY = {
    "mail_id": "original_mail_id",
    "body": "body",
    "attachments": "attachments",
    "body_format": "body_format",
}
_SEND = ("from_email", "to_email", "subject", "body", "cc", "bcc", "attachments", "body_format", "thread_id",
         "in_reply_to", "references")  # fmt: skip

APP = App(
    name="mail",
    server="mail_server",
    package="mail",
    state="mail",
    tools=(
        Tool("list_mails", "Lists messages, the newest first.", ListMails, "reading:list_mails"),
        Tool("read_mail", "Reads a whole message: headers, text, attachments and where they are.", ReadMail,
             "reading:read_mail"),
        Tool("search_mail", "Searches messages by sender, recipient, subject, date and thread; all given must hold.",
             SearchMail, "reading:search_mail", wrapper="input"),
        Tool("send_mail", "Sends a new message.", SendMail, "sending:send_mail", wrapper="input", writes=True),
        Tool("reply_mail", "Answers the sender of a message, in its thread.", ReplyMail, "sending:reply_mail",
             wrapper="input", writes=True),
        Tool("reply_all_mail", "Answers the sender and all other recipients of a message, in its thread.", ReplyMail,
             "sending:reply_all_mail", wrapper="input", writes=True),
        Tool("forward_mail", "Forwards a message with its attachments.", ForwardMail, "sending:forward_mail",
             wrapper="input", writes=True),
    ),
    metas=(
        Meta(
            name="mail",
            description="Mail: send, read, list, search, reply, reply_all, forward. action='help' lists the fields.",
            request=MailRequest,
            actions={
                "send": Action("send_mail", {name: name for name in _SEND}, build=send_arguments,
                               required=frozenset({"to_email", "subject", "body"})),
                "read": Action("read_mail", {"mail_id": "mail_id"}, wrap=as_mail),
                "list": Action("list_mails", {"page": "page", "limit": "limit", "offset": "offset"},
                               build=list_arguments),
                "search": Action("search_mail", {
                    "search_from": "from_email", "search_to": "to_email", "search_subject": "subject",
                    "after_date": "after_date", "before_date": "before_date", "search_thread_id": "thread_id",
                    "limit": "limit",
                }),
                "reply": Action("reply_mail", _REPLY),
                "reply_all": Action("reply_all_mail", _REPLY),
                "forward": Action("forward_mail", {
                    **_REPLY, "to_email": "to_email", "cc": "cc", "bcc": "bcc",
                }),
            },
        ),
    ),
)  # fmt: skip
