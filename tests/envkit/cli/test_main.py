"""The command line as a user meets it: exit codes, JSON, and mistakes that are answered with what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from envkit import plugins
from envkit.cli.main import COMMANDS, main
from envkit.cli.options import plugin, value
from envkit.failure import UserError


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def call_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, _ = call(capsys, *arguments, "--json")
    return code, json.loads(out)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task directory that brings its own world."""
    folder = tmp_path / "tasks" / "six"
    for sub in ("tests", "solution", "environment/world/filesystem"):
        (folder / sub).mkdir(parents=True)
    (folder / "task.toml").write_text('schema_version = "1.4"\n[task]\nname = "test/six"\n')
    (folder / "instruction.md").write_text("Answer with the number in a.txt.\n")
    (folder / "environment" / "world" / "filesystem" / "a.txt").write_text("6\n")
    (folder / "tests" / "verifier.toml").write_text(
        'schema_version = "1"\n[[check]]\nid = "n"\nkind = "answer"\nnumber = {value = 6}\n'
    )
    (folder / "tests" / "test.sh").write_text("exit 1\n")
    (folder / "solution" / "solve.sh").write_text("mkdir -p /logs/agent && cp a.txt /logs/agent/answer.txt\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("evl", "x"), "did you mean 'eval'"),
        (("eval",), "patterns"),
        (("eval", "office/*"), "--policy"),
        (("eval", "ofice/*", "--policy", "noop"), "ofice"),
        (("eval", "office/*", "--policy", "noop", "--limit", "max_turn=3"), "did you mean 'max_turns'"),
        (("eval", "office/*", "--policy", "noop", "--limit", "max_turns"), "expected k=v"),
        (("eval", "office/*", "--policy", "noop", "-n", "0"), "at least 1"),
        (("eval", "office/*", "--policy", "noop", "--timeout-s", "-3"), "timeout_s"),
        (("eval", "office/*", "--policy", "noop", "--starts-per-s", "0"), "above 0"),
        (("eval", "office/*", "--policy", "noop", "--max-cost", "nan"), "--max-cost must be a number above 0"),
        (("eval", "office/*", "--policy", "noop", "--max-total-tokens", "0"), "--max-total-tokens must be"),
        (("eval", "office/*", "--policy", "noop", "--starts-per-s", "nan"), "above 0"),
        (("eval", "office/*", "--policy", "oracl"), "did you mean 'oracle'"),
        (("eval", "office/*", "--policy", "oracle:ply=solve"), "ply"),
        (("eval", "office/*", "--model", "m", "--api-key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY"),
        (("eval", "office/*", "--policy", "noop", "--sandbox", "local:ofice=1"), "ofice"),
        (("eval", "office/*", "--policy", "noop", "--harness", "opencode:promt=x"), "did you mean 'prompt'"),
        (("eval", "office/*", "--policy", "noop", "--out", "/proc/none"), "run folder"),
        (("eval", "office/*", "--policy", "noop", "--out", "/etc/passwd"), "run folder"),
        (("run", "office/*"), "expected one task"),
        (("run", "office/no-such-task"), "no-such-task"),
        (("tasks", "/no/such/folder"), "/no/such/folder"),
        (("tasks", "--splt", "train"), "--splt"),
        (("run", "office/overdue-reminder-mail", "--base-url", "http://x"), "--model"),
    ],
)
def test_the_users_mistakes_exit_with_2_and_say_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    code, error = call_json(capsys, *arguments)
    assert code == 2
    assert says in error["error"]["message"]


def test_an_unknown_plugin_is_the_users_mistake_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path
) -> None:
    code, _, err = call(capsys, "run", str(task), "--harness", "opncode", "--out", str(tmp_path / "run"))
    assert code == 2
    assert "did you mean 'opencode'" in err


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as info:
            main([command, "--help"])
        assert info.value.code == 0
        assert "--json" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["--version"]) == 0


def test_tasks_lists_and_shows(capsys: pytest.CaptureFixture[str], task: Path) -> None:
    code, ids = call_json(capsys, "tasks", "office/*", "--split", "train")
    assert code == 0
    assert len(ids) > 3
    code, shown = call_json(capsys, "tasks", str(task), "--show")
    assert code == 0
    assert shown[0]["steps"][0]["instruction"].startswith("Answer with")


def test_run_shows_the_transcript_and_leaves_plain_files(
    capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    code, text, _ = call(capsys, "run", str(task), "--policy", "oracle", "--out", str(out))
    assert code == 0, text
    assert "pass  n" in text
    assert "reward 1.000" in text
    (result,) = out.glob("trials/*/result.json")
    assert json.loads(result.read_text())["reward"] == 1.0


def test_eval_prints_one_json_value_writes_its_page_and_resumes(
    capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path
) -> None:
    arguments = ("eval", str(task), "--policy", "oracle", "--policy", "noop", "--out", str(tmp_path / "run"))
    code, report = call_json(capsys, *arguments)
    assert code == 0
    means = {row["policy"]: row["mean"] for row in report["summary"]}
    assert means == {"oracle": 1.0, "noop": 0.0}
    page = tmp_path / "run" / "report.html"
    assert report["report"] == str(page)
    assert "oracle" in page.read_text()
    page.unlink()
    (page / "in the way").mkdir(parents=True)  # a page that can't be written costs no result
    again_code, out, err = call(capsys, *arguments, "--json")
    again = json.loads(out)
    assert again_code == 0
    assert again["report"] is None
    assert "the HTML report was not written (" in err
    assert again["trials"] == report["trials"]


def test_a_trial_without_a_verdict_exits_with_1_and_has_no_reward(
    capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path
) -> None:
    (task / "solution" / "solve.sh").write_text("echo broken >&2; exit 3\n")
    code, report = call_json(capsys, "eval", str(task), "--policy", "oracle", "--out", str(tmp_path / "run"))
    assert code == 1
    (trial,) = report["trials"]
    assert (trial["status"], trial["reward"], trial["failure"]) == ("failed", None, "solution_failed")
    (row,) = report["summary"]
    assert (row["mean"], row["lower"], row["upper"], row["scored"]) == (None, 0.0, 1.0, 0)


@pytest.mark.slow
def test_check_finds_a_task_that_rewards_doing_nothing(
    capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path
) -> None:
    code, report = call_json(capsys, "check", str(task))
    assert (code, report["sound"]) == (0, True), report
    (task / "tests" / "verifier.toml").write_text(
        'schema_version = "1"\n[[check]]\nid = "there"\nkind = "file"\npath = "/filesystem/a.txt"\nexists = true\n'
    )
    code, report = call_json(capsys, "check", str(task))
    assert (code, report["sound"]) == (1, False)
    assert "doing nothing scores 1" in " ".join(report["tasks"][0]["problems"])


@pytest.mark.slow
def test_doctor_and_gc_answer_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = call_json(capsys, "doctor")
    assert code == 0
    assert any(sandbox["name"] == "local" and sandbox["usable"] for sandbox in report["sandboxes"])
    code, collected = call_json(capsys, "gc", "--dry-run")
    assert code == 0
    assert collected["dry_run"] is True


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m envkit.cli.main tasks | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("oracle", "oracle", {}),
        ("chat:model=a/b:c,base_url=http://h:1/v1", "chat", {"model": "a/b:c", "base_url": "http://h:1/v1"}),
        ("chat:temperature=0.5,n=3,stream=true", "chat", {"temperature": 0.5, "n": 3, "stream": True}),
        ("pkg.mod:Class", "pkg.mod:Class", {}),
        ("pkg.mod:Class:a=1,b=x", "pkg.mod:Class", {"a": 1, "b": "x"}),
        ('chat:keys=["A","B"],model=m', "chat", {"keys": ["A", "B"], "model": "m"}),
        ("chat:model=a,b", "chat", {"model": "a,b"}),
    ],
)
def test_plugins_are_written_on_the_command_line(text: str, name: str, options: dict[str, Any]) -> None:
    read = plugin(text, "--policy")
    assert (read.name, read.options) == (name, options)


def test_values_are_read_as_toml_or_kept_as_text() -> None:
    assert value("1.5") == 1.5
    assert value("[1, 2]") == [1, 2]
    assert value("gpt-x") == "gpt-x"
    assert value("1\nb = 2") == "1\nb = 2"


def test_a_malformed_plugin_is_named() -> None:
    with pytest.raises(UserError, match="--policy"):
        plugin("", "--policy")


def test_a_command_of_an_installed_package_is_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("brought", "says hello")
    module.add_arguments = lambda parser: parser.add_argument("who")  # type: ignore[attr-defined]
    module.run = lambda args: print(f"hello {args.who}") or 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "envkit_test_brought", module)
    point = EntryPoint(name="hello", value="envkit_test_brought", group="envkit.commands")
    found = plugins._found
    monkeypatch.setattr(plugins, "_found", lambda group: {"hello": point} if group == "commands" else found(group))
    assert call(capsys, "hello", "you") == (7, "hello you\n", "")
    code, _, err = call(capsys, "helo", "you")
    assert code == 2
    assert "did you mean 'hello'" in err


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_nothing(task: Path, tmp_path: Path, closed: str) -> None:
    out = tmp_path / "run"
    command = f'exec "{sys.executable}" -m envkit.cli.main run "{task}" --out "{out}" {closed}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (result,) = out.glob("trials/*/result.json")
    assert json.loads(result.read_text())["reward"] == 1.0


@pytest.mark.slow
def test_trials_without_a_verdict_say_why(capsys: pytest.CaptureFixture[str], task: Path, tmp_path: Path) -> None:
    (task / "solution" / "solve.sh").write_text("echo broken >&2; exit 3\n")
    code, text, _ = call(capsys, "eval", str(task), "--policy", "oracle", "--out", str(tmp_path / "run"))
    assert code == 1
    assert "1 without a verdict (solution_failed)" in text
    assert "broken" in text
