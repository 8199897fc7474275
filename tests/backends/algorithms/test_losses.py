"""Losses, corrections and KL at known points: values and gradients to 1e-5, and gradcheck in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from envkit.backends.algorithms import AlgorithmConfig, token_losses
from envkit.backends.algorithms.config import (
    Cispo,
    Corrections,
    Dppo,
    Glm5,
    Gspo,
    ImportanceSampling,
    Interval,
    KlPenalty,
    Loss,
    Ppo,
    Sapo,
    Supervised,
)
from envkit.backends.algorithms.corrections import correction
from envkit.backends.algorithms.covariance import clip_cov, kl_cov
from envkit.backends.algorithms.kl import kl, value_loss
from envkit.backends.algorithms.tokens import Tokens

pytestmark = pytest.mark.tokens

F64 = torch.float64
L = torch.tensor([-0.50, -1.20, -0.10, -2.00, -0.70, -0.30, -1.50, -0.90], dtype=F64)
OLD = torch.tensor([-0.60, -1.00, -0.10, -2.50, -0.40, -0.35, -1.00, -0.90], dtype=F64)
MU = torch.tensor([-0.90, -0.80, -0.12, -2.30, -0.20, -0.60, -1.60, -0.90], dtype=F64)
A = torch.tensor([1.0] * 4 + [-0.5] * 4, dtype=F64)
MASK = torch.tensor([1, 1, 1, 1, 1, 1, 1, 0], dtype=torch.bool)
ROWS = torch.tensor([0] * 4 + [1] * 4)

CISPO_MU = [-1.49182, -0.67032, -1.0202, -1.34986, 0.30327, 0.67493, 0.55259, 0]
TV_15 = [0, -0.67032, -1.0202, -1.34986, 0, 0.67493, 0.55259, 0]

#: loss, sign of A, value, gradient (None where only the value is known), tokens stopped (None where not known)
CASES: list[tuple[str, Loss, int, float, list[float] | None, int | None]] = [
    ("ppo", Ppo(anchor="old"), 1, -2.798266, [-1.10517, -0.81873, -1, 0, 0, 0.52564, 0, 0], None),
    ("gspo", Gspo(anchor="old"), 1, -3.220684, [-1.10517] * 4 + [0] * 4, None),
    (
        "cispo-old",
        Cispo(anchor="old"),
        1,
        4.060630,
        [-1.10517, -0.81873, -1, -1.64872, 0.37041, 0.52564, 0.30327, 0],
        0,
    ),
    ("cispo-rollout", Cispo(), 1, 3.108392, CISPO_MU, 0),
    ("glm5-narrow", Glm5(low=0.2, high=0.2), 1, -0.726858, [0, 0, -1.0202, 0, 0, 0, 0.55259, 0], 5),
    ("glm5", Glm5(), 1, 3.108392, CISPO_MU, 0),
    (
        "dppo-tv-.2",
        Dppo(delta_low=0.2, delta_high=0.2),
        1,
        -3.304690,
        [-1.49182, -0.67032, -1.0202, -1.34986, 0, 0.67493, 0.55259, 0],
        1,
    ),
    ("dppo-tv-.15", Dppo(), 1, -1.812865, TV_15, 2),
    ("dppo-kl-.05", Dppo(divergence="binary_kl", delta_low=0.05, delta_high=0.05), 1, -1.812865, TV_15, 2),
    (
        "dppo-tv-.2-negated",
        Dppo(delta_low=0.2, delta_high=0.2),
        -1,
        3.001424,
        [1.49182, 0.67032, 1.0202, 1.34986, -0.30327, -0.67493, -0.55259, 0],
        0,
    ),
    ("sapo", Sapo(anchor="old"), 1, -5.991197, None, 0),
    ("sapo-negated", Sapo(anchor="old"), -1, 5.465614, None, 0),
    ("importance-sampling", ImportanceSampling(anchor="old"), 1, -3.373313, None, 0),
]

#: corrections of PPO on this point: value
CORRECTED = [
    ("tis-token", Corrections(tis_token=2), -2.433553),
    ("tis-sequence", Corrections(tis_sequence=5), -1.267532),
    ("geometric", Corrections(geometric_mask=Interval(low=0.99, high=1.01)), 0.0),
    ("product", Corrections(product_mask=Interval(low=0.5, high=2)), -2.798266),
]

LOSSES = [case[1] for case in CASES] + [Dppo(ratio_cap=1.2), Ppo(dual_clip=3.0), Supervised()]


def run(config: AlgorithmConfig, sign: int = 1) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    logprobs = L.clone().requires_grad_()
    losses, metrics = token_losses(
        config,
        logprobs=logprobs,
        old_logprobs=OLD,
        rollout_logprobs=MU,
        advantages=sign * A,
        mask=MASK,
        row_ids=ROWS,
    )
    losses.sum().backward()
    assert logprobs.grad is not None
    return losses, logprobs.grad, metrics


def tokens(**changes: Any) -> Tokens:
    given = {"logprobs": L, "old_logprobs": OLD, "rollout_logprobs": MU, "advantages": A, "mask": MASK, "row_ids": ROWS}
    return Tokens.of(**{**given, **changes})


@pytest.mark.parametrize(
    ("loss", "sign", "value", "gradient", "stopped"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_loss_has_the_known_value_and_gradient(
    loss: Loss, sign: int, value: float, gradient: list[float] | None, stopped: int | None
) -> None:
    losses, found, metrics = run(AlgorithmConfig(loss=loss), sign)
    assert losses.sum().item() == pytest.approx(value, abs=1e-5)
    if gradient is not None:
        assert found.tolist() == pytest.approx(gradient, abs=1e-5)
    if stopped is not None:
        assert metrics["masked_tokens"].item() == stopped


@pytest.mark.parametrize(("corrections", "value"), [c[1:] for c in CORRECTED], ids=[c[0] for c in CORRECTED])
def test_a_correction_gives_the_known_value(corrections: Corrections, value: float) -> None:
    losses, _, _ = run(AlgorithmConfig(loss=Ppo(anchor="old"), corrections=corrections))
    assert losses.sum().item() == pytest.approx(value, abs=1e-5)


def test_row_ratios_are_the_known_ones() -> None:
    factors, _ = correction(Corrections(tis_sequence=100), tokens())
    assert factors.tolist() == pytest.approx([0.923116] * 4 + [1.915541] * 3, abs=1e-5)
    for low, high, kept in [(0.98019, 0.98020, 4), (1.24192, 1.24194, 3), (0.98021, 1.24192, 0)]:
        _, masked = correction(Corrections(geometric_mask=Interval(low=low, high=high)), tokens())
        assert int((~masked).sum()) == kept


def test_row_statistics_come_after_the_token_masks() -> None:
    # rho of row 0: 1.35, .82, 1.02, .82; of row 1: .82, 1.28, 1.82. The mask leaves .82, 1.02, .82 and .82, 1.28.
    both = Corrections(token_mask=Interval(low=0.5, high=1.3), tis_sequence=100)
    factors, masked = correction(both, tokens())
    assert masked.tolist() == [True, False, False, False, False, False, True]
    first, second = math.exp(-0.2 + 0.02 - 0.2), math.exp(-0.2 + 0.25)
    assert factors.tolist() == pytest.approx([0, first, first, first, second, second, 0], abs=1e-9)


def test_one_outlier_takes_its_row_out() -> None:
    factors, _ = correction(Corrections(outlier_mask=Interval(low=0.1, high=1.5)), tokens())
    assert factors.tolist() == [1, 1, 1, 1, 0, 0, 0]


def test_kl_cov_has_the_known_value() -> None:
    losses, chosen = kl_cov(tokens())
    assert losses.sum().item() == pytest.approx(-2.873313, abs=1e-5)
    assert int(chosen.sum()) == 1


def test_clip_cov_drops_one_of_the_candidates_and_only_those() -> None:
    generator = torch.Generator().manual_seed(0)
    plain, _ = run(AlgorithmConfig(loss=Ppo(anchor="old")))[:2]
    for _ in range(20):
        losses, chosen = clip_cov(tokens(), low=0.0, high=5.0, generator=generator)
        (at,) = chosen.nonzero()[:, 0].tolist()
        assert losses[at] == 0
        assert torch.equal(losses[~chosen], plain[MASK][~chosen])
        assert at in (0, 2)  # positive covariance, and not stopped by the clip as token 6 is
    _, none = clip_cov(tokens(), low=100.0, high=500.0)
    assert not none.any()


def test_dual_clip_bounds_the_loss_of_a_bad_token() -> None:
    for loss, value in [(Ppo(anchor="old"), 5.0), (Ppo(anchor="old", dual_clip=3.0), 3.0)]:
        losses, _ = token_losses(
            AlgorithmConfig(loss=loss),
            logprobs=torch.tensor([math.log(0.5)], dtype=F64),
            old_logprobs=torch.tensor([math.log(0.1)], dtype=F64),
            rollout_logprobs=torch.tensor([math.log(0.1)], dtype=F64),
            advantages=torch.tensor([-1.0], dtype=F64),
            mask=torch.tensor([True]),
            row_ids=torch.tensor([0]),
        )
        assert losses.item() == pytest.approx(value, abs=1e-9)


def test_a_ratio_cap_bounds_value_and_gradient() -> None:
    losses, gradient, _ = run(AlgorithmConfig(loss=Dppo(delta_low=1, delta_high=1, ratio_cap=1.2)))
    free = (L - MU).exp()
    expected = torch.where(MASK, -free.clamp(max=1.2) * A, 0.0)
    assert losses.tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    assert gradient.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_kl_estimates_are_the_known_ones() -> None:
    logprobs, ref = torch.tensor([-0.5, -1.2], dtype=F64), torch.tensor([-0.7, -1.0], dtype=F64)
    known = {"k1": [0.2, -0.2], "abs": [0.2, 0.2], "k2": [0.02, 0.02], "k3": [0.018731, 0.021403]}
    for estimator, values in known.items():
        assert kl(estimator, logprobs, ref).tolist() == pytest.approx(values, abs=1e-5)  # type: ignore[arg-type]
    far = kl("k3", torch.tensor([-500.0, 0.0]), torch.tensor([0.0, -500.0]))
    assert far.tolist() == [10.0, 10.0]


def test_the_critics_loss_is_the_known_one() -> None:
    values, old, returns = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 2.1]), torch.tensor([1.5, 1.0])
    assert value_loss(values, old, returns).mean().item() == pytest.approx(0.41, abs=1e-5)
    assert value_loss(values, old, returns, clip=None).mean().item() == pytest.approx((0.125 + 0.5) / 2, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: repr(loss))
def test_gradients_pass_gradcheck(loss: Loss) -> None:
    """Losses with a stopped gradient are differentiated as the function of l that they stand for, at fixed factors."""
    generator = torch.Generator().manual_seed(1)
    logprobs = (L + 0.03 * torch.randn(len(L), generator=generator, dtype=F64)).requires_grad_()
    ref = OLD.flip(0)
    entropies = torch.rand(len(L), generator=generator, dtype=F64).requires_grad_()
    config = AlgorithmConfig(loss=loss, kl=KlPenalty(estimator="k3", coefficient=0.1), entropy_bonus=0.01)

    def losses(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return token_losses(
            config,
            logprobs=x,
            old_logprobs=OLD,
            rollout_logprobs=MU,
            ref_logprobs=ref,
            entropies=h,
            advantages=A,
            mask=MASK,
            row_ids=ROWS,
        )[0]

    if isinstance(loss, Cispo | Glm5 | Gspo) or (isinstance(loss, Dppo) and loss.ratio_cap):
        at = logprobs.detach()
        _, gradient = torch.autograd.functional.vjp(lambda x: losses(x, entropies.detach()).sum(), at)
        assert gradient.tolist() == pytest.approx(surrogate_gradient(loss, at, ref).tolist(), abs=1e-9)
    else:
        assert torch.autograd.gradcheck(losses, (logprobs, entropies))


def surrogate_gradient(loss: Loss, at: torch.Tensor, ref: torch.Tensor) -> torch.Tensor:
    """Central differences of the loss with its stopped factors held at `at`, written out by hand per loss."""

    def factor() -> torch.Tensor:
        if isinstance(loss, Cispo):
            r = (at - (OLD if loss.anchor == "old" else MU)).exp()
            return r.clamp(1 - loss.clip_low, 1 + loss.clip_high)
        r = (at - MU).exp()
        if isinstance(loss, Glm5):
            return torch.where((r > 1 - loss.low) & (r < 1 + loss.high), r, 0.0)
        if isinstance(loss, Dppo):
            assert loss.ratio_cap is not None
            moved = at.exp() - MU.exp()
            stopped = ((A > 0) & (moved > loss.delta_high)) | ((A < 0) & (-moved > loss.delta_low))
            return torch.where(stopped, 0.0, r.clamp(max=loss.ratio_cap))
        assert isinstance(loss, Gspo)
        s = torch.cat([(at - OLD)[:4].mean().exp().repeat(4), (at - OLD)[4:7].mean().exp().repeat(4)])
        stopped = ((A > 0) & (s > 1 + loss.clip_high)) | ((A < 0) & (s < 1 - loss.clip_low))
        return torch.where(stopped, 0.0, s)

    held = factor()

    def value(x: torch.Tensor) -> torch.Tensor:
        d = x - ref
        return torch.where(MASK, -A * held * x + 0.1 * (torch.exp(-d) + d - 1), 0.0).sum()

    step = 1e-6
    slopes = []
    for i in range(len(at)):
        e = torch.zeros_like(at)
        e[i] = step
        slopes.append((value(at + e) - value(at - e)) / (2 * step))
    return torch.stack(slopes)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: repr(loss))
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_nothing_outside_the_mask_is_felt(loss: Loss, garbage: float) -> None:
    def outside(values: torch.Tensor) -> torch.Tensor:
        return torch.where(MASK, values, garbage)

    config = AlgorithmConfig(
        loss=loss,
        kl=KlPenalty(),
        entropy_bonus=0.01,
        corrections=Corrections(tis_sequence=5, geometric_mask=Interval(low=0.5, high=1.3)),
    )
    found = []
    for change in (lambda v: v, outside):
        logprobs = change(L).clone().requires_grad_()
        losses, metrics = token_losses(
            config,
            logprobs=logprobs,
            old_logprobs=change(OLD),
            rollout_logprobs=change(MU),
            ref_logprobs=change(OLD),
            entropies=change(-L),
            advantages=change(A),
            mask=MASK,
            row_ids=ROWS,
        )
        losses.sum().backward()
        assert logprobs.grad is not None
        assert logprobs.grad[~MASK].tolist() == [0.0]
        found.append((losses.tolist(), logprobs.grad.tolist(), {k: v.item() for k, v in metrics.items()}))
    assert found[0] == found[1]


def test_a_far_ratio_stays_finite() -> None:
    for loss in LOSSES:
        logprobs = torch.tensor([-1e-9, -400.0], requires_grad=True)
        losses, _ = token_losses(
            AlgorithmConfig(loss=loss),
            logprobs=logprobs,
            old_logprobs=torch.tensor([-400.0, -1e-9]),
            rollout_logprobs=torch.tensor([-400.0, -1e-9]),
            advantages=torch.tensor([1.0, -1.0]),
            mask=torch.tensor([True, True]),
            row_ids=torch.tensor([0, 1]),
        )
        losses.sum().backward()
        assert losses.isfinite().all(), loss
        assert logprobs.grad is not None
        assert logprobs.grad.isfinite().all(), loss
