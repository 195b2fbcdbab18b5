"""Numbers of a result besides rewards: times, counters, errors, load, and what ran where. Rewards by policy and by agent."""

from __future__ import annotations

import ipaddress
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl import Trainer, pretty_print
from marl.data.clock import Clock, Timers
from marl.errors import ConfigError
from marl.runs import system_info as machine
from marl.runs.result import without_wall_clock
from tests.small_envs import Scripted, Step

SAMPLER = [
    "mean_raw_obs_processing_ms", "mean_inference_ms", "mean_action_processing_ms", "mean_env_wait_ms",
    "mean_env_render_ms",
]  # fmt: skip
SMALL: dict[str, Any] = {"env": "two_step_game", "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
PPO: dict[str, Any] = {**SMALL, "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1}
ONE_UPDATE: dict[str, Any] = {
    **SMALL, "train_batch_size": 16, "timesteps_per_iteration": 32, "learning_starts": 0, "updates_per_step": 1 / 32,
    "rollout_fragment_length": 32,
}  # fmt: skip


# --- rewards ------------------------------------------------------------------------------------------------


def crowd(_: Any) -> Scripted:
    """car_1 earns 1 and leaves, car_2 takes its place and earns 2 + 4, the light earns -1 twice and 0.5 after its end."""
    steps = [
        Step(["light_0"], {"car_1": 1, "light_0": -1}, terminated=["car_1"]),
        Step(["car_2", "light_0"], {"light_0": -1}),
        Step(["car_2"], {"car_2": 2}, terminated=["light_0"]),
        Step([], {"car_2": 4, "light_0": 0.5}, ["__all__"], last=["car_2"]),
    ]
    return Scripted(["car_1", "light_0"], steps, patterns={"car_*": 1, "light_*": 1})


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.ray)])
def test_agents_that_come_and_go_are_paid_by_name_and_their_policies_by_sums(workers: int, request: Any) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    keys = {
        "env": crowd, "policies": ["cars", "light"], "policy_mapping_fn": {"car_*": "cars", "light_*": "light"},
        "evaluation": {"interval": 1, "episodes": 2}, "num_workers": workers,
    }  # fmt: skip
    with Trainer("ppo", config={**PPO, **keys}) as trainer:
        result = trainer.train()
    for block in (result, result["evaluation"]):
        assert block["agent_reward_mean"] == {"car_1": 1.0, "light_0": -1.5, "car_2": 6.0}
        assert block["policy_reward_mean"] == {"cars": 7.0, "light": -1.5}
        assert block["policy_reward_min"] == block["policy_reward_max"] == block["policy_reward_mean"]
        assert block["episode_reward_mean"] == 5.5
        assert block["episode_len_mean"] == 4.0
    assert result["hist_stats"]["policy_cars_reward"] == [7.0] * result["episodes_this_iter"]
    assert result["agent_timesteps_this_iter"] == 32 // 4 * 6  # 2 + 1 + 2 + 1 agents are asked per episode


# --- times --------------------------------------------------------------------------------------------------


def test_a_clock_books_every_moment_to_somebody() -> None:
    clock, before = Clock(), time.perf_counter()
    clock.start()
    began = time.perf_counter()
    for name in ("a", "b", "a"):
        sum(range(20_000))
        clock.lap(name)
    ended = time.perf_counter()
    booked = clock.pop()
    assert list(booked) == ["a", "b"]
    assert min(booked.values()) > 0
    assert sum(booked.values()) <= ended - before  # nothing is booked twice
    clock.lap("c")
    assert sum(booked.values()) + clock.seconds["c"] >= ended - began  # and nothing is left out
    clock.pop()
    assert clock.pop() == {}


def test_throughputs_are_env_steps_per_second_of_the_activity() -> None:
    timers = Timers()
    timers.clear()
    timers.seconds |= {"sample": 2.0, "learn": 0.6}
    timers.move("learn", "load", 0.1)
    numbers = timers.numbers(env_steps=100)
    assert numbers["sample_throughput"] == 50.0
    assert numbers["load_throughput"] == pytest.approx(1000.0)
    assert numbers["learn_throughput"] == pytest.approx(200.0)
    assert numbers["learn_time_ms"] == pytest.approx(500.0)
    assert numbers["load_time_ms"] == pytest.approx(100.0)
    assert numbers["evaluation_time_ms"] == 0.0


def test_sampler_times_are_means_over_the_steps_of_all_workers() -> None:
    timers = Timers()
    timers.add_sampler({"inference": 0.3, "env_wait": 0.1, "steps": 10.0})
    timers.add_sampler({"inference": 0.1, "steps": 10.0})
    assert timers.sampler_numbers()["mean_inference_ms"] == pytest.approx(20.0)
    assert timers.sampler_numbers()["mean_env_wait_ms"] == pytest.approx(5.0)
    assert timers.sampler_numbers()["mean_env_render_ms"] == 0.0
    timers.add_sampler({"env_render": 0.6, "pictures": 3})
    assert timers.sampler_numbers()["mean_env_render_ms"] == pytest.approx(200.0)
    assert Timers().sampler_numbers() == {**dict.fromkeys(SAMPLER), "mean_env_render_ms": 0.0}


@pytest.mark.parametrize("algo", ["ppo", "dqn", "maddpg", "sac", "nfsp", "marwil"])
def test_timers_are_there_and_add_up_to_no_more_than_the_iteration(algo: str) -> None:
    keys = {**SMALL, "train_batch_size": 32, "evaluation": {"interval": 1, "episodes": 2}}
    if algo not in ("ppo", "marwil"):
        keys |= {"learning_starts": 8, "timesteps_per_iteration": 64, "updates_per_step": 0.25}
    with Trainer(algo, config=keys) as trainer:
        result = trainer.train()
    timers, whole = result["timers"], 1_000 * result["time_this_iter_s"]
    spent = {name: value for name, value in timers.items() if name.endswith("_time_ms")}
    assert set(spent) == {f"{name}_time_ms" for name in ("sample", "load", "learn", "sync", "evaluation")}
    assert all(value > 0 for value in spent.values())
    assert sum(spent.values()) <= whole
    for name in ("sample", "load", "learn"):
        steps = timers[f"{name}_throughput"] * timers[f"{name}_time_ms"] / 1_000
        assert steps == pytest.approx(result["timesteps_this_iter"])


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.ray)])
def test_the_sampler_says_where_the_time_of_a_step_goes(workers: int, request: Any) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    with Trainer("ppo", config={**PPO, "num_workers": workers}) as trainer:
        result = trainer.train()
    perf = result["sampler_perf"]
    assert list(perf) == SAMPLER
    assert all(perf[name] > 0 for name in SAMPLER if name != "mean_env_render_ms")
    assert perf["mean_env_render_ms"] == 0.0
    # 16 steps of each of two workers, or 32 of the one, fit into the time that the driver waited for them
    assert sum(perf.values()) * 32 / max(1, workers) <= result["timers"]["sample_time_ms"] * 1.001


def test_runs_without_a_sampler_say_nothing_of_its_times() -> None:
    keys = {**SMALL, "num_perturbations": 2, "episodes_per_perturbation": 1, "timesteps_per_iteration": 8}
    with Trainer("es", config=keys) as trainer:
        assert trainer.train()["sampler_perf"] == {**dict.fromkeys(SAMPLER), "mean_env_render_ms": 0.0}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.ray)])
def test_all_five_times_are_there_in_a_run_that_is_filmed(workers: int, request: Any, tmp_path: Path) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    with Trainer("ppo", config={**PPO, "num_workers": workers, "record_env": 1}, directory=tmp_path) as trainer:
        perf = trainer.train()["sampler_perf"]
    assert list(perf) == SAMPLER
    assert all(perf[name] > 0 for name in SAMPLER)


# --- the machine --------------------------------------------------------------------------------------------


def test_the_load_of_the_machine_is_in_results_unless_it_is_not_wanted() -> None:
    with Trainer("ppo", config=PPO) as trainer:
        perf = trainer.train()["perf"]
    assert {"cpu_util_percent", "ram_util_percent"} <= set(perf)
    assert all(0.0 <= value <= 100.0 for value in perf.values())
    with Trainer("ppo", config={**PPO, "log_sys_usage": False}) as trainer:
        assert "perf" not in trainer.train()


def test_a_result_says_when_where_and_with_what_it_was_made() -> None:
    with Trainer("ppo", config=PPO) as trainer:
        result = trainer.train()
    there = {
        "done", "trial_id", "experiment_id", "date", "timestamp", "time_this_iter_s", "time_total_s", "pid", "hostname",
        "node_ip", "config", "git", "versions", "seed",
    }  # fmt: skip
    assert there <= set(result)
    assert result["pid"] == os.getpid()
    assert result["hostname"] == platform.node()
    assert ipaddress.ip_address(result["node_ip"])
    assert result["versions"]["torch"] == metadata.version("torch")
    assert result["versions"]["python"] == platform.python_version()
    assert result["done"] is False
    assert result["config"]["algo"]["name"] == "ppo"
    assert result["config"]["seed"] == result["seed"] == 0


def test_the_commit_of_the_repository_is_told_and_whether_it_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        return subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert machine.git(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    machine.git.cache_clear()
    assert machine.git(tmp_path) == {"commit": git("rev-parse", "HEAD"), "changed": False}
    (tmp_path / "file").write_text("two")
    machine.git.cache_clear()
    assert machine.git(tmp_path) == {"commit": git("rev-parse", "HEAD"), "changed": True}


def test_runs_of_one_process_share_their_experiment_and_keep_it_over_a_resume(tmp_path: Path) -> None:
    with Trainer("ppo", config=PPO) as first, Trainer("ppo", config=PPO) as second:
        one, two = first.train(), second.train()
        assert one["experiment_id"] == two["experiment_id"]
        assert one["trial_id"] != two["trial_id"]
        first.experiment_id = "of another process"
        first.save(tmp_path / "saved")
        second.restore(tmp_path / "saved")
        assert second.train()["experiment_id"] == "of another process"


def test_two_equal_runs_differ_in_nothing_but_clocks_and_places() -> None:
    results = []
    for _ in range(2):
        with Trainer("dqn", config=ONE_UPDATE) as trainer:
            results.append(trainer.train())
    assert without_wall_clock(results[0]) == without_wall_clock(results[1])


# --- errors and counters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["dqn", "qmix", "maddpg", "td3", "sac", "nfsp"])
def test_the_full_td_error_has_one_entry_per_row_and_the_mean_that_is_told(algo: str, tmp_path: Path) -> None:
    with Trainer(algo, config={**ONE_UPDATE, "full_td_error": True}) as trainer:
        trainer.train()
        block = trainer.train()["info"]["learner"]["default_policy"]
        trainer.save(tmp_path / "saved")
        after = trainer.train()["info"]["learner"]["default_policy"]["td_error"]
    assert len(block["td_error"]) == 16
    assert min(block["td_error"]) >= 0
    assert np.mean(block["td_error"]) == pytest.approx(block["learner_stats"]["mean_td_error"], rel=1e-5)
    with Trainer(algo, config={**ONE_UPDATE, "full_td_error": True}) as again:
        again.restore(tmp_path / "saved")
        assert again.learners[0].td_errors["default_policy"].tolist() == block["td_error"]
        assert again.train()["info"]["learner"]["default_policy"]["td_error"] == after


def test_td_errors_are_not_listed_unless_asked_for_and_not_known_to_algorithms_without_them() -> None:
    with Trainer("dqn", config=ONE_UPDATE) as trainer:
        assert "td_error" not in trainer.train()["info"]["learner"]["default_policy"]
    with pytest.raises(ConfigError, match="full_td_error"):
        Trainer("ppo", config={**PPO, "full_td_error": True})


def test_errors_of_policies_that_learn_apart_are_listed_apart() -> None:
    keys = {**ONE_UPDATE, "policies": ["p", "q"], "policy_mapping_fn": {"agent_0": "p", "agent_1": "q"}}
    with Trainer("dqn", config={**keys, "full_td_error": True}) as trainer:
        blocks = trainer.train()["info"]["learner"]
    assert len(blocks["p"]["td_error"]) == len(blocks["q"]["td_error"]) == 16
    assert blocks["p"]["td_error"] != blocks["q"]["td_error"]


@pytest.mark.parametrize(
    ("algo", "keys", "targets", "last"),
    [
        ("dqn", {"target_update_every": 2}, 2, 128),
        ("nfsp", {"target_update_every": 3}, 1, 96),
        ("ddpg", {}, 4, 128),
        ("td3", {}, 2, 128),
        ("sac", {}, 4, 128),
    ],
)
def test_all_six_counters_count_and_survive_a_resume(
    algo: str, keys: dict[str, Any], targets: int, last: int, tmp_path: Path
) -> None:
    """Four iterations of 32 env steps with one update of 16 rows each; two agents decide in every step."""
    config = {**ONE_UPDATE, **keys, "policies": ["p"], "policy_mapping_fn": "shared"}
    with Trainer(algo, config=config) as trainer:
        for _ in range(2):
            trainer.train()
        trainer.save(tmp_path / "saved")
    with Trainer(algo, config=config) as trainer:
        trainer.restore(tmp_path / "saved")
        trainer.train()
        info = trainer.train()["info"]
    assert info["num_steps_sampled"] == 128
    assert info["num_agent_steps_sampled"] == 256
    assert info["num_steps_trained"] == info["num_agent_steps_trained"] == 4 * 16
    assert info["num_updates"] == 4
    assert info["num_target_updates"] == targets
    assert info["last_target_update_ts"] == last


# --- text ---------------------------------------------------------------------------------------------------


def test_a_result_is_printed_like_yaml_with_long_lists_shortened() -> None:
    text = pretty_print(
        {
            "done": False,
            "info": {"learner": {"p": {"loss": 0.5}}},
            "short": [1, 2],
            "long": list(range(100)),
            "none": None,
        }
    )
    assert text.splitlines() == [
        "done: False",
        "info:",
        "  learner:",
        "    p:",
        "      loss: 0.5",
        "short: [1, 2]",
        "long: [0, 1, 2, ... 100 values]",
        "none: None",
    ]


def test_every_field_of_a_real_result_is_printed_at_its_depth() -> None:
    with Trainer("ppo", config=PPO) as trainer:
        result = trainer.train()
    lines = pretty_print(result).splitlines()
    assert f"episode_reward_mean: {result['episode_reward_mean']}" in lines
    assert f"  sample_time_ms: {result['timers']['sample_time_ms']}" in lines
    assert max(map(len, lines)) < 400
