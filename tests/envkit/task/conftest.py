"""What the task tests share: a way to write a task directory, and a strategy for the data of whole task files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

MakeDir = Callable[..., Path]


@pytest.fixture
def make_dir(tmp_path: Path) -> MakeDir:
    """`make_dir(toml, name="q1", **{"tests/test.sh": "..."})` writes a directory with an instruction."""

    def make(toml: str = "", name: str = "q1", files: dict[str, str | None] | None = None) -> Path:
        root = tmp_path / name
        root.mkdir()
        (root / "task.toml").write_text(toml, encoding="utf-8")
        for path, text in {"instruction.md": "Do it.\n", **(files or {})}.items():
            if text is not None:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
        return root

    return make


def _table(required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required or {}, optional=optional)


def _task_tables() -> st.SearchStrategy[dict[str, Any]]:
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
    word = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
    seconds = st.one_of(st.integers(1, 10**6), st.floats(0.01, 1e7))
    whole = st.integers(1, 10**6)
    user = st.one_of(word, st.integers(0, 65535))
    env = st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), text, max_size=3)
    host = st.sampled_from(
        ["example.com", "*.Example.org.", "10.0.0.0/8", "192.0.2.7", "2001:DB8:0::1", "2001:db8::/32"]
    )
    mcp = st.one_of(
        _table({"name": word, "transport": st.just("stdio"), "command": word}, args=st.lists(text, max_size=2)),
        _table(
            {"name": word, "url": st.just("http://h/mcp")},
            transport=st.sampled_from(["sse", "http", "streamable-http"]),
            headers=st.sampled_from([{}, {"Accept": "x"}, {"Authorization": "Bearer ${T}"}, {"X-Api-Key": "${A:-}"}]),
        ),
    )
    healthcheck = _table(
        {"command": text},
        interval_sec=seconds,
        timeout_sec=seconds,
        start_period_sec=seconds,
        start_interval_sec=seconds,
        retries=st.integers(0, 9),
    )
    policy = st.one_of(
        st.just({}),
        _table({"network_mode": st.sampled_from(["public", "no-network"])}),
        _table({"network_mode": st.just("allowlist")}, allowed_hosts=st.lists(host, max_size=3)),
    )

    def with_policy(table: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        return st.tuples(table, policy).map(lambda both: {**both[0], **both[1]})

    plain_environment = _table(
        build_timeout_sec=seconds,
        docker_image=word,
        os=st.sampled_from(["linux", "Linux", "windows"]),
        cpus=st.one_of(st.integers(1, 64), st.floats(0.1, 64)),
        memory_mb=whole,
        storage_mb=whole,
        gpus=st.integers(0, 8),
        gpu_types=st.lists(st.sampled_from(["H100", "A100"]), max_size=2),
        tpu=_table({"type": word, "topology": st.sampled_from(["2x4", "2x2x1"])}),
        mcp_servers=st.lists(mcp, max_size=2),
        env=env,
        skills_dir=word,
        healthcheck=healthcheck,
        workdir=word,
    )
    old_environment = _table(
        {}, memory=st.sampled_from(["2G", "512m", "4096K"]), storage=st.just("10G"), allow_internet=st.booleans()
    )
    environment = st.one_of(with_policy(plain_environment), with_policy(old_environment), old_environment)
    agent = with_policy(_table(timeout_sec=seconds, user=user))
    collect = _table({"command": text}, service=st.sampled_from(["main", "db"]), timeout_sec=seconds, user=user)
    verifier = with_policy(
        st.one_of(
            _table(timeout_sec=seconds, env=env, user=user, environment_mode=st.sampled_from(["shared", "separate"])),
            _table(timeout_sec=seconds, environment=environment, collect=st.lists(collect, max_size=2)),
            _table({"environment_mode": st.just("separate")}, environment=environment),
        )
    )
    artifact = st.one_of(
        st.sampled_from(["/logs/x", "out.txt", "/a b/c"]),
        _table(
            {"source": st.sampled_from(["/data", "/data/x"])},
            destination=st.sampled_from(["d", "d/e", ""]),
            exclude=st.lists(st.just("*.tmp"), max_size=1),
            service=st.sampled_from(["main", "db"]),
        ),
    )
    artifacts = st.lists(artifact, max_size=3)
    step = _table(
        {"name": st.from_regex(r"[a-z]{1,6}( [A-Zé])?", fullmatch=True)},
        agent=agent,
        verifier=verifier,
        min_reward=st.one_of(st.floats(0, 1), st.integers(0, 1), st.dictionaries(word, st.floats(0, 1), max_size=2)),
        healthcheck=healthcheck,
        artifacts=artifacts,
    )
    free = st.recursive(
        st.one_of(
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
            text,
            st.dates(),
            st.datetimes(),
            st.datetimes(timezones=st.just(dt.timezone(dt.timedelta(hours=2)))),
        ),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )
    envkit = _table(
        world=word,
        overlay=word,
        difficulty=st.sampled_from(["easy", "medium", "hard"]),
        split=st.sampled_from(["train", "eval"]),
        domain=text,
        tags=st.lists(text, max_size=2),
        apps=st.lists(word, max_size=2),
        verifier=word,
        expected_turns=whole,
        harness=st.dictionaries(word, st.dictionaries(word, free, max_size=2), max_size=2),
    )
    metadata = st.tuples(
        st.dictionaries(text.filter(lambda key: key != "envkit"), free, max_size=3), st.one_of(st.none(), envkit)
    ).map(lambda both: {**both[0], **({"envkit": both[1]} if both[1] is not None else {})})
    return _table(
        schema_version=st.sampled_from(["1.0", "1.3", "1.4"]),
        source=text,
        multi_step_reward_strategy=st.sampled_from(["mean", "final"]),
        artifacts=artifacts,
        task=_table(
            {"name": st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,5}/[A-Z0-9]{1,5}-v12", fullmatch=True).filter(
                lambda name: ".." not in name)},
            version=word,
            description=text,
            authors=st.lists(_table({"name": text}, email=text), max_size=2),
            keywords=st.lists(text, max_size=2),
        ),
        metadata=metadata,
        agent=agent,
        verifier=verifier,
        environment=environment,
        solution=_table(env=env),
        steps=st.lists(step, min_size=1, max_size=3, unique_by=lambda s: s["name"].casefold()),
    )  # fmt: skip


@pytest.fixture(scope="session")
def task_tables() -> st.SearchStrategy[dict[str, Any]]:
    """Data of valid task files: every key of the schema, deprecated ones included."""
    return _task_tables()
