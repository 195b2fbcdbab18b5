"""Whether a run can learn from what clients did by themselves (message ``log``), and what they have to say with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marl.data.task import PolicyID
from marl.policies.policy import Policy
from marl.scenario.external import Learns, learns_from
from marl.scenario.resolve import Setup


@dataclass(frozen=True)
class OwnActions:
    """``refused``: why they cannot be learned from. ``needed``: what every ``log`` has to have, and who needs it."""

    refused: str = ""
    needed: tuple[str, ...] = ()
    why: str = ""

    def in_lock_step(self) -> OwnActions:
        """There nobody notes by which weights a client acted, so learners from their own play take nothing."""
        if "version" not in self.needed:
            return self
        return OwnActions(f"{self.why}, and this run learns in lock-step. Use act, or external: {{lock_step: false}}.")


def own_actions(setup: Setup, policies: Mapping[PolicyID, Policy]) -> OwnActions:
    """What the learners of a run can make of a client's own actions."""
    if setup.rollout.wrappers:
        return OwnActions(
            "wrappers of this run change who acts, so actions of a client's own agents mean nothing here. Use act."
        )
    needed: list[str] = []
    why = ""
    for name, role in setup.roles.items():
        if policies[name].carry_size:
            return OwnActions(f"policy {name!r} has a memory, which a client's own actions do not go through. Use act.")
        if role.preset.family.name == "nfsp":
            return OwnActions(f"policy {name!r} learns by nfsp, which has to know its own best responses. Use act.")
        learns = learns_from(role.preset, role.config)
        if learns is Learns.NEWEST:
            needed, why = (
                ["logp", "version"],
                f"policy {name!r} learns by {role.preset.name} from its own newest weights' play",
            )
            break
        if role.preset.family.on_policy and not role.config.learns_from_recordings:
            needed, why = ["logp"], f"policy {name!r} learns by {role.preset.name}, which compares probabilities"
    return OwnActions("", tuple(needed), why)
