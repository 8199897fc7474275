"""What the mail, chat and calendar tools write is what typed checks look for, in a world that ships with us."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from envkit.harnesses.archipelago.servers.calling import call_meta, context_for
from envkit.office.mail import read_mbox
from envkit.tasks.office import OfficePack
from envkit.verifiers.diff.mail import diff_mailbox
from envkit.verifiers.portable import write_tests
from envkit.verifiers.portable_main import main as portable

CHECKS = """
schema_version = "1"
[[check]]
id = "mail"
kind = "mail"
from = "jonah.feld@calderlane.example"
to = ["marcus.odell@calderlane.example"]
cc = ["ann@buyer.example"]
exact_recipients = true
subject = ["Status"]
contains = ["two NDAs are out"]
attachments = ["Deal/Buyer log.xlsx"]
max_new = 2
[[check]]
id = "answer"
kind = "mail"
in_reply_to = "{parent}"
contains = ["noted"]
[[check]]
id = "chat"
kind = "chat"
channel = "Bluegill deal team"
sender = "jonah.feld@calderlane.example"
contains = ["NDA status is out"]
max_new = 1
[[check]]
id = "event"
kind = "calendar"
summary = ["Buyer call"]
start = 2026-03-09T09:00:00
end = 2026-03-09T10:00:00
time_zone = "America/New_York"
same_zone = true
attendees = ["marcus.odell@calderlane.example"]
exact_attendees = true
location = ["Room 2"]
"""


def test_a_days_work_is_accepted(tmp_path: Path) -> None:
    world = OfficePack().build_world("calder-lane")
    for part in ("filesystem", ".apps_data"):
        shutil.copytree(world / part, tmp_path / part, copy_function=shutil.copyfile)
    for folder in [p for p in tmp_path.rglob("*") if p.is_dir()]:
        folder.chmod(0o755)
    box = next((tmp_path / ".apps_data/mail").glob("*.mbox"))
    before = read_mbox(box.read_bytes())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/verifier.toml").write_text(CHECKS.replace("{parent}", before[-1].message_id))
    write_tests(tmp_path / "tests", world)

    def call(app: str, **request: Any) -> Any:
        declared = import_module(f"envkit.harnesses.archipelago.servers.{app}").APP
        outcome = call_meta(
            declared, app, request, context_for(declared, tmp_path / "filesystem", tmp_path / ".apps_data")
        )
        assert not outcome.error, outcome.text
        return json.loads(outcome.text)

    assert portable(["--root", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "logs/verifier/reward.json").read_text())["reward"] == 0.0
    call(
        "mail",
        action="send",
        to_email="Marcus Odell <marcus.odell@calderlane.example>",
        cc="ann@buyer.example",
        subject="Status of NDAs",
        body="Marcus,\n\ntwo NDAs are out.\n",
        attachments=["/Deal/Buyer log.xlsx"],
    )
    call("mail", action="reply", mail_id=before[-1].message_id, body="Noted, thanks.")
    call("chat", action="post", channel_id="Bluegill deal team", message="The NDA status is out.")
    made = call(
        "calendar",
        action="create",
        summary="Buyer call",
        start_datetime="2026-03-09T10:00:00",
        timezone="America/New_York",
        attendees=["marcus.odell@calderlane.example"],
        location="Room 1",
    )
    call(
        "calendar",
        action="update",
        event_id=made["create"]["event_id"],
        start_datetime="2026-03-09T09:00:00",
        location="Room 2",
    )
    assert [f.kind for f in diff_mailbox(before, read_mbox(box.read_bytes()))] == ["message", "message"]
    assert portable(["--root", str(tmp_path)]) == 0
    reward = json.loads((tmp_path / "logs/verifier/reward.json").read_text())
    assert reward["reward"] == 1.0
