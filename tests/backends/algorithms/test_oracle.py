"""Against SkyRL 0.4.0 as a second opinion: 200 random cases each of losses, corrections, advantages, reductions, KL.

Where ours is different on purpose, a test of its own shows both: what SkyRL gives, and what we give instead.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import typing_extensions

from envkit.backends.algorithms import AlgorithmConfig, token_losses
from envkit.backends.algorithms import advantages as ours
from envkit.backends.algorithms.config import (
    Cispo,
    Corrections,
    Dppo,
    Glm5,
    Gspo,
    ImportanceSampling,
    Interval,
    Loss,
    Ppo,
    ReductionName,
    Sapo,
    Supervised,
)
from envkit.backends.algorithms.covariance import clip_cov, kl_cov
from envkit.backends.algorithms.kl import kl, value_loss
from envkit.backends.algorithms.reductions import micro_batch_token_mean, row_weights
from envkit.backends.algorithms.tokens import Tokens

if sys.version_info < (3, 12):  # SkyRL wants 3.12, where pydantic takes the standard library's
    typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]

from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config.config import AlgorithmConfig as TheirConfig

pytestmark = pytest.mark.oracle

CASES = range(200)
F64 = torch.float64


@dataclass(frozen=True)
class Case:
    """[N, T] tensors; every row has a trained token."""

    logprobs: torch.Tensor
    old: torch.Tensor
    rollout: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor

    @classmethod
    def draw(cls, seed: int) -> Case:
        generator = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> torch.Tensor:
            return torch.rand(*shape, generator=generator, dtype=F64)

        n, t = int(2 + 4 * random(1)), int(3 + 7 * random(1))
        spread = 0.1 + 1.5 * random(1)
        rollout = -0.02 - 4 * random(n, t) ** 2
        old = (rollout + spread * (random(n, t) - 0.5)).clamp(max=-1e-3)
        logprobs = (old + spread * (random(n, t) - 0.5)).clamp(max=-1e-3)
        mask = random(n, t) < 0.7
        mask[torch.arange(n), (t * random(n)).long()] = True
        advantages = (2 * random(n, 1) - 1).expand(n, t).clone()
        return cls(logprobs, old, rollout, advantages, mask)

    @property
    def rows(self) -> torch.Tensor:
        return torch.arange(len(self.mask)).repeat_interleave(self.mask.shape[1])


def theirs(name: str, case: Case, config: Any) -> tuple[float, torch.Tensor]:
    logprobs = case.logprobs.clone().requires_grad_()
    loss, _ = ppo_utils.PolicyLossRegistry.get(name)(
        logprobs,
        case.old,
        case.advantages,
        config=config,
        loss_mask=case.mask.to(F64),
        rollout_logprobs=case.rollout,
    )
    loss.backward()
    assert logprobs.grad is not None
    return loss.item(), logprobs.grad


def mine(config: AlgorithmConfig, case: Case) -> tuple[float, torch.Tensor]:
    logprobs = case.logprobs.clone().requires_grad_()
    losses, _ = token_losses(
        config,
        logprobs=logprobs.flatten(),
        old_logprobs=case.old.flatten(),
        rollout_logprobs=case.rollout.flatten(),
        advantages=case.advantages.flatten(),
        mask=case.mask.flatten(),
        row_ids=case.rows,
    )
    losses.sum().backward()
    assert logprobs.grad is not None
    return losses.sum().item(), logprobs.grad


def same(found: tuple[float, torch.Tensor], expected: tuple[float, torch.Tensor]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5, abs=1e-5)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=1e-5)


def regular(c: Any, x: float) -> Loss:
    c.eps_clip_low, c.eps_clip_high = 0.1 + 0.2 * x, 0.3 - 0.1 * x
    return Ppo(anchor="old", clip_low=c.eps_clip_low, clip_high=c.eps_clip_high)


def dual_clip(c: Any, x: float) -> Loss:
    c.policy_loss_type, c.clip_ratio_c = "dual_clip", 1.1 + x
    return Ppo(anchor="old", dual_clip=c.clip_ratio_c)


def cispo(c: Any, x: float) -> Loss:
    c.cispo.cispo_eps_clip_low, c.cispo.cispo_eps_clip_high = 0.5 * x, 0.2 + x
    c.cispo.cispo_anchor = "old" if x < 0.5 else "rollout"
    return Cispo(anchor=c.cispo.cispo_anchor, clip_low=0.5 * x, clip_high=0.2 + x)


def rollout_is(c: Any, x: float) -> Loss:
    c.eps_clip_low, c.eps_clip_high = 0.1 + 0.4 * x, 0.2 + 4 * x
    return Glm5(low=c.eps_clip_low, high=c.eps_clip_high)


def dppo_tv(c: Any, x: float) -> Loss:
    c.dppo.delta_low, c.dppo.delta_high = 0.2 * x, 0.2 - 0.15 * x
    return Dppo(delta_low=c.dppo.delta_low, delta_high=c.dppo.delta_high)


def dppo_kl(c: Any, x: float) -> Loss:
    c.dppo.dppo_type, c.dppo.delta_low, c.dppo.delta_high = "binary_kl", 0.05 * x, 0.05
    return Dppo(divergence="binary_kl", delta_low=0.05 * x, delta_high=0.05)


def sapo(c: Any, x: float) -> Loss:
    c.sapo.tau_pos, c.sapo.tau_neg = 0.5 + x, 1.5 - x
    return Sapo(anchor="old", tau_positive=0.5 + x, tau_negative=1.5 - x)


LOSSES: list[tuple[str, str, Callable[[Any, float], Loss]]] = [
    ("regular", "regular", regular),
    ("dual_clip", "dual_clip", dual_clip),
    ("gspo", "gspo", lambda c, x: Gspo(anchor="old")),
    ("cispo", "cispo", cispo),
    ("rollout_is", "rollout_is", rollout_is),
    ("dppo-tv", "dppo", dppo_tv),
    ("dppo-kl", "dppo", dppo_kl),
    ("sapo", "sapo", sapo),
    ("importance_sampling", "importance_sampling", lambda c, x: ImportanceSampling(anchor="old")),
]


@pytest.mark.parametrize(("name", "parameters"), [x[1:] for x in LOSSES], ids=[x[0] for x in LOSSES])
def test_losses_and_gradients_match(name: str, parameters: Callable[[Any, float], Loss]) -> None:
    for seed in CASES:
        case, config = Case.draw(seed), TheirConfig()
        loss = parameters(config, seed / len(CASES))
        same(mine(AlgorithmConfig(loss=loss), case), theirs(name, case, config))


def test_cross_entropy_matches() -> None:
    for seed in CASES:
        case = Case.draw(seed)
        case.advantages[:] = 1.0
        same(mine(AlgorithmConfig(loss=Supervised()), case), theirs("cross_entropy", case, TheirConfig()))


def test_covariance_losses_match() -> None:
    for seed in CASES:
        case, config = Case.draw(seed), TheirConfig()
        config.kl_cov.kl_cov_frac = 0.1 + 0.3 * seed / len(CASES)
        config.clip_cov.clip_ratio, config.clip_cov.clip_cov_lb = 1.0, 0.05  # all candidates, so that nothing is random
        for name, compute in (
            ("kl_cov", lambda t, share=config.kl_cov.kl_cov_frac: kl_cov(t, share=share)),
            ("clip_cov", lambda t: clip_cov(t, share=1.0, low=0.05)),
        ):
            logprobs = case.logprobs.clone().requires_grad_()
            losses, _ = compute(
                Tokens.of(
                    logprobs=logprobs.flatten(),
                    old_logprobs=case.old.flatten(),
                    rollout_logprobs=case.rollout.flatten(),
                    advantages=case.advantages.flatten(),
                    mask=case.mask.flatten(),
                    row_ids=case.rows,
                )
            )
            losses.sum().backward()
            assert logprobs.grad is not None
            same((losses.sum().item(), logprobs.grad), theirs(name, case, config))


CORRECTIONS: dict[str, tuple[dict[str, Any], Corrections]] = {
    "tis-token": ({"tis_ratio_type": "token", "token_tis_ratio_clip_high": 1.2}, Corrections(tis_token=1.2)),
    "tis-sequence": (
        {"tis_ratio_type": "sequence", "sequence_tis_ratio_clip_high": 1.5},
        Corrections(tis_sequence=1.5),
    ),
    "geometric": (
        {"sequence_mask_metric": "geometric", "geo_mask_low": 0.9, "geo_mask_high": 1.1},
        Corrections(geometric_mask=Interval(low=0.9, high=1.1)),
    ),
    "product": (
        {"sequence_mask_metric": "product", "product_mask_low": 0.6, "product_mask_high": 1.6},
        Corrections(product_mask=Interval(low=0.6, high=1.6)),
    ),
    "outlier": (
        {"outlier_token_is_threshold_low": 0.6, "outlier_token_is_threshold_high": 1.5},
        Corrections(outlier_mask=Interval(low=0.6, high=1.5)),
    ),
    "icepop": (
        {"token_mask_is_threshold_low": 0.7, "token_mask_is_threshold_high": 1.3},
        Corrections(token_mask=Interval(low=0.7, high=1.3)),
    ),
    "all": (
        {
            "tis_ratio_type": "sequence",
            "sequence_tis_ratio_clip_high": 1.5,
            "sequence_mask_metric": "geometric",
            "geo_mask_low": 0.9,
            "geo_mask_high": 1.1,
            "outlier_token_is_threshold_low": 0.5,
            "outlier_token_is_threshold_high": 1.9,
            "token_mask_is_threshold_low": 0.7,
            "token_mask_is_threshold_high": 1.3,
        },
        Corrections(
            tis_sequence=1.5,
            geometric_mask=Interval(low=0.9, high=1.1),
            outlier_mask=Interval(low=0.5, high=1.9),
            token_mask=Interval(low=0.7, high=1.3),
        ),
    ),
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_match(name: str) -> None:
    settings, corrections = CORRECTIONS[name]
    for seed in CASES:
        case, config = Case.draw(seed), TheirConfig()
        for key, value in settings.items():
            setattr(config.off_policy_correction, key, value)
        found = mine(AlgorithmConfig(loss=Ppo(anchor="old"), corrections=corrections), case)
        same(found, theirs("regular", case, config))


def rewarded(seed: int, *, prefix: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """Token rewards [N, T] with the score at the last trained token, masks [N, T], groups [N]."""
    rng = np.random.default_rng(seed)
    n, t = int(rng.integers(2, 9)), int(rng.integers(3, 9))
    mask = np.arange(t) < rng.integers(1, t + 1, (n, 1)) if prefix else rng.random((n, t)) < 0.6
    mask[:, 0] = True
    mask[0, :2] = True
    rewards = np.zeros((n, t))
    rewards[np.arange(n), t - 1 - mask[:, ::-1].argmax(1)] = rng.choice([0.0, 0.25, 0.5, 1.0], n)
    return rewards, mask, np.sort(rng.integers(0, 3, n)), rng


def their_advantages(name: str, rewards: np.ndarray, mask: np.ndarray, **extra: Any) -> np.ndarray:
    compute = ppo_utils.AdvantageEstimatorRegistry.get(name)
    advantages, _ = compute(
        token_level_rewards=torch.tensor(rewards), response_mask=torch.tensor(mask, dtype=F64), **extra
    )
    return advantages.numpy()


def test_group_advantages_match() -> None:
    for seed in CASES:
        rewards, mask, groups, _ = rewarded(seed)
        scores, valid = rewards.sum(1), np.ones(len(rewards), np.bool_)
        for name, extra, found in [
            ("grpo", {"grpo_norm_by_std": True}, ours.grpo(scores, groups, valid, std=True)),
            ("grpo", {"grpo_norm_by_std": False}, ours.grpo(scores, groups, valid)),
            ("rloo", {}, ours.rloo(scores, groups, valid)),
            ("maxrl", {}, ours.maxrl(scores, groups, valid)),
        ]:
            expected = their_advantages(name, rewards, mask, index=groups, **extra)
            assert found[:, None] * mask == pytest.approx(expected, rel=1e-5, abs=1e-5), (name, seed)


def test_token_advantages_match() -> None:
    for seed in CASES:
        rewards, mask, groups, rng = rewarded(seed, prefix=True)
        gamma, lam = float(rng.uniform(0.5, 1)), float(rng.uniform(0.5, 1))
        values = rng.random(mask.shape) * mask
        found, _ = ours.reinforce_plus_plus(list(rewards), list(mask), gamma=gamma)
        expected = their_advantages("reinforce++", rewards, mask, index=groups, gamma=gamma)
        assert np.array(found) == pytest.approx(expected, rel=1e-5, abs=1e-5)
        found, _ = ours.gae(list(rewards), list(values), list(mask), gamma=gamma, lam=lam)
        expected = their_advantages("gae", rewards, mask, values=torch.tensor(values), gamma=gamma, lambd=lam)
        assert np.array(found) == pytest.approx(expected * mask, rel=1e-5, abs=1e-5)


def their_reduction(name: str, mask: np.ndarray, prompts: np.ndarray, micro: int = 1) -> np.ndarray:
    starts = np.flatnonzero(np.diff(prompts, prepend=-1))
    boundaries = list(zip(starts.tolist(), [*starts[1:].tolist(), len(prompts)], strict=True))
    scaled = ppo_utils.apply_loss_reduction_to_advantages_minibatch(
        torch.ones(mask.shape, dtype=F64), torch.tensor(mask, dtype=F64), name, micro, 17, boundaries
    )
    return (scaled.numpy() * mask).sum(1)


REDUCTIONS: list[tuple[ReductionName, str]] = [
    ("token_mean", "token_mean"),
    ("sequence_mean", "sequence_mean"),
    ("length_normalised", "seq_mean_token_sum_norm"),
    ("prompt_mean", "prompt_mean"),
]


def test_reductions_match() -> None:
    for seed in CASES:
        _, mask, prompts, _ = rewarded(seed)
        tokens = mask.sum(1)
        for reduction, name in REDUCTIONS:
            weights = row_weights(reduction, tokens, np.arange(len(tokens)), prompts, max_tokens=17)
            assert weights * tokens == pytest.approx(their_reduction(name, mask, prompts), rel=1e-5)
        even = len(tokens) // 2 * 2
        cut = [[i, i + 1] for i in range(0, even, 2)]
        legacy = micro_batch_token_mean(tokens[:even], cut) * tokens[:even]
        expected = their_reduction("token_mean_legacy", mask[:even], prompts[:even], micro=2)
        assert legacy == pytest.approx(expected, rel=1e-5)


def test_kl_and_the_critics_loss_match() -> None:
    for seed in CASES:
        case = Case.draw(seed)
        for estimator in ("k1", "abs", "k2", "k3"):
            theirs_kl = ppo_utils.compute_approx_kl(case.logprobs, case.rollout, case.mask.to(F64), estimator)
            torch.testing.assert_close(torch.where(case.mask, kl(estimator, case.logprobs, case.rollout), 0), theirs_kl)
        config = TheirConfig()
        expected, _ = ppo_utils.ppo_critic_loss(case.logprobs, case.old, case.rollout, config, case.mask.to(F64))
        per_token = torch.where(case.mask, value_loss(case.logprobs, case.old, case.rollout), 0)
        torch.testing.assert_close((per_token.sum(1) / case.mask.sum(1)).mean(), expected, rtol=1e-5, atol=1e-6)


# ---- different on purpose -----------------------------------------------------------------------------------------


def test_different_a_failed_rollout_votes_in_no_baseline() -> None:
    rewards = np.diag([0.5, 0.7, 0.6, 0.0])
    mask = np.ones((4, 4)) * [[1], [1], [1], [0]]
    groups = np.zeros(4, np.int64)
    expected = their_advantages("grpo", rewards, mask, index=groups, grpo_norm_by_std=False)[:3, 0]
    assert expected.tolist() == pytest.approx([0.05, 0.25, 0.15])  # everybody is better than average
    found = ours.grpo(rewards.sum(1), groups, mask[:, 0] > 0)
    assert found.tolist() == pytest.approx([-0.1, 0.1, 0.0, 0.0])


def test_different_a_prompt_without_a_trained_row_is_in_no_mean() -> None:
    mask = np.array([[1, 1], [1, 0], [0, 0]], np.bool_)
    prompts = np.array([0, 0, 1])
    assert their_reduction("prompt_mean", mask, prompts).sum() == pytest.approx(0.5)  # half the learning rate
    assert their_reduction("sequence_mean", mask, prompts).sum() == pytest.approx(2 / 3)
    tokens = mask.sum(1)
    for reduction in ("prompt_mean", "sequence_mean"):
        weights = row_weights(reduction, tokens, np.arange(3), prompts)  # type: ignore[arg-type]
        assert (weights * tokens).sum() == pytest.approx(1.0)


def test_different_dppo_has_a_ratio_cap_which_is_off() -> None:
    assert Dppo().ratio_cap is None
    wide = Dppo(delta_low=1, delta_high=1, ratio_cap=1.1)
    config = TheirConfig()
    config.dppo.delta_low = config.dppo.delta_high = 1.0
    differs = 0
    for seed in CASES:
        case = Case.draw(seed)
        found, expected = mine(AlgorithmConfig(loss=wide), case)[1], theirs("dppo", case, config)[1]
        over = ((case.logprobs - case.rollout).exp() > 1.1) & case.mask
        torch.testing.assert_close(found[~over], expected[~over], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[over], -1.1 * case.advantages[over], rtol=1e-9, atol=1e-9)
        differs += int(over.sum())
    assert differs > 100


def test_different_the_outcome_reaches_the_turns_before_a_tools_answer() -> None:
    rewards, mask = np.array([[0.0, 0, 0, 1], [0, 0, 0, 0]]), np.array([[1, 1, 0, 1], [1, 1, 0, 1]], np.bool_)
    compute = ppo_utils.AdvantageEstimatorRegistry.get("reinforce++")
    _, returns = compute(
        token_level_rewards=torch.tensor(rewards), response_mask=torch.tensor(mask, dtype=F64), gamma=1.0
    )
    assert (returns.numpy() * mask)[0].tolist() == [0, 0, 0, 1]  # the first turn learns nothing
    assert ours.reinforce_plus_plus(list(rewards), list(mask))[1][0].tolist() == [1, 1, 0, 1]


def test_different_values_at_the_environments_tokens_are_nobodys() -> None:
    rewards, mask = np.array([[0.0, 0, 0, 1]]), np.array([[1, 1, 0, 1]], np.bool_)
    low, high = np.array([[0.5, 0.5, 0.0, 0.5]]), np.array([[0.5, 0.5, 9.0, 0.5]])
    extra: dict[str, Any] = {"gamma": 0.9, "lambd": 0.5}
    first, second = (their_advantages("gae", rewards, mask, values=torch.tensor(v), **extra) for v in (low, high))
    assert np.abs((first - second) * mask).max() > 0.1
    a, b = (ours.gae(list(rewards), list(v), list(mask), gamma=0.9, lam=0.5)[0][0].tolist() for v in (low, high))
    assert a == b


def test_different_maxrl_keeps_the_sign_where_the_mean_is_not_positive() -> None:
    rewards, groups = np.array([[-1.0], [-0.5]]), np.zeros(2, np.int64)
    expected = their_advantages("maxrl", rewards, np.ones((2, 1)), index=groups)
    assert expected[0, 0] > 0 > expected[1, 0]  # the worse one is rewarded
    found = ours.maxrl(rewards[:, 0], groups, np.ones(2, np.bool_))
    assert found.tolist() == pytest.approx([-0.25, 0.25])


def test_different_nan_outside_the_mask_stays_outside() -> None:
    case = Case.draw(0)
    broken = Case(
        *(torch.where(case.mask, x, float("nan")) for x in (case.logprobs, case.old, case.rollout, case.advantages)),
        case.mask,
    )
    assert np.isnan(theirs("dppo", broken, TheirConfig())[0])
    same(mine(AlgorithmConfig(), broken), mine(AlgorithmConfig(), case))
