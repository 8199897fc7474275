"""The `[algorithm]` table: the recipe by default, strict, and errors that help."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel, ValidationError

from envkit.backends.algorithms import AlgorithmConfig
from envkit.backends.algorithms import config as config_module
from envkit.backends.algorithms.config import Dppo, Gae, Grpo, Interval, OnTruncation, Ppo
from envkit.failure import UserError
from envkit.messages import StopReason
from envkit.task.strict import parse_toml, read_model

MODELS = [name for name in config_module.__all__ if isinstance(getattr(config_module, name), type)]


def read(text: str) -> AlgorithmConfig:
    data, lines = parse_toml(text.encode(), "run.toml")
    return read_model(AlgorithmConfig, data, lines, "run.toml")


def test_the_default_is_the_published_recipe() -> None:
    config = read("")
    assert config.advantage == Grpo(std=False)
    assert config.loss == Dppo(divergence="binary_tv", delta_low=0.15, delta_high=0.15, ratio_cap=None)
    assert config.reduction == "prompt_mean"
    assert config.kl is None
    assert config.entropy_bonus == 0
    assert config.zero_variance == "drop"
    assert not config.corrections.any
    assert (config.on_truncation.context, config.on_truncation.turn_length) == ("zero", "zero")
    assert (config.needs_reference, config.needs_entropy, config.needs_values) == (False, False, False)


def test_a_table_without_a_name_adjusts_the_default() -> None:
    assert read("[loss]\ndelta_high = 0.2").loss == Dppo(delta_high=0.2)
    assert read("[advantage]\nstd = true").advantage == Grpo(std=True)
    assert read("[loss]\nname = 'ppo'\nanchor = 'old'").loss == Ppo(anchor="old")
    assert read("[advantage]\nname = 'gae'\nlam = 0.95").advantage == Gae(lam=0.95)
    assert read("[corrections.token_mask]\nlow = 0.5\nhigh = 2").corrections.token_mask == Interval(low=0.5, high=2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[loss]\nname = 'dpo'", "run.toml:2: loss.name: .*found 'dpo' .*did you mean 'dppo'"),
        ("[loss]\nname = 3", "found 3"),
        ("loss = 3", "loss: expected a table"),
        (
            "[loss]\nname = 'ppo'\ndelta_low = 0.1",
            "run.toml:3: .*the loss 'ppo' has no parameter 'delta_low'.*clip_low",
        ),
        ("[loss]\nname = 'ppo'\nclip_lo = 0.1", "did you mean 'clip_low'"),
        ("[advantage]\nname = 'grp'", "did you mean 'grpo'"),
        ("reductoin = 'x'", "unknown key 'reductoin' .*did you mean 'reduction'"),
        ("reduction = 'mean'", "expected 'prompt_mean'"),
        ("reduction = 'length_normalised'", "max_tokens"),
        ("max_tokens = 5", "max_tokens"),
        ("[loss]\ndelta_low = -1", "loss.delta_low"),
        ("[loss]\ndelta_low = nan", "loss.delta_low"),
        ("[corrections]\ntis_token = 2\ntis_sequence = 5", "found both"),
        ("[corrections]\ngeometric_mask = {low = 1, high = 2}\nproduct_mask = {low = 1, high = 2}", "found both"),
        ("[corrections]\ntoken_mask = {low = 2, high = 1}", "low <= high"),
        ("[on_truncation]\ncontext = 'maks'", "expected 'score', 'zero' or 'mask'"),
        ("[on_truncation]\nanswered = 'mask'", "unknown key 'answered'"),
        ("[length_penalty]\nname = 'soft_overlong'\nlimit_tokens = 1\nbuffer_tokens = 2", "buffer_tokens <= limit"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read(text)


def test_every_stop_reason_has_a_treatment() -> None:
    truncated = {reason.value for reason in StopReason if reason.truncated}
    assert set(OnTruncation.model_fields) == truncated
    treatment = OnTruncation(**dict.fromkeys(truncated, "mask"))
    assert treatment.of(StopReason.ANSWERED) == "score"
    assert treatment.of(None) == "score"
    assert {treatment.of(reason) for reason in StopReason if reason.truncated} == {"mask"}


@pytest.mark.parametrize("model", [AlgorithmConfig, *(getattr(config_module, name) for name in MODELS)])
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    assert not [name for name, field in model.model_fields.items() if not field.description and name != "name"]


def test_a_configuration_stays_as_it_is() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        AlgorithmConfig().reduction = "token_mean"  # type: ignore[misc]


def test_neither_configuration_nor_data_load_torch() -> None:
    code = (
        "import sys; from envkit.backends.algorithms import AlgorithmConfig; import envkit.backends.data; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
