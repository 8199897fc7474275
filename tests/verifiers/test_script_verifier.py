"""Task scripts in a fresh sandbox: the reward file's contract, and every way to break it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from envkit.failure import EnvkitError, FailureKind
from envkit.messages import AssistantMessage, Message
from envkit.sandbox.local import LocalProvider
from envkit.verifiers import ScriptVerifier
from envkit.verifiers.script_verifier import parse_reward_json, parse_reward_txt

Request = Callable[..., Any]


@pytest.fixture(scope="module")
def provider() -> LocalProvider:
    local = LocalProvider(office=False)
    report = local.doctor()
    if not report.usable:
        pytest.skip(f"no local sandbox here: {report.remedy}")
    return local


async def test_the_script_sees_state_answer_and_conversation(request_for: Request, provider: LocalProvider) -> None:
    script = (
        'set -e\ntest "$(cat /filesystem/out/a.txt)" = done\ntest "$(cat /.apps_data/mail/x)" = m\n'
        'test "$(cat /logs/agent/answer.txt)" = \'It is 5.\'\ntest -f /tests/data/ref.txt\ntest "$PWD" = /filesystem\n'
        'test -z "$(ls /logs/verifier)"\ntest "$LEVEL" = 3\n'
        'python3 -c \'import json; s=json.load(open("/logs/agent/trajectory.json"))["steps"]; '
        'assert s[-1]["message"]=="It is 5.", s\'\n'
        'echo checked; echo oops >&2\necho \'{"reward": 0.5, "style": 1}\' > /logs/verifier/reward.json\n'
        "echo 0 > /logs/verifier/reward.txt\n"
    )
    request = request_for(
        {"test.sh": script, "data/ref.txt": "x"}, provider=provider, answer="It is 5.",
        final={"filesystem/out/a.txt": b"done", ".apps_data/mail/x": b"m"},
        messages=(Message(role="user", content="q"), AssistantMessage(text="It is 5.")),
    )  # fmt: skip
    request.env["LEVEL"] = "3"
    verdict = await ScriptVerifier().verify(request)
    assert verdict.reward == 0.5
    assert verdict.rewards == {"reward": 0.5, "style": 1.0}
    assert (request.logs / "test-stdout.txt").read_text() == "checked\n"
    assert (request.logs / "test-stderr.txt").read_text() == "oops\n"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("true", FailureKind.REWARD_MISSING),
        ("echo 1 > /logs/verifier/reward.txt; exit 3", FailureKind.VERIFIER_ERROR),
        (": > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", FailureKind.REWARD_MISSING),
        ("echo nan > /logs/verifier/reward.txt", FailureKind.REWARD_INVALID),
        ("mkdir /logs/verifier/reward.json", FailureKind.REWARD_INVALID),
        ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', FailureKind.REWARD_INVALID),
        ("mkfifo /logs/verifier/reward.json", FailureKind.REWARD_INVALID),
        ("ln -s /logs/verifier/reward.json /logs/verifier/reward.json", FailureKind.REWARD_INVALID),
        ("head -c 3000000 /dev/zero > /logs/verifier/reward.json", FailureKind.REWARD_INVALID),
        ("echo 1 > /logs/verifier/reward.json; chmod 0 /logs/verifier", FailureKind.REWARD_INVALID),
        ("echo 1 > /logs/verifier/reward.txt; kill -9 -1; kill -9 $$", FailureKind.VERIFIER_ERROR),
        ("rm -rf /logs/*", FailureKind.REWARD_MISSING),
        ("sleep 60", FailureKind.VERIFIER_TIMEOUT),
    ],
)
async def test_no_verdict_is_a_failure_and_never_a_zero(
    request_for: Request, provider: LocalProvider, script: str, kind: FailureKind
) -> None:
    request = request_for({"test.sh": script}, provider=provider, timeout_s=3.0 if "sleep" in script else 60.0)
    with pytest.raises(EnvkitError) as caught:
        await ScriptVerifier().verify(request)
    assert caught.value.kind is kind


async def test_an_answer_that_is_no_text_is_verified_all_the_same(
    request_for: Request, provider: LocalProvider
) -> None:
    """A model can write half a surrogate pair; a verdict that fails on it would be a way round the score."""
    script = "grep -q 5 /logs/agent/answer.txt && echo 0.25 > /logs/verifier/reward.txt"
    request = request_for(
        {"test.sh": script}, provider=provider, answer="5 \ud800",
        messages=(Message(role="user", content="q"), AssistantMessage(text="5 \ud800")),
    )  # fmt: skip
    assert (await ScriptVerifier().verify(request)).reward == 0.25


async def test_a_server_that_the_script_leaves_running_does_not_hold_the_verdict_up(
    request_for: Request, provider: LocalProvider
) -> None:
    script = "sleep 300 & setsid sleep 300 & echo 1 > /logs/verifier/reward.txt"
    request = request_for({"test.sh": script}, provider=provider, timeout_s=60.0)
    assert (await ScriptVerifier().verify(request)).reward == 1.0


async def test_harbor_compat_ignores_the_exit_status(request_for: Request, provider: LocalProvider) -> None:
    script = 'echo \'{"a": true, "b": 0}\' > /logs/verifier/reward.json; exit 3'
    verdict = await ScriptVerifier().verify(request_for({"test.sh": script}, provider=provider, harbor_compat=True))
    assert verdict.reward == 0.5
    assert verdict.extra["exit_code"] == 3


async def test_what_the_agent_planted_is_not_there(request_for: Request, provider: LocalProvider) -> None:
    script = "test ! -e /logs/verifier/reward.json && test ! -e /tests/planted && echo 1 > /logs/verifier/reward.txt"
    planted = {"filesystem/reward.json": b'{"reward": 1}', "filesystem/x": b"x"}
    assert (
        await ScriptVerifier().verify(request_for({"test.sh": script}, provider=provider, final=planted))
    ).reward == 1.0


@pytest.mark.parametrize(
    "data",
    [b"[1]", b"{}", b'{"reward": "1"}', b'{"reward": NaN}', b'{"reward": Infinity}', b'{"reward": 1e999}',
    b'{"reward": null}',
     b'{"reward": true}', b'{"reward": 1, "reward": 0}', b"\xff", b"{", b'{"reward": ' + b"9" * 400 + b"}",
     b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_reward_json(data: bytes) -> None:
    with pytest.raises(EnvkitError) as caught:
        parse_reward_json(data)
    assert caught.value.kind is FailureKind.REWARD_INVALID


def test_rewards_are_read() -> None:
    assert parse_reward_json(json.dumps({"reward": 0.5, "n": 3}).encode()) == {"reward": 0.5, "n": 3.0}
    assert parse_reward_txt(b" 0.25\n") == {"reward": 0.25}
    for data, kind in (
        (b"", FailureKind.REWARD_MISSING),
        (b"inf", FailureKind.REWARD_INVALID),
        (b"1 2", FailureKind.REWARD_INVALID),
    ):
        with pytest.raises(EnvkitError) as caught:
            parse_reward_txt(data)
        assert caught.value.kind is kind


@pytest.fixture
def separate(request_for: Request, tmp_path: Any) -> Callable[..., Any]:
    """A request whose task asks for a verifier's machine of its own."""

    def make(toml: str, provider: LocalProvider, tests: dict[str, str] | None = None) -> Any:
        from dataclasses import replace

        from envkit.task import load_task_dir

        request = request_for({"test.sh": "nproc > /dev/null; env > /logs/verifier/env; echo 1 > "
                               "/logs/verifier/reward.txt", **(tests or {})}, provider=provider)  # fmt: skip
        folder = request.tests.parent
        text = (folder / "task.toml").read_text()
        (folder / "task.toml").write_text(text + toml)
        task = load_task_dir(folder)
        return replace(request, task=task, step=task.steps[0])

    return make


async def test_the_verifier_gets_a_machine_of_its_own(separate: Callable[..., Any], provider: LocalProvider) -> None:
    from envkit import episode

    request = separate(
        '[verifier.environment]\nmemory_mb = 512\nworkdir = "/tests"\nnetwork_mode = "no-network"\n'
        '[verifier.environment.env]\nLEVEL = "3"\n[verifier.environment.healthcheck]\n'
        'command = "test \\"$LEVEL\\" = 3"\n',
        provider,
        {"test.sh": 'test "$LEVEL" = 3 && test "$PWD" = /tests && echo 1 > /logs/verifier/reward.txt'},
    )
    spec = episode.verifier_spec(request.task, request.step, provider, request.spec)
    assert (spec.memory_mb, spec.workdir, spec.image) == (512, "/tests", None)
    assert (await ScriptVerifier().verify(request)).reward == 1.0


@pytest.mark.parametrize("toml", ['[verifier.environment]\ndocker_image = "grader:1"\n',
                                  '[verifier.environment]\nnetwork_mode = "public"\n'])  # fmt: skip
async def test_a_machine_that_there_is_not_is_refused(
    separate: Callable[..., Any], provider: LocalProvider, toml: str
) -> None:
    request = separate(toml, provider)
    with pytest.raises(EnvkitError, match="the verifier needs a machine of its own") as caught:
        await ScriptVerifier().verify(request)
    assert caught.value.kind is FailureKind.CAPABILITY


async def test_an_image_made_of_the_tests_is_asked_for(separate: Callable[..., Any], provider: LocalProvider) -> None:
    from envkit import episode

    request = separate("[verifier.environment]\ncpus = 1\n", provider, {"Dockerfile": "FROM grader:1\n"})
    assert episode.own_tests_image(request.step) == request.tests
    with pytest.raises(EnvkitError, match="an image built from"):
        await ScriptVerifier().verify(request)
