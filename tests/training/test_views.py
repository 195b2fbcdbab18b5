"""What critics and policies are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.central_critic.critic import CriticView
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.errors import ConfigError
from marl.training.trainer import Trainer

PPO = {
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 2,
    "num_envs_per_worker": 4,
    "fcnet_hiddens": [16],
}


@pytest.mark.parametrize(
    ("sees", "size"),
    [("own", 0), ("group", 2 * 9 + 2), ("all", 2 * 9 + 2), ("state", 3 + 2), ("agent_state", 3 + 9 + 2)],
)
def test_a_critic_sees_as_much_as_it_is_told(sees: Any, size: int) -> None:
    with Trainer("mappo", env="two_step_game", config={**PPO, "critic_sees": sees, "agent_id": False}) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        view = learner.critics["default_policy"].view
        assert isinstance(view, CriticView)
        assert view.size == size
        batch = trainer.workers.collect(2).batch
        t, e, a = np.array([1]), np.array([0]), np.array([1])
        features = view(batch, t, e, a, after=False)[0].tolist()
    own = np.eye(2)[batch.obs[0][1, 0, 1, :3]].reshape(-1).tolist() + np.eye(3)[batch.obs[0][1, 0, 1, 3]].tolist()
    if sees == "own":  # the critic is a network over the agent's own observation, which stands in the rows already
        assert features == []
        with torch.no_grad():
            obs = torch.from_numpy(batch.obs[0][1, 0])
            values = learner.critics["default_policy"](obs, torch.arange(2), torch.zeros(2, 0))
            direct = learner.critics["default_policy"].network.network(torch.tensor([own]))  # type: ignore[union-attr, operator]
        assert float(values[1]) == pytest.approx(float(direct))
    elif sees == "state":
        assert features == [*batch.state[1, 0].tolist(), 0, 1]
    elif sees == "agent_state":
        assert features == [*batch.state[1, 0].tolist(), *own, 0, 1]
    else:
        assert features[9:] == [*own, 0, 1]


def test_a_critic_of_the_state_needs_a_state() -> None:
    for sees in ("state", "agent_state"):
        with pytest.raises(ConfigError, match=rf"critic_sees: {sees} needs an env with a state"):
            Trainer("ppo", env="CartPole-v1", config={"critic_sees": sees})


def test_of_an_agent_that_is_gone_a_critic_of_its_own_state_sees_the_seat_alone() -> None:
    keys = {**PPO, "critic_sees": "agent_state", "agent_id": False}
    with Trainer("mappo", env="two_step_game", config=keys) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        critic, actor = learner.critics["default_policy"], learner.actors["default_policy"]
        batch = trainer.workers.collect(4).batch
        batch.alive[1, 0, 1] = batch.new_alive[2, 0, 1] = False
        before = critic.view(batch, np.array([1, 1]), np.array([0, 0]), np.array([0, 1]), after=False)
        after = critic.view(batch, np.array([2]), np.array([0]), np.array([1]), after=True)
        assert before[1].tolist() == after[0].tolist() == [0.0] * 12 + [0.0, 1.0]
        assert before[0, :3].tolist() == batch.state[1, 0].tolist()
        # What a decision led to is not what the next one saw where one of the two views is of somebody who is gone.
        rows = batch.for_policy("default_policy")
        _, next_values = critic.estimate_values(actor, batch, rows, critic.seen(batch, rows))
        gone = (rows["row"] == 2) & (rows["lane"] == 0) & (rows["seat"] == 1)
        with torch.no_grad():
            expected = critic(torch.zeros(1, 1), torch.zeros(1), after)
        assert next_values[gone] == pytest.approx(expected.numpy(), abs=1e-6)


def test_the_seat_is_shown_where_one_policy_plays_several_agents_of_a_group() -> None:
    def shown(algo: str, **keys: Any) -> bool:
        with Trainer(algo, env="two_step_game", config={**keys, "fcnet_hiddens": [4]}) as trainer:
            return bool(trainer.setup.policies[next(iter(trainer.policies))].agent_id)

    assert [shown(a) for a in ("qmix", "vdn", "mappo", "dqn", "ppo")] == [True, True, True, False, False]
    assert not shown("qmix", policy_mapping_fn="per_agent")
    assert not shown("qmix", agent_id=False)
    assert shown("ppo", agent_id=True)
