"""With ``soft_horizon`` an episode that is cut goes on in the env: it is not reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import marl

COUNT = spaces.Box(0, 1000, (1,), np.float32)
TWO = spaces.Discrete(2)


class Walk(marl.MultiAgentEnv):
    """Shows how many steps were made since the reset, and ends by itself after 7 of them."""

    possible_agents = ("a", "b")

    def __init__(self, config: Any = None) -> None:
        self.t = self.resets = 0

    def observation_space(self, agent: str) -> Any:
        return COUNT

    def action_space(self, agent: str) -> Any:
        return TWO

    def _see(self) -> dict[str, Any]:
        return {agent: np.array([self.t], np.float32) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t, self.resets = 0, self.resets + 1
        return self._see(), {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        paid = dict.fromkeys(self.possible_agents, 1.0)
        return self._see(), paid, {"__all__": self.t == 7}, {"__all__": False}, {}


CONFIG: dict[str, Any] = {
    "horizon": 3,
    "soft_horizon": True,
    "fcnet_hiddens": [4],
    "train_batch_size": 10,
    "sgd_minibatch_size": 10,
    "num_sgd_iter": 1,
    "evaluation": {"interval": 0, "episodes": 2},
}


def make(config: Any) -> Walk:
    return Walk(config)


def test_the_env_goes_on_where_it_was_cut_and_is_reset_when_it_ends_itself() -> None:
    with marl.Trainer("ppo", env=make, config=CONFIG) as trainer:
        rows = trainer.workers.collect(10).batch.for_agent("a")
        assert rows["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
        assert rows["new_obs"][:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]
        assert rows["t"].tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 1, 2]
        cut = [2, 5, 9]
        assert np.flatnonzero(rows["truncateds"]).tolist() == cut
        assert np.flatnonzero(rows["terminateds"]).tolist() == [6]
        assert len(set(rows["eps_id"].tolist())) == 4
        (env,) = trainer.workers.foreach_env(lambda env: env)[0]
        assert env.resets == 2


def test_without_it_every_cut_is_a_reset() -> None:
    with marl.Trainer("ppo", env=make, config={**CONFIG, "soft_horizon": False}) as trainer:
        rows = trainer.workers.collect(6).batch.for_agent("a")
        assert rows["obs"][:, 0].tolist() == [0, 1, 2, 0, 1, 2]


def test_copies_that_end_together_are_reset_or_not_one_by_one() -> None:
    with marl.Trainer("ppo", env=make, config={**CONFIG, "num_envs_per_worker": 2, "horizon": 7}) as trainer:
        rows = trainer.workers.collect(9).batch.for_agent("b")  # ends by itself at 7, before any cut
        assert rows["obs"].ravel().tolist() == [t % 7 for t in range(9) for _ in range(2)]


def test_returns_are_those_of_the_cut_episodes_and_evaluations_begin_anew() -> None:
    with marl.Trainer("ppo", env=make, config=CONFIG) as trainer:
        result = trainer.train()
        assert result["hist_stats"]["episode_lengths"] == [3, 3, 1, 3]
        assert trainer.evaluate()["hist_stats"]["episode_lengths"] == [3, 3]


@pytest.mark.parametrize("env", [make, "two_step_game"])
def test_a_run_goes_on_exactly(env: Any, tmp_path: Path) -> None:
    config = {**CONFIG, "train_batch_size": 5, "num_envs_per_worker": 2}
    if env == "two_step_game":
        config["horizon"] = 1
    with marl.Trainer("ppo", env=env, config=config) as run:
        run.train()
        checkpoint = run.save(tmp_path / "checkpoint")
        for _ in range(3):
            run.train()
        expected = run.get_policy().get_weights()
    with marl.Trainer.from_checkpoint(checkpoint, allow=["tests"]) as again:
        for _ in range(3):
            again.train()
        found = again.get_policy().get_weights()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
