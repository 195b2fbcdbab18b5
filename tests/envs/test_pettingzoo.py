"""PettingZoo envs: parallel and turn-based, masks, endings, rewards while others move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic import tictactoe_v3

import marl
from marl.envs.adapters.pettingzoo import PettingZooParallelEnv, PettingZooTurnBasedEnv, from_pettingzoo
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.training.trainer import Trainer
from tests.small_envs import decisions, worker_for

DISCRETE, SIGHT = spaces.Discrete(3), spaces.Box(0, 99, (1,), np.float32)


class Turns(AECEnv):  # type: ignore[misc]
    """Players in turn; a script says who is paid and who ends after each move."""

    metadata = {"name": "turns"}  # noqa: RUF012

    def __init__(self, players: int, script: list[dict[str, Any]]) -> None:
        self.possible_agents = [f"p_{i}" for i in range(players)]
        self.script = script

    def observation_space(self, agent: str) -> Any:
        return SIGHT

    def action_space(self, agent: str) -> Any:
        return DISCRETE

    def observe(self, agent: str) -> Any:
        return np.array([self.moves], np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.moves = 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {a: {} for a in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        now = self.script[self.moves]
        self.moves += 1
        self.rewards = {a: float(now.get("pay", {}).get(a, 0)) for a in self.agents}
        for a in now.get("end", []):
            self.terminations[a] = True
        for a in now.get("cut", []):
            self.truncations[a] = True
        after = self.agents[self.agents.index(agent) + 1 :] + self.agents[: self.agents.index(agent) + 1]
        living = [a for a in after if not (self.terminations[a] or self.truncations[a])]
        self.agent_selection = (living or after)[0]
        self._deads_step_first()


def played(env: AECEnv, steps: int) -> tuple[list[Any], Any]:
    worker = worker_for(lambda _: from_pettingzoo(env))
    rollout = worker.collect(steps)
    return decisions([rollout.batch]), rollout.episodes


def test_the_reward_that_arrives_while_the_other_moves_reaches_the_last_decision() -> None:
    script = [{}, {"pay": {"p_0": 4}}, {"pay": {"p_0": 1, "p_1": -1}, "end": ["p_0", "p_1"]}]
    rows, episodes = played(Turns(2, script), 3)
    # p_0 moves at 0 and 2; the 4 that p_1's move brings comes one step later: 0.5 * 4.
    assert [(r[2], r[1], r[5], r[9], r[7]) for r in rows] == [
        (0, 0, 2.0, 2, False),
        (1, 1, -0.5, 2, True),
        (0, 2, 1.0, 1, True),
    ]
    assert episodes.agent_means() == {"p_0": 5.0, "p_1": -1.0}


def test_three_players_go_on_when_one_is_eliminated() -> None:
    script = [{}, {"end": ["p_2"]}, {"pay": {"p_1": 2}}, {}, {"end": ["p_0", "p_1"], "pay": {"p_0": 3}}]
    rows, episodes = played(Turns(3, script), 5)
    assert [(r[1], r[2]) for r in rows] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert episodes.lengths.tolist() == [5]
    assert episodes.agent_means() == {"p_0": 3.0, "p_1": 2.0, "p_2": 0.0}


def test_an_episode_in_which_one_terminates_while_another_truncates_simply_ends() -> None:
    rows, episodes = played(Turns(2, [{}, {"end": ["p_0"], "cut": ["p_1"], "pay": {"p_0": 1, "p_1": 1}}]), 4)
    assert episodes.lengths.tolist() == [2, 2]
    assert [(r[2], r[7], r[8]) for r in rows[:2]] == [(0, True, False), (1, False, True)]


class InfoMask(ParallelEnv):  # type: ignore[misc]
    """Masks come in the infos."""

    metadata = {"name": "info_mask"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent: str) -> Any:
        return SIGHT

    def action_space(self, agent: str) -> Any:
        return DISCRETE

    def _look(self) -> tuple[Any, Any]:
        masks = {"a": np.array([0, 1, 0], np.int8), "b": np.array([1, 0, 1], np.int8)}
        return {a: np.zeros(1, np.float32) for a in self.agents}, {a: {"action_mask": masks[a]} for a in self.agents}

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.agents, self.t = list(self.possible_agents), 0
        return self._look()

    def step(self, actions: Any) -> Any:
        assert actions["a"] == 1
        assert actions["b"] in (0, 2)
        self.t += 1
        obs, infos = self._look()
        over = dict.fromkeys(self.agents, self.t == 4)
        return obs, dict.fromkeys(self.agents, 1.0), over, dict.fromkeys(self.agents, False), infos


@pytest.mark.parametrize("algo", ["ppo", "dqn", "qmix", "mappo"])
def test_masks_in_the_infos_are_used_by_every_algorithm(algo: str) -> None:
    keys = {"fcnet_hiddens": [8], "timesteps_per_iteration": 64, "evaluation": {"interval": 1, "episodes": 3}}
    keys |= {"train_batch_size": 32} if algo in ("ppo", "mappo") else {"learning_starts": 8}
    with Trainer(algo, env=lambda _: InfoMask(), config=keys) as trainer:
        assert trainer.train()["evaluation"]["episode_reward_mean"] == 8.0


class NeverIllegal(tictactoe_v3.raw_env):  # type: ignore[misc]
    """Tic-tac-toe that raises on an illegal move."""

    def step(self, action: Any) -> None:
        if not (self.terminations[self.agent_selection] or self.truncations[self.agent_selection]):
            assert self.observe(self.agent_selection)["action_mask"][action] == 1
        super().step(action)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_no_illegal_move_is_ever_sent_in_tic_tac_toe(algo: str) -> None:
    keys = {"num_envs_per_worker": 4, "fcnet_hiddens": [16], "evaluation": {"interval": 1, "episodes": 5}}
    keys |= {"train_batch_size": 200} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 200}
    with Trainer(algo, env=lambda _: NeverIllegal(), config=keys) as trainer:
        result = [trainer.train() for _ in range(2)][-1]
    assert 5 <= result["episode_len_mean"] <= 9
    assert result["agent_reward_mean"]["player_1"] == -result["agent_reward_mean"]["player_2"]


def test_turn_based_and_parallel_envs_are_recognised_by_themselves() -> None:
    assert isinstance(marl.make_env("pettingzoo:classic/tictactoe_v3"), PettingZooTurnBasedEnv)
    assert isinstance(marl.make_env("pettingzoo:mpe2/simple_spread_v3"), PettingZooParallelEnv)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        make_batched_env("pettingzoo:classic/tictactoe_v99", 1, {})


def test_a_pettingzoo_env_is_registered_in_one_line() -> None:
    marl.register_pettingzoo("ttt", tictactoe_v3.env)
    marl.register_pettingzoo("ttt_by_path", "pettingzoo.classic.tictactoe_v3")
    marl.register_pettingzoo("spread", "mpe2.simple_spread_v3:parallel_env")
    assert make_batched_env("ttt", 1, {}).kinds[0].masked
    assert make_batched_env("ttt_by_path", 1, {}).kinds[0].masked
    assert make_batched_env("spread", 1, {"N": 2}).kinds[0].size == 2


def test_the_global_state_is_asked_for_only_where_somebody_needs_it() -> None:
    sizes = {}
    for algo, keys in (("ppo", {}), ("qmix", {}), ("mappo", {"critic_sees": "state"})):
        with Trainer(algo, env="pettingzoo:mpe2/simple_spread_v3", config={**keys, "fcnet_hiddens": [4]}) as trainer:
            sizes[algo] = trainer.workers.collect(2).batch.state.shape[2]
    assert sizes == {"ppo": 0, "qmix": 54, "mappo": 54}


def test_the_checker_passes_pettingzoos_own_games() -> None:
    assert marl.check_env("pettingzoo:classic/tictactoe_v3") == []
    assert marl.check_env("pettingzoo:mpe2/simple_tag_v3") == []
