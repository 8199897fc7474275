"""The files of a world while it is being built, and what each brings along: mail, chat, calendar and their guide.

A world is two trees, `filesystem/` and `.apps_data/`. `WorldFiles` collects their files in memory, refuses doubles, and
writes them with one fixed modification time, so that a world depends on its facts alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from envkit.tasks.office.render.chat import Channel, chat
from envkit.tasks.office.render.ics import Event, calendar
from envkit.tasks.office.render.mail import Mail, mbox

__all__ = ["CALENDAR", "CHAT", "MAIL", "WorldFiles"]

MAIL = ".apps_data/mail/mailbox.mbox"
CHAT = ".apps_data/chat"
CALENDAR = ".apps_data/calendar/calendar.ics"

_GUIDE = """\
# Mail, chat and calendar

{owner} <{address}> owns this mailbox, chat account and calendar.

- Mail: `mail/mailbox.mbox`, one mbox file with received and sent messages. To send a message from a script, append it
  with its own `Message-ID`, `Date`, `From`, `To` and `Subject`; answers carry `In-Reply-To`. Files go along by path in
  an `X-Attachments` header.
- Chat: `chat/Groups/<space>/messages.json`, the name of the space in `group_info.json` beside it. To post, append a
  message of the same shape with a new `message_id` (`<space code>/<topic>/<id>`); a post that opens a thread has its
  own id as topic.
- Calendar: `calendar/calendar.ics`, times in UTC. An event has a `UID`; invited people are `ATTENDEE` lines with
  `mailto:`.
"""


class WorldFiles:
    """Collects a world's files. `owner` is the person at whose desk the agent sits: (name, address)."""

    def __init__(self, owner: tuple[str, str], now: datetime) -> None:
        self.owner, self.now = owner, now
        self.files: dict[str, bytes] = {}
        guide = _GUIDE.format(owner=owner[0], address=owner[1])
        self._put(".apps_data/README.md", guide.encode())

    def file(self, path: str, data: bytes | str) -> None:
        """Adds a file below `/filesystem`."""
        self._put(f"filesystem/{path}", data.encode() if isinstance(data, str) else data)

    def mail(self, mails: Sequence[Mail], domain: str) -> None:
        self._put(MAIL, mbox(mails, domain))

    def chat(self, channels: Sequence[Channel], people: Mapping[str, str]) -> None:
        for path, data in chat(channels, people).items():
            self._put(f"{CHAT}/{path}", data)

    def calendar(self, events: Sequence[Event], domain: str) -> None:
        self._put(CALENDAR, calendar(events, domain=domain, stamp=self.now))

    def _put(self, path: str, data: bytes) -> None:
        if path in self.files:
            raise ValueError(f"two files of one world have the path {path!r}")
        self.files[path] = data

    def write(self, root: Path) -> None:
        """Writes everything below `root`, which must exist; all files get the world's date."""
        stamp = self.now.replace(tzinfo=self.now.tzinfo or UTC).timestamp()
        for path, data in sorted(self.files.items()):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            os.utime(target, (stamp, stamp))
