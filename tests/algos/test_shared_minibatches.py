"""Learners that share every minibatch end where one learner with the whole minibatches ends, in every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.algos.learner import Metrics
from marl.algos.learner_group import LearnerGroup
from marl.data.batch import MultiAgentBatch
from marl.policies.build import build_policies, weights_of
from marl.scenario.resolve import Setup
from marl.training.learners import build_learners, learn
from marl.training.trainer import Trainer
from tests.algos.learner_groups import together
from tests.training.trees import differences

CARTPOLE, TWO_STEP = {"env": "CartPole-v1"}, {"env": "two_step_game"}
PENDULUM = {"env": "Pendulum-v1"}
# 90 rows in minibatches of 89: the second one has a single row, so that all members but one are idle.
ON_POLICY = {"train_batch_size": 90, "sgd_minibatch_size": 89, "num_sgd_iter": 2, "rollout_fragment_length": 30}
OFF_POLICY = {
    "learning_starts": 20, "train_batch_size": 17, "buffer_size": 150, "rollout_fragment_length": 10, "updates_per_step": 0.2,
}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "pg": {**CARTPOLE, "train_batch_size": 90},
    "a2c": {**CARTPOLE, "train_batch_size": 90},
    "ppo": {**CARTPOLE, **ON_POLICY, "kl_coeff": 0.2},
    "ppo with a memory": {**CARTPOLE, **ON_POLICY, "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7},
    "ppo with attention": {**CARTPOLE, **ON_POLICY, "max_seq_len": 7, "use_attention": True, "attention_dim": 4, "attention_memory_inference": 3},
    "ppo with a filter": {**CARTPOLE, **ON_POLICY, "observation_filter": "MeanStdFilter"},
    "ppo with a magnet": {**TWO_STEP, **ON_POLICY, "magnet_coeff": 0.1},
    "ppo with shared layers": {
        **TWO_STEP, **ON_POLICY, "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"}, "policies": ["a", "b"],
        "shared": {"encoder": "common"},
    },
    "mappo": {**TWO_STEP, **ON_POLICY},
    "mappo with scaled values": {**TWO_STEP, **ON_POLICY, "normalize_values": True, "critic_sees": "agent_state"},
    "ippo": {**TWO_STEP, **ON_POLICY, "normalize_values": True, "use_gru": True, "lstm_cell_size": 8, "max_seq_len": 7},
    "ia2c": {**CARTPOLE, "train_batch_size": 90},
    "maa2c": {**TWO_STEP, "train_batch_size": 90},
    "coma": {**TWO_STEP, "train_batch_size": 90},
    "happo": {**TWO_STEP, **ON_POLICY, "policy_mapping_fn": "per_agent", "multiagent": {"groups": {"team": ["agent_*"]}}},
    "mmd": {**TWO_STEP, **ON_POLICY},
    "nashpg": {**TWO_STEP, **ON_POLICY},
    "rnad": {**TWO_STEP, **ON_POLICY},
    "impala": {**CARTPOLE, "train_batch_size": 90},
    "marwil": {**CARTPOLE, **ON_POLICY},
    "bc": {**CARTPOLE, **ON_POLICY},
    "dqn": {**CARTPOLE, **OFF_POLICY, "prioritized_replay": True, "n_step": 3, "target_update_every": 7},
    "dqn with a memory": {**CARTPOLE, **OFF_POLICY, "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7},
    "noisy_dqn": {**CARTPOLE, **OFF_POLICY},
    "noisy_dqn with a memory": {**CARTPOLE, **OFF_POLICY, "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7},
    "rainbow": {**CARTPOLE, **OFF_POLICY, "num_atoms": 7},
    "softq": {**CARTPOLE, **OFF_POLICY},
    "hysteretic": {**TWO_STEP, **OFF_POLICY},
    "qmix": {**TWO_STEP, **OFF_POLICY},
    "qmix with noisy layers of two policies": {
        **TWO_STEP, **OFF_POLICY, "noisy": True, "policy_mapping_fn": "per_agent",
        "multiagent": {"groups": {"team": ["agent_0", "agent_1"]}},
    },
    "vdn": {**TWO_STEP, **OFF_POLICY},
    "ddpg": {**PENDULUM, **OFF_POLICY},
    "td3": {**PENDULUM, **OFF_POLICY, "prioritized_replay": True},
    "maddpg": {**TWO_STEP, **OFF_POLICY},
    "maddpg against chance": {
        **TWO_STEP, **OFF_POLICY, "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"},
        "policies": {"a": {}, "b": {"scripted": "random"}},
    },
    "sac": {**PENDULUM, **OFF_POLICY, "prioritized_replay": True},
    "masac": {**TWO_STEP, **OFF_POLICY},
    "nfsp": {**TWO_STEP, **OFF_POLICY, "anticipatory": 0.5, "reservoir_size": 40, "prioritized_replay": True},
    "sac with choices": {**TWO_STEP, **OFF_POLICY, "critic_sees": "all"},
}  # fmt: skip
SMALL = {"fcnet_hiddens": [16], "num_envs_per_worker": 3, "evaluation": {"interval": 0}, "seed": 3}
ROUNDS = 6


class Outcome:
    """Where learners end: weights, states and the metrics of each round."""

    def __init__(self, weights: Any, states: list[Any], replays: list[Any], metrics: list[Metrics]) -> None:
        self.tree = {"weights": weights, "states": states, "replays": replays}
        self.metrics = metrics


def collected(run: str) -> tuple[Setup, list[MultiAgentBatch], Outcome]:
    """What one learner sees, and where it ends."""
    with Trainer(run.split()[0], config={**RUNS[run], **SMALL}) as trainer:
        batches, metrics = [], []
        for _ in range(ROUNDS):
            batches.append(trainer.workers.collect(trainer.setup.fragment).batch)
            metrics.append(trainer.learning.learn(batches[-1]))
        return trainer.setup, batches, outcome(trainer.policies, trainer.learners, metrics)


def outcome(policies: Any, learners: Any, metrics: list[Metrics]) -> Outcome:
    states = [learner.state_dict() for learner in learners]
    return Outcome(weights_of(policies), states, [learner.replay_state() for learner in learners], metrics)


def taught(setup: Setup, batches: list[MultiAgentBatch], group: LearnerGroup) -> Outcome:
    """Where a member of a learner group ends that sees the same batches."""
    policies = build_policies(setup.policies, setup.task.kinds)
    learners = build_learners(setup.plans, setup.roles, policies, setup.task, setup.scenario.seed)
    for learner in learners:
        assert learner.shares_minibatches
        learner.learner_group = group
    metrics = [learn(learners, batch) for batch in batches]
    return outcome(policies, learners, metrics)


def distance(a: Any, b: Any) -> float:
    """Largest absolute difference of numbers in two trees of one shape."""
    if isinstance(a, dict):
        assert set(a) == set(b)
        return max([distance(a[key], b[key]) for key in a], default=0.0)
    if isinstance(a, list | tuple):
        assert len(a) == len(b)
        return max([distance(x, y) for x, y in zip(a, b, strict=True)], default=0.0)
    if isinstance(a, np.ndarray | float):
        gap = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
        return float(np.max(gap / np.maximum(1.0, np.abs(np.asarray(a, np.float64))), initial=0.0))
    assert a == b
    return 0.0


@pytest.mark.parametrize("run", list(RUNS))
@pytest.mark.slow
def test_two_members_learn_what_one_learner_learns(run: str) -> None:
    setup, batches, alone = collected(run)
    first, second = together(2, lambda group: taught(setup, batches, group))
    assert isinstance(first, Outcome), first
    assert isinstance(second, Outcome), second
    assert any(alone.metrics)
    assert differences(first.tree, second.tree) == []  # members stay equal to the last bit
    assert distance(first.tree, alone.tree) < 1e-5
    assert distance(first.metrics, alone.metrics) < 1e-4
    assert first.metrics == second.metrics


def test_five_members_learn_what_one_learner_learns() -> None:
    setup, batches, alone = collected("ppo")
    members = together(5, lambda group: taught(setup, batches, group))
    assert [distance(member.tree, alone.tree) < 1e-5 for member in members if isinstance(member, Outcome)] == [True] * 5
