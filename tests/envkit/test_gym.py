"""The synchronous face: Gymnasium's own checker, ids, vector envs, and the pool."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import envkit
from envkit import loop
from envkit.failure import Cancelled, EnvkitError, FailureKind, UserError
from envkit.gym import make_vec, register_pack, spec_id
from envkit.messages import Observation

TOML = 'schema_version = "1.4"\n[task]\nname = "test/{name}"\n[metadata.envkit]\nworld = "worlds/shop"\n'
CHECKS = 'schema_version = "1"\n[[check]]\nid = "n"\nkind = "answer"\nnumber = {value = 6}\n'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("gym") / "pack"
    (root / "worlds" / "shop" / "filesystem").mkdir(parents=True)
    (root / "worlds" / "shop" / "filesystem" / "a.txt").write_text("6\n")
    for name in ("six", "task-v12"):
        task = root / name
        (task / "tests").mkdir(parents=True)
        (task / "task.toml").write_text(TOML.format(name=name))
        (task / "instruction.md").write_text("Answer with the number in a.txt.\n")
        (task / "tests" / "verifier.toml").write_text(CHECKS)
        (task / "tests" / "test.sh").write_text("exit 1\n")
    return root


@pytest.fixture
def env(root: Path) -> Iterator[envkit.Env]:
    env = envkit.make(str(root / "six"))
    yield env
    env.close()


def test_check_env_accepts_it(env: envkit.Env) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    serious = [str(w.message) for w in caught if "standard" not in str(w.message).lower()]
    assert serious == []


def test_the_loop_of_the_readme(env: envkit.Env) -> None:
    assert isinstance(env, gymnasium.Env)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert info["step"] == 0
    call = {"id": "1", "name": "bash", "arguments": {"command": "cat a.txt"}}
    observation, reward, terminated, truncated, _ = env.step({"tool_calls": [call]})
    assert "6" in observation.messages[-1].content
    _, reward, terminated, truncated, info = env.step("6")
    assert (reward, terminated, truncated) == (1.0, True, False)
    with pytest.raises(UserError, match="reset"):
        env.step("again")


def test_render_ansi_is_the_transcript(root: Path) -> None:
    env = envkit.make(str(root / "six"), render_mode="ansi")
    env.reset()
    env.step("the answer is 6")
    text = env.render()
    assert text is not None
    assert "Answer with the number" in text
    assert "the answer is 6" in text
    env.close()
    with pytest.raises(UserError, match="ansi"):
        envkit.make(str(root / "six"), render_mode="human")


def test_one_id_per_pack_is_registered_with_gymnasium(root: Path) -> None:
    before = len(gymnasium.registry)
    envkit.register("gymtest", root)
    id = register_pack("gymtest")
    assert len(gymnasium.registry) == before + 1
    env = gymnasium.make(f"envkit.gym:{id}", task="task-v12")
    env.reset()
    _, reward, *_ = env.step("6")
    assert reward == 1.0
    env.close()
    assert "office/Task-v0" in gymnasium.registry


@pytest.mark.parametrize(
    ("task", "id"),
    [
        ("apex/task-123", "apex/task-123"),
        ("apex/task-v12", "apex/task-v12.task"),
        ("apex/task-123@1.0", "apex/task-123"),
        ("org.x/task", "org-x/task"),
    ],
)
def test_spec_ids_survive_gymnasium(task: str, id: str) -> None:
    assert spec_id(task) == id


@pytest.mark.slow
@given(st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?/[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True))
def test_gymnasium_reads_no_version_into_any_slug(task: str) -> None:
    _, _, version = gymnasium.envs.registration.parse_env_id(spec_id(task))
    assert version is None


def test_unknown_names_say_what_is_near(root: Path) -> None:
    with pytest.raises(UserError, match="opencode"):
        envkit.make(str(root / "six"), harness="opencod")
    with pytest.raises(UserError, match="local"):
        envkit.make(str(root / "six"), sandbox="locl")
    with pytest.raises(UserError):
        envkit.make(str(root / "six"), harness_options={"promt": "compact"})


def test_a_vector_env_gives_each_env_its_own_text(root: Path) -> None:
    vector = make_vec([str(root / "six"), str(root / "task-v12")])
    try:
        observations, _ = vector.reset()
        assert len(observations) == 2
        _, rewards, terminated, _, _ = vector.step(["6", "7"])
        assert list(rewards) == [1.0, 0.0]
        assert list(terminated) == [True, True]
    finally:
        vector.close()


def test_the_pool_serves_whoever_is_ready_and_a_fault_ends_only_its_own(root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "tests").mkdir(parents=True)
    (broken / "task.toml").write_text('schema_version = "1.4"\n[task]\nname = "test/broken"\n')
    (broken / "instruction.md").write_text("x\n")
    (broken / "tests" / "test.sh").write_text("true\n")
    (broken / "environment").mkdir()
    (broken / "environment" / "Dockerfile").write_text("FROM scratch\n")
    ids = [str(root / "six"), str(broken), str(root / "task-v12")]
    ends: dict[int, float | None] = {}
    slowed: list[bool] = []
    slow = {"tool_calls": [{"id": "1", "name": "bash", "arguments": {"command": "sleep 0.3"}}]}
    with envkit.EnvPool(ids, concurrency=2) as pool:
        for item in pool:
            if "failure" in item.info:
                assert item.reward is None
                ends[item.env] = None
            elif item.terminated or item.truncated:
                ends[item.env] = item.reward
            elif item.env == 0 and not slowed:
                slowed.append(True)
                pool.send(item.env, slow)
            else:
                pool.send(item.env, "6")
    assert ends == {0: 1.0, 1: None, 2: 1.0}


def test_the_pool_refuses_an_action_nobody_waits_for(root: Path) -> None:
    with envkit.EnvPool([str(root / "six")]) as pool:
        with pytest.raises(UserError, match="not waiting"):
            pool.send(0, "6")


SLEEP = {"tool_calls": [{"id": "1", "name": "bash", "arguments": {"command": "sleep 300"}}]}


@pytest.mark.parametrize("action", [5, None, {"txt": "6"}, {"role": "assistant", "tool_calls": "no list"}])
def test_an_action_that_is_none_does_not_cost_the_episode(env: envkit.Env, action: object) -> None:
    env.reset()
    with pytest.raises(UserError, match=r"(?i)assistant ?message"):
        env.step(action)
    _, reward, terminated, _, _ = env.step("6")
    assert (reward, terminated) == (1.0, True)


def test_close_ends_a_step_that_is_going_on(env: envkit.Env) -> None:
    env.reset()
    raised: list[BaseException] = []

    def step() -> None:
        try:
            env.step(SLEEP)
        except BaseException as error:  # noqa: BLE001  whatever it is, the test looks at it
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    time.sleep(1.0)
    env.close()
    thread.join(60)
    assert [type(error) for error in raised] == [Cancelled]
    env.reset()
    assert env.step("6")[1] == 1.0


def test_the_spec_makes_the_same_env_anywhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    env = envkit.make(
        "./six", harness_options={"prompt": "compact"}, sandbox_options={"office": False}, limits={"max_turns": 3}
    )
    spec = pickle.loads(pickle.dumps(env.spec))
    monkeypatch.chdir("/")
    again = gymnasium.make(spec).unwrapped
    assert isinstance(again, envkit.Env)
    assert again.core.task.dir == env.core.task.dir
    assert again.core.harness.describe() == env.core.harness.describe()
    assert again.core.limits == env.core.limits
    assert again.core.provider.inside() == env.core.provider.inside()


def test_an_env_is_not_copied_by_accident(env: envkit.Env) -> None:
    for copier in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spec"):
            copier(env)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": {}}, "did you mean 'limits'"),
        ({"limits": {"max_turn": 3}}, "did you mean 'max_turns'"),
        ({"limits": {"max_turns": "x"}}, "max_turns"),
        ({"limits": 3}, "limits must be"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": "a"}, "timeout_s"),
        ({"harness_options": ["prompt"]}, "harness_options is a dict"),
        ({"task": "x"}, "no option 'task'"),
    ],
)
def test_wrong_options_are_named_where_they_are_given(root: Path, options: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        envkit.make_async(str(root / "six"), **options)  # type: ignore[arg-type]


def test_a_vector_env_of_nothing_and_a_pack_id_without_task() -> None:
    with pytest.raises(UserError, match="at least one"):
        make_vec([])
    with pytest.raises(UserError, match="task=NAME"):
        gymnasium.make("envkit.gym:office/Task-v0")


def test_a_failure_in_a_worker_of_a_vector_env_keeps_its_name(root: Path, tmp_path: Path) -> None:
    task = tmp_path / "crash"
    (task / "tests").mkdir(parents=True)
    (task / "environment" / "world" / "filesystem").mkdir(parents=True)
    (task / "task.toml").write_text('schema_version = "1.4"\n[task]\nname = "test/crash"\n')
    (task / "instruction.md").write_text("Say anything.\n")
    (task / "tests" / "test.sh").write_text("exit 0\n")
    envs = make_vec([str(task)])
    try:
        envs.reset()
        with pytest.raises(EnvkitError) as raised:
            envs.step(("anything",))
        assert raised.value.kind is FailureKind.REWARD_MISSING
    finally:
        envs.close(terminate=True)


def test_a_pool_says_when_nothing_will_come(root: Path) -> None:
    with envkit.EnvPool([str(root / "six")] * 2) as pool:
        pool.recv(timeout_s=60)
        pool.recv(timeout_s=60)
        with pytest.raises(UserError, match=r"send for \[0, 1\]"):
            pool.recv(timeout_s=60)
    with pytest.raises(UserError, match="closed"):
        pool.recv()
    with pytest.raises(UserError, match="at least 1"):
        envkit.EnvPool([str(root / "six")], concurrency=0)
    with pytest.raises(UserError, match="list of tasks"):
        envkit.EnvPool("office/a")


def test_closing_a_pool_ends_what_runs_in_it(root: Path) -> None:
    began = time.monotonic()
    with envkit.EnvPool([str(root / "six")]) as pool:
        item = pool.recv(timeout_s=60)
        assert isinstance(item.observation, Observation)
        pool.send(item.env, SLEEP)
        time.sleep(0.5)
    assert time.monotonic() - began < 100


def test_a_forked_child_leaves_its_parents_episode_alone(env: envkit.Env) -> None:
    env.reset()
    context = multiprocessing.get_context("fork")
    said = context.Queue()

    def child() -> None:
        try:
            env.step("6")
        except UserError as error:
            said.put(str(error))
        env.close()
        env.reset()
        said.put(env.step("6")[1])
        env.close()

    process = context.Process(target=child)
    process.start()
    assert "call reset first" in said.get(timeout=60)
    assert said.get(timeout=60) == 1.0
    process.join(60)
    assert env.step("6")[1] == 1.0


def test_a_synchronous_call_on_the_background_loop_is_an_error_and_no_hang(env: envkit.Env) -> None:
    async def inside() -> None:
        env.reset()

    with pytest.raises(RuntimeError, match="AsyncEnv"):
        loop.run(inside())
