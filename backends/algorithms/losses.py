"""Policy losses per token, before the reduction's weights. Pure functions of trained tokens [M].

l is the current logprob, l_old the trainer's before the update, mu the engine's at sampling, A the advantage, sg[.]
stops the gradient; r = exp(l - anchor), the difference held within +-20. Every function gives the losses [M] and which
tokens the trust region stopped [M] (a gradient of zero, or clipped), for metrics. Losses whose value matters only
through its gradient are written as the source writes them, so that reported values compare.
"""

from __future__ import annotations

import torch
from torch import Tensor

from envkit.backends.algorithms import loss_config as c
from envkit.backends.algorithms.tokens import Tokens, ratio, row_mean

__all__ = ["cispo", "dppo", "glm5", "gspo", "importance_sampling", "policy_loss", "ppo", "sapo", "supervised"]

#: Upper bound of GSPO's log ratio.
_MAX_SEQUENCE_LOG_RATIO = 10.0
_KL_EPSILON = 1e-8


def dppo(cfg: c.Dppo, t: Tokens) -> tuple[Tensor, Tensor]:
    """-r A M with r = exp(l - mu). DPPO, arXiv 2602.04879, eq. 13 (binary TV) and 14 (binary KL).

    TV: M = 0 where A > 0 and p - p_mu > delta_high, or A < 0 and p_mu - p > delta_low.
    KL: M = 0 where D > delta and p moved on in A's direction, D = p_mu (mu - l) + (1-p_mu) log((1-p_mu) / (1-p)).
    With `ratio_cap` C a ratio beyond it counts C, in value and gradient, as in the authors' -A sg[min(r, C)] l M.
    """
    r = ratio(t.logprobs, t.rollout)
    if cfg.ratio_cap is not None:
        r = r * (cfg.ratio_cap / r.detach()).clamp(max=1.0)
    with torch.no_grad():
        p, p_mu = t.logprobs.exp(), t.rollout.exp()
        if cfg.divergence == "binary_tv":
            up, down = p - p_mu > cfg.delta_high, p_mu - p > cfg.delta_low
        else:
            rest = torch.log((1 - p_mu + _KL_EPSILON) / (1 - p + _KL_EPSILON))
            kl = p_mu * (t.rollout - t.logprobs) + (1 - p_mu) * rest
            up, down = (kl > cfg.delta_high) & (p > p_mu), (kl > cfg.delta_low) & (p < p_mu)
        stopped = ((t.advantages > 0) & up) | ((t.advantages < 0) & down)
    return torch.where(stopped, 0.0, -r * t.advantages), stopped


def glm5(cfg: c.Glm5, t: Tokens) -> tuple[Tensor, Tensor]:
    """-sg[f] A l, f = r where 1 - low < r < 1 + high, else 0; r = exp(l - mu). GLM-5, arXiv 2602.15763, 4.1.2."""
    r = ratio(t.logprobs.detach(), t.rollout)
    stopped = ~((r > 1 - cfg.low) & (r < 1 + cfg.high))
    return torch.where(stopped, 0.0, -r * t.advantages * t.logprobs), stopped


def ppo(cfg: c.Ppo, t: Tokens) -> tuple[Tensor, Tensor]:
    """max(-r A, -clip(r, 1-low, 1+high) A). PPO, arXiv 1707.06347, eq. 7; dual clip, 1912.09729, eq. 4: where A < 0 at
    most -dual_clip A."""
    return _clipped(ratio(t.logprobs, t.anchor(cfg.anchor)), t.advantages, cfg.clip_low, cfg.clip_high, cfg.dual_clip)


def gspo(cfg: c.Gspo, t: Tokens) -> tuple[Tensor, Tensor]:
    """The clipped surrogate on log s = sg[row mean of (l - anchor)] + l - sg[l], at most 10. GSPO's token form, arXiv
    2507.18071, eq. 14."""
    detached = t.logprobs.detach()
    mean = row_mean(detached - t.anchor(cfg.anchor), t.rows)
    s = torch.exp((mean + t.logprobs - detached).clamp(max=_MAX_SEQUENCE_LOG_RATIO))
    return _clipped(s, t.advantages, cfg.clip_low, cfg.clip_high, None)


def cispo(cfg: c.Cispo, t: Tokens) -> tuple[Tensor, Tensor]:
    """-A sg[clip(r, 1-low, 1+high)] l. CISPO, arXiv 2506.13585, eq. 4; no token loses its gradient."""
    r = ratio(t.logprobs.detach(), t.anchor(cfg.anchor))
    clipped = r.clamp(1 - cfg.clip_low, 1 + cfg.clip_high)
    return -t.advantages * clipped * t.logprobs, clipped != r


def sapo(cfg: c.Sapo, t: Tokens) -> tuple[Tensor, Tensor]:
    """-A sigmoid(tau (r - 1)) 4 / tau, tau by the sign of A. SAPO, arXiv 2511.20347, eq. 6."""
    r = ratio(t.logprobs, t.anchor(cfg.anchor))
    tau = torch.full_like(r, cfg.tau_negative).masked_fill(t.advantages > 0, cfg.tau_positive)
    return -t.advantages * torch.sigmoid(tau * (r - 1)) * 4 / tau, torch.zeros_like(t.rows, dtype=torch.bool)


def importance_sampling(cfg: c.ImportanceSampling, t: Tokens) -> tuple[Tensor, Tensor]:
    """-r A, without a trust region."""
    r = ratio(t.logprobs, t.anchor(cfg.anchor))
    return -r * t.advantages, torch.zeros_like(t.rows, dtype=torch.bool)


def supervised(cfg: c.Supervised, t: Tokens) -> tuple[Tensor, Tensor]:
    """-A l: cross-entropy for A = 1."""
    return -t.advantages * t.logprobs, torch.zeros_like(t.rows, dtype=torch.bool)


def _clipped(r: Tensor, advantages: Tensor, low: float, high: float, dual_clip: float | None) -> tuple[Tensor, Tensor]:
    plain, clipped = -r * advantages, -r.clamp(1 - low, 1 + high) * advantages
    loss, stopped = torch.maximum(plain, clipped), clipped > plain
    if dual_clip is not None:
        bound = -dual_clip * advantages
        beyond = (advantages < 0) & (loss > bound)
        loss, stopped = torch.where(beyond, bound, loss), stopped | beyond
    return loss, stopped


def policy_loss(cfg: c.Loss, t: Tokens) -> tuple[Tensor, Tensor]:
    """The configured loss [M], and the tokens its trust region stopped [M]."""
    match cfg:
        case c.Dppo():
            return dppo(cfg, t)
        case c.Glm5():
            return glm5(cfg, t)
        case c.Ppo():
            return ppo(cfg, t)
        case c.Gspo():
            return gspo(cfg, t)
        case c.Cispo():
            return cispo(cfg, t)
        case c.Sapo():
            return sapo(cfg, t)
        case c.ImportanceSampling():
            return importance_sampling(cfg, t)
        case c.Supervised():
            return supervised(cfg, t)
