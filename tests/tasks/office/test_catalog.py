"""The catalog and the pack's face: what is listed, how cheap, and what is said of unknown names."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from envkit.failure import UserError
from envkit.pack import TaskPack
from envkit.tasks.office import OfficePack
from envkit.tasks.office.catalog import TASKS, WORLDS


def test_the_pack_is_a_task_pack() -> None:
    pack = OfficePack()
    assert isinstance(pack, TaskPack)
    assert pack.name == "office"


def test_splits_are_disjoint_by_world_and_every_trade_is_in_both() -> None:
    pack = OfficePack()
    train, evaluation = pack.ids("train"), pack.ids("eval")
    assert sorted([*train, *evaluation]) == list(pack.ids())
    assert not {TASKS[n].world for n in train} & {TASKS[n].world for n in evaluation}
    trades = {split: sorted(w.domain for w in WORLDS.values() if w.split == split) for split in ("train", "eval")}
    assert trades["train"] == trades["eval"]


def test_every_world_has_at_least_six_tasks_of_several_families_and_levels() -> None:
    for world in WORLDS:
        tasks = [entry for entry in TASKS.values() if entry.world == world]
        assert len(tasks) >= 6, world
        assert len({entry.family for entry in tasks}) >= 3, world
        assert {entry.difficulty for entry in tasks} == {"easy", "medium", "hard"}, world


def test_the_levels_are_spread() -> None:
    levels = Counter(entry.difficulty for entry in TASKS.values())
    assert levels["easy"] >= 4
    assert min(levels["medium"], levels["hard"]) >= len(TASKS) // 5


def test_listing_imports_no_document_library() -> None:
    code = (
        "import sys; from envkit.tasks.office import OfficePack; OfficePack().ids('train'); "
        "heavy = {'openpyxl', 'docx', 'pptx', 'reportlab', 'pdfplumber', 'xlsxwriter', 'pandas', 'pydantic'}; "
        "print(sorted(heavy & set(sys.modules) - {'pydantic'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["lantern-november-invoce", "steerco_deck_refresh"])
def test_an_unknown_task_gets_the_nearest_name(name: str) -> None:
    with pytest.raises(UserError, match="did you mean"):
        OfficePack().load(name)


def test_an_unknown_split_gets_the_known_ones() -> None:
    with pytest.raises(UserError, match="train and eval"):
        OfficePack().ids("validation")
