"""What replay rows say, as tensors: made once per update, so that losses never look up a column by its name.

Replay rows are columns such as ``obs.0`` and ``new_obs.0``: by kind of agents (``.0``), before the decision or (``new_``) at
its outcome. Agents stand in fixed *slots*, kind by kind: the members of a team, or those whom a critic sees around the
agent that decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from marl.data.batch import SampleBatch
from marl.data.task import Ints


@dataclass(frozen=True)
class JointObs:
    """What several agents see at one moment: before decisions, or at their outcomes."""

    obs: dict[int, Tensor]  # per kind [N, slots of the kind, obs_width]
    legal: dict[int, Tensor]  # per kind [N, slots of the kind, legal_width]; width 0: everything is legal
    agent_index: dict[int, Tensor]  # per kind [N, slots of the kind]: seat within the kind
    present: Tensor  # [N, slots of all kinds]: who decides now; all else about the others is noise
    policy: Ints  # [N, slots of all kinds]: the policy that plays the slot, by its index in a batch
    state: Tensor  # [N, state_size]; width 0 where nothing looks at the env's state
    seat: Tensor  # [N]: seat within its kind of the agent whose decision it is; empty for decisions of teams

    def __len__(self) -> int:
        return len(self.present)

    def part(self, index: slice) -> JointObs:
        """The same of some rows."""
        return JointObs(
            _part(self.obs, index), _part(self.legal, index), _part(self.agent_index, index), self.present[index],
            self.policy[index], self.state[index], self.seat[index],
        )  # fmt: skip


@dataclass(frozen=True)
class Transitions:
    """Decisions and what came of them. ``noise`` holds random numbers that a learner drew for these very rows."""

    now: JointObs
    next: JointObs
    actions: dict[int, Tensor]  # per kind [N, slots of the kind, ...], as they are stored
    rewards: Tensor  # [N], folded over the steps that a decision lasted
    elapsed: Tensor  # [N], how many these were
    terminated: Tensor  # [N]
    weights: Tensor  # [N]: what prioritised drawing is corrected by; else ones
    noise: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.rewards)

    @staticmethod
    def of(rows: SampleBatch, device: torch.device, noise: Sequence[str] = ()) -> Transitions:
        """Rows of a team or around an agent; ``noise`` names columns that hold a learner's random numbers."""

        def tensor(array: np.ndarray[Any, Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        def by_kind(name: str) -> dict[int, Tensor]:
            return {k: tensor(rows[f"{name}.{k}"]) for k in kinds}

        def joint(when: Literal["", "new_"]) -> JointObs:
            return JointObs(
                by_kind(f"{when}obs"), by_kind(f"{when}legal"), agent_index, tensor(rows[f"{when}present"]),
                rows[f"{when}policy"], tensor(rows.get(f"{when}state", no_state)), seat,
            )  # fmt: skip

        kinds = kinds_of(rows)
        no_state = np.zeros((len(rows), 0), np.float32)
        agent_index = by_kind("agent_index")
        seat = tensor(rows.get("seat", np.zeros(0, np.int64)))
        return Transitions(
            now=joint(""),
            next=joint("new_"),
            actions=by_kind("actions"),
            rewards=tensor(rows["rewards"]),
            elapsed=tensor(rows["elapsed"]),
            terminated=tensor(rows["terminateds"]),
            weights=tensor(rows.get("weights", np.ones(len(rows), np.float32))),
            noise={name: tensor(rows[name]) for name in noise},
        )

    def part(self, index: slice) -> Transitions:
        """The same of some rows: a learner's share of a minibatch."""
        if index == slice(0, len(self)):
            return self
        return Transitions(
            self.now.part(index), self.next.part(index), _part(self.actions, index), self.rewards[index],
            self.elapsed[index], self.terminated[index], self.weights[index], _part(self.noise, index),
        )  # fmt: skip


def kinds_of(rows: SampleBatch) -> list[int]:
    """Kinds of agents that the rows show."""
    return sorted(int(name.removeprefix("obs.")) for name in rows if name.startswith("obs."))


def _part(columns: Mapping[Any, Tensor], index: slice) -> dict[Any, Tensor]:
    return {name: column[index] for name, column in columns.items()}
