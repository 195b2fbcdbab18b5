"""One step of a particle env of mpe2, whose parallel form is PettingZoo's conversion of a turn-based env.

The conversion lets every agent look before its turn and throws away what it saw; then it lets all look again after the last
one. In particle envs looking costs as much as moving. Here everybody looks once, and what is returned is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.data.task import AgentID
from marl.envs.base import Action, StepResult

PURE = ("mpe2.", "pettingzoo.mpe.")
"""Modules of envs in which looking neither changes nor draws anything, so that it makes no difference how often one looks."""


PASSING_ON = ("BaseWrapper", "OrderEnforcingWrapper", "AssertOutOfBoundsWrapper", "ClipOutOfBoundsWrapper")
"""Wrappers of PettingZoo that look at actions and order alone: what agents see and are paid passes through as it is."""


def looks_twice(env: Any) -> bool:
    """Whether this parallel env is such a conversion, without wrappers around or in it that change what is seen or paid."""
    inner = getattr(env, "aec_env", None)
    if inner is None or not type(env).__module__.startswith("pettingzoo.utils.conversions"):
        return False
    bare = env.unwrapped
    while inner is not bare:
        wrapper = type(inner)
        if not wrapper.__module__.startswith("pettingzoo.utils.wrappers.") or wrapper.__name__ not in PASSING_ON:
            return False
        inner = inner.env
    # A scenario of the user's own is played by the env class of mpe2, too.
    scenario = getattr(bare, "scenario", bare)
    return all(type(part).__module__.startswith(PURE) for part in (bare, scenario))


def play_round(env: Any, actions: Mapping[AgentID, Action]) -> StepResult:
    """Everybody acts in turn, through all wrappers, which check actions and order; then everybody looks."""
    inner, bare = env.aec_env, env.unwrapped
    rewards: dict[AgentID, float] = {}
    for agent in list(bare.agents):
        inner.step(actions[agent])
        for name, paid in bare.rewards.items():
            rewards[name] = rewards.get(name, 0) + paid
    terminated, truncated, infos = dict(bare.terminations), dict(bare.truncations), dict(bare.infos)
    obs = {agent: bare.observe(agent) for agent in bare.agents}
    while bare.agents and (bare.terminations[bare.agent_selection] or bare.truncations[bare.agent_selection]):
        inner.step(None)  # the empty turns of those who have ended
    env.agents = bare.agents
    return StepResult(obs, rewards, terminated, truncated, infos)
