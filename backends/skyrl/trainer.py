"""SkyRL's trainers with one thing put right: a trajectory that trains nothing votes in no baseline.

SkyRL computes advantages over all trajectories of a prompt, failed ones with their placeholder included. `fair` derives
from one of its trainer classes: while advantages are computed, a trajectory without a trained token is a group of its
own, so that means, standard deviations and leave-one-outs are those of the others, for every estimator; its own
advantage is 0. A group in which nothing trains is not kept by the asynchronous loop, but replaced.
"""

from __future__ import annotations

from typing import Any

__all__ = ["fair", "simulated"]


def fair(base: type[Any]) -> type[Any]:
    """A subclass of one of SkyRL's trainers (`RayPPOTrainer`, `FullyAsyncRayPPOTrainer`, `FullyAsyncTrainerSim`)."""

    class Fair(base):  # type: ignore[misc]
        def compute_advantages_and_returns(self, data: Any) -> Any:
            live = _live(data)
            uids = list(data.metadata["uids"])
            data.metadata["uids"] = [
                uid if alive else f"{uid}\0{row}" for row, (uid, alive) in enumerate(zip(uids, live, strict=True))
            ]
            try:
                data = super().compute_advantages_and_returns(data)
            finally:
                data.metadata["uids"] = uids
            mask = data["advantages"].new_tensor([float(alive) for alive in live]).unsqueeze(-1)
            data["advantages"] = data["advantages"] * mask
            data["returns"] = data["returns"] * mask
            return data

        def _should_keep_group(self, group: Any) -> bool:
            if not any(any(mask) for mask in group.generator_output["loss_masks"]):
                return False
            return bool(super()._should_keep_group(group))

    Fair.__name__ = Fair.__qualname__ = f"Fair{base.__name__}"
    return Fair


def simulated(base: type[Any]) -> type[Any]:
    """A subclass of `FullyAsyncTrainerSim`, whose stand-in for the trainer's workers lacks two calls that the loop of
    SkyRL 0.4.0 makes."""

    class Simulated(base):  # type: ignore[misc]
        def init_weight_sync_state(self) -> None:
            super().init_weight_sync_state()
            for name, answer in (("get_timing_metrics", {}), ("finalize_pending_saves", None)):
                if not hasattr(self.dispatch, name):
                    setattr(self.dispatch, name, lambda *_, answer=answer: answer)

    return Simulated


def _live(data: Any) -> list[bool]:
    """Per row, whether its trajectory has a token that trains."""
    rows = [bool(row) for row in (data["loss_mask"].sum(dim=-1) > 0).tolist()]
    last = data.metadata.get("is_last_step") or [True] * len(rows)
    out: list[bool] = []
    begin = 0
    for at, ends in enumerate(last):
        if ends:
            out += [any(rows[begin : at + 1])] * (at + 1 - begin)
            begin = at + 1
    return out
