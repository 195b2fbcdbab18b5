"""Predators by MAPPO against prey by DQN: what ``result.json`` says they earned is what the env itself handed out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpe2 import simple_tag_v3
from pettingzoo.utils.wrappers import BaseParallelWrapper

from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer

SCENARIO = Path(__file__).parents[2] / "scenarios" / "simple_tag.yaml"
PREDATORS, PREY = ("adversary_0", "adversary_1", "adversary_2"), ("agent_0",)


class PaySlips(BaseParallelWrapper):  # type: ignore[misc]
    """Writes down every reward at the moment in which the env hands it out, and nothing else of ours."""

    def __init__(self, env: Any, log: str) -> None:
        super().__init__(env)
        self.log = Path(log)
        self.episode = 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        answer = super().step(actions)
        paid = {agent: float(reward) for agent, reward in answer[1].items()}
        with self.log.open("a") as file:
            file.write(
                json.dumps({"copy": id(self), "episode": self.episode, "paid": paid, "last": not self.env.agents})
            )
            file.write("\n")
        return answer


def logged_tag(config: dict[str, Any]) -> Any:
    return PaySlips(simple_tag_v3.parallel_env(), config["log"])


def hand_sums(log: Path, agents: Sequence[str]) -> list[float]:
    """Sum over these agents in each episode that was played to its end, in the order of the ends."""
    running: dict[tuple[int, int], float] = {}
    ended = []
    for line in log.read_text().splitlines():
        slip = json.loads(line)
        key = (slip["copy"], slip["episode"])
        running[key] = running.get(key, 0.0) + sum(slip["paid"][agent] for agent in agents)
        if slip["last"]:
            ended.append(running.pop(key))
    return ended


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """Three iterations of the scenario as it is, on smaller batches and with the log around the env."""
    folder = tmp_path_factory.mktemp("tag")
    changes = {
        "env": f"{__name__}:logged_tag",
        "env_config": {"log": str(folder / "training.jsonl")},
        "evaluation": {"interval": 1, "episodes": 5, "env_config": {"log": str(folder / "evaluation.jsonl")}},
        "algo.train_batch_size": 600,
        "num_envs_per_worker": 8,
        "checkpoint_freq": 0,
    }
    scenario = load_scenario(SCENARIO, changes=changes)
    with Trainer(scenario=scenario, directory=folder / "run") as trainer:
        before = trainer.get_weights()
        before = {name: {k: v.copy() for k, v in w.items()} for name, w in before.items()}
        for _ in range(3):
            trainer.train()
        after = trainer.get_weights()
        assert [role.preset.name for role in trainer.setup.roles.values()] == ["mappo", "dqn"]
    for name in ("predators", "prey"):  # both sides learned in this one run
        assert any(not np.array_equal(before[name][k], after[name][k]) for k in before[name])
    rows = [json.loads(line) for line in (folder / "run" / "result.json").read_text().splitlines()]
    return rows, folder


def test_the_two_sides_have_different_spaces() -> None:
    env = simple_tag_v3.parallel_env()
    assert env.observation_space("adversary_0") != env.observation_space("agent_0")


@pytest.mark.parametrize(("policy", "agents"), [("predators", PREDATORS), ("prey", PREY)])
def test_returns_by_policy_are_the_hand_sums_of_the_envs_own_log(
    run: tuple[list[dict[str, Any]], Path], policy: str, agents: Sequence[str]
) -> None:
    rows, folder = run
    sums = hand_sums(folder / "training.jsonl", agents)
    assert len(rows) == 3
    assert len(sums) == rows[-1]["episodes_total"] == 3 * 600 // 25
    for row in rows:
        counted = sums[: row["episodes_total"]][-max(100, row["episodes_this_iter"]) :]
        assert row["policy_reward_mean"][policy] == pytest.approx(np.mean(counted), rel=1e-5)
        assert row["policy_reward_max"][policy] == pytest.approx(max(counted), rel=1e-5)
        assert row["policy_reward_min"][policy] == pytest.approx(min(counted), rel=1e-5)
        assert row["hist_stats"][f"policy_{policy}_reward"] == pytest.approx(counted, rel=1e-5)
    assert np.std(sums) > 0  # equal sums would prove nothing


def test_the_episode_reward_is_what_the_env_paid_to_everybody(run: tuple[list[dict[str, Any]], Path]) -> None:
    rows, folder = run
    sums = hand_sums(folder / "training.jsonl", PREDATORS + PREY)
    assert rows[-1]["episode_reward_mean"] == pytest.approx(np.mean(sums[-100:]), rel=1e-5)


@pytest.mark.parametrize(("policy", "agents"), [("predators", PREDATORS), ("prey", PREY)])
def test_evaluations_are_hand_sums_as_well(
    run: tuple[list[dict[str, Any]], Path], policy: str, agents: Sequence[str]
) -> None:
    rows, folder = run
    sums = hand_sums(folder / "evaluation.jsonl", agents)
    assert len(sums) == 15
    for i, row in enumerate(rows):
        assert row["evaluation"]["policy_reward_mean"][policy] == pytest.approx(
            np.mean(sums[5 * i : 5 * i + 5]), rel=1e-5
        )
