"""Keys of collecting do what they say, in this process; those of Ray are in test_worker_resources.py."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from marl.envs.base import EnvContext
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.policies.filters import MeanStdFilter
from marl.policies.networks import Features
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from tests.rollout.pay_env import PAYS, PayEnv

SMALL: dict[str, Any] = {
    "env": PayEnv, "train_batch_size": 8, "sgd_minibatch_size": 8, "num_sgd_iter": 1, "fcnet_hiddens": [4],
    "evaluation": {"interval": 0},
}  # fmt: skip


def trainer(algo: str = "ppo", **keys: Any) -> Trainer:
    return Trainer(algo, config={**SMALL, **keys})


# -- what learners are paid -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "paid"),
    [(False, PAYS), (True, (1.0, -1.0, 1.0, 0.0)), (1, (1.0, -1.0, 0.5, 0.0)), (2.5, (2.5, -2.5, 0.5, 0.0))],
)
def test_learners_are_paid_clipped_rewards_and_results_tell_the_real_ones(limit: Any, paid: tuple[float, ...]) -> None:
    with trainer(clip_rewards=limit) as one:
        rewards = one.workers.collect(8).batch.rewards[:, 0, 0]
        assert rewards.tolist() == [*paid, *paid]
        assert one.train()["episode_reward_mean"] == sum(PAYS)


def test_a_policy_remembers_the_reward_that_its_learner_sees() -> None:
    with trainer(clip_rewards=1.0, use_gru=True, lstm_cell_size=3, lstm_use_prev_reward=True) as one:
        carry = one.workers.collect(4).batch.carry[0][:, 0, 0, -1]
    assert carry.tolist() == [0.0, 1.0, -1.0, 0.5]


@pytest.mark.parametrize("keys", [{"clip_rewards": True}, {"explore": False}])
def test_evolution_refuses_keys_of_single_steps(keys: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError,
        match=r"is not for es, but it learns by es .es compares the returns of whole episodes .*drop ",
    ):
        Trainer("es", env="CartPole-v1", config=keys)


# -- exploring ------------------------------------------------------------------------------------------------------


def test_without_explore_workers_play_the_best_guess() -> None:
    greedy = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0}
    keys = {**SMALL, "exploration_config": greedy, "num_envs_per_worker": 16}
    for key in ("train_batch_size", "sgd_minibatch_size", "num_sgd_iter"):
        del keys[key]
    chosen = {}
    for explore in (True, False):
        with Trainer("dqn", config={**keys, "explore": explore}) as one:
            batch = one.workers.collect(8).batch
            best = [one.compute_action(obs) for obs in batch.obs[0][:, 0, 0]]
            chosen[explore] = (batch.actions[0][:, 0, 0] == best).all(), len(np.unique(batch.actions[0][0]))
    assert chosen[False] == (True, 1)  # every copy shows the same first view, so all do the same
    assert chosen[True][1] == 3


# -- fragments and forward passes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 3, 7])
def test_a_fragment_is_as_long_as_its_key_says(length: int) -> None:
    with trainer(rollout_fragment_length=length, num_envs_per_worker=2) as one:
        batch = one.source.collect(one.setup.fragment).batch
        assert batch.t[batch.context :].shape == (length, 2)


@pytest.mark.parametrize("copies", [1, 5])
def test_a_policy_is_asked_once_per_step_for_all_copies(copies: int) -> None:
    calls: list[int] = []
    with trainer(num_envs_per_worker=copies) as one:
        policy = one.get_policy()
        act = policy.act

        def counted(inputs: Any, *rest: Any, **keys: Any) -> Any:
            calls.append(len(inputs))
            return act(inputs, *rest, **keys)

        policy.act = counted  # type: ignore[method-assign]
        steps = one.workers.collect(6).env_steps
    assert calls == [copies] * 6
    assert len(calls) == steps / copies


# -- where a copy lives ---------------------------------------------------------------------------------------------


def test_every_copy_has_a_seed_of_its_own_that_follows_from_the_run() -> None:
    seen: list[EnvContext] = []

    def create(config: EnvContext) -> PayEnv:
        seen.append(config)
        return PayEnv()

    for worker in (1, 2):
        make_batched_env(create, 2, {}, worker_index=worker, num_workers=2, seed=5, remote=worker == 2)
    seeds = [context.seed for context in seen]
    assert len(set(seeds)) == 4
    assert [context.remote for context in seen] == [False, False, True, True]
    make_batched_env(create, 1, {}, worker_index=1, num_workers=2, seed=5)
    make_batched_env(create, 1, {}, worker_index=1, num_workers=2, seed=6)
    assert seen[4].seed == seeds[0] != seen[5].seed


# -- looking into a worker ------------------------------------------------------------------------------------------


def test_a_worker_shows_preprocessors_and_filters_of_its_policies() -> None:
    policies = {"a": {"observation_filter": "MeanStdFilter"}, "b": {}, "c": {"scripted": "random"}}
    mapping = {"policy_mapping_fn": {"agent_*": ["a", "b", "c"]}, "policies": policies}
    with trainer(**mapping) as one:
        worker = one.workers.local_worker()
        assert {name: type(stage) for name, stage in worker.preprocessors.items()} == {"a": Features, "b": Features}
        assert {name: type(found) for name, found in worker.filters.items()} == {"a": MeanStdFilter, "b": type(None)}


def test_acting_once_leaves_the_filter_as_it_is() -> None:
    with trainer(observation_filter="MeanStdFilter") as one:
        one.train()
        found = one.workers.local_worker().filters["default_policy"]
        assert found is not None
        before = {name: tensor.clone() for name, tensor in found.state_dict().items()}
        assert before["count"] >= 8
        one.compute_action(np.array([9.0, -9.0], np.float32))
        assert all(bool((tensor == before[name]).all()) for name, tensor in found.state_dict().items())


def test_an_iteration_collects_then_learns_then_sends_the_weights() -> None:
    told: list[str] = []
    with trainer(rollout_fragment_length=4) as one:
        for owner, verb in ((one.source, "collect"), (one.learning, "learn"), (one.workers, "sync_weights")):
            call = getattr(owner, verb)
            setattr(owner, verb, lambda *a, call=call, verb=verb, **k: (told.append(verb), call(*a, **k))[1])
        timers = one.train()["timers"]
    assert told == ["collect", "learn", "sync_weights"] * 2
    assert {"sample_time_ms", "learn_time_ms", "sync_time_ms"} <= set(timers)


# -- logging --------------------------------------------------------------------------------------------------------


def test_the_lower_the_log_level_the_more_lines(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    lines = {}
    for level in ("ERROR", "WARN", "INFO", "DEBUG"):
        caplog.clear()
        with trainer(log_level=level) as one:
            assert logging.getLogger("marl").level == logging.getLevelName("WARNING" if level == "WARN" else level)
            one.train()
            one.save(tmp_path / level)
        lines[level] = len([record for record in caplog.records if record.name.startswith("marl.")])
    assert lines["ERROR"] == lines["WARN"] == 0
    assert 0 < lines["INFO"] < lines["DEBUG"]
    logging.getLogger("marl").setLevel(logging.WARNING)


@pytest.mark.parametrize("level", ["info", "LOUD", 10])
def test_an_unknown_log_level_is_refused(level: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"log_level = .* does not fit: Input should be 'DEBUG', 'INFO', 'WARN' or 'ERROR'"
    ):
        compose({"env": "e", "log_level": level})


# -- defaults -------------------------------------------------------------------------------------------------------


def test_defaults_of_dqn_and_of_models_are_those_of_the_documents() -> None:
    scenario = compose({"env": "e", "algo": "dqn"})
    algo = scenario.preset.configure()
    assert (algo.gamma, algo.lr, algo.train_batch_size) == (0.99, 0.0005, 32)
    top = {
        "num_workers": 0,
        "num_envs_per_worker": 1,
        "normalize_actions": True,
        "clip_actions": False,
        "explore": True,
    }
    for key, value in {**top, "log_level": "WARN", "clip_rewards": False, "create_env_on_driver": False}.items():
        assert getattr(scenario, key) == value
    model = scenario.model
    assert (model.fcnet_hiddens, model.fcnet_activation, model.conv_activation) == ([256, 256], "tanh", "relu")
    assert (model.post_fcnet_hiddens, model.post_fcnet_activation) == ([], "relu")
    assert (model.max_seq_len, model.lstm_cell_size, model.dim) == (20, 256, None)


def test_fragments_of_dqn_are_four_steps_and_cut_episodes() -> None:
    with Trainer("dqn", config={"env": PayEnv, "fcnet_hiddens": [4]}) as one:
        assert one.setup.fragment == 4
        assert not one.setup.rollout.complete_episodes
