"""The files of a run that never was: as `watch` writes them, from numbers."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path


def write_run(folder: Path, steps: int = 60, *, hostile: bool = False) -> Path:
    """Writes a run's folder with a rising reward, two alarms, faults and evaluations."""
    chance = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    name = '<script>alert("x")</script>' if hostile else "office/memo"
    lines: list[dict[str, object]] = [{"kind": "life", "at": 1.7e9, "about": {"model": name}}]
    groups = []
    for step in range(1, steps + 1):
        at = 1.7e9 + 60 * step
        mean = 0.2 + 0.4 * (1 - math.exp(-step / 25))
        rewards = [min(1.0, max(0.0, chance.gauss(mean, 0.25))) for _ in range(64)]
        lines.append(
            {
                "kind": "step",
                "step": step,
                "at": at,
                "replayed": False,
                "rewards": rewards,
                "families": {},
                "metrics": {
                    "reward/mean": sum(rewards) / len(rewards),
                    "reward/pass_at_1": mean / 2,
                    "reward/pass_at_8": min(1.0, mean * 1.2),
                    "reward/zero_variance_share": chance.uniform(0.1, 0.3),
                    "domain/law/reward": mean + chance.gauss(0, 0.03),
                    "domain/consulting/reward": mean - 0.05 + chance.gauss(0, 0.03),
                    "agent/turns": 12 + step / 5 + chance.gauss(0, 1),
                    "agent/turns_max": 40.0,
                    "agent/tokens_per_turn": 820 - step + chance.gauss(0, 20),
                    "agent/tokens": 9000.0 + chance.gauss(0, 300),
                    "agent/context_tokens": 24000.0 + chance.gauss(0, 900),
                    "agent/tool_success": 0.93 + chance.gauss(0, 0.01),
                    "agent/code_share": 0.5 + chance.gauss(0, 0.03),
                    "agent/context_exhausted": 0.04 + abs(chance.gauss(0, 0.01)),
                    "stop/answered": 0.9,
                    "stop/context": 0.04,
                    "train/logprob_gap": 0.012 + abs(chance.gauss(0, 0.004)) + (0.03 if step == 40 else 0),
                    "train/stale_logprob_gap": 0.02 + abs(chance.gauss(0, 0.004)),
                    "train/entropy": 0.9 - step / 200,
                    "train/grad_norm": 0.4 + abs(chance.gauss(0, 0.1)),
                    "train/loss": -0.02 + chance.gauss(0, 0.01),
                    "train/masked_share": 0.02 + abs(chance.gauss(0, 0.004)),
                    "loop/wait_for_groups_s": abs(chance.gauss(1, 1)),
                    "loop/train_s": 40 + chance.gauss(0, 2),
                    "loop/sync_s": 3 + abs(chance.gauss(0, 0.3)),
                    "loop/staleness_mean": 1.8 + chance.gauss(0, 0.2),
                    "loop/staleness_max": 3.0,
                    "loop/trials_out": 210 + chance.gauss(0, 20),
                    "loop/places": 256.0,
                    "loop/kv_used_share": 0.8 + chance.gauss(0, 0.05),
                    "rollouts/scored": 64.0,
                    "faults/rollouts": 1.0,
                    "faults/share": 1 / 65,
                    "time/trial_s": 300 + chance.gauss(0, 20),
                    "time/verify_s": 9 + chance.gauss(0, 1),
                    "train/broken": float("nan") if hostile else 0.0,
                },
            }
        )
        groups.append({"group": f"g{step}", "task": f"{name}-{step % 9}", "rewards": rewards[:8], "step": step})
        if step % 20 == 0 or step == 1:
            lines.append(
                {
                    "kind": "evaluation",
                    "step": step if step > 1 else 0,
                    "at": at,
                    "metrics": {
                        "eval/reward/mean": mean - 0.03,
                        "eval/reward/mean_se": 0.02,
                        "eval/reward/pass_at_1": mean / 2,
                        "eval/reward/pass_at_4": mean,
                        "eval/domain/law/reward": mean,
                    },
                }
            )
    says = "tasks of family 'message' jumped"
    lines.append({"kind": "alarm", "step": 40, "alarm": "gap", "hacking": False, "message": "gap 0.043", "at": 1.7e9})
    lines.append(
        {"kind": "alarm", "step": 44, "alarm": name if hostile else "family_jump", "hacking": True, "message": says}
    )
    failure = {"kind": "sandbox_died", "message": name}
    lines.append({"kind": "fault", "step": 3, "where": "rollout", "failure": failure, "then": "it is tried again"})
    lines.append({"kind": "checkpoint", "step": steps, "path": "x", "seconds": 1.0})
    lines.append({"kind": "ended", "step": steps, "interrupted": False, "failure": None})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "groups.jsonl").write_text("".join(json.dumps(line) + "\n" for line in groups))
    (folder / "plan.json").write_text(json.dumps({"loop": {"steps": steps}, "trainer": {"model": name}}))
    return folder
