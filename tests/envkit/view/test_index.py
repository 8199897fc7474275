"""The list of trials: read as it grows, whatever state the folder is in."""

from __future__ import annotations

import json
from pathlib import Path

import make_run
import pytest

from envkit.failure import UserError
from envkit.view.find import find_runs
from envkit.view.index import RunIndex
from envkit.view.query import Query, select


def line(id: str, **more: object) -> str:
    return json.dumps({"trial_id": id, "task": "office/a", "status": "scored", "reward": 1.0, **more}) + "\n"


def test_a_live_run_is_followed_and_a_half_written_line_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    lines = tmp_path / "results.jsonl"
    lines.write_text(line("a") + line("b"))
    index = RunIndex(tmp_path)
    before = index.refresh()
    assert [row["id"] for row in index.rows()] == ["a", "b"]
    assert index.refresh() == before, "nothing came, nothing changed"
    whole = line("c", reward=0.5)
    with lines.open("a") as file:
        file.write(whole[:20])
    assert len(index.rows()) == 2
    with lines.open("a") as file:
        file.write(whole[20:] + "not json\n" + '{"no": "id"}\n')
    assert [row["id"] for row in index.rows()] == ["a", "b", "c"]
    assert index.damaged_lines == 2
    assert index.refresh() > before


def test_a_file_that_was_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    lines = tmp_path / "results.jsonl"
    lines.write_text(line("a") + line("b") + line("c"))
    index = RunIndex(tmp_path)
    assert len(index.rows()) == 3
    other = tmp_path / "other"
    other.write_text(line("b", reward=0.0, finished_at="2026-11-30T10:00:00+00:00"))
    other.rename(lines)
    assert [(row["id"], row["reward"]) for row in index.rows()] == [("b", 0.0)]


def test_trials_without_a_line_are_running_or_known_by_their_record(tmp_path: Path) -> None:
    results = make_run.write_run(tmp_path, trials=3, tasks=3)
    whole = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text(whole[0])  # the job died before it wrote the others
    (tmp_path / "trials" / "office-draft-memo.4.0123456789" / "attempt-1").mkdir(parents=True)
    rows = {row["id"]: row for row in RunIndex(tmp_path).rows()}
    assert rows[results[1].trial_id]["status"] == str(results[1].status)
    running = rows["office-draft-memo.4.0123456789"]
    assert (running["status"], running["sample"], running["task"]) == ("running", 4, "office-draft-memo")


def test_rollouts_of_a_training_have_no_record_but_their_attempts(tmp_path: Path) -> None:
    (result,) = make_run.write_run(tmp_path, trials=1, tasks=1)
    (tmp_path / "results.jsonl").unlink()
    (tmp_path / "trials" / result.trial_id / "result.json").unlink()
    (row,) = RunIndex(tmp_path).rows()
    assert (row["task"], row["status"], row["reward"]) == (result.task_id, str(result.status), result.reward)


def test_the_records_behind_the_list_are_searched(tmp_path: Path) -> None:
    make_run.write_run(tmp_path, trials=24, tasks=4)
    index = RunIndex(tmp_path)
    index.refresh()
    index.deepen()
    assert index.deepened(30)
    assert index.planned == 24
    found = select(index, Query(text="november CORRECTION"))
    assert found.rows
    assert all(row["failed_criteria"] for row in found.rows if row["reward"] is not None and row["reward"] < 1)
    assert not select(index, Query(text="nobody-wrote-this")).rows


def test_facets_count_what_would_be_left(tmp_path: Path) -> None:
    make_run.write_run(tmp_path, trials=80, tasks=8)
    index = RunIndex(tmp_path)
    everything = select(index, Query())
    assert sum(everything.facets["status"].values()) == len(everything.rows) == 80
    failed = select(index, Query(chosen={"status": frozenset({"failed"})}))
    assert failed.facets["status"] == everything.facets["status"], "its own filter does not count in a facet"
    assert sum(failed.facets["failure"].values()) == len(failed.rows) == everything.facets["status"]["failed"]
    both = select(index, Query(chosen={"status": frozenset({"failed", "unscored"})}))
    assert len(both.rows) == everything.facets["status"]["failed"] + everything.facets["status"]["unscored"]
    assert all(row["reward"] is None for row in both.rows)
    high = select(index, Query(low=0.5))
    assert high.rows
    assert all(row["reward"] >= 0.5 for row in high.rows)


def test_order_puts_trials_without_the_figure_last(tmp_path: Path) -> None:
    make_run.write_run(tmp_path, trials=40, tasks=4)
    index = RunIndex(tmp_path)
    for down in (False, True):
        rewards = [row["reward"] for row in select(index, Query(sort="reward", down=down)).rows]
        known = [reward for reward in rewards if reward is not None]
        assert known == sorted(known, reverse=down)
        assert rewards[: len(known)] == known


def test_rows_of_odd_types_break_nothing(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    (tmp_path / "results.jsonl").write_text(
        line("a", reward="high", turns=[1], status=7, task=None)
        + line("b", reward=float("nan"))
        + line("c", turns=True)
    )
    index = RunIndex(tmp_path)
    for sort in ("reward", "turns", "status", "task"):
        assert len(select(index, Query(sort=sort)).rows) == 3


def test_runs_are_found_below_a_folder_and_get_keys_of_their_own(tmp_path: Path) -> None:
    for name in ("one/evening", "two/evening", "two/deep/down/late"):
        (tmp_path / name / "trials").mkdir(parents=True)
    found = find_runs([tmp_path])
    assert sorted(found) == ["evening", "evening~2"], "three levels down, and no further"
    assert set(find_runs([tmp_path / "two"])) == {"evening", "late"}
    with pytest.raises(UserError, match="holds no run"):
        find_runs([tmp_path / "one" / "evening" / "trials"])
    with pytest.raises(UserError, match="there is no"):
        find_runs([tmp_path / "three"])
