"""A dataset in APEX-Agents' published layout, made up by us: three small worlds and 130 tasks.

Used as the fixture of the pack's tests; nothing in it comes from the real one.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl

__all__ = ["REGIONS", "rows", "write_dataset", "write_training_form"]

REGIONS = ("North", "South", "East", "West")
_TRADES = ("Investment Banking", "Law", "Management Consulting")
_MAIL = (
    "From kim@tern.example Mon Mar  2 09:00:00 2026\nMessage-ID: <m1@tern.example>\nFrom: Kim Tern <kim@tern.example>\n"
    "To: desk@tern.example\nDate: Mon, 2 Mar 2026 09:00:00 +0000\nSubject: Figures\n\nUse the March sheet.\n\n"
)


def _hex(kind: str, number: int) -> str:
    return f"{kind}_{hashlib.md5(f'{kind}{number}'.encode(), usedforsecurity=False).hexdigest()}"


def _workbook(factor: int) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "March"
    sheet.append(["region", "sales"])
    for number, region in enumerate(REGIONS, start=1):
        sheet.append([region, number * factor])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _world(number: int) -> dict[str, bytes]:
    return {
        "filesystem/Sales/March.xlsx": _workbook(100 * (number + 1)),
        "filesystem/Notes.txt": f"World {number}. All amounts in EUR.\n".encode(),
        ".apps_data/mail/mailbox.mbox": _MAIL.encode(),
    }


def rows(count: int = 130) -> list[dict[str, Any]]:
    """The tasks. Every seventh brings a file of its own; the kinds of rubric lines take turns."""
    out: list[dict[str, Any]] = []
    for n in range(count):
        world, region = n % 3, REGIONS[n % 4]
        total = 100 * (world + 1) * (n % 4 + 1)
        rubric: list[dict[str, Any]] = [
            {"verifier_id": _hex("ver", 3 * n), "criteria": f"States that sales in {region} are {total} EUR"},
            {"verifier_id": _hex("ver", 3 * n + 1), "criteria": "Names the sheet the figure is taken from"},
        ]
        if n % 5 == 3:
            rubric.append(
                {
                    "verifier_id": _hex("ver", 3 * n + 2),
                    "criteria": "The note holds the figure",
                    "expected_file_type": "Text Files (.txt)",
                    "is_primary_objective": False,
                    "criteria_explanation": "Any wording will do.",
                    "artifacts_to_reference": ["Sales/March.xlsx"],
                }
            )
            rubric[0]["expected_file_type"] = "Final Answer Only (No Files)"
            rubric[0]["is_primary_objective"] = True
        out.append(
            {
                "task_id": _hex("task", n),
                "task_name": f"Regional sales {n}: {region}",
                "domain": _TRADES[world],
                "world_id": _hex("world", world),
                "prompt": f"What were March sales in {region}? (Question {n}) Write a note if you were asked for one.",
                "rubric": rubric,
                "task_input_files": [f"Inbox/Question {n}.txt"] if n % 7 == 0 else [],
                "expected_output": "text",
                "gold_response": f"Sales in {region} were {total} EUR (sheet March).",
                "gold_response_type": "text",
            }
        )
    return out


def write_dataset(root: Path, count: int = 130) -> Path:
    """Writes the dataset into a new folder."""
    root.mkdir(parents=True)
    tasks = rows(count)
    (root / "tasks_and_rubrics.json").write_text(json.dumps(tasks), encoding="utf-8")
    worlds = [
        {"world_id": _hex("world", n), "world_name": f"Tern {n}", "domain": _TRADES[n], "extra": 1} for n in range(3)
    ]
    (root / "world_descriptions.json").write_text(json.dumps(worlds), encoding="utf-8")
    (root / "world_files_zipped").mkdir()
    for n in range(3):
        with zipfile.ZipFile(root / "world_files_zipped" / f"{_hex('world', n)}.zip", "w") as archive:
            wrapped = "Tern/" if n == 1 else ""  # some have a wrapping folder
            for name, data in _world(n).items():
                archive.writestr(wrapped + name, data)
            archive.writestr(wrapped + ".apps_data/.coordinator/config.json", b"{}")
    for n, task in enumerate(tasks):
        if task["task_input_files"]:
            folder = root / "task_files" / task["task_id"]
            (folder / "filesystem" / "Inbox").mkdir(parents=True)
            (folder / "filesystem" / "Inbox" / f"Question {n}.txt").write_text(f"Question {n}\n")
            (folder / "filesystem" / "Notes.txt").write_text(f"Notes of task {n}\n")  # in place of the world's
    return root


def write_training_form(root: Path, *, worlds: Path | None = None) -> Path:
    """Writes two task directories with their descriptions into a new folder."""
    for n in range(2):
        folder = root / f"sales-{n}"
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text('schema_version = "1.3"\n[agent]\ntimeout_sec = 600.0\n')
        (folder / "instruction.md").write_text(f"What were March sales in {REGIONS[n]}?\n")
        (folder / "tests" / "test.sh").write_text(
            "#!/bin/bash\nset -eu\ngrep -q 100 /logs/agent/answer.txt && r=1 || r=0\n"
            'echo "{\\"reward\\": $r}" > /logs/verifier/reward.json\n'
        )
        about = {
            "task_id": _hex("task", n), "task_name": f"Sales {n}", "task_slug": f"sales-march-{n}",
            "world_id": _hex("world", 0), "world_short_name": "tern",
            "ecr_image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/worlds:tern",
            "required_env_keys": ["APEX_TEST_KEY"] if n else [], "needs_snapshot": True, "more": {"kept": 1},
        }  # fmt: skip
        (folder / "archipelago.json").write_text(json.dumps(about))
    if worlds is not None:
        (root / "world_files_zipped").symlink_to(worlds / "world_files_zipped")
    return root
