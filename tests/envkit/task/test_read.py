"""Reading task.toml: every field, and every mistake with its line, its key and what was meant."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from envkit.failure import UserError
from envkit.task import EnvkitMetadata, LenientWarning, TaskConfig, load_task_dir, parse_task_toml

FULL = """
schema_version = "1.4"
source = "handmade"
multi_step_reward_strategy = "final"
artifacts = ["/logs/out", {source = "/data", destination = "d", exclude = ["*.tmp"], service = "db"}]

[task]
name = "acme/q3-memo"
version = "2.1"
description = "a memo"
authors = [{name = "A. Person", email = "a@example.org"}]
keywords = ["memo"]

[metadata]
anything = {goes = [1, 2]}
[metadata.envkit]
world = "worlds/acme"
overlay = "environment/extra"
difficulty = "hard"
split = "eval"
domain = "law"
tags = ["memo"]
apps = ["mail"]
verifier = "checks"
expected_turns = 12
[metadata.envkit.harness.opencode]
max_steps = 40

[agent]
timeout_sec = 900
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["API.Example.com."]

[verifier]
timeout_sec = 120.5
env = {KEY = "${KEY}", MODE = "strict"}
user = 0
environment_mode = "separate"
network_mode = "no-network"
[verifier.environment]
docker_image = "verifier:1"
[[verifier.collect]]
command = "dump"
service = "db"
timeout_sec = 5
user = "root"

[solution]
env = {A = "b"}

[environment]
build_timeout_sec = 300
docker_image = "task:1"
os = "LINUX"
cpus = 2.0
memory_mb = 4096
storage_mb = 1024
gpus = 1
gpu_types = ["H100"]
tpu = {type = "v6e", topology = "2x4"}
env = {LANG = "C"}
skills_dir = "/skills"
workdir = "/filesystem"
network_mode = "public"
[environment.healthcheck]
command = "true"
interval_sec = 1
timeout_sec = 2
start_period_sec = 3
start_interval_sec = 4
retries = 5
[[environment.mcp_servers]]
name = "docs"
transport = "http"
url = "http://x/mcp"
headers = {Authorization = "Bearer ${TOKEN}"}
[[environment.mcp_servers]]
name = "fs"
transport = "stdio"
command = "serve"
args = ["-v"]

[[steps]]
name = "draft"
min_reward = 0.5
artifacts = ["/draft"]
[steps.agent]
timeout_sec = 60
[steps.healthcheck]
command = "test -f x"
[[steps]]
name = "final"
min_reward = {reward = 1.0, style = 0.5}
"""


def test_every_key_of_the_schema_is_read() -> None:
    config = parse_task_toml(FULL)

    assert config.task is not None
    assert (config.task.name, config.task.version, config.task.authors[0].email) == (
        "acme/q3-memo",
        "2.1",
        "a@example.org",
    )
    assert (config.source, config.multi_step_reward_strategy) == ("handmade", "final")
    assert config.artifacts[1].service == "db"  # type: ignore[union-attr]
    assert config.metadata.model_extra == {"anything": {"goes": [1, 2]}}
    assert config.metadata.envkit == EnvkitMetadata(
        world="worlds/acme", overlay="environment/extra", difficulty="hard", split="eval", domain="law", tags=["memo"],
        apps=["mail"], verifier="checks", expected_turns=12, harness={"opencode": {"max_steps": 40}},
    )  # fmt: skip
    assert (config.agent.timeout_sec, config.agent.user, config.agent.allowed_hosts) == (
        900,
        "agent",
        ["api.example.com"],
    )
    assert (config.verifier.timeout_sec, config.verifier.user, config.verifier.env["KEY"]) == (120.5, 0, "${KEY}")
    assert config.verifier.environment is not None
    assert config.verifier.environment.docker_image == "verifier:1"
    assert config.verifier.collect[0].model_dump() == {
        "command": "dump", "service": "db", "timeout_sec": 5, "user": "root",
    }  # fmt: skip
    machine = config.environment
    assert (machine.os, machine.cpus, machine.memory_mb, machine.gpu_types) == ("linux", 2, 4096, ["H100"])
    assert machine.tpu is not None
    assert machine.tpu.topology == "2x4"
    assert machine.healthcheck is not None
    assert machine.healthcheck.retries == 5
    assert [server.transport for server in machine.mcp_servers] == ["streamable-http", "stdio"]
    assert config.steps is not None
    assert config.steps[1].min_reward == {"reward": 1.0, "style": 0.5}
    assert config.steps[0].healthcheck is not None


def test_an_empty_file_is_a_task_with_harbors_defaults() -> None:
    config = parse_task_toml("")
    assert config == TaskConfig()
    assert (config.schema_version, config.environment.build_timeout_sec, config.environment.network_mode) == (
        "1.4",
        600,
        "public",
    )
    assert config.agent.timeout_sec is None
    assert config.verifier.timeout_sec is None  # 600 s is the effective value, not the stated one
    assert config.stated() == {}


MISTAKES = [
    ("[verifier]\n\ntimeout_secs = 3", 3, "unknown key 'timeout_secs' in [verifier] (did you mean 'timeout_sec'?)"),
    ("shcema_version = '1.4'", 1, "unknown key 'shcema_version' in the top level (did you mean 'schema_version'?)"),
    ("[[steps]]\nname='a'\n[[steps]]\nname='b'\n[steps.agent]\ntimout_sec=1", 6, "in [steps[1].agent] (did you mean"),
    ("[environment]\nhealthcheck = { command='x', retrys=2 }", 2, "'retries'"),
    ("[environment]\n[[environment.mcp_servers]]\nname='x'\nurl='u'\ntransprot='sse'", 5, "did you mean 'transport'?"),
    ("artifacts = [\n 'a',\n {sorce='b'},\n]", 3, "unknown key 'sorce' in [artifacts[1]] (did you mean 'source'?)"),
    ("[metadata]\nx=1\n[metadata.envkit]\ndificulty='easy'", 4, "(did you mean 'difficulty'?)"),
    ("[agent]\nzzz = 1", 2, "unknown key 'zzz' in [agent]; known keys: allowed_hosts, network_mode, timeout_sec, user"),
    ("[agent]\ntimeout_sec = '10m'", 2, "agent.timeout_sec: expected a number, found '10m' (a string)"),
    ("[agent]\ntimeout_sec = true", 2, "expected a number, found true (a boolean)"),
    ("[agent]\ntimeout_sec = -5", 2, "agent.timeout_sec: expected a number of seconds above 0, found -5"),
    ("[agent]\ntimeout_sec = nan", 2, "above 0, found nan"),
    ("[agent]\nuser = [1]", 2, "agent.user: expected a string or an integer, found an array"),
    ("[environment]\nmemory_mb = 2.5", 2, "environment.memory_mb: expected an integer, found 2.5 (a float)"),
    ("[environment]\nmemory_mb = 0", 2, "expected a number above 0"),
    ("[environment]\ngpus = '1'", 2, "expected an integer, found '1' (a string)"),
    ("[environment]\nos = 'mac'", 2, "environment.os: expected 'linux' or 'windows', found 'mac'"),
    ("[environment]\nenv = {A = 1}", 2, "environment.env.A: expected a string, found 1 (an integer)"),
    ("environment = 3", 1, "environment: expected a table, found 3"),
    ("[steps]\nname = 'a'", 1, "steps: expected an array, found a table"),
    ("artifacts = 'x'", 1, "artifacts: expected an array, found 'x'"),
    ("[[steps]]\nmin_reward = 1", 1, "[steps[0]] lacks the key 'name', which is required"),
    ("[[steps]]\nname='a'\nmin_reward='high'", 3, "steps[0].min_reward: expected a number or a table, found 'high'"),
    ("[task]\nversion = '1'", 1, "[task] lacks the key 'name'"),
    ("[task]\nname = 'memo'", 2, "task.name: expected 'org/name'"),
    ("[task]\nname = 'a/b'\nversion = ''", 3, "a string that is not empty"),
    ("multi_step_reward_strategy = 'max'", 1, "expected 'mean' or 'final', found 'max'"),
    ("[metadata.envkit]\nsplit = 'test'", 2, "expected 'train' or 'eval'"),
    ("[metadata.envkit]\nworld = '../w'", 2, "expected a relative path without '..', found '../w'"),
    ("[metadata.envkit]\nexpected_turns = 0", 2, "a number of at least 1"),
    ("schema_version = '2.0'", 1, "expected 1.0 to 1.4"),
    ("version = '1.9'", 1, "version is '1.9'"),
    ("version = 1.0", 1, "version: expected a string, found 1.0"),
    ("steps = []", 1, "steps is empty"),
    ("[environment]\nmemory = '2X'", 2, 'environment.memory: expected a size such as "2G"'),
    ("[environment]\nmemory = 2048", 2, "found 2048"),
    ("[environment]\nmemory_mb = 1\nmemory = '2G'", 3, "'memory' says 2048 MiB, 'memory_mb' says 1"),
    ("[environment]\nallow_internet = 'no'", 2, "environment.allow_internet: expected true or false"),
]  # fmt: skip

RULES = [
    ("artifacts = ['/a/../b']", "artifact source '/a/../b' contains '..'"),
    ("artifacts = [{source='../x'}]", "contains '..'"),
    ("artifacts = [{source='/x', destination='manifest.json'}]", "is reserved"),
    ("artifacts = [{source='/x', destination='a/../../b'}]", "contains '..'"),
    ("artifacts = [{source='/x', destination='/abs'}]", "is absolute"),
    ("artifacts = [{source='/x', destination='a\\\\b'}]".replace("'a\\\\b'", "'a\\b'"), "backslash"),
    ("artifacts = [{source='/x', destination='.'}]", "names no file"),
    ("artifacts = [{source='x', service='db'}]", "must be an absolute path"),
    ("artifacts = [{source='/x', service='-db'}]", "can't name a compose service"),
    ("[[verifier.collect]]\ncommand='x'\nservice=''", "can't name a compose service"),
    ("[[steps]]\nname='a'\n[[steps]]\nname='a'", "step name 'a' appears twice"),
    ("[[steps]]\nname='caf\u00e9'\n[[steps]]\nname='CAFE\u0301'", "are one folder where case"),
    ("[[steps]]\nname='..'", "is a path"),
    ("[[steps]]\nname='a/b'", "is a path"),
    ("[[steps]]\nname=' '", "must not be empty"),
    ("[[steps]]\nname='a.'", "ends in a dot or a space"),
    ("[[steps]]\nname='a:b'", "contains ':'"),
    ("[[steps]]\nname='con.txt'", "device name"),
    ("[[steps]]\nname='LPT\u00b9'", "device name"),
    (f"[[steps]]\nname='{'x' * 256}'", "longer than 255 bytes"),
    ("[environment]\nallowed_hosts=['a.b']", 'goes with network_mode = "allowlist" only'),
    ("[agent]\nallowed_hosts=[]", 'needs network_mode = "allowlist"'),
    *[
        (f"[agent]\nnetwork_mode='allowlist'\nallowed_hosts=['{host}']", "allowed_hosts")
        for host in ("http://x", "x:80", "a/b", "10.0.0.1/8", "*", "a.*.b", "*.10.0.0.1", "-a.b", "a_b", " ", "[::1]",
                     "fe80::1%eth0", "*.")
    ],
    ("[verifier]\nenvironment_mode='shared'\n[verifier.environment]", "contradicts an environment"),
    ("[environment]\ntpu={type='x', topology='4'}", "expected a topology"),
    ("[environment]\ncpus=inf", "finite"),
    ("[[environment.mcp_servers]]\nname='x'", "transport 'sse' needs a 'url'"),
    ("[[environment.mcp_servers]]\nname='x'\ntransport='stdio'", "needs a 'command'"),
    ("[[environment.mcp_servers]]\nname='x'\ntransport='stdio'\ncommand='c'\nheaders={A='b'}", "HTTP transports"),
    *[
        (f"[[environment.mcp_servers]]\nname='x'\nurl='u'\nheaders={{{header}}}", message)
        for header, message in (
            ("Authorization='Bearer abc'", "plain text"),
            ("X-Api-Key='${KEY:-abc}'", "plain text"),
            ("Cookie='a=b'", "plain text"),
            ("Accept='${API_TOKEN:-abc}'", "plain text"),
            ("'a b'='x'", "can't be the name"),
            ('Accept="a\\nb"', "line break"),
            ("Accept='${A'", "begins no ${VAR}"),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("toml", "line", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_line_and_key(toml: str, line: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_task_toml(toml, file="x/task.toml")
    assert str(caught.value).startswith(f"x/task.toml:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(("toml", "message"), RULES)
def test_a_broken_rule_is_named_and_lenience_does_not_allow_it(toml: str, message: str) -> None:
    for lenient in (False, True):
        with pytest.raises(UserError) as caught:
            parse_task_toml(toml, lenient=lenient)
        assert message in str(caught.value)
        assert str(caught.value).startswith("task.toml:")


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(UserError) as caught:
        parse_task_toml("[verifier]\nuserr = 1\n[agent]\ntimeout_sec = 'x'\n[environment]\nos = 'mac'\n")
    assert [text.split(": ")[0] for text in str(caught.value).splitlines()] == [
        "task.toml:2",
        "task.toml:4",
        "task.toml:6",
    ]


def test_lenient_reading_warns_with_the_same_text_and_drops_the_unknown() -> None:
    toml = "[verifier]\ntimeout_secs = 3\ntimeout_sec = '120'\n"
    with pytest.raises(UserError) as caught:
        parse_task_toml(toml)
    with pytest.warns(LenientWarning) as warned:
        config = parse_task_toml(toml, lenient=True)
    assert "\n".join(str(warning.message) for warning in warned) == str(caught.value)
    assert config.verifier.timeout_sec == 120.0
    assert config.stated() == {"verifier": {"timeout_sec": 120.0}}


def test_lenient_reading_accepts_what_only_envkit_refuses() -> None:
    for toml in ("steps = []", "schema_version = '1.7'", "[metadata.envkit]\nfuture = 1"):
        with pytest.warns(LenientWarning):
            parse_task_toml(toml, lenient=True)


def test_free_metadata_and_env_maps_take_any_key() -> None:
    config = parse_task_toml(
        "[metadata]\nwhat_ever = {x = 1}\n[environment.env]\nANY = 'x'\n[verifier.env]\nthing = 'y'\n"
    )
    assert config.metadata.model_extra == {"what_ever": {"x": 1}}
    assert config.environment.env == {"ANY": "x"}


def test_deprecated_keys_become_their_successors_with_a_warning_that_has_a_line() -> None:
    toml = "version = '1.1'\n[environment]\nmemory = '2G'\nstorage = '512M'\nallow_internet = false\n"
    with pytest.warns(DeprecationWarning, match="is deprecated") as warned:
        config = parse_task_toml(toml, file="t.toml")
    assert (config.schema_version, config.environment.memory_mb, config.environment.storage_mb) == ("1.1", 2048, 512)
    assert config.environment.network_mode == "no-network"
    assert [str(warning.message).split(";")[0] for warning in warned] == [
        "t.toml:1: 'version' is deprecated",
        "t.toml:3: 'memory' is deprecated",
        "t.toml:4: 'storage' is deprecated",
        "t.toml:5: 'allow_internet' is deprecated",
    ]


def test_a_stated_network_policy_wins_over_the_deprecated_switch() -> None:
    with pytest.warns(DeprecationWarning, match="allow_internet"):
        config = parse_task_toml("[environment]\nallow_internet = true\nnetwork_mode = 'no-network'\n")
    assert config.environment.network_mode == "no-network"


def test_the_example_of_the_documentation_reads_without_any_warning(make_dir) -> None:  # type: ignore[no-untyped-def]
    root: Path = make_dir(
        FULL, files={"instruction.md": None, "steps/draft/instruction.md": "a", "steps/final/instruction.md": "b"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = load_task_dir(root)
    assert [step.name for step in task.steps] == ["draft", "final"]
