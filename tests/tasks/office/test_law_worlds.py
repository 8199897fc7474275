"""The two law worlds: their facts, their files, and each task judged with its solution, without work, and with hasty work.

A hasty attempt is the task's own solution with one step left out, so that it falls for one trap; it must lose the task's
heaviest criterion.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from envkit.tasks.office.catalog import TASKS, WORLDS
from envkit.tasks.office.facts import tarrant_moss
from envkit.tasks.office.jobs.dates import said
from envkit.tasks.office.pack import OfficePack
from envkit.verifiers import portable_main

LAW = [name for name, world in WORLDS.items() if world.domain == "law"]
LAW_TASKS = [name for name, entry in TASKS.items() if entry.world in LAW]

#: Task, what of its solution is left out or done wrongly: (text of the solution, what stands there instead).
HASTY = [
    # The draft amendment's or the old agreement's figures, a calendar year, a credit note that came by mail.
    ("osterley-termination-notice", "{clause.group(2)} days'", "six months'"),
    ("brightwater-liability-cap", "total -= money(late.group(2))", "pass"),
    ("brightwater-liability-cap", '"2024-07", "2025-06"', '"2025-01", "2025-12"'),
    ("brightwater-liability-cap", "total += row[1] + row[2]", "total += row[4]"),
    ("brightwater-liability-cap", "first <= row[2] <= last", "2024 <= row[1].year <= 2025"),
    ("chippenham-break-notice", "and day not in closed", ""),
    ("chippenham-break-notice", "while left < 2", "while left < 1"),
    ("pellow-key-dates", "site == gone.group(1)", "False"),
    ("pellow-key-dates", "site in waived", "False"),
    ("pellow-key-dates", "and last >= TODAY", ""),
    ("pellow-key-dates", 'site == "Chippenham" and', "False and"),
    ("pellow-key-dates", "schedule 2025-12", "schedule 2024-06"),
    ("amendment-two-conform", 'text.replace(f"{call.group(2)}%", f"{call.group(1)}%")', "text"),
    ("amendment-two-conform", "number + shift if first <= number <= last else number", "number"),
    ("corrigan-privilege-log", 'doc["doc_id"] in given_up or', ""),
    ("corrigan-privilege-log", 'doc["doc_id"] == slip[0]', "False"),
    ("corrigan-privilege-log", "and (end is None or day <= end.date())", ""),
    ("corrigan-privilege-log", "day >= since", "day >= date(2025, 6, 3)"),
    ("corrigan-privilege-log", "all(s in ours for s in sides)", "True"),
    ("charge-out-rates-2026", "rises[fix.group(1).lower()] = float(fix.group(2))", ""),
    ("hallmark-exchange-mail", "left -= day.weekday() < 5 and day not in closed", "left -= day.weekday() < 5"),
    ("hallmark-exchange-mail", "new.group(1)", '"mark.tolley@sefton-grieve.example"'),
]  # fmt: skip


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> OfficePack:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVKIT_HOME", str(tmp_path_factory.mktemp("home")))
        pack = OfficePack()
        for name in LAW_TASKS:
            pack.load(name)
        yield pack


def judged(pack: OfficePack, name: str, root: Path, solve: str | None, answer: str | None = None) -> tuple[float, dict]:
    """Runs a solution on a copy of the world and judges what it leaves: the reward, and outcome and weight by check."""
    task = pack.load(name)
    for tree in ("filesystem", ".apps_data"):
        shutil.copytree(pack.world(task) / tree, root / tree)
    shutil.copytree(task.dir / "tests", root / "tests")
    (root / "logs/agent").mkdir(parents=True)
    if solve is not None:
        shutil.copytree(task.dir / "solution", root / "solution")
        (root / "solution/solve.py").write_text(solve)
        environ = {**os.environ, "OFFICE_ROOT": str(root)}
        subprocess.run([sys.executable, str(root / "solution/solve.py")], cwd=root, env=environ, check=True)
    if answer is not None:
        (root / "logs/agent/answer.txt").write_text(answer)
    assert portable_main.main(["--root", str(root)]) == 0
    criteria = json.loads((root / "logs/verifier/criteria.json").read_text())["criteria"]
    reward = json.loads((root / "logs/verifier/reward.json").read_text())["reward"]
    return reward, {c["id"]: (c["outcome"], c["weight"]) for c in criteria}


def job_of(name: str):
    return importlib.import_module(f"envkit.tasks.office.jobs.{WORLDS[TASKS[name].world].module}").jobs()[name]


def test_two_law_worlds_one_per_split_with_seven_tasks_or_more():
    assert sorted(WORLDS[name].split for name in LAW) == sorted({"train", "eval"} & {WORLDS[n].split for n in LAW})
    assert all(count >= 7 for count in Counter(TASKS[name].world for name in LAW_TASKS).values())


@pytest.mark.parametrize("world", LAW)
def test_a_world_has_every_kind_of_file_and_the_same_bytes_each_time(world: str):
    module = importlib.import_module(f"envkit.tasks.office.worlds.{WORLDS[world].module}")
    files = module.build().files
    kinds = Counter(Path(path).suffix for path in files)
    assert sum(path.startswith("filesystem/") for path in files) >= 15
    assert {".pdf", ".xlsx", ".docx", ".pptx", ".csv", ".mbox", ".json", ".ics"} <= set(kinds)
    assert module.build().files == files


@pytest.mark.parametrize("name", LAW_TASKS)
def test_the_instruction_does_not_give_the_result_away(name: str):
    job = job_of(name)
    for check in job.checks:
        if check["weight"] < 2:
            continue
        number = check.get("number", {}).get("value", check.get("value"))
        if isinstance(number, float) and number > 100:
            assert f"{number:,.2f}" not in job.instruction
            assert f"{number:,.0f}" not in job.instruction


def test_business_days_skip_easter():
    assert tarrant_moss.add_business(date(2026, 4, 1), 2) == date(2026, 4, 7)
    assert not tarrant_moss.business(date(2026, 4, 3))


def test_the_break_notice_posted_one_business_day_later_is_too_late():
    last = tarrant_moss.chippenham_posting()
    assert tarrant_moss.add_business(last, 2) <= tarrant_moss.chippenham_receipt()
    assert tarrant_moss.add_business(tarrant_moss.add_business(last, 1), 2) > tarrant_moss.chippenham_receipt()


def test_months_are_counted_back_to_the_last_day_of_a_short_month():
    assert tarrant_moss.months_before(date(2027, 1, 31), 9) == date(2026, 4, 30)
    assert tarrant_moss.months_before(date(2027, 2, 28), 6) == date(2026, 8, 28)
    assert tarrant_moss.months_before(date(2026, 3, 31), 1) == date(2026, 2, 28)


@pytest.mark.parametrize(
    "text",
    ["7 April 2026", "7th of Apr 2026", "April 7, 2026", "2026-04-07", "07/04/2026", "Tuesday, 7 April 2026"],
)
def test_dates_are_found_as_people_write_them(text: str):
    assert re.search(said(date(2026, 4, 7)), text, re.IGNORECASE)
    assert not re.search(said(date(2026, 4, 17)), text, re.IGNORECASE)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAW_TASKS)
def test_the_solution_program_scores_one_and_no_work_nothing(pack: OfficePack, name: str, tmp_path: Path):
    solve = (pack.load(name).dir / "solution/solve.py").read_text()
    done, nothing = tmp_path / "done", tmp_path / "nothing"
    done.mkdir()
    nothing.mkdir()
    reward, criteria = judged(pack, name, done, solve)
    assert reward == 1.0, criteria
    assert judged(pack, name, nothing, None, "I could not do this.")[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in LAW_TASKS if job_of(n).wrong])
def test_a_hasty_answer_loses_the_heaviest_criterion(pack: OfficePack, name: str, tmp_path: Path):
    reward, criteria = judged(pack, name, tmp_path, None, job_of(name).wrong)
    heaviest = max(criteria, key=lambda c: criteria[c][1])
    assert criteria[heaviest][0] == "failed"
    assert reward <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step", "instead"), HASTY)
def test_a_solution_with_one_step_left_out_loses_the_heaviest_criterion(
    pack: OfficePack, name: str, step: str, instead: str, tmp_path: Path
):
    solve = (pack.load(name).dir / "solution/solve.py").read_text()
    assert step in solve, "the solution has changed; name another step"
    reward, criteria = judged(pack, name, tmp_path, solve.replace(step, instead))
    most = max(weight for _, weight in criteria.values())
    assert any(outcome == "failed" for outcome, weight in criteria.values() if weight == most), criteria
    assert reward < 0.8
