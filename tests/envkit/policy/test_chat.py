"""The chat policy against an endpoint that misbehaves on real sockets; waiting goes by a clock of the test's own."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from fake_openai import (
    Behaviour,
    FakeOpenAI,
    answer,
    by_key,
    cut,
    drip,
    error,
    flood,
    gzipped,
    hang_up,
    send,
    silence,
    then_close,
)

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind, UserError
from envkit.messages import AssistantMessage, Image, Message, Observation, ObservationKind, ToolCall, ToolSpec
from envkit.policy.base import Policy, PolicyContext
from envkit.policy.chat import ChatPolicy
from envkit.task import Task

KEYS = {"KEY_A": "sk-aaaaaaaa", "KEY_B": "sk-bbbbbbbb", "KEY_C": "sk-cccccccc"}
HELLO = Observation(messages=(Message(role="system", content="s"), Message(role="user", content="hello")))
BASH = ToolSpec(name="bash", description="runs", parameters={"type": "object"})


class FakeTime:
    """A clock that moves when somebody sleeps, and a little with every look."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def task(make_task: Callable[..., Task]) -> Task:
    return make_task()


class Chat:
    """A policy on an endpoint, with time of its own."""

    def __init__(
        self, url: str, task: Task, logs: Path | None, deadline_s: float | None, options: dict[str, Any]
    ) -> None:
        self.policy = ChatPolicy(**{"model": "m", "base_url": url, "api_key_env": "KEY_A,KEY_B,KEY_C", **options})
        self.time = FakeTime()
        self._context = PolicyContext(
            task=task,
            step=task.steps[0],
            sandbox=cast(Any, None),  # a model's policy never touches it
            harness="opencode",
            seed=0,
            attempt=1,
            deadline=Deadline.after(deadline_s, "the trial's deadline"),
            logs=logs,
        )

    async def __aenter__(self) -> Chat:
        await self.policy.start(self._context)
        client = self.policy._client
        assert client is not None
        client._clock, client._sleep = self.time.clock, self.time.sleep  # type: ignore[method-assign]
        client._rng = client._keys._rng = random.Random(1)
        client._keys._at = 0
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.policy.close()


@pytest.fixture
def chat(task: Task, tmp_path: Path) -> Callable[..., Chat]:
    def make(server: FakeOpenAI | str, *, deadline_s: float | None = 30.0, **options: Any) -> Chat:
        url = server if isinstance(server, str) else server.url
        return Chat(url, task, tmp_path, deadline_s, options)

    return make


async def failure_of(awaitable: Any) -> EnvkitError:
    with pytest.raises(EnvkitError) as caught:
        await awaitable
    for value in KEYS.values():
        assert value not in str(caught.value)
    return caught.value


async def test_a_conversation_goes_over_one_connection_and_carries_its_history(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(answer("Looking.", [("bash", '{"command": "ls')]), answer("Done.")) as server:
        async with chat(server, temperature=0.5) as asking:
            assert isinstance(asking.policy, Policy)
            first = await asking.policy.act(HELLO.model_copy(update={"tools": (BASH,)}))
            assert first.tool_calls[0].error is not None
            result = Message(role="tool", content="arguments are not valid JSON", tool_call_id="call_0", is_error=True)
            last = await asking.policy.act(Observation(messages=(result,)))
    assert (last.text, last.tool_calls) == ("Done.", ())
    assert [request.connection for request in server.requests] == [1, 1]
    assert {request.path for request in server.requests} == {"/v1/chat/completions"}
    second = server.requests[1].json
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["tools"][0]["function"]["name"] == "bash"
    assert second["temperature"] == 0.5
    assert asking.time.slept == []


async def test_a_connection_that_was_closed_between_turns_costs_nothing(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(then_close(answer("one")), then_close(answer("two"))) as server, chat(server) as asking:
        assert (await asking.policy.act(HELLO)).text == "one"
        await asyncio.sleep(0.05)
        assert (await asking.policy.act(HELLO)).text == "two"
    assert [request.connection for request in server.requests] == [1, 2]
    assert asking.time.slept == []


async def test_threads_are_apart_and_a_rewrite_replaces_its_own(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(answer("A"), answer("title"), answer("B")) as server, chat(server) as asking:
        await asking.policy.act(HELLO)
        side = Observation(
            thread="title", kind=ObservationKind.SIDE, messages=(Message(role="user", content="a title?"),)
        )
        await asking.policy.act(side)
        history = (
            Message(role="user", content="summary"),
            AssistantMessage(text="ok"),
            Message(role="user", content="go"),
        )
        await asking.policy.act(Observation(kind=ObservationKind.REWRITE, messages=history))
    contents = [[m["content"] for m in request.json["messages"]] for request in server.requests]
    assert contents == [["s", "hello"], ["a title?"], ["summary", "ok", "go"]]


@pytest.mark.parametrize(
    "trouble",
    [
        error(500, "oops"),
        error(503, "overloaded"),
        error(408, "slow"),
        error(409, "conflict"),
        send(502, b"<html>Bad Gateway</html>", {"content-type": "text/html"}),
        send(200, b"<html>Please log in</html>", {"content-type": "text/html"}),
        send(200, b'{"choices": []}'),
        send(200, b""),
        send(200, b'{"error": {"message": "upstream", "code": 502}}'),
        send(200, b"not gzip at all", {"content-encoding": "gzip"}),
        cut(),
        cut(0.0),
        hang_up,
        flood(declared=True),
        flood(declared=False),
    ],
)
async def test_passing_trouble_is_tried_again_and_its_time_is_no_working_time(
    chat: Callable[..., Chat], trouble: Behaviour
) -> None:
    async with FakeOpenAI(trouble, trouble, answer("fine")) as server, chat(server, max_response_mb=1) as asking:
        said = await asking.policy.act(HELLO)
    assert said.text == "fine"
    assert len(server.requests) == 3
    assert len(asking.time.slept) == 2
    assert 0.25 <= asking.time.slept[0] <= 0.5 <= asking.time.slept[1] <= 1.0
    assert said.usage.waited_s == pytest.approx(sum(asking.time.slept))
    assert asking.policy.waited_s == said.usage.waited_s


@pytest.mark.parametrize("trouble", [silence, drip()])
async def test_silence_and_drips_end_and_are_tried_again(chat: Callable[..., Chat], trouble: Behaviour) -> None:
    limits = {"read_timeout_s": 0.15, "request_timeout_s": 0.3}
    async with FakeOpenAI(trouble, answer("fine")) as server, chat(server, **limits) as asking:
        assert (await asking.policy.act(HELLO)).text == "fine"
    assert len(server.requests) == 2


async def test_trouble_that_stays_ends_as_unreachable_after_a_bounded_number_of_tries(
    chat: Callable[..., Chat],
) -> None:
    async with FakeOpenAI(error(500, "oops sk-aaaaaaaa")) as server, chat(server, max_retries=3) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert (failure.kind, failure.boundary) == (FailureKind.POLICY_UNREACHABLE, Boundary.POLICY)
    assert "after 4 tries" in str(failure)
    assert "HTTP 500: oops" in str(failure)
    assert len(server.requests) == 4


async def test_nobody_listening_is_unreachable(chat: Callable[..., Chat]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with chat(url, max_retries=1) as asking:
            failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_UNREACHABLE
    assert "can't connect" in str(failure)


async def test_a_limited_key_rests_and_the_next_one_answers_at_once(chat: Callable[..., Chat]) -> None:
    limited = error(429, "slow down", {"retry-after": "20"})
    async with FakeOpenAI(by_key({"sk-aaaaaaaa": limited}, answer("fine"))) as server, chat(server) as asking:
        assert (await asking.policy.act(HELLO)).text == "fine"
        assert (await asking.policy.act(HELLO)).text == "fine"
    assert [request.key for request in server.requests] == ["sk-aaaaaaaa", "sk-bbbbbbbb", "sk-bbbbbbbb"]
    assert asking.time.slept == []


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [({"retry-after": "20"}, 20.0, 21.0), ({"retry-after-ms": "1500"}, 1.5, 2.0), ({}, 0.5, 1.0)],
)
async def test_with_every_key_limited_it_waits_as_asked(
    chat: Callable[..., Chat], header: dict[str, str], least: float, most: float
) -> None:
    limited = error(429, "slow down", header)
    async with FakeOpenAI(limited, limited, limited, answer("fine")) as server, chat(server) as asking:
        said = await asking.policy.act(HELLO)
    assert said.text == "fine"
    assert least <= sum(asking.time.slept) <= most
    assert said.usage.waited_s == pytest.approx(sum(asking.time.slept))


async def test_limits_that_outlast_the_budget_are_a_rate_limit_failure(chat: Callable[..., Chat]) -> None:
    limited = error(429, "slow down", {"retry-after": "3600"})
    async with FakeOpenAI(limited) as server, chat(server, call_budget_s=60) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_RATE_LIMITED
    assert len(server.requests) == 3
    assert asking.time.slept == []


async def test_an_endpoint_that_always_says_at_once_is_asked_ever_more_rarely(chat: Callable[..., Chat]) -> None:
    limited = error(429, "slow down", {"retry-after": "0"})
    async with FakeOpenAI(limited) as server, chat(server, call_budget_s=25) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_RATE_LIMITED
    assert len(server.requests) < 30


async def test_a_refused_key_is_never_used_again(chat: Callable[..., Chat]) -> None:
    table: dict[str | None, Behaviour] = {"sk-aaaaaaaa": error(401, "bad key"), "sk-bbbbbbbb": error(403, "no access")}
    async with FakeOpenAI(by_key(table, answer("fine"))) as server, chat(server, rotate="every_request") as asking:
        for _ in range(4):
            assert (await asking.policy.act(HELLO)).text == "fine"
    used = [request.key for request in server.requests]
    assert used == ["sk-aaaaaaaa", "sk-bbbbbbbb", *["sk-cccccccc"] * 4]


async def test_all_keys_refused_is_an_auth_failure_with_the_endpoints_words(chat: Callable[..., Chat]) -> None:
    refused = error(401, "Incorrect API key provided: sk-cccccccc.")
    async with FakeOpenAI(refused) as server, chat(server) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_AUTH
    assert "Incorrect API key provided: [scrubbed]" in str(failure)
    assert "KEY_B (refused)" in str(failure)
    assert len(server.requests) == 3


async def test_used_up_credit_takes_a_key_out_instead_of_waiting(chat: Callable[..., Chat]) -> None:
    spent = error(429, "You exceeded your current quota", code="insufficient_quota")
    async with FakeOpenAI(spent) as server, chat(server) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_AUTH
    assert "out of quota" in str(failure)
    assert asking.time.slept == []


async def test_an_endpoint_without_keys_gets_no_authorization_header(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(answer("fine")) as server, chat(server, api_key_env=None) as asking:
        await asking.policy.act(HELLO)
    assert "authorization" not in server.requests[0].headers
    async with FakeOpenAI(error(401, "who?")) as server, chat(server, api_key_env=None) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_AUTH
    assert "no key was sent" in str(failure)


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (error(400, "temperature must be at most 2"), "temperature must be at most 2"),
        (error(404, "model not found"), "does base_url"),
        (error(422, "unprocessable"), "unprocessable"),
        (send(404, b"<html><h1>Not Found</h1></html>"), "an HTML page: Not Found"),
        (send(301, b"", {"location": "https://elsewhere/v1"}), "redirects to https://elsewhere/v1"),
        (send(200, b'{"error": {"message": "bad request", "code": 400}}'), "bad request"),
    ],
)
async def test_other_refusals_are_final_and_say_what_the_endpoint_said(
    chat: Callable[..., Chat], behaviour: Behaviour, says: str
) -> None:
    async with FakeOpenAI(behaviour) as server, chat(server) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert (failure.kind, failure.boundary) == (FailureKind.POLICY_REJECTED, Boundary.POLICY)
    assert says in str(failure)
    assert len(server.requests) == 1


async def test_a_full_context_is_a_result(chat: Callable[..., Chat]) -> None:
    full = error(400, "This model's maximum context length is 4096 tokens.")
    async with FakeOpenAI(full) as server, chat(server) as asking:
        said = await asking.policy.act(HELLO)
    assert (said.finish, said.text, said.tool_calls) == ("context", "", ())
    assert len(server.requests) == 1


async def test_max_tokens_beyond_what_is_left_is_given_up_before_the_context_is_called_full(
    chat: Callable[..., Chat],
) -> None:
    full = error(400, "maximum context length is 4096 tokens, you requested 5000 (3000 in the messages, 2000 in ...)")
    async with FakeOpenAI(full, answer("short")) as server, chat(server, max_tokens=2000) as asking:
        assert (await asking.policy.act(HELLO)).text == "short"
    assert ["max_tokens" in request.json for request in server.requests] == [True, False]


async def test_a_turn_cut_by_its_length_keeps_its_text(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(answer("half a sen", finish="length")) as server, chat(server) as asking:
        said = await asking.policy.act(HELLO)
    assert (said.finish, said.text) == ("length", "half a sen")


async def test_compressed_answers_are_read_and_bombs_are_not(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(gzipped("hello"), gzipped("a" * 1000, 10_000)) as server:
        async with chat(server, max_response_mb=1, max_retries=0) as asking:
            assert (await asking.policy.act(HELLO)).text == "hello"
            failure = await failure_of(asking.policy.act(HELLO))
    assert "larger than 1048576 bytes" in str(failure)


async def test_the_trials_deadline_ends_a_request_as_a_deadline(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(silence) as server, chat(server, deadline_s=0.3) as asking:
        with pytest.raises(DeadlineExceeded, match="the trial's deadline"):
            await asking.policy.act(HELLO)


async def test_a_turns_own_budget_ends_as_unreachable(chat: Callable[..., Chat]) -> None:
    async with FakeOpenAI(silence) as server, chat(server, call_budget_s=0.2) as asking:
        failure = await failure_of(asking.policy.act(HELLO))
    assert failure.kind is FailureKind.POLICY_UNREACHABLE


async def test_a_cancelled_turn_ends_at_once(chat: Callable[..., Chat]) -> None:
    arrived = asyncio.Event()

    async def arrive(request: Any, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await silence(request, writer)

    async with FakeOpenAI(arrive) as server, chat(server) as asking:
        turn = asyncio.ensure_future(asking.policy.act(HELLO))
        await arrived.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(turn, 5)


async def test_no_key_is_in_the_description_or_the_log_but_all_are_named_for_scrubbing(
    chat: Callable[..., Chat], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "gw-12345678")
    headers = {"x-gateway-token": "${GATEWAY_TOKEN}"}
    async with FakeOpenAI(error(500, "x"), answer("fine")) as server, chat(server, headers=headers) as asking:
        await asking.policy.act(HELLO)
        described = json.dumps(asking.policy.describe())
        assert asking.policy.secrets == {*KEYS.values(), "gw-12345678"}
    assert server.requests[0].headers["x-gateway-token"] == "gw-12345678"
    line = json.loads((tmp_path / "chat.jsonl").read_text())
    assert (line["tries"], line["key"], line["finish"]) == (2, "KEY_A", "stop")
    for secret in (*KEYS.values(), "gw-12345678"):
        assert secret not in described + json.dumps(line)
    assert "${GATEWAY_TOKEN}" in described


def test_trials_begin_at_different_keys(task: Task) -> None:
    async def first_key(attempt: int) -> str:
        async with FakeOpenAI(answer("x")) as server:
            policy = ChatPolicy(model="m", base_url=server.url, api_key_env="KEY_A,KEY_B,KEY_C")
            context = PolicyContext(
                task=task,
                step=task.steps[0],
                sandbox=cast(Any, None),
                harness="opencode",
                seed=0,
                attempt=attempt,
                deadline=Deadline.after(20),
            )
            await policy.start(context)
            await policy.act(HELLO)
            await policy.close()
            return str(server.requests[0].key)

    assert {asyncio.run(first_key(attempt)) for attempt in range(12)} == set(KEYS.values())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"modle": "m"}, "did you mean 'model'"),
        ({"model": ""}, "model"),
        ({"model": "m", "api_key": "sk-very-secret"}, "api_key_env"),
        ({"model": "m", "api_key_env": "sk-very-secret"}, "names of environment variables"),
        ({"model": "m", "api_key_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"model": "m"}, "OPENAI_API_KEY is not set"),
        ({"model": "m", "base_url": "localhost:8000"}, "http://localhost:8000/v1"),
        ({"model": "m", "base_url": "http://user:sk-very-secret@host/v1"}, "user name or password"),
        ({"model": "m", "base_url": "http://host/v1?key=sk-very-secret"}, "without '?'"),
        ({"model": "m", "base_url": "http://h/v1", "headers": {"x-api-key": "sk-very-secret"}}, "credential"),
        ({"model": "m", "base_url": "http://h/v1", "headers": {"x-a": "a\r\nb"}}, "can't be sent"),
        ({"model": "m", "base_url": "http://h/v1", "extra_body": {"messages": []}}, "messages can't be set here"),
        ({"model": "m", "base_url": "http://h/v1", "prices": {"input": 1, "outputs": 2}}, "prices.outputs"),
        ({"model": "m", "base_url": "http://h/v1", "temperature": float("nan")}, "temperature"),
        ({"model": "m", "base_url": "http://h/v1", "rotate": "sometimes"}, "rotate"),
    ],
)
def test_bad_options_are_refused_without_repeating_a_secret(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        ChatPolicy(**options)
    assert says in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_options_may_come_as_text_from_a_command_line() -> None:
    policy = ChatPolicy(model="m", base_url="http://h/v1/chat/completions", temperature="0.7", max_tokens="100")
    described = policy.describe()
    assert (described["temperature"], described["max_tokens"], described["base_url"]) == (0.7, 100, "http://h/v1")


def test_the_usual_environment_variables_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-default-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway/v1/")
    policy = ChatPolicy(model="m")
    assert policy.describe()["base_url"] == "http://gateway/v1"
    assert policy.secrets == {"sk-default-key"}
    elsewhere = ChatPolicy(model="m", base_url="http://localhost:8000/v1")
    assert elsewhere.secrets == frozenset()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pw@gateway/v1/")
    with pytest.raises(UserError, match="user name or password"):
        ChatPolicy(model="m")


async def test_a_call_of_the_model_that_is_no_json_does_not_end_the_trial_at_a_strict_server(
    chat: Callable[..., Chat],
) -> None:
    async def strict(request: Any, writer: asyncio.StreamWriter) -> None:
        for message in request.json["messages"]:
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])
        await answer("fine")(request, writer)

    wrong = AssistantMessage(tool_calls=(ToolCall.parse("c", "bash", "{oops"),))
    history = (Message(role="user", content="x"), wrong, Message(role="tool", content="no", tool_call_id="c"))
    async with FakeOpenAI(strict) as server, chat(server) as asking:
        said = await asking.policy.act(Observation(kind=ObservationKind.REWRITE, messages=history))
    assert said.text == "fine"


@pytest.mark.parametrize("vision", [True, False])
async def test_images_go_to_a_model_that_sees_and_only_to_it(chat: Callable[..., Chat], vision: bool) -> None:
    image = Image(mime="image/png", data="iVBORw0KGgo=")
    async with FakeOpenAI(answer("Looking.", [("bash", "{}")]), answer("A chart.")) as server:
        async with chat(server, vision=vision) as asking:
            first = await asking.policy.act(HELLO)
            told = Message(role="tool", content="[image]", tool_call_id=first.tool_calls[0].id, images=(image,))
            await asking.policy.act(Observation(messages=(told,)))
    body = json.dumps(server.requests[1].json)
    assert (image.data in body) is vision
    assert ("left out" in body) is not vision
