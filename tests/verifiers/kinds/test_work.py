"""Tool calls and scripts of the task, as criteria."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envkit.failure import FailureKind
from envkit.messages import AssistantMessage, ToolCall
from envkit.sandbox.local import LocalProvider
from envkit.verifier import Outcome
from envkit.verifiers import ChecksVerifier
from envkit.verifiers.judging import Call

Judge = Callable[..., Any]
KIND = 'kind = "tool_calls"\n'
CALLS = [
    Call("read", {"path": "/filesystem/a.xlsx"}),
    Call("bash", {"command": "ls -l", "timeout": 5}),
    Call("read", {"path": "/filesystem/b.xlsx"}),
    Call("mail_send", None),
]


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ('tools = ["read"]', "p"),
        ('tools = ["read"]\ntimes = 2', "p"),
        ('tools = ["read"]\ntimes = 1', "f"),
        ('tools = ["r*", "bash"]\nmin_times = 3', "p"),
        ('tools = ["write"]', "f"),
        ('tools = ["write"]\ntimes = 0', "p"),
        ("max_times = 3", "f"),
        ('arguments = {command = "^ls"}\ntimes = 1', "p"),
        ('arguments = {timeout = "^5$"}', "p"),
        ('tools = ["read"]\narguments = {path = "b[.]xlsx$"}\ntimes = 1', "p"),
        ('forbidden = ["mail_*"]', "f"),
        ('forbidden = ["calendar_*"]', "p"),
        ('in_order = ["bash", "read"]', "p"),
        ('in_order = ["mail_send", "read"]', "f"),
        ('in_order = ["read", "read", "read"]', "f"),
    ],
)
def test_tool_calls(judge: Judge, check: str, outcome: str) -> None:
    assert judge(KIND + check, calls=CALLS).outcomes == outcome


def test_without_a_record_of_calls_there_is_no_outcome(judge: Judge) -> None:
    assert judge(KIND + 'forbidden = ["bash"]').outcomes == "m"
    assert judge(KIND + 'forbidden = ["bash"]', calls=[]).outcomes == "p"


async def test_the_conversation_s_calls_are_judged(request_for: Callable[..., Any]) -> None:
    toml = 'schema_version = "1"\n[[check]]\nid = "c"\n' + KIND + 'tools = ["bash"]\narguments = {command = "ls"}\n'
    said = AssistantMessage(tool_calls=(ToolCall.parse("1", "bash", '{"command": "ls"}'),))
    for messages, reward in (((said,), 1.0), ((), 0.0)):
        verdict = await ChecksVerifier().verify(request_for({"verifier.toml": toml}, messages=messages))
        assert verdict.reward == reward


SCRIPTED = """
schema_version = "1"
[[check]]
id = "typed"
kind = "text"
path = "a.txt"
contains = ["a"]
[[check]]
id = "own"
kind = "script"
script = "judge.py"
pass_at = 0.5
"""
GOOD = """
import pathlib
assert pathlib.Path("/logs/agent/answer.txt").read_text() == "It is 5."
score = 0.5 if pathlib.Path("/filesystem/a.txt").read_text() == "a" else 0.0
print("half of it")
pathlib.Path("/logs/verifier/reward.txt").write_text(str(score))
"""


@pytest.mark.parametrize(
    ("script", "outcome", "reward", "kind"),
    [
        (GOOD, Outcome.PASSED, 0.75, None),
        ("print('no score')", Outcome.MISSING, None, FailureKind.REWARD_MISSING),
        (GOOD + "raise SystemExit(1)", Outcome.MISSING, None, FailureKind.VERIFIER_ERROR),
        (GOOD.replace("0.5 if", "7 if"), Outcome.MISSING, None, FailureKind.REWARD_INVALID),
        (None, Outcome.MISSING, None, FailureKind.TASK_INVALID),
    ],
    ids=["good", "silent", "breaks", "above one", "not there"],
)
async def test_a_script_is_one_criterion_beside_typed_checks(
    request_for: Callable[..., Any],
    script: str | None,
    outcome: Outcome,
    reward: float | None,
    kind: FailureKind | None,
) -> None:
    tests = {"verifier.toml": SCRIPTED} | ({} if script is None else {"judge.py": script})
    request = request_for(tests, final={"filesystem/a.txt": b"a"}, answer="It is 5.", provider=LocalProvider())
    verdict = await ChecksVerifier().verify(request)
    assert [c.outcome for c in verdict.criteria] == [Outcome.PASSED, outcome], verdict.criteria[1].message
    assert verdict.reward == reward
    if kind is None:
        assert verdict.criteria[1].message == "half of it"
        assert (request.logs / "check-own-stdout.txt").read_text() == "half of it\n"
    else:
        assert (verdict.lower, verdict.upper) == (0.5, 1.0)
        assert [f.kind for f in verdict.failures()] == [kind]
