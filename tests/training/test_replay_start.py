"""How learning from a replay begins, and which agent and episode a row came from."""

from __future__ import annotations

import numpy as np
import torch

from marl import Trainer

KEYS = {"fcnet_hiddens": [8], "train_batch_size": 16, "timesteps_per_iteration": 64, "evaluation": {"interval": 0}}


def test_targets_begin_as_copies_and_nothing_is_learned_before_the_start() -> None:
    with Trainer("dqn", env="two_step_game", config={**KEYS, "learning_starts": 128}) as trainer:
        (learner,) = trainer.learners
        online, target = learner.values["default_policy"], learner.targets["default_policy"]  # type: ignore[attr-defined]
        assert online is not target
        assert all(torch.equal(a, b) for a, b in zip(online.parameters(), target.parameters(), strict=True))
        before = [parameter.detach().clone() for parameter in online.parameters()]
        first = trainer.train()
        assert (first["timesteps_total"], first["info"]["num_steps_trained"]) == (64, 0)
        assert all(map(torch.equal, before, online.parameters()))
        trainer.train()
        third = trainer.train()
        assert third["info"]["num_steps_trained"] > 0
        assert not all(map(torch.equal, before, online.parameters()))


def test_rows_of_a_shared_policy_say_whose_they_are_and_when_in_which_episode() -> None:
    with Trainer("ppo", env="two_step_game", config={"fcnet_hiddens": [8], "num_envs_per_worker": 2}) as trainer:
        rows = trainer.workers.local_worker().collect(4).batch.for_policy("default_policy")
    assert len(rows["agent_index"]) == 4 * 2 * 2  # steps x copies x agents
    assert np.bincount(rows["agent_index"]).tolist() == [8, 8]
    assert np.array_equal(rows["obs"][:, 3] - 1, rows["agent_index"])  # the env shows each agent its own number
    for episode in np.unique(rows["eps_id"]):
        mine = rows["eps_id"] == episode
        assert sorted(zip(rows["t"][mine].tolist(), rows["agent_index"][mine].tolist(), strict=True)) == [
            (0, 0), (0, 1), (1, 0), (1, 1),
        ]  # fmt: skip
    assert len(np.unique(rows["eps_id"])) == 4
