"""A plan in SkyRL's words: dotted settings, as `SkyRLTrainConfig.from_cli_overrides` takes them.

Every field of ours that SkyRL knows is said, so that none of its defaults (a KL term, advantages over a standard
deviation) comes in unasked; what it does not know is an error with the nearest that it does. Pure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envkit.backends.algorithms.config import AlgorithmConfig, Grpo
from envkit.backends.algorithms.loss_config import (
    Cispo,
    Corrections,
    Dppo,
    Glm5,
    Gspo,
    ImportanceSampling,
    Loss,
    Ppo,
    Sapo,
)
from envkit.backends.skyrl.config import SkyrlPlan
from envkit.failure import UserError

__all__ = ["asynchronous", "settings_of"]

Settings = dict[str, Any]

_REDUCTIONS = {"length_normalised": "seq_mean_token_sum_norm"}


def asynchronous(plan: SkyrlPlan) -> bool:
    """Whether the run is under SkyRL's fully asynchronous loop."""
    return plan.loop.max_staleness > 0


def settings_of(plan: SkyrlPlan, run: Path, *, tasks: int, evaluated: int) -> Settings:
    """SkyRL's settings for a run.

    Args:
        run: The run's folder.
        tasks, evaluated: How many there are.

    Raises:
        UserError: The plan asks for what SkyRL does not have.
    """
    own = {
        **_trainer(plan, run, tasks),
        **_algorithm(plan.algorithm),
        **_generator(plan),
        **_evaluation(plan, evaluated),
    }
    if asynchronous(plan):
        own |= _asynchronous(plan)
    return {**own, **plan.skyrl.settings}


def _trainer(plan: SkyrlPlan, run: Path, tasks: int) -> Settings:
    own, loop = plan.trainer, plan.loop
    schedule = own.optimizer.schedule
    out: Settings = {
        "trainer.strategy": own.strategy,
        "trainer.policy.model.path": own.model,
        "trainer.ref.model.path": own.reference or own.model,
        "trainer.policy.optimizer_config.lr": own.optimizer.lr,
        "trainer.policy.optimizer_config.adam_betas": list(own.optimizer.betas),
        "trainer.policy.optimizer_config.weight_decay": own.optimizer.weight_decay,
        "trainer.policy.optimizer_config.max_grad_norm": own.optimizer.grad_clip,
        "trainer.policy.optimizer_config.num_warmup_steps": own.optimizer.warmup_steps,
        "trainer.policy.optimizer_config.scheduler": "constant_with_warmup" if schedule == "constant" else schedule,
        "trainer.placement.colocate_all": False,
        "trainer.placement.policy_num_nodes": own.nodes,
        "trainer.placement.policy_num_gpus_per_node": own.gpus_per_node,
        "trainer.placement.ref_num_nodes": own.nodes,
        "trainer.placement.ref_num_gpus_per_node": own.gpus_per_node,
        "trainer.seed": loop.seed % 2**31,
        "trainer.train_batch_size": loop.groups_per_step,
        "trainer.policy_mini_batch_size": loop.groups_per_step,
        "trainer.max_tokens_per_microbatch": plan.batch.tokens_per_micro_batch,
        # An epoch has at least one step, and under filtering may have fewer than its tasks would give.
        "trainer.epochs": loop.steps * 8,
        "trainer.max_training_steps": loop.steps,
        "trainer.max_prompt_length": plan.policy.context or 1_000_000,
        "trainer.ckpt_interval": loop.checkpoint.every,
        "trainer.max_ckpts_to_keep": loop.checkpoint.keep or -1,
        "trainer.ckpt_path": plan.folder_of(run, plan.checkpoints),
        "trainer.export_path": plan.folder_of(run, "exports"),
        "trainer.log_path": plan.folder_of(run, "logs"),
        "trainer.resume_mode": "latest",
        "trainer.project_name": plan.watching.wandb.project if plan.watching.wandb else "envkit",
        "trainer.run_name": (plan.watching.wandb.name if plan.watching.wandb else None) or run.name,
        "trainer.logger": "wandb" if plan.watching.wandb else "console",
        "data.train_data": [],
        "data.val_data": [],
        "data.dataloader.num_workers": 0,
        "data.dataloader.persistent_workers": False,
    }
    if own.lora is not None:
        out |= {
            "trainer.policy.model.lora.rank": own.lora.rank,
            "trainer.policy.model.lora.alpha": int(own.lora.alpha),
        }
    return out


def _algorithm(config: AlgorithmConfig) -> Settings:
    at = "trainer.algorithm."
    out: Settings = {
        "advantage_estimator": config.advantage.name,
        "grpo_norm_by_std": isinstance(config.advantage, Grpo) and config.advantage.std,
        "loss_reduction": _REDUCTIONS.get(config.reduction, config.reduction),
        "zero_variance_filter": config.zero_variance == "drop",
        "zero_variance_filter_tol": config.zero_variance_tolerance,
        "use_kl_loss": config.kl is not None,
        "use_kl_in_reward": False,
        "use_entropy_loss": config.entropy_bonus > 0,
        "entropy_loss_coef": config.entropy_bonus,
        **_loss(config.loss),
        **_corrections(config.corrections),
    }
    if config.max_tokens is not None:
        out["max_seq_len"] = config.max_tokens
    if config.kl is not None:
        out |= {"kl_estimator_type": config.kl.estimator, "kl_loss_coef": config.kl.coefficient}
    return {at + name: value for name, value in out.items()}


def _loss(loss: Loss) -> Settings:
    anchor = getattr(loss, "anchor", None)
    if isinstance(loss, Dppo) and loss.ratio_cap is None:
        return {
            "policy_loss_type": "dppo",
            "dppo.dppo_type": loss.divergence,
            "dppo.delta_low": loss.delta_low,
            "dppo.delta_high": loss.delta_high,
        }
    if isinstance(loss, Glm5):
        return {"policy_loss_type": "rollout_is", "eps_clip_low": loss.low, "eps_clip_high": loss.high}
    if isinstance(loss, Cispo):
        return {
            "policy_loss_type": "cispo",
            "cispo.cispo_eps_clip_low": loss.clip_low,
            "cispo.cispo_eps_clip_high": loss.clip_high,
            "cispo.cispo_anchor": loss.anchor,
        }
    if anchor == "old":
        if isinstance(loss, Ppo):
            kind = "regular" if loss.dual_clip is None else "dual_clip"
            out = {"policy_loss_type": kind, "eps_clip_low": loss.clip_low, "eps_clip_high": loss.clip_high}
            return out if loss.dual_clip is None else {**out, "clip_ratio_c": loss.dual_clip}
        if isinstance(loss, Gspo):
            return {"policy_loss_type": "gspo", "eps_clip_low": loss.clip_low, "eps_clip_high": loss.clip_high}
        if isinstance(loss, Sapo):
            return {
                "policy_loss_type": "sapo",
                "sapo.tau_pos": loss.tau_positive,
                "sapo.tau_neg": loss.tau_negative,
            }
        if isinstance(loss, ImportanceSampling):
            return {"policy_loss_type": "importance_sampling"}
    found = loss.name + (f" with anchor {anchor!r}" if anchor else "")
    if isinstance(loss, Dppo):
        found = "dppo with ratio_cap"
    raise UserError(
        f"algorithm.loss: SkyRL has no {found}; it has dppo (without ratio_cap), glm5, cispo, and with anchor = 'old' "
        "ppo, gspo, sapo and importance_sampling"
    )


def _corrections(own: Corrections) -> Settings:
    at = "off_policy_correction."
    out: Settings = {}
    if own.tis_token is not None:
        out |= {"tis_ratio_type": "token", "token_tis_ratio_clip_high": own.tis_token}
    if own.tis_sequence is not None:
        out |= {"tis_ratio_type": "sequence", "sequence_tis_ratio_clip_high": own.tis_sequence}
    for kind, short, interval in (
        ("geometric", "geo", own.geometric_mask),
        ("product", "product", own.product_mask),
    ):
        if interval is not None:
            out |= {
                "sequence_mask_metric": kind,
                f"{short}_mask_low": interval.low,
                f"{short}_mask_high": interval.high,
            }
    for name, interval in (("outlier_token", own.outlier_mask), ("token_mask", own.token_mask)):
        if interval is not None:
            out |= {f"{name}_is_threshold_low": interval.low, f"{name}_is_threshold_high": interval.high}
    return {at + name: value for name, value in out.items()}


def _generator(plan: SkyrlPlan) -> Settings:
    own, policy, at = plan.engines, plan.policy, "generator.inference_engine."
    longest = policy.context or own.max_model_len or 1_000_000
    out: Settings = {
        "generator.n_samples_per_prompt": plan.loop.group_size,
        "generator.step_wise_trajectories": True,
        "generator.batched": False,
        "generator.use_cache_salt": True,
        "generator.apply_overlong_filtering": False,
        "generator.zero_reward_on_non_stop": False,
        "generator.max_input_length": longest,
        "generator.sampling_params.temperature": plan.loop.temperature,
        "generator.sampling_params.top_p": 1.0,
        "generator.sampling_params.top_k": -1,
        "generator.sampling_params.logprobs": 1,
        "generator.sampling_params.max_generate_length": policy.max_turn_tokens or longest,
        at + "num_engines": own.replicas,
        at + "tensor_parallel_size": own.tensor_parallel,
        at + "max_num_seqs": own.max_rows,
        at + "gpu_memory_utilization": own.gpu_memory_share,
        at + "run_engines_locally": not own.urls,
    }
    if own.max_model_len is not None:
        out[at + "engine_init_kwargs"] = {"max_model_len": own.max_model_len}
    if own.urls:
        out |= {at + "external_server_urls": list(own.urls)}
        if len(own.urls) == 1:
            out |= {at + "external_proxy_url": own.urls[0]}
    return out


def _evaluation(plan: SkyrlPlan, evaluated: int) -> Settings:
    own = plan.evaluation
    if own is None or not evaluated:
        return {"trainer.eval_interval": -1, "trainer.eval_before_train": False}
    heat = plan.loop.temperature if own.temperature is None else own.temperature
    return {
        "trainer.eval_interval": own.every,
        "trainer.eval_before_train": own.first,
        "trainer.eval_batch_size": evaluated,
        "generator.eval_n_samples_per_prompt": own.samples,
        "generator.eval_sampling_params.temperature": heat,
    }


def _asynchronous(plan: SkyrlPlan) -> Settings:
    loop, at = plan.loop, "trainer.fully_async."
    room = loop.groups_per_step * (loop.max_staleness + 1)
    running = max(loop.groups_per_step, min(room, loop.admission.max_running // loop.group_size))
    return {
        at + "enabled": True,
        at + "max_staleness_steps": loop.max_staleness,
        at + "num_parallel_generation_workers": running,
        at + "sample_full_batch": plan.algorithm.zero_variance == "drop",
        at + "clear_kv_cache_on_weight_sync": plan.engines.clear_kv,
    }
