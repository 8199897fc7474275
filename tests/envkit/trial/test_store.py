"""The run folder: whole files or none, damage noticed, a full disk named, one job at a time."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.trial.result import AttemptResult, Plugin, Status, TrialResult, TrialSpec
from envkit.trial.secrets import scrubber
from envkit.trial.store import RunLock, RunStore, json_text, write_atomic
from envkit.verifier import Verdict

NOW = dt.datetime(2026, 1, 15, 9, 0, tzinfo=dt.UTC)
SPEC = TrialSpec(task="pack/a", policy=Plugin(name="noop"))


def scored(number: int = 1, answer: str = "done") -> AttemptResult:
    return AttemptResult(
        trial_id=SPEC.trial_id,
        attempt=number,
        task="pack/a",
        status=Status.SCORED,
        reward=1.0,
        final_answer=answer,
        verdict=Verdict(reward=1.0),
        started_at=NOW,
        finished_at=NOW,
    )


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    target = tmp_path / "disk"
    target.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(target)], capture_output=True)
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr!r}")
    yield target
    subprocess.run(["umount", str(target)], check=True)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    attempt = store.attempt(SPEC.trial_id, 1)
    attempt.create()
    attempt.write_result(scored())
    trial = TrialResult.of(SPEC, store.attempts(SPEC.trial_id))
    store.write_trial(trial)
    assert store.read_trial(SPEC.trial_id) == trial
    assert json.loads((tmp_path / "results.jsonl").read_text())["reward"] == 1.0
    assert store.next_attempt(SPEC.trial_id) == 2
    assert not store.damaged


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\0" * 300, b'{"status": "scored"}', b"[1,2]", b"\xff\xfe", b"[" * 90000]
)
def test_a_damaged_record_counts_as_not_there_and_is_reported(tmp_path: Path, damage: bytes) -> None:
    store = RunStore(tmp_path)
    folder = store.trial_folder(SPEC.trial_id)
    folder.mkdir(parents=True)
    (folder / "result.json").write_bytes(damage)
    assert store.read_trial(SPEC.trial_id) is None
    assert [d.path for d in store.damaged] == [folder / "result.json"]


def test_a_record_of_a_newer_version_is_never_overwritten(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    folder = store.trial_folder(SPEC.trial_id)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text('{"schema_version": 99}')
    with pytest.raises(UserError, match="newer envkit"):
        store.read_trial(SPEC.trial_id)


def test_a_full_disk_is_named_and_what_was_there_stays(tiny_disk: Path) -> None:
    path = tiny_disk / "result.json"
    write_atomic(path, "first")
    with pytest.raises(EnvkitError, match="no room left") as caught:
        write_atomic(path, b"x" * 200_000)
    assert caught.value.kind is FailureKind.DISK_FULL
    assert path.read_text() == "first"
    assert os.listdir(tiny_disk) == ["result.json"]


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    code = (
        "import sys; from pathlib import Path; from envkit.trial.store import write_atomic\n"
        "p = Path(sys.argv[1]); i = 0\n"
        "while True: i += 1; write_atomic(p, str(i % 10) * 200_000)\n"
    )
    for delay_s in (0.3, 0.37, 0.45, 0.52):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        if path.exists():
            text = path.read_text()
            assert len(text) == 200_000
            assert len(set(text)) == 1


def test_known_secrets_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-abcdef-0123456789")
    clean = scrubber({"headers": {"authorization": "Bearer 9876543210zz"}, "max_tokens": "1234567"})
    store = RunStore(tmp_path, clean.scrub_text)
    attempt = store.attempt(SPEC.trial_id, 1)
    attempt.create()
    attempt.write_result(scored(answer="the key is sk-abcdef-0123456789, the header Bearer 9876543210zz, 1234567"))
    text = (attempt.folder / "result.json").read_text()
    assert "sk-abcdef" not in text
    assert "9876543210zz" not in text
    assert "1234567" in text


def test_no_verdict_is_lost_because_an_answer_cannot_be_encoded(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    attempt = store.attempt(SPEC.trial_id, 1)
    attempt.create()
    attempt.write_result(scored(answer="half a pair: \ud83d"))
    assert store.attempts(SPEC.trial_id)[0].reward == 1.0
    assert json.loads(json_text({"x": [float("nan"), float("inf")]})) == {"x": ["nan", "inf"]}


def test_one_job_per_folder(tmp_path: Path) -> None:
    first = RunLock(tmp_path)
    first.acquire()
    with pytest.raises(UserError, match=f"another job .process {os.getpid()}."):
        RunLock(tmp_path).acquire(patience_s=0.1)
    first.release()
    second = RunLock(tmp_path)
    second.acquire()
    second.release()


def test_a_resumed_job_waits_for_the_survivors_of_a_killed_one(tmp_path: Path) -> None:
    # The owner is gone, a child of its still holds the lock for a second.
    code = (
        "import os, sys, time; from pathlib import Path; from envkit.trial.store import RunLock\n"
        "lock = RunLock(Path(sys.argv[1])); lock.acquire()\n"
        "if os.fork() == 0: time.sleep(1.0); os._exit(0)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    since_s = time.monotonic()
    lock = RunLock(tmp_path)
    lock.acquire(patience_s=20)
    assert time.monotonic() - since_s > 0.2
    lock.release()


@pytest.mark.slow
def test_looking_through_ten_thousand_trials_is_quick(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    specs = [SPEC.model_copy(update={"sample": i}) for i in range(10_000)]
    store.write_plan(specs, {})
    folders = [store.trial_folder(s.trial_id) for s in specs[::100]]
    for folder in folders:
        folder.mkdir(parents=True)
    since_s = time.process_time()
    assert sum(store.read_trial(s.trial_id) is None for s in specs) == 10_000
    assert sum(store.next_attempt(s.trial_id) for s in specs) == 10_000
    assert time.process_time() - since_s < 30  # a listing per trial would take many minutes
