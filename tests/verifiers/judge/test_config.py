"""The judge's configuration and the check's schema: what is accepted, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import KEYS, check  # type: ignore[import-not-found]
from fake_judge import says
from fake_openai import FakeOpenAI
from pydantic import ValidationError
from tests_state import write_tar

from envkit.deadline import Deadline
from envkit.failure import FailureKind, UserError
from envkit.verifier import Outcome, VerifyRequest
from envkit.verifiers.judge import JudgeCheck, judge_request, load_judge_config, operator_config


def config_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "judge.toml"
    path.write_text(text)
    return path


def test_a_whole_configuration(tmp_path: Path) -> None:
    path = config_file(
        tmp_path,
        'model = "m"\nbase_url = "http://localhost:1/v1"\napi_key_file = "keys.txt"\nvotes = 3\ntemperature = 0.7\n'
        "[prices]\ninput = 1.0\noutput = 2.0\n",
    )
    config = operator_config({"ENVKIT_JUDGE": str(path)})
    assert (config.votes, config.temperature, config.api_key_file) == (3, 0.7, tmp_path / "keys.txt")
    assert config.prices is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vote = 3", "did you mean 'votes'"),
        ("votes = 2", "odd"),
        ('api_key = "sk-1"', "api_key_env"),
        ("max_retries = 3", "no option of the judge.*max_attempts|no option of the judge"),
        ('extra_body = {response_format = "x"}', "structured"),
        ('base_url = "ftp://x"', "URL"),
        ("artifact_tokens = 1", "500"),
        ("= broken", "can't be read"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_judge_config(config_file(tmp_path, f'model = "m"\n{line}\n'))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"criterion": ""}, "at least 1"),
        ({"answer": False, "files": "none"}, "must see something"),
        ({"pass_at": 0.5}, "scale"),
        ({"files": ("../x",)}, r"\.\."),
        ({"model": "gpt"}, "Extra inputs"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        JudgeCheck.model_validate({"kind": "judge", "id": "a", "criterion": "x", **fields})


def request_for(tmp_path: Path) -> VerifyRequest:
    final = write_tar(tmp_path / "final.tar", {"filesystem/memo.md": b"two causes"})
    parts = {"step": SimpleNamespace(instruction="Write."), "final": final, "initial": None, "final_answer": "Done."}
    return cast(VerifyRequest, SimpleNamespace(**parts, logs=tmp_path / "logs"))


async def test_a_verification_asks_the_operators_judge(tmp_path: Path) -> None:
    async with FakeOpenAI(says("pass")) as server:
        text = f'model = "m"\nbase_url = "{server.url}"\napi_key_env = ["JUDGE_KEY_1"]\ncache_dir = "cache"\n'
        host = {**KEYS, "ENVKIT_JUDGE": str(config_file(tmp_path, text))}
        checks = [check("a"), check("b", "Another.")]
        criteria, notes = await judge_request(checks, request_for(tmp_path), Deadline.after(30), host)
    assert [c.id for c in criteria] == ["a", "b"]
    assert {c.outcome for c in criteria} == {Outcome.PASSED}
    assert (notes["judge"]["requests"], notes["judge"]["prompt_tokens"]) == (2, 200)
    assert [record["id"] for record in notes["judge"]["criteria"]] == ["a", "b"]
    assert server.requests[0].json["model"] == "m"


async def test_without_a_judge_there_is_no_verdict(tmp_path: Path) -> None:
    for host in ({}, {"ENVKIT_JUDGE": str(config_file(tmp_path, 'model = "m"\napi_key_env = ["UNSET"]\n'))}):
        criteria, _ = await judge_request([check(gate=True)], request_for(tmp_path), Deadline.after(30), host)
        assert (criteria[0].outcome, criteria[0].score, criteria[0].gate) == (Outcome.MISSING, None, True)
        assert criteria[0].failure is not None
        assert criteria[0].failure.kind is FailureKind.JUDGE_UNREACHABLE


async def test_a_broken_final_state_is_no_verdict_either(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    request.final.write_bytes(request.final.read_bytes()[:700])
    text = 'model = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    host = {"ENVKIT_JUDGE": str(config_file(tmp_path, text))}
    criteria, _ = await judge_request([check()], request, Deadline.after(30), host)
    assert criteria[0].failure is not None
    assert criteria[0].failure.kind is FailureKind.SANDBOX_ERROR
