"""Writes a dataset in the layout that APEX-Agents is published in, from its description alone, with everything odd
that the layout allows: `python odd_dataset.py FOLDER`. Knows nothing of the loader; nothing in it comes from the
real data.

Tasks: 0 as documented; 1 with no optional field at all; 2 with names outside ASCII, in task, world, files and
rubric; 3 whose world's zip wraps everything in two folders; 4 with input files, below a folder with spaces, and
fields that nobody documented; 5 whose rubric and empty input files are JSON text; 6 in a world without any
application's data.
"""

from __future__ import annotations

import io
import json
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["ANSWERS", "write"]

_chance = random.Random(20260101)


def _id(kind: str) -> str:
    return f"{kind}_{_chance.getrandbits(128):032x}"


#: What each task's rubric wants to hear, by the task's number.
ANSWERS = ("17 EUR", "18 EUR", "19 €", "20 EUR", "21 EUR", "22 EUR", "23 EUR")

_MAIL = (
    "From a@b.example Mon Mar  2 09:00:00 2026\nFrom: a@b.example\nTo: c@d.example\nSubject: Fees\n\nSee the note.\n\n"
)


def _world(fact: str, *, wrap: str = "", name: str = "note.txt", mail: bool = True) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in ("filesystem/", "filesystem/Empty folder/"):
            archive.writestr(wrap + folder, b"")
        archive.writestr(f"{wrap}filesystem/{name}", f"The fee is {fact}.\n")
        archive.writestr(f"{wrap}filesystem/.DS_Store", b"\0")
        archive.writestr(f"{wrap}__MACOSX/filesystem/._{name}", b"\0")
        if mail:
            archive.writestr(f"{wrap}.apps_data/mail/mailbox.mbox", _MAIL)
    return out.getvalue()


def _rubric(fact: str) -> list[dict[str, Any]]:
    return [{"verifier_id": _id("ver"), "criteria": f"States that the fee is {fact}"}]


def write(folder: Path) -> Path:
    """Writes the dataset into the new folder and returns it."""
    worlds = [_id("world") for _ in ANSWERS]
    zips = [
        _world(ANSWERS[0]),
        _world(ANSWERS[1]),
        _world(ANSWERS[2], name="Gebühren – Übersicht 費用.txt"),
        _world(ANSWERS[3], wrap="export/2026/"),
        _world("unknown"),
        _world(ANSWERS[5]),
        _world(ANSWERS[6], mail=False),
    ]
    tasks: list[dict[str, Any]] = []
    for number, fact in enumerate(ANSWERS):
        task: dict[str, Any] = {
            "task_id": _id("task"),
            "task_name": f"Fee note {number}",
            "domain": ("Law", "Investment Banking", "Management Consulting")[number % 3],
            "world_id": worlds[number],
            "prompt": "What is the fee? Answer with the amount.",
            "rubric": _rubric(fact),
            "task_input_files": None,
            "expected_output": "console",
            "gold_response": f"The fee is {fact}.",
            "gold_response_type": "text",
        }
        tasks.append(task)
    for name in ("task_name", "domain", "task_input_files", "expected_output", "gold_response", "gold_response_type"):
        del tasks[1][name]
    del tasks[1]["rubric"][0]["verifier_id"]
    tasks[2]["task_name"] = "Gebühren prüfen – 費用"
    tasks[2]["prompt"] = "Wie hoch ist die Gebühr? Nenne den Betrag in €. 費用はいくらですか"
    tasks[4]["task_input_files"] = ["filesystem/Neue Akten/Anlage ä.txt"]
    tasks[4]["reviewer_note"] = {"undocumented": [1, 2]}
    tasks[4]["rubric"][0]["expected_file_type"] = "Final Answer Only (No Files)"
    tasks[5]["rubric"] = json.dumps(tasks[5]["rubric"])
    tasks[5]["task_input_files"] = "[]"
    tasks[6]["task_input_files"] = ""
    described: list[dict[str, Any]] = [
        {"world_id": world, "world_name": f"World {number}", "domain": "Law"} for number, world in enumerate(worlds)
    ]
    described[2]["world_name"] = "Kanzlei Müller & Söhne 東京"
    described[3] = {"world_id": worlds[3]}
    described[5]["apps"] = None

    (folder / "world_files_zipped").mkdir(parents=True)
    for name, rows in (("tasks_and_rubrics", tasks), ("world_descriptions", described)):
        (folder / f"{name}.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    for world, data in zip(worlds, zips, strict=True):
        (folder / "world_files_zipped" / f"{world}.zip").write_bytes(data)
    overlay = folder / "task_files" / tasks[4]["task_id"] / "filesystem" / "Neue Akten"
    overlay.mkdir(parents=True)
    (overlay / "Anlage ä.txt").write_text(f"The fee is {ANSWERS[4]}.\n", encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
