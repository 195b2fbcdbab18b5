"""A word about values that no reward explains: they bootstrap from their own mistakes, and play gets worse while they grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marl.runs.result import Result
from marl.training.extensions.extension import Extension

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

MARGIN = 0.25  # of the distance between the highest and the lowest return
PATIENCE = 10  # iterations in a row: values of networks that have hardly learned are anything


class Plausible(Extension):
    """Says once per policy that its values have been beyond what the rewards seen so far can pay for several iterations.

    Learners of action values tell both (``min_q``, ``max_q``; ``min_return``, ``max_return``); of others nothing is said.
    """

    name = "plausible"

    def __init__(self) -> None:
        self.beyond: dict[str, int] = {}  # iterations in a row
        self.told: set[str] = set()

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        del result
        for policy, told in trainer.last_metrics.items():
            if "max_return" not in told or policy in self.told:
                continue
            excess = _excess(told)
            self.beyond[policy] = self.beyond.get(policy, 0) + 1 if excess else 0
            if self.beyond[policy] >= PATIENCE:
                trainer.notes.append(_word(policy, excess))
                self.told.add(policy)

    def state_dict(self) -> dict[str, Any]:
        return {"beyond": dict(self.beyond), "told": sorted(self.told)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.beyond, self.told = dict(state.get("beyond", {})), set(state.get("told", ()))  # not in older checkpoints


def _excess(told: Mapping[str, float]) -> tuple[str, float, float] | None:
    """Which values are beyond which return, if any are."""
    margin = MARGIN * (told["max_return"] - told["min_return"])
    if told["max_q"] > told["max_return"] + margin:
        return "up to", told["max_q"], told["max_return"]
    if told["min_q"] < told["min_return"] - margin:
        return "down to", told["min_q"], told["min_return"]
    return None


def _word(policy: str, excess: tuple[str, float, float] | None) -> str:
    assert excess is not None
    way, value, possible = excess
    return (
        f"policy {policy!r} values its play {way} {value:.3g}, but the rewards seen so far explain no return beyond "
        f"{possible:.3g}: values feed on their own mistakes, and play may get worse while they do. What helps: "
        "bootstrap_at_time_limit: false where a time limit is part of the task, normalize_rewards, a smaller lr or gamma, "
        "double_q, rarer target updates (target_update_every)."
    )
