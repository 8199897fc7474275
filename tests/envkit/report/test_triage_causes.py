"""Every cause, committed through real harnesses in real sandboxes, is found where it happened; clean runs show none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from report_runs import CHECKS, NO_REWARD_SCRIPT, oracle, run_job, scripted, write_task

from envkit.report.triage import CAUSES, Triage, triage
from envkit.trial.result import TrialSpec

pytestmark = pytest.mark.slow

WRITE = "echo ready > /filesystem/report.txt"
SHEET = """\
schema_version = "1"
[[check]]
id = "total"
kind = "cell"
path = "/filesystem/model.xlsx"
cell = "B7"
value = 3
"""


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"calls": [["bash", {"command": command, "description": "runs it", **more}]]}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [[name, arguments]]}


def code(command: str) -> dict[str, Any]:
    return call("code_execution_server_code_exec", request={"code": command})


DONE = {"text": "done"}
WRONG = {"text": "finished"}


#: Cause, what its trial says, and what the evidence must name: the turn and a part of the excerpt.
OPENCODE: dict[str, tuple[str, list[dict[str, Any]], int | None, str]] = {
    "no-module": (
        "missing_package",
        [bash("ls"), bash("python3 -c 'import polars_of_ours'"), WRONG],
        2,
        "polars_of_ours",
    ),
    "no-program": ("missing_package", [bash("frobnicate --all"), WRONG], 1, "frobnicate"),
    "nothing": (
        "tool_nothing",
        [
            call("glob", pattern="*.docx"),
            call("glob", pattern="**/*.pptx"),
            bash("cat empty.txt"),
            call("glob", pattern="x*"),
            WRONG,
        ],
        1,
        "No files found",
    ),
    "storm": (
        "tool_errors",
        [call("read", filePath=f"/filesystem/{n}.xlsx") for n in "abcdef"] + [WRONG],
        1,
        "6 of 6 calls failed",
    ),
    "slow": (
        "tool_limits",
        [bash("sleep 9", timeout=150), bash("sleep 8", timeout=150), bash("sleep 7", timeout=150), WRONG],
        1,
        "stopped after",
    ),
    "unparsable": ("unparsable", [{"calls": [["bash", '{"command": "ls']]}], 1, "not valid JSON"),
    "call-in-text": (
        "unparsable",
        [bash("ls"), {"text": '<tool_call>\n{"name": "bash"}\n</tool_call>'}],
        2,
        "<tool_call>",
    ),
    "cut": ("turn_length", [bash("ls"), {"text": "I think " * 99, "finish": "length"}], 2, "cut after"),
    "loop": ("loop", [call("read", filePath="/filesystem/notes.txt")] * 6 + [WRONG], 1, "6 times the same"),
    "two-step-loop": ("loop", [bash("ls"), bash("cat notes.txt")] * 6 + [WRONG], 1, "6 times the same"),
    "context": (
        "context",
        [
            {**bash("cat notes.txt"), "context": 900, "limit": 1000},
            {"text": "", "finish": "context", "context": 1000, "limit": 1000},
        ],
        2,
        "1000 tokens of 1000",
    ),
    "turns": ("ran_out", [bash(f"echo {n}") for n in range(9)], 4, "out of turns after 4"),
    "refusal": ("refused", [{"text": "I'm sorry, but I can't help with that request."}], 1, "can't help"),
    "filter": ("refused", [{"text": "", "finish": "content_filter"}], 1, "content_filter"),
    "no-tools": ("gave_up", [{"text": "Your report should hold the word ready."}], 1, "no tool was called"),
    "asks": ("gave_up", [bash("ls"), {"text": "Please provide the report."}], 2, "Please provide"),
    "other-folder": (
        "wrong_path",
        [bash("mkdir -p reports && echo ready > reports/report.txt"), DONE],
        1,
        "/filesystem/reports/report.txt",
    ),
    "other-name": ("wrong_path", [bash("echo ready > Report_final.txt"), DONE], 1, "Report_final.txt"),
    "other-tree": ("wrong_path", [bash("echo ready > /tmp/report.txt"), DONE], 1, "/tmp/report.txt"),
    "nothing-written": ("not_written", [bash("ls"), bash("cat notes.txt"), DONE], 3, "report.txt is missing"),
    "near": ("near_miss", [bash(WRITE), WRONG], 2, "2 of 3 criteria passed"),
    "wrong": (
        "wrong_result",
        [bash("echo not yet > report.txt; echo more > notes.txt"), bash("cat report.txt notes.txt"), WRONG],
        3,
        "3 of 3 criteria failed",
    ),
}

ARCHIPELAGO: dict[str, tuple[str, list[dict[str, Any]], int | None, str]] = {
    "no-module": ("missing_package", [code("python3 -c 'import polars_of_ours'"), WRONG], 1, "polars_of_ours"),
    "no-program": ("missing_package", [code("frobnicate --all"), WRONG], 1, "frobnicate"),
    "nothing": (
        "tool_nothing",
        [code("cat empty.txt"), code("cat -A empty.txt"), code("head empty.txt"), WRONG],
        1,
        "(no output)",
    ),
    "storm": (
        "tool_errors",
        [call("filesystem_server_read_text_file", file_path=f"/{n}.txt") for n in "abcdef"] + [WRONG],
        1,
        "6 of 6 calls failed",
    ),
    "unparsable": (
        "unparsable",
        [{"calls": [["code_execution_server_code_exec", '{"request": ']]}],
        1,
        "not valid JSON",
    ),
    "loop": ("loop", [code("cat notes.txt")] * 6 + [WRONG], 1, "6 times the same"),
    "context": ("context", [code("ls"), {"text": "", "finish": "context"}], 2, "context was full"),
    "turns": ("ran_out", [code(f"echo {n}") for n in range(9)], 4, "out of turns"),
    "refusal": ("refused", [{"text": "I must decline: this is against my guidelines."}], 1, "decline"),
    "other-folder": (
        "wrong_path",
        [code("mkdir -p /filesystem/out && echo ready > /filesystem/out/report.txt"), DONE],
        1,
        "/out/report.txt",
    ),
    "near": ("near_miss", [code(WRITE), WRONG], 2, "2 of 3 criteria passed"),
}
TOOLBELT: dict[str, tuple[str, list[dict[str, Any]], int | None, str]] = {
    "blocked": (
        "gave_up",
        [call("toolbelt_list_tools"), call("final_answer", answer="The file is not there.", status="blocked")],
        2,
        "called its work blocked",
    ),
    "talks": ("loop", [{"text": "Let me think about it."}], 1, "the same words"),
}


def expect(report: Triage, wanted: dict[str, tuple[str, str, int | None, str]]) -> None:
    """Each trial is in its group, once, with the evidence that was asked for."""
    found = {e.trial_id: (group.cause, e) for group in report.groups for e in group.examples}
    assert set(found) == set(wanted)
    wrong = {}
    for trial_id, (name, cause, turn, words) in wanted.items():
        group, example = found[trial_id]
        if (group, example.turn) != (cause, turn) or words not in example.excerpt:
            wrong[name] = (group, example.turn, example.excerpt, example.also)
    assert not wrong
    assert sum(group.trials for group in report.groups) == report.low == len(wanted)


def check_all(
    folder: Path, task: Path, table: dict[str, tuple[str, list[dict[str, Any]], int | None, str]], **fields: Any
) -> None:
    specs: dict[str, TrialSpec] = {
        name: scripted(task, *turns, limits={"max_turns": 4} if name in ("turns", "talks") else {}, **fields)
        for name, (_, turns, _, _) in table.items()
    }
    harness = next(iter(specs.values())).harness
    outcome = run_job(folder, [*specs.values(), oracle(task, harness=harness)])
    assert outcome.results[-1].reward == 1.0
    wanted = {specs[name].trial_id: (name, cause, turn, words) for name, (cause, _, turn, words) in table.items()}
    expect(triage(folder, examples=99), wanted)


def test_faults_of_a_model_under_opencode(tmp_path: Path, task: Path) -> None:
    check_all(tmp_path / "run", task, OPENCODE)


def test_faults_of_a_model_under_archipelago(tmp_path: Path, task: Path) -> None:
    lean = {"servers": ["filesystem", "code"]}
    check_all(tmp_path / "run", task, ARCHIPELAGO, harness="archipelago", harness_options=lean)


def test_faults_of_a_model_with_a_toolbelt(tmp_path: Path, task: Path) -> None:
    belt = {"servers": ["filesystem"], "agent": "toolbelt"}
    check_all(tmp_path / "run", task, TOOLBELT, harness="archipelago", harness_options=belt)


def test_files_that_are_refused_and_faults_of_machine_verifier_and_endpoint(tmp_path: Path) -> None:
    sheet = write_task(tmp_path / "tasks" / "sheet", checks=SHEET)
    mute = write_task(tmp_path / "tasks" / "mute", script=NO_REWARD_SCRIPT)
    specs = {
        "text-as-workbook": scripted(sheet, bash("echo total,3 > model.xlsx"), DONE),
        "empty-workbook": scripted(sheet, bash("cp empty.txt model.xlsx"), DONE),
        "no-reward": scripted(mute, bash("ls"), DONE),
        "died": scripted(sheet, bash("ls"), DONE, options={"kill_at": 2}),
        "endpoint": scripted(sheet, options={"fault": "the endpoint hung up"}),
    }
    run_job(tmp_path / "run", list(specs.values()))
    report = triage(tmp_path / "run", examples=99)
    expect(
        report,
        {
            specs["text-as-workbook"].trial_id: ("text", "file_refused", 2, "/filesystem/model.xlsx is "),
            specs["empty-workbook"].trial_id: ("empty", "file_refused", 2, "is empty"),
            specs["no-reward"].trial_id: ("mute", "system_fault", 2, "reward_missing at verifier"),
            specs["died"].trial_id: ("died", "system_fault", None, "trial_died"),
            specs["endpoint"].trial_id: ("endpoint", "endpoint_fault", None, "the endpoint hung up"),
        },
    )
    assert report.without_verdict == 3


JUDGED = """\
[[check]]
id = "tone"
kind = "judge"
criterion = "The report is courteous."
"""


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """An endpoint whose judge finds everything discourteous; refuses once `refuses` is set on it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            refuses = getattr(self.server, "refuses", False)
            said = json.dumps({"rationale": "It says 'ready' and no word of greeting.", "verdict": "fail"})
            message = {"role": "assistant", "content": said}
            body: dict[str, Any] = {"id": "1", "object": "chat.completion", "model": "judge-1"}
            body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
            data = b"{}" if refuses else json.dumps(body).encode()
            self.send_response(503 if refuses else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = tmp_path / "judge.toml"
    config.write_text(
        f'model = "judge-1"\nbase_url = "http://127.0.0.1:{server.server_port}/v1"\ncache = false\nbudget_s = 2\n'
        'first_delay_s = 0.01\napi_key_env = ["JUDGE_KEY_1"]\n'
    )
    monkeypatch.setenv("ENVKIT_JUDGE", str(config))
    monkeypatch.setenv("JUDGE_KEY_1", "sk-first-key-123456")
    yield server
    server.shutdown()
    server.server_close()


def test_a_judge_that_disagrees_and_one_that_is_down(tmp_path: Path, judge: ThreadingHTTPServer) -> None:
    task = write_task(tmp_path / "tasks" / "judged", checks=CHECKS + JUDGED)
    spec = scripted(task, bash(WRITE), DONE)
    run_job(tmp_path / "strict", [spec])
    report = triage(tmp_path / "strict")
    expect(report, {spec.trial_id: ("strict", "judge_only", 2, "no word of greeting")})
    judge.refuses = True  # type: ignore[attr-defined]
    run_job(tmp_path / "down", [spec])
    expect(triage(tmp_path / "down"), {spec.trial_id: ("down", "judge_down", 2, "judge_unreachable at judge")})


def test_every_cause_is_committed_here() -> None:
    tables = [*OPENCODE.values(), *ARCHIPELAGO.values(), *TOOLBELT.values()]
    elsewhere = {"file_refused", "system_fault", "endpoint_fault", "judge_only", "judge_down"}
    assert {cause for cause, *_ in tables} | elsewhere == {cause.id for cause in CAUSES}
