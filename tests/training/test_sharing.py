"""Layers shared between policies: the same tensors, one gradient, saved once."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.numpy import load_file

from marl import Trainer
from marl.data.task import AgentType
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError
from marl.policies.build import build_policies
from marl.policies.config import ModelConfig, PolicySpec

SHARED = {"model": {"fcnet_hiddens": [16], "post_fcnet_hiddens": [8], "shared": {"encoder": "trunk"}}}
ALGOS = {
    "ppo": {"train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2},
    "pg": {"train_batch_size": 64},
    "dqn": {"train_batch_size": 16, "learning_starts": 16, "timesteps_per_iteration": 64},
    "qmix": {"train_batch_size": 16, "learning_starts": 16, "timesteps_per_iteration": 64},
}


def trainer(algo, **keys):
    config = {
        "policies": {"p0": {}, "p1": {}}, "policy_mapping_fn": {"agent_0": "p0", "agent_1": "p1"}, "num_envs_per_worker": 4,
        "evaluation": {"interval": 0}, **SHARED, **ALGOS[algo], **keys,
    }  # fmt: skip
    return Trainer(algo, env="two_step_game", config=config)


def parts(run):
    return [run.policies[name].network for name in ("p0", "p1")]


@pytest.mark.parametrize("algo", ALGOS)
def test_shared_layers_are_the_same_tensors_and_stay_so_while_the_heads_part(algo):
    with trainer(algo) as run:
        a, b = parts(run)
        before = a.weights[0].detach().clone(), a.weights[1].detach().clone()
        run.train()
        assert a.weights[0] is b.weights[0]
        assert a.biases[0] is b.biases[0]
        assert a.weights[1] is not b.weights[1]
        assert not torch.equal(a.weights[0], before[0])
        assert not torch.equal(a.weights[1], before[1])
        assert not torch.equal(a.weights[1], b.weights[1])
        weights = run.get_weights()
        np.testing.assert_array_equal(
            weights["p0"]["model.network.weights.0"], weights["p1"]["model.network.weights.0"]
        )


def test_the_gradient_of_shared_layers_is_the_sum_over_their_policies():
    keys = {
        "optimizer": {"type": "sgd"}, "lr": 10.0, "grad_clip": None, "normalize_advantages": False, "post_fcnet_hiddens": [],
    }  # fmt: skip
    first_layer = "model.network.weights.0"
    with trainer("pg", **keys) as run:  # no critic, so the losses of the two runs are the same
        start = run.get_weights()
        batch = run.workers.collect(16).batch
        run.learners[0].learn(batch)
        together = run.get_weights()["p0"][first_layer] - start["p0"][first_layer]
    with trainer("pg", **keys, shared={}) as apart:
        apart.set_weights(start)
        for learner in apart.learners:
            learner.learn(batch)
        alone = [apart.get_weights()[name][first_layer] - start[name][first_layer] for name in ("p0", "p1")]
    assert min(np.abs(step).max() for step in alone) > 1e-3
    np.testing.assert_allclose(together, alone[0] + alone[1], atol=1e-5)


def test_shared_layers_are_saved_once_and_come_back_shared(tmp_path):
    with trainer("ppo") as run:
        run.train()
        folder = run.save(tmp_path / "checkpoint")
        weights = run.get_weights()
    names = list(load_file(str(folder / "policies.safetensors")))
    assert [n for n in names if n.endswith("model.network.weights.0")] == ["/p0/model.network.weights.0"]
    with Trainer.from_checkpoint(folder) as again:
        a, b = parts(again)
        assert a.weights[0] is b.weights[0]
        for name in weights:
            for key, array in again.get_weights()[name].items():
                np.testing.assert_array_equal(array, weights[name][key])


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_with_shared_layers_resumes_exactly(algo, tmp_path):
    with trainer(algo) as straight:
        for _ in range(4):
            straight.train()
        expected = straight.get_weights()
    with trainer(algo) as first:
        first.train()
        first.train()
        folder = first.save(tmp_path / "checkpoint")
    with Trainer.from_checkpoint(folder) as second:
        second.train()
        second.train()
        for name, arrays in second.get_weights().items():
            for key, array in arrays.items():
                np.testing.assert_array_equal(array, expected[name][key])


@pytest.mark.ray
def test_workers_share_the_layers_too(ray_session):
    with trainer("ppo", num_workers=1, pool="ray") as run:
        run.train()
        same = run.workers.foreach_worker(
            lambda w: w.policy_map["p0"].network.weights[0] is w.policy_map["p1"].network.weights[0]
        )
        assert all(same)
        mine = run.get_weights()["p1"]["model.network.weights.0"]
        theirs = run.workers.foreach_worker(lambda w: w.policy_map["p1"].network.weights[0].detach().numpy())
        assert all(np.array_equal(mine, array) for array in theirs)


def test_freezing_one_of_two_sharers_is_refused():
    with pytest.raises(ConfigError, match="p0, p1 share the layers 'trunk', but only p0 would be trained"):
        trainer("ppo", policies_to_train=["p0"])
    with trainer("ppo") as run, pytest.raises(ConfigError, match="only p1 would be trained"):
        run.set_policies_to_train(["p1"])
    with trainer("ppo", policies_to_train=[]) as frozen:
        before = frozen.get_weights()
        frozen.train()
        np.testing.assert_array_equal(
            frozen.get_weights()["p0"]["model.network.weights.0"], before["p0"]["model.network.weights.0"]
        )


@pytest.mark.parametrize(
    ("policies", "error", "message"),
    [
        ({"p0": {}, "p1": {"algo": "dqn"}}, ConfigError, "share the layers 'trunk'.*differ in the algorithm"),
        ({"p0": {}, "p1": {"lr": 0.5}}, ConfigError, "share the layers 'trunk'.*differ in lr"),
        (
            {"p0": {}, "p1": {"fcnet_hiddens": [8]}},
            SpaceMismatchError,
            "share the encoder 'trunk', but their layers differ",
        ),
        ({"p0": {}, "p1": {"shared": {"head": "trunk"}}}, ConfigError, "shared"),
        ({"p0": {"fcnet_hiddens": []}, "p1": {"fcnet_hiddens": []}}, ConfigError, "fcnet_hiddens is empty"),
    ],
)
def test_policies_that_cannot_share_are_refused_before_the_run(policies, error, message):
    with pytest.raises(error, match=message):
        trainer("ppo", policies=policies)


def test_encoders_behind_vision_nets_of_different_size_are_refused_before_the_run():
    image = AgentType("a", ("a_0", "a_1"), spaces.Box(0, 255, (12, 12, 1), np.uint8), spaces.Discrete(2))
    specs = {
        name: PolicySpec("stochastic", 0, ModelConfig(conv_filters=[[n, 4, 4]], fcnet_hiddens=[8], shared={"encoder": "trunk"}))
        for name, n in (("p0", 2), ("p1", 3))
    }  # fmt: skip
    with pytest.raises(SpaceMismatchError, match=r"144 features, 18 inputs.*144 features, 27 inputs"):
        build_policies(specs, [image])


def test_a_policy_may_have_layers_of_its_own_beside_sharers():
    with trainer("ppo", policies={"p0": {}, "p1": {"shared": {}}}) as run:
        a, b = parts(run)
        assert a.weights[0] is not b.weights[0]
        run.train()


def test_shared_layers_have_the_optimiser_of_their_policies_whoever_else_is_in_the_learner():
    config = {
        "env": "copies", "env_config": {"num_agents": 3}, "fcnet_hiddens": [8], "train_batch_size": 32, "sgd_minibatch_size": 32,
        "policies": {"a": {}, "b": SGD, "c": SGD}, "policy_mapping_fn": {"agent_0": "a", "agent_1": "b", "agent_2": "c"},
        "evaluation": {"interval": 0},
    }  # fmt: skip
    with Trainer("mappo", config=config) as run:
        (learner,) = run.learners
        assert learner.optimisers["a"].config.type == "adam"
        assert learner.shared["trunk"].config.type == "sgd"


SGD = {"optimizer": {"type": "sgd"}, "shared": {"encoder": "trunk"}}


def test_loading_different_shared_layers_into_two_policies_is_refused(tmp_path):
    folders = []
    for seed in (1, 2):
        with trainer("ppo", seed=seed) as run:
            folders.append(run.save(tmp_path / str(seed)))
    with pytest.raises(CheckpointError, match="'p0' shares the layers trunk with a policy that was loaded after it"):
        trainer("ppo", load={"p0": str(folders[0]), "p1": str(folders[1])})
    with trainer("ppo", load={"p0": str(folders[0]), "p1": str(folders[0])}) as fine:
        assert fine.policies["p0"].network.weights[0] is fine.policies["p1"].network.weights[0]
