"""Guards over the embedded trainer and a real engine: quiet where all is well, and each fault told by its own guard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envkit.backends.guards import Status, Verdict, check_parts, failed
from envkit.cli.main import main

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(900)]

MIDDLE = "model.layers.1.mlp.up_proj.weight"


class Otherwise:
    """The trainer, with a tensor that arrives otherwise than it is held."""

    def __init__(self, trainer: Any, name: str, change: Any) -> None:
        self._trainer, self._name, self._change = trainer, name, change
        self.version = trainer.version

    def weights(self) -> Iterator[tuple[str, Any]]:
        for name, tensor in self._trainer.weights():
            if name != self._name:
                yield name, tensor
            elif (changed := self._change(tensor)) is not None:
                yield name, changed


def of(verdicts: Sequence[Verdict], guard: str) -> Verdict:
    (found,) = [v for v in verdicts if v.guard == guard]
    return found


async def test_each_fault_is_told_by_its_guard(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from envkit.backends.run.plan import read_plan
    from envkit.backends.torch.backend import assemble

    plan = read_plan(plan_file)
    parts = await assemble(plan, tmp_path)  # type: ignore[arg-type]
    engines: Any = parts.engines
    trainer: Any = parts.trainer
    try:
        begun_s = time.perf_counter()
        fine = await check_parts(plan, parts, tmp_path)
        print(f"guards took {time.perf_counter() - begun_s:.2f} s")
        assert {v.guard: v.status for v in fine} == dict.fromkeys(
            ["tokens", "weights", "disk", "gap", "determinism"], Status.OK
        ), "\n".join(map(str, fine))
        assert of(fine, "gap").figures["mean"] < 1e-4
        assert of(fine, "gap").figures["tokens"] > 20
        assert of(fine, "weights").figures["tensors"] == len(dict(trainer.weights()))
        assert failed(fine) is None

        # Another tensor arrives than the trainer holds (a bug in a conversion, say).
        write = engines._write

        def sending(change: Any) -> None:
            monkeypatch.setattr(engines, "_write", lambda t, version: write(Otherwise(t, MIDDLE, change), version))

        sending(lambda t: t.clone().index_put((torch.tensor(3), torch.tensor(5)), torch.tensor(9.0)))
        told = of(await check_parts(plan, parts, tmp_path), "weights")
        assert told.status is Status.FAILED
        assert MIDDLE in told.line
        assert told.figures["faults"] == 1

        # A tensor is not sent at all: the engine keeps its old one.
        monkeypatch.undo()
        await check_parts(plan, parts, tmp_path)
        with torch.no_grad():
            dict(trainer._model.named_parameters())[MIDDLE].add_(0.5)
        sending(lambda t: None)
        verdicts = await check_parts(plan, parts, tmp_path)
        assert of(verdicts, "weights").status is Status.FAILED
        assert MIDDLE in of(verdicts, "weights").line
        assert "envkit" not in str(failed(verdicts))

        # Engine and trainer compute different policies.
        monkeypatch.undo()
        score = trainer.logprobs

        async def colder(sequences: Any, *, temperature: float, deadline: Any) -> Any:
            return await score(sequences, temperature=temperature * 3, deadline=deadline)

        monkeypatch.setattr(trainer, "logprobs", colder)
        told = of(await check_parts(plan, parts, tmp_path), "gap")
        assert told.status is Status.FAILED
        assert "they compute different policies" in told.line
        monkeypatch.undo()

        # Labels that lie.
        post = engines._post

        async def mislabelled(url: str, route: str, body: Any, deadline: Any) -> Any:
            return await post(url, route, {"weight_version": "v7"} if "finish" in route else body, deadline)

        monkeypatch.setattr(engines, "_post", mislabelled)
        told = of(await check_parts(plan, parts, tmp_path), "gap")
        assert told.status is Status.FAILED
        assert "sample under version 7 right after version 0" in told.line
        monkeypatch.undo()

        # The tokenizer of another model.
        config = Path(plan.model_folder or "") / "config.json"
        before = config.read_text()
        config.write_text(json.dumps({**json.loads(before), "vocab_size": 100}))
        try:
            verdicts = await check_parts(plan, parts, tmp_path)
        finally:
            config.write_text(before)
        assert of(verdicts, "tokens").status is Status.FAILED
        assert "the model knows 100" in of(verdicts, "tokens").line
    finally:
        await engines.close()
        await trainer.close()


async def test_scores_are_those_of_the_model(plan_file: Path, tmp_path: Path) -> None:
    from envkit.backends.run.plan import read_plan
    from envkit.backends.torch import scorer_of
    from envkit.backends.torch.trainer import TorchTrainer
    from envkit.deadline import Deadline

    plan: Any = read_plan(plan_file)
    trainer = TorchTrainer(plan.trainer, plan.algorithm)
    rows = [np.arange(3, 3 + n, dtype=np.int32) for n in (5, 40, 2, 90)]
    found = await trainer.logprobs(rows, temperature=0.7, deadline=Deadline.never(), tokens=50)
    score = scorer_of(plan.model_folder)(0.7)
    for row, scored in zip(rows, found, strict=True):
        np.testing.assert_allclose(scored, score(row), atol=1e-5)
    await trainer.close()


def test_the_command_checks_and_nothing_else(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", str(plan_file), "--check", "--json", "--set", "guards.check_samples=6"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    assert [g["guard"] for g in told["guards"]] == ["tokens", "weights", "disk", "gap", "determinism"]
    assert not list(tmp_path.iterdir()), "no run folder"
    assert main(["train", str(plan_file), "--check", "--set", "guards.gap=1e-12"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert any(line.startswith("failed   gap: ") for line in out), out
    assert len(out) == 5, "one line each"
