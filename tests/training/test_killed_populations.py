"""Runs with a population, and nfsp, that are killed from outside and go on by ``marl run --resume`` lose and repeat nothing."""

from __future__ import annotations

import json
import random
import signal
import time
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml

from marl.errors import CheckpointError
from marl.gametheory.payoffs import PayoffTensor
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.files import RunFiles
from marl.runs.manifest import iteration_of
from marl.runs.result import without_wall_clock
from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer
from tests import processes
from tests.processes import Process
from tests.training.trees import differences

ENVS: dict[str, dict[str, Any]] = {
    "rps": {"env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}},
    "kuhn": {"env": "kuhn_poker"},
}
SMALL: dict[str, Any] = {
    "model": {"fcnet_hiddens": [8]}, "num_envs_per_worker": 16, "evaluation": {"interval": 4, "episodes": 4},
    "exploitability": {"interval": 2}, "checkpoint_freq": 2, "seed": 5,
}  # fmt: skip
PPO = {"name": "ppo", "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2, "lr": 0.01}
NFSP: dict[str, Any] = {"name": "nfsp", "train_batch_size": 16, "learning_starts": 32, "buffer_size": 300}
ROUND = 3  # iterations; checkpoints, every second one, also lie within rounds
NEVER = 10**6
MORE = 8  # iterations after the last kill


def scenario(env: str, kind: str, workers: int) -> dict[str, Any]:
    keys = {**ENVS[env], **SMALL, "name": "killed", "num_workers": workers, "stop": {"training_iteration": NEVER}}
    if kind == "nfsp":
        play = {"multiagent": {"policy_mapping_fn": "per_agent"}, "timesteps_per_iteration": 64}
        return {**keys, **play, "algo": {**NFSP, "reservoir_size": 200}}
    steps = PPO["train_batch_size"] * ROUND
    return {**keys, "algo": PPO, "population": {"kind": kind, "round_timesteps": steps, "matches": 8}}


def start(*arguments: object) -> Process:
    return processes.start(*arguments, "--quiet", module="marl.run", warm_ray=True)


def newest(place: Path) -> int:
    """The iteration of the newest complete checkpoint of the only run in ``place``; -1 before the first."""
    try:
        return max((iteration_of(find_checkpoint(run)) for run in place.glob("killed/*")), default=-1)
    except CheckpointError:
        return -1


def kill_after(process: Process, place: Path, iteration: int) -> None:
    """Signal 9 at any moment after this iteration's checkpoint."""
    while newest(place) < iteration:
        assert process.poll() is None, "the run ended by itself"
        time.sleep(0.01)
    time.sleep(random.uniform(0.0, 0.3))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def run_of(place: Path) -> Path:
    (found,) = place.glob("killed/*")
    return found


def saved(run: Path, parts: tuple[str, ...]) -> dict[str, Any]:
    found = {part: read_part(find_checkpoint(run), part) for part in parts}
    found["run"].pop("scenario")
    for name in ("time_total_s", "trial_id", "experiment_id"):
        found["run"]["counters"].pop(name)
    return found


def lines_of(run: Path) -> list[dict[str, Any]]:
    found = [without_wall_clock(line) for line in RunFiles(run).results()]
    return [{key: value for key, value in line.items() if key != "config"} for line in found]  # stop was changed


def assert_complete(run: Path, iterations: int, kind: str) -> None:
    """The population has every round, member, ancestor and payoff; results have no gap."""
    lines = lines_of(run)
    assert [line["training_iteration"] for line in lines] == list(range(1, iterations + 1))
    measured = [line["training_iteration"] for line in lines if "exploitability" in line]
    assert measured == sorted({*range(2, iterations + 1, 2), iterations})
    assert all(line["exploitability"]["bound"] == "exact" for line in lines if "exploitability" in line)
    if kind == "nfsp":
        return
    rounds = [line["population"].get("round", 0) for line in lines]
    assert rounds == [iteration // ROUND for iteration in range(1, iterations + 1)]
    told = json.loads((run / "population.json").read_text())
    assert told["round"] == rounds[-1]
    lineage = nx.node_link_graph(told["lineage"], edges="edges")
    assert nx.is_directed_acyclic_graph(lineage)
    payoffs = PayoffTensor.from_json(told["payoffs"])
    assert payoffs.is_complete
    policies = read_part(find_checkpoint(run), "policies")
    for player, names in zip(payoffs.players, payoffs.names, strict=True):
        mains = [n for n in names if lineage.nodes[n]["learner"] in (player, "first weights")]
        assert [lineage.nodes[name]["round"] for name in mains] == list(range(rounds[-1] + 1))
        assert list(names) == [f"{player}_{i}" for i in range(told["members"][player])]
        assert len(policies[f"{player}.answer"]["chances"]) == len(names)
        assert all(lineage.in_degree(name) for name in names[1:])
    assert set(lineage) == {name for names in payoffs.names for name in names}
    assert payoffs.count.shape == tuple(map(len, payoffs.names))
    assert all(payoffs.count[pairing] == 8 for pairing in product(*map(range, payoffs.count.shape)))


def assert_survives(env: str, kind: str, workers: int, tmp_path: Path, kills: tuple[int, ...]) -> None:
    file, killed, straight = tmp_path / "killed.yaml", tmp_path / "killed", tmp_path / "straight"
    file.write_text(yaml.safe_dump(scenario(env, kind, workers)))
    kill_after(start(file, "--local-dir", killed), killed, kills[0])
    run = run_of(killed)
    for more in kills[1:]:
        kill_after(start("--resume", run), killed, newest(killed) + more)
    end = newest(killed) + MORE
    assert start("--resume", run, "--stop-iters", end).wait() == 0
    with Trainer(scenario=load_scenario(file, changes={"stop": {"training_iteration": end}})) as trainer:
        trainer.store.open(straight)
        while trainer.iteration < end:
            trainer.train()
        trainer.save()
    assert_complete(run, end, kind)
    assert differences(lines_of(run), lines_of(straight)) == []
    parts = ("run", "policies", "learners", "workers", "replay", *(() if kind == "nfsp" else ("population",)))
    assert differences(saved(run, parts), saved(straight, parts)) == []
    if kind != "nfsp":
        assert (run / "population.json").read_text() == (straight / "population.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ("rps", "league"),
        ("kuhn", "psro"),
        ("kuhn", "nfsp"),
        pytest.param("rps", "psro", marks=pytest.mark.long),
        pytest.param("kuhn", "league", marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_killed_and_resumed_equals_one_that_never_was(env: str, kind: str, tmp_path: Path) -> None:
    assert_survives(env, kind, 0, tmp_path, kills=(4, 3) if (env, kind) == ("kuhn", "psro") else (4,))


def test_population_json_tells_the_population_of_the_checkpoint_that_a_run_goes_on_from(tmp_path: Path) -> None:
    keys = {**scenario("rps", "psro", 0), "exploitability": {"interval": 0}, "checkpoint_freq": 0}
    told = tmp_path / "run" / "population.json"
    with Trainer(config=keys, directory=tmp_path / "run") as killed:  # a kill loses what is not in a checkpoint
        killed.train(), killed.train()
        killed.save()
        killed.train()
        assert json.loads(told.read_text())["round"] == 1
    with Trainer(config=keys, directory=tmp_path / "run") as again:
        again.restore(tmp_path / "run")
        assert again.iteration == 2
        assert not told.exists()  # the first round has not ended yet
        for _ in range(ROUND):
            again.train()
        again.save()
        expected = told.read_text()
        again.train()
        assert json.loads(told.read_text())["round"] == 2
    with Trainer(config=keys, directory=tmp_path / "run") as third:
        third.restore(tmp_path / "run")
        assert told.read_text() == expected
        third.store.open(tmp_path / "elsewhere")
        assert (tmp_path / "elsewhere" / "population.json").read_text() == expected


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("kind", ["psro", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("league", "nfsp"))])
def test_the_same_with_two_ray_workers(kind: str, tmp_path: Path) -> None:
    assert_survives("kuhn", kind, 2, tmp_path, kills=(4,))
