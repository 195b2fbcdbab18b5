"""How much memory a run takes: the estimate against what is really allocated, and what is refused because of it."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl import memory
from marl.data.replay import Replay
from marl.data.space_json import space_from_json
from marl.envs.registry import make_batched_env
from marl.errors import CheckpointError, ConfigError, DataError, OutOfMemoryError, ResourceError
from marl.failures import machine_failure
from marl.memory import free_memory, in_words
from marl.policies.build import build_policies
from marl.policies.size import parameter_count
from marl.scenario.load import compose, load_scenario
from marl.scenario.resolve import resolve
from marl.training.memory_estimate import COPY, check_memory, needs_of, row_bytes
from marl.training.trainer import Trainer
from tests.command import marl
from tests.forgeries import write_sealed

SMALL = {"fcnet_hiddens": [8], "learning_starts": 10**6, "train_batch_size": 8}


def size_of(setup: Any, what: str) -> int:
    return sum(need.size for need in needs_of(setup) if what in need.what)


@pytest.mark.parametrize(
    ("algo", "env", "keys"),
    [("dqn", "CartPole-v1", {}), ("qmix", "two_step_game", {}), ("sac", "Pendulum-v1", {}), ("maddpg", "fast:simple_spread", {}),
     ("dqn", "fast:simple_spread", {"use_lstm": True, "lstm_cell_size": 32}), ("nfsp", "kuhn_poker", {}),
     ("dqn", "CartPole-v1", {"use_attention": True, "attention_dim": 16}),
     ("qmix", "two_step_game", {"use_attention": True, "attention_dim": 16, "max_seq_len": 5})],
)  # fmt: skip
def test_the_estimate_of_a_replay_is_within_a_factor_of_two_of_what_it_takes(
    algo: str, env: str, keys: dict[str, Any]
) -> None:
    with Trainer(
        algo, env=env, config={**SMALL, "buffer_size": 5_000, "timesteps_per_iteration": 40, **keys}
    ) as trainer:
        trainer.train()
        gc.collect()
        taken = 0
        for learner in trainer.learners:
            taken += sum(_bytes(replay) for replay in _replays(learner, set()))
        assert taken > 400_000
        assert 0.5 < size_of(trainer.setup, "the replay") / taken < 2.0


def _replays(thing: object, seen: set[int]) -> list[Replay]:
    """All replays that an object holds, however deep."""
    if id(thing) in seen or isinstance(thing, torch.nn.Module | np.ndarray | str | int | float):
        return []
    seen.add(id(thing))
    if isinstance(thing, Replay):
        return [thing]
    inner = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
    below = [*inner, *(vars(thing).values() if hasattr(thing, "__dict__") else ())]
    return [replay for part in below for replay in _replays(part, seen)]


def _bytes(replay: Replay) -> int:
    return sum(column.nbytes for column in replay.columns.values()) + replay.following.nbytes


def peak_of(call: Any) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("env", ["fast:simple_spread", "two_step_game"])
def test_the_estimate_of_a_round_is_within_a_factor_of_two_of_what_it_takes(env: str) -> None:
    keys = {"fcnet_hiddens": [4], "num_envs_per_worker": 100, "rollout_fragment_length": 40, "train_batch_size": 4_000,
            "sgd_minibatch_size": 100, "num_sgd_iter": 1}  # fmt: skip
    with Trainer("ppo", env=env, config=keys) as trainer:
        trainer.workers.start()
        taken = peak_of(trainer.train)
        assert 0.5 < size_of(trainer.setup, "rounds") / taken < 2.0


def test_a_copy_of_a_small_env_takes_about_what_is_counted_for_it() -> None:
    taken = peak_of(lambda: make_batched_env("CartPole-v1", 200, {}, wrappers=())) / 200
    assert COPY < taken < 10 * COPY


@pytest.mark.parametrize(
    ("algo", "env", "keys"),
    [("ppo", "CartPole-v1", {"fcnet_hiddens": [300, 200]}), ("dqn", "two_step_game", {"post_fcnet_hiddens": [50]}),
     ("ppo", "fast:simple_spread", {"use_lstm": True, "lstm_cell_size": 100}), ("sac", "Pendulum-v1", {}), ("ppo", "liars_dice", {})],
)  # fmt: skip
def test_weights_are_counted_before_they_are_made(algo: str, env: str, keys: dict[str, Any]) -> None:
    setup = resolve(compose({"env": env, "algo": algo, **keys}))
    (policy,) = build_policies(setup.policies, setup.task.kinds).values()
    (spec,) = setup.policies.values()
    made = sum(parameter.numel() for parameter in policy.parameters())
    assert 0.45 < parameter_count(spec, setup.task.kinds[spec.kind]) / made < 1.1


HUGE = [
    ({"num_envs_per_worker": 10**9}, "num_envs_per_worker", "ppo"),
    ({"num_envs_per_worker": 10**9, "rollout_fragment_length": 1}, "num_envs_per_worker", "dqn"),
    ({"train_batch_size": 10**12}, "train_batch_size", "ppo"),
    ({"rollout_fragment_length": 10**11}, "rollout_fragment_length", "ppo"),
    ({"buffer_size": 10**12}, "buffer_size", "dqn"),
    ({"buffer_size": 10**12}, "buffer_size", "qmix"),
    ({"reservoir_size": 10**12}, "reservoir_size", "nfsp"),
    ({"fcnet_hiddens": [10**9]}, "fcnet_hiddens", "ppo"),
    ({"fcnet_hiddens": [10**6, 10**6]}, "fcnet_hiddens", "dqn"),
    ({"num_workers": 10**7}, "num_workers", "ppo"),
    ({"num_workers": 10**9, "pool": "in_process"}, "num_workers", "ppo"),
    ({"evaluation": {"interval": 1, "episodes": 10**12}}, "evaluation.episodes", "ppo"),
]


@pytest.mark.parametrize(("keys", "lower", "algo"), HUGE, ids=lambda value: str(value)[:40])
def test_impossible_sizes_are_refused_with_the_numbers_and_the_key_before_anything_is_made(
    keys: dict[str, Any], lower: str, algo: str
) -> None:
    def refused() -> None:
        message = r"would take [\d,.]+ [GT]B of memory or more, and [\d,.]+ [MG]B are free: .* Lower .*" + lower
        with pytest.raises(ResourceError, match=message):
            Trainer(algo, env="two_step_game", config=keys)

    assert peak_of(refused) < 30_000_000


def test_the_command_refuses_with_exit_code_2_and_leaves_nothing(tmp_path: Path) -> None:
    done = marl("train", "--env", "two_step_game", "--config", '{"num_envs_per_worker": 1000000000}', "--stop-iters", 1,
                "--local-dir", tmp_path / "out")  # fmt: skip
    assert (done.code, len(done.errors)) == (2, 1)
    assert not (tmp_path / "out").exists()


def test_a_large_replay_that_a_short_run_never_fills_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.training.memory_estimate.free_memory", lambda: 10**9)
    keys = {"env": "two_step_game", "algo": "dqn", "buffer_size": 10**7}
    with pytest.raises(ResourceError, match="buffer_size"):
        check_memory(resolve(compose(keys)))
    check_memory(resolve(compose({**keys, "stop": {"timesteps_total": 1_000}})))
    check_memory(resolve(compose({**keys, "stop": {"training_iteration": 3}})))


@pytest.mark.parametrize("stop", [{"time_total_s": 60}, {"episode_reward_mean": 8.0}])
def test_rows_that_may_never_come_are_not_counted(stop: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"env": "two_step_game", "algo": "dqn", "buffer_size": 10**7}
    monkeypatch.setattr("marl.training.memory_estimate.free_memory", lambda: 10**9)
    check_memory(resolve(compose({**keys, "stop": stop})))
    with pytest.raises(ResourceError, match="buffer_size"):  # its steps are known
        check_memory(resolve(compose({**keys, "stop": {**stop, "timesteps_total": 10**9}})))
    with pytest.raises(ResourceError, match="buffer_size"):  # written when the replay is made
        check_memory(resolve(compose({**keys, "stop": stop, "buffer_size": 10**9})))


@pytest.mark.parametrize(
    "name", ["two_step_gru", "windy_maze_three_levels", "cartpole_apex", "spread_maddpg", "kuhn_nfsp"]
)
def test_shipped_scenarios_fit_into_a_small_machine(name: str) -> None:
    setup = resolve(load_scenario(Path("scenarios") / f"{name}.yaml"))
    assert sum(need.size for need in needs_of(setup) if "workers" not in need.what) < 3e9


def test_a_row_is_what_the_grid_allocates() -> None:
    setup = resolve(compose({"env": "two_step_game", "algo": "ppo"}))
    # Two agents: observations of 4 int64 before and after, an int64 action; two float32, three int64, seven flags; two int64,
    # a flag and a state of three float32 before and after.
    assert row_bytes(setup) == 2 * (2 * 4 * 8 + 8 + 2 * 4 + 3 * 8 + 7) + 2 * 8 + 1 + 2 * 3 * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [("attention_memory_inference", 10**12), ("attention_use_n_prev_actions", 10**12), ("attention_head_dim", 10**12),
     ("attention_dim", 10**7), ("lstm_cell_size", 10**8)],
)  # fmt: skip
def test_a_memory_that_does_not_fit_is_refused_by_the_key_that_makes_it_large(key: str, value: int) -> None:
    memory = "use_lstm" if key == "lstm_cell_size" else "use_attention"
    setup = resolve(compose({"env": "two_step_game", "algo": "ppo", memory: True, key: value}))
    with pytest.raises(ResourceError, match=rf"Lower {key}\b"):
        check_memory(setup)


def test_limits_of_a_container_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty = free_memory()
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("50000000\n")
    assert free_memory() > plenty / 2
    (tmp_path / "memory.max").write_text("100000000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 20000000\n")
    assert free_memory() == 70_000_000
    (tmp_path / "memory.stat").write_text(
        "active_file 4000000\ninactive_file 20000000\nslab_reclaimable 1000000\nslab 3\n"
    )
    assert free_memory() == 75_000_000
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("60000000\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("55000000\n")
    assert free_memory() == 5_000_000
    (tmp_path / "memory" / "memory.stat").write_text(
        "inactive_file 1\ntotal_inactive_file 3000000\ntotal_active_file 2000000\n"
    )
    assert free_memory() == 10_000_000
    (tmp_path / "memory" / "memory.stat").unlink()
    assert in_words(free_memory()) == "5.0 MB"


@pytest.mark.parametrize(
    "make", [lambda: torch.empty(2**50), lambda: np.empty(2**50), lambda: torch.empty(2**62, 2**62)]
)
def test_running_out_of_memory_is_told_as_such(make: Any) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        make()
    failure = machine_failure(caught.value)
    assert isinstance(failure, OutOfMemoryError)
    assert "there is not enough memory" in str(failure)
    assert machine_failure(RuntimeError("anything else")) is None
    assert machine_failure(ConfigError("mine")) is None


@pytest.mark.parametrize(
    "plain",
    [{"type": "Box", "low": 0, "high": 1, "shape": [10**9, 10**9], "dtype": "float32"}, {"type": "MultiBinary", "n": 10**15},
     {"type": "Box", "low": 0, "high": 1, "shape": [-4], "dtype": "float32"}, {"type": "MultiBinary", "n": [10**8, 10**8]}],
)  # fmt: skip
def test_spaces_of_impossible_shapes_are_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="shape"):
        space_from_json(plain)


def test_an_export_with_impossible_sizes_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    import marl as package

    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [4]}) as trainer:
        (folder,) = trainer.export_model(tmp_path)
    file = folder / "policy.json"
    about = json.loads(file.read_text())
    box = {"type": "Box", "low": 0, "high": 1, "shape": [10**7, 10**7], "dtype": "float32"}
    for change in ({"observation_space": box}, {"observation_space": {"type": "Discrete", "n": 10**30, "start": 0}},
                   {"action_space": {"type": "Discrete", "n": -1, "start": 0}}, {"agents": []}):  # fmt: skip
        write_sealed(file, {**about, **change})
        with pytest.raises(CheckpointError, match="damaged"):
            package.load_policy(folder)
    recipe = {**about["recipe"], "model": {**about["recipe"]["model"], "fcnet_hiddens": [10**9, 10**9]}}
    write_sealed(file, {**about, "recipe": recipe})
    with pytest.raises(ResourceError, match="Lower fcnet_hiddens"):
        package.load_policy(folder)
    # No weight more, but a table of distances and inputs to remember.
    model = {**about["recipe"]["model"], "use_attention": True, "attention_memory_inference": 10**12}
    write_sealed(file, {**about, "recipe": {**about["recipe"], "model": model}})
    with pytest.raises(ResourceError, match="Lower attention_memory_inference"):
        package.load_policy(folder)
