"""A stage that draws actions by the seed of the episode, and the same episode played without any server."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from marl.data.task import AgentID
from marl.envs.base import ALL, MultiAgentEnv, StepResult, ending
from marl.envs.external.contract import Contract
from marl.envs.external.steps import Answer
from marl.serve.hub import Hub, Limits, OpenEpisode
from tests.serve.instant import InstantStage


class Draws:
    """Actions for agents, one after another in the order of their names. Spaces keep their own generators."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def actions(self, asked: list[AgentID], space_of: Any, masks: dict[AgentID, Any]) -> dict[AgentID, Any]:
        chosen = {}
        for agent in sorted(asked):
            space = space_of(agent)
            space.seed(int(self.rng.integers(2**31)))
            mask = masks.get(agent)
            chosen[agent] = space.sample() if mask is None else space.sample(np.asarray(mask, np.int8))
        return chosen


class DrawingStage(InstantStage):
    """Takes the contract of its first client. Episodes get the seeds 100, 101, ..."""

    def __init__(self, contract: Contract | None = None) -> None:
        super().__init__()
        self.contract = contract
        self.next_seed = 100
        self.draws: dict[str, Draws] = {}
        self.seen: list[Any] = []  # all steps, as the player gets them
        self.lock = threading.Lock()

    def policies(self) -> list[dict[str, Any]]:
        return []

    def begin(self, episode: OpenEpisode) -> None:
        assert self.hub is not None
        self.draws[episode.id] = Draws(self.next_seed)
        self.hub.began(episode, self.next_seed, "slot")
        self.next_seed += 1

    def play(self, episode: OpenEpisode) -> None:
        assert self.hub is not None
        assert self.contract is not None
        contract = self.contract
        while episode.inbox:
            step = episode.inbox.popleft()
            self.seen.append(step)
            if step.ends:
                continue
            reports = step.agents.items()
            asked = [
                a for a, report in reports if report.obs is not None and not (report.terminated or report.truncated)
            ]
            masks = {agent: step.agents[agent].obs["action_mask"] for agent in asked if _masked(contract, agent)}
            actions = self.draws[episode.id].actions(asked, contract.action_space, masks)
            self.hub.answered(episode, step, Answer(actions, self.version))


def _masked(contract: Contract, agent: AgentID) -> bool:
    name = contract.name_of(agent)
    return name is not None and contract.agents[name].action_mask


def drawing_server(
    contract: Contract | None = None, stage: DrawingStage | None = None, **limits: Any
) -> tuple[DrawingStage, Hub]:
    stage = stage or DrawingStage(contract)
    hub = Hub(stage, Limits(**limits))
    stage.hub = hub
    return stage, hub


def played_here(env: MultiAgentEnv, seed: int) -> dict[AgentID, float]:
    """Returns of the episode that the stage and a driver play for this seed."""
    draws, returns = Draws(seed), {}
    obs, _ = env.reset(seed=seed)
    alive, asked = set(obs), list(obs)
    while True:
        masks = {a: obs[a]["action_mask"] for a in asked if isinstance(obs[a], dict) and "action_mask" in obs[a]}
        result = StepResult(*env.step(draws.actions(asked, env.action_space, masks)))
        obs = result.obs
        for agent, reward in result.rewards.items():
            returns[agent] = returns.get(agent, 0.0) + float(reward)
        alive |= set(obs)
        ended = {a for a in alive if any(ending(a, result.terminated, result.truncated))}
        alive -= ended
        asked = [agent for agent in obs if agent in alive]
        said = ALL in result.terminated or ALL in result.truncated
        if any(ending(ALL, result.terminated, result.truncated)) or (not said and not alive):
            return returns
