"""Policies of one shape act in one call: what is collected is what they would have done one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from marl.data.batch import MultiAgentBatch
from marl.rollout.worker import RolloutWorker
from marl.training.trainer import Trainer

THREE = {
    "policies": {"a": {}, "b": {}, "c": {}},
    "policy_mapping_fn": {"agent_0": "b", "agent_1": "a", "agent_2": "c"},
}  # fmt: skip
SMALL = {
    "num_envs_per_worker": 4, "train_batch_size": 40, "sgd_minibatch_size": 40, "fcnet_hiddens": [8],
    "evaluation": {"interval": 0}, "seed": 3, "multiagent": THREE,
}  # fmt: skip
TWO_SEATS = {
    "policies": {"a": {}, "b": {}},
    "policy_mapping_fn": {"agent_0": "a", "agent_2": "a", "agent_1": "b", "agent_3": "b"},
}  # fmt: skip
STACKED: dict[str, Mapping[str, Any]] = {
    "choices": {},
    "a value from the same layers": {"vf_share_layers": True},
    "coordinates": {"env_config": {"continuous_actions": True}},
    "two seats each": {"env_config": {"N": 4}, "multiagent": TWO_SEATS},
}
ONE_BY_ONE: dict[str, Mapping[str, Any]] = {
    "memory": {"use_lstm": True, "lstm_cell_size": 4},
    "running statistics": {"observation_filter": "MeanStdFilter"},
    "deviations of their own": {"env_config": {"continuous_actions": True}, "free_log_std": True},
    "a random start": {"exploration_config": {"type": "StochasticSampling", "random_timesteps": 1_000}},
    "other sizes": {
        "multiagent": {**THREE, "policies": {"a": {}, "b": {"fcnet_hiddens": [5]}, "c": {"fcnet_hiddens": [6]}}}
    },
}


def trainer_of(keys: Mapping[str, Any]) -> Trainer:
    return Trainer("ppo", env="fast:simple_spread", config={**SMALL, **keys})


def stacks_in(worker: RolloutWorker) -> int:
    turns = [turn for _, known in worker.runner.stacks._turns.values() for turn in known]
    return sum(turn.stack is not None for turn in turns)


def rounds(keys: Mapping[str, Any], stacked: bool) -> tuple[list[MultiAgentBatch], int]:
    """Two rounds with learning in between."""
    with trainer_of(keys) as trainer:
        worker = trainer.workers.local_worker()
        if not stacked:
            worker.runner.stacks.turns = lambda k, seats: []  # type: ignore[method-assign]
        batches = [worker.collect(7).batch]
        trainer.train()
        batches.append(worker.collect(7).batch)
        return batches, stacks_in(worker)


@pytest.mark.parametrize("case", STACKED)
def test_a_stack_decides_what_its_policies_would_decide_one_after_the_other(case: str) -> None:
    (before, after), stacks = rounds(STACKED[case], stacked=True)
    (expected_before, expected_after), none = rounds(STACKED[case], stacked=False)
    assert (stacks, none) == (1, 0)
    for found, expected in ((before, expected_before), (after, expected_after)):
        np.testing.assert_allclose(found.actions[0], expected.actions[0], atol=2e-4)
        np.testing.assert_allclose(found.action_logp, expected.action_logp, atol=2e-4)
        np.testing.assert_allclose(found.obs[0], expected.obs[0], atol=2e-4)
    # In the first round nothing has been learned, so only the order of additions within a product differs.
    np.testing.assert_allclose(before.action_logp, expected_before.action_logp, atol=1e-5)
    assert np.abs(before.action_logp).min() > 0


@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_policies_with_more_than_layers_act_by_themselves(case: str) -> None:
    with trainer_of(ONE_BY_ONE[case]) as trainer:
        worker = trainer.workers.local_worker()
        worker.collect(3)
        assert stacks_in(worker) == 0


def test_outside_of_a_round_policies_act_with_the_weights_that_they_have_now() -> None:
    with trainer_of({}) as trainer:
        worker = trainer.workers.local_worker()
        worker.collect(3)
        runner = worker.runner
        assert stacks_in(worker) == 1
        assert not runner.stacks.at_rest
        greedy = runner.decide(worker.rng, explore=False).actions[0]
        for policy in trainer.policies.values():
            weights = policy.get_weights()
            last = sorted(name for name in weights if "biases" in name)[-1]
            # Whatever they see, they want the option that they wanted least.
            weights[last] = weights[last] + np.eye(5, dtype=np.float32)[(int(greedy[0, 0]) + 1) % 5] * 1e3
            policy.set_weights(weights)
        changed = runner.decide(worker.rng, explore=False).actions[0]
        assert (changed == (greedy[0, 0] + 1) % 5).all()
        assert (
            worker.collect(3).batch.actions[0] == (greedy[0, 0] + 1) % 5
        ).all()  # and so do stacks, in the next round
