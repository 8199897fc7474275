"""What a user may write about vLLM engines, the servers that follow from it, and the `engine` command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from envkit.backends.vllm import VllmEnginesConfig
from envkit.backends.vllm.engines import server_settings
from envkit.backends.vllm.inside.envkit_gate import Gate
from envkit.cli.main import main


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"transfer": "store"}, "needs `store`"),
        ({"store": "s3://b/p"}, "only used with transfer = 'store'"),
        ({"transfer": "nccl", "device": "cpu"}, "needs GPUs"),
        ({"replicas": 2, "tensor_parallel": 2, "gpus": (0, 1, 2)}, "need 4 GPUs, `gpus` names 3"),
        ({"replica": 2}, "Extra inputs"),
    ],
)
def test_what_can_not_be_meant_is_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        VllmEnginesConfig.model_validate(table)


def test_replicas_share_out_gpus_and_servers_on_a_cpu_do_not_bind_the_same_cores() -> None:
    config = VllmEnginesConfig(device="cuda", replicas=2, tensor_parallel=2, gpus=(4, 5, 6, 7))
    arguments, environment = server_settings(config, 1)
    assert environment["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert "--tensor-parallel-size" in arguments
    assert arguments[arguments.index("--dtype") + 1] == "bfloat16"
    assert "VLLM_CPU_OMP_THREADS_BIND" not in environment
    arguments, environment = server_settings(VllmEnginesConfig(device="cpu", replicas=2))
    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert "VLLM_CPU_OMP_THREADS_BIND" not in server_settings(VllmEnginesConfig(device="cpu"))[1]
    inside = Path(environment["PYTHONPATH"])
    assert {"envkit_worker.py", "envkit_gate.py", "envkit_weights.py"} <= {p.name for p in inside.iterdir()}


async def test_the_gate_lets_no_request_for_tokens_through_until_it_is_opened() -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        told.append({"status": 200})

    told: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        told.append(message)

    gate = Gate(app)

    async def ask(path: str, method: str = "POST") -> object:
        told.clear()
        await gate({"type": "http", "path": path, "method": method}, None, send)
        return told[0]["status"]

    assert await ask("/health", "GET") == 200
    assert await ask("/collective_rpc") == 200
    assert await ask("/inference/v1/generate") == 503
    assert await ask("/v1/chat/completions") == 503
    assert await ask("/envkit/open", "GET") == 200, "the app's own business"
    assert await ask("/inference/v1/generate") == 503
    assert await ask("/envkit/open") == 200
    assert await ask("/inference/v1/generate") == 200
    assert await ask("/envkit/close") == 200
    assert await ask("/inference/v1/generate") == 503


def test_the_command_knows_its_engines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["engine", "install", "vlm"]) == 2
    assert "did you mean 'vllm'" in capsys.readouterr().err
    monkeypatch.setenv("ENVKIT_VLLM", str(tmp_path / "none"))
    assert main(["engine", "where", "vllm"]) == 2
    assert "ENVKIT_VLLM" in capsys.readouterr().err
    assert main(["engine", "serve", str(tmp_path)]) == 2
    assert "no model folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert main(["engine", "serve", str(tmp_path), "--set", "max_row=3"]) == 2
    assert "did you mean 'max_rows'" in capsys.readouterr().err
