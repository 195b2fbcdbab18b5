"""The rows of ``rivals.py``: what is done, by whom, and what is to be shown. Both sides of a row do the same work."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Where = Literal["marl", "older", "startup", "jax", "rllib", "benchmarl", "sb3", "overcooked_ai"]
Clock = Literal["cpu", "wall"]


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: a script and the work that it is given.

    ``script`` runs in the environment ``where``. Most stay up and play round after round; with ``whole``, a round is a process
    from start to end, ``count`` of its units of work are done in it, and the file of a scenario stands for ``{scenario}`` in
    its arguments. All run on one core, but for those that are about several processes (``pinned=False``). Where it is
    "startup", the script is a function of ``startup.py``.
    """

    name: str
    where: Where
    script: str
    arguments: tuple[str, ...]
    whole: bool = False
    count: float = 0.0
    scenario: str = ""
    pinned: bool = True


@dataclass(frozen=True)
class Row:
    """``ratio`` is the rate of ``ours`` as a multiple of ``rival``'s; where ``costs``, it is the time instead."""

    key: str
    work: str
    ours: Side
    rival: Side
    goal: float
    unit: str = "env steps"
    costs: bool = False
    clock: Clock = "cpu"
    repeats: int = 7

    @property
    def number(self) -> int:
        return int(self.key.rstrip("ab"))

    def met(self, ratio: float) -> bool:
        return ratio <= self.goal if self.costs else ratio >= self.goal


# -- sides ---------------------------------------------------------------------------------------------------------


def marl(name: str, algo: str, keys: Mapping[str, Any], timed: str = "train", iterations: int = 1, **more: Any) -> Side:
    work = {"algo": algo, "keys": dict(keys), "timed": timed, "iterations": iterations}
    return Side(name, more.pop("where", "marl"), "rival_ours.py", (json.dumps(work),), **more)


def other(name: str, where: Where, script: str, work: Mapping[str, Any], **more: Any) -> Side:
    return Side(name, where, f"rivals/{script}", (json.dumps(work),), **more)


def whole_run(name: str, keys: Mapping[str, Any], options: Sequence[str], count: float, where: Where = "marl") -> Side:
    """``python -m marl.run`` from start to end; JSON is YAML."""
    arguments = ("marl.run", "{scenario}", *options)
    return Side(name, where, "-m", arguments, whole=True, count=count, scenario=json.dumps(keys))


# -- the work ------------------------------------------------------------------------------------------------------

NETWORKS = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}
SPREAD = {
    **NETWORKS, "env": "fast:simple_spread", "num_envs_per_worker": 256, "rollout_fragment_length": 25, "gamma": 0.95,
    "lr": 1e-3, "train_batch_size": 6_400,
}  # fmt: skip
LARGE = {"sgd_minibatch_size": 4_800, "num_sgd_iter": 4}
SMALL = {"sgd_minibatch_size": 400, "num_sgd_iter": 10}
JAX_SPREAD = {"envs": 256, "steps": 25, "epochs": 4, "minibatch": 4_800, "learn": True}
JAX = "JaxMARL + PPO in pure JAX"

MPE2 = {
    **NETWORKS, **SMALL, "env": "pettingzoo:mpe2/simple_spread_v3", "num_envs_per_worker": 8, "train_batch_size": 4_000,
    "gamma": 0.95, "lr": 1e-3,
}  # fmt: skip
BALANCE = {
    **NETWORKS, "env": "vmas:balance", "env_config": {"n_agents": 4, "max_steps": 100}, "num_envs_per_worker": 64,
    "train_batch_size": 6_400, "sgd_minibatch_size": 6_400, "num_sgd_iter": 4, "critic_sees": "all", "gamma": 0.99,
}  # fmt: skip
CARTPOLE = {
    "name": "cartpole", "env": "CartPole-v1", "model": NETWORKS, "num_workers": 0, "num_envs_per_worker": 8, "seed": 0,
    "algo": {
        "name": "ppo", "lr_schedule": [[0, 0.001], [150_000, 0.0]], "gamma": 0.99, "train_batch_size": 1_024,
        "sgd_minibatch_size": 256, "num_sgd_iter": 10,
    },
    "evaluation": {"interval": 0}, "stop": {"timesteps_total": 150_000},
}  # fmt: skip
WIDE = {"fcnet_hiddens": [256, 256], "num_envs_per_worker": 8, "learning_starts": 1}
QMIX = {**WIDE, "env": "fast:simple_spread", "train_batch_size": 32}
DQN = {**WIDE, "env": "CartPole-v1", "train_batch_size": 64}
SEEDS = {
    "name": "seeds", "env": "fast:simple_spread", "model": NETWORKS, "num_workers": 0, "num_envs_per_worker": 256, "seed": 0,
    "rollout_fragment_length": 25, "algo": {"name": "ppo", "gamma": 0.95, "lr": 1e-3, "train_batch_size": 6_400, **SMALL},
    "evaluation": {"interval": 0}, "stop": {"training_iteration": 20},
}  # fmt: skip
CROWD = {
    **NETWORKS, "env": "fast:simple_spread", "env_config": {"N": 20}, "num_envs_per_worker": 16, "train_batch_size": 1_600,
    "sgd_minibatch_size": 400, "num_sgd_iter": 4,
}  # fmt: skip
SEPARATE = {**CROWD, "multiagent": {"policy_mapping_fn": "per_agent"}}


def rows() -> list[Row]:
    """All of them, in the order of the table."""
    return [*against_jax(), *against_torch(), *against_marl()]


def against_jax() -> list[Row]:
    small = {**JAX_SPREAD, "epochs": 10, "minibatch": 400}
    return [
        Row(
            "1", "PPO, fast:simple_spread, 256 x 25, 4 epochs, 4,800 rows",
            marl("marl", "ppo", {**SPREAD, **LARGE}, iterations=4),
            other(JAX, "jax", "jax_ppo.py", {**JAX_SPREAD, "iterations": 4}), 1.2,
        ),
        Row(
            "2", "the same, 10 epochs, 400 rows",
            marl("marl", "ppo", {**SPREAD, **SMALL}, iterations=2),
            other(JAX, "jax", "jax_ppo.py", {**small, "iterations": 2}), 0.95,
        ),
        Row(
            "3", "sampling only",
            marl("marl", "ppo", {**SPREAD, **LARGE}, "sample", iterations=20),
            other(JAX, "jax", "jax_ppo.py", {**JAX_SPREAD, "iterations": 20, "learn": False}), 1.5,
        ),
    ]  # fmt: skip


def against_torch() -> list[Row]:
    rllib = {"envs": 8, "fragment": 50, "batch": 4_000, "minibatch": 400, "epochs": 10, "iterations": 1}
    benchmarl = {"envs": 64, "agents": 4, "batch": 6_400, "minibatch": 1_600, "epochs": 4, "iterations": 1}
    sb3 = {"envs": 8, "steps": 150_000, "batch": 1_024, "minibatch": 256, "epochs": 10}
    return [
        Row(
            "4", "PPO, mpe2's own simple_spread, 8 envs",
            marl("marl", "ppo", MPE2), other("RLlib", "rllib", "rllib_ppo.py", rllib), 3, repeats=5,
        ),
        Row(
            "5", "MAPPO, vmas:balance, 64 envs",
            marl("marl", "mappo", BALANCE), other("BenchMARL", "benchmarl", "benchmarl_mappo.py", benchmarl), 1.6,
        ),
        Row(
            "6", "PPO, CartPole, 150,000 steps, whole process",
            whole_run("marl", CARTPOLE, ["--json"], 150_000),
            other("Stable-Baselines3", "sb3", "sb3_ppo.py", sb3, whole=True, count=150_000), 2, repeats=2,
        ),
    ]  # fmt: skip


def against_marl() -> list[Row]:
    learn: dict[str, Any] = {"timed": "learn", "iterations": 300}
    one = whole_run("one seed", SEEDS, ["--json"], 1)
    ten = whole_run("ten stacked seeds", SEEDS, ["--quiet", "--seeds", "0..9", "--stacked"], 1)
    two = {**MPE2, "num_workers": 2, "num_envs_per_worker": 4}
    workers = marl("2 workers", "ppo", two, iterations=3, pinned=False)
    overlapping = marl("2 workers", "ppo", {**two, "collection": "overlap"}, iterations=3, pinned=False)
    alone = marl("in process", "ppo", MPE2, iterations=3, pinned=False)
    by_wall: dict[str, Any] = {"clock": "wall", "repeats": 5}
    older = whole_run("one seed of older marl", SEEDS, ["--json"], 1, "older")
    return [
        Row(
            "7a", "QMIX, updates of 32 x 3 rows, nets of 2 x 256",
            marl("marl", "qmix", QMIX, **learn), marl("older marl", "qmix", QMIX, **learn, where="older"), 2, "updates",
        ),
        Row(
            "7b", "DQN, updates of 64 rows, nets of 2 x 256",
            marl("marl", "dqn", DQN, **learn), marl("older marl", "dqn", DQN, **learn, where="older"), 2, "updates",
        ),
        Row("8a", "10 stacked seeds, whole run, minibatch 400", ten, one, 4, "runs", costs=True, repeats=2),
        Row("8b", "the same against older marl", ten, older, 4, "runs", costs=True, repeats=1),
        Row(
            "9", "20 separate policies against one shared",
            marl("20 policies", "ppo", SEPARATE, iterations=2), marl("one policy", "ppo", CROWD, iterations=2), 0.9,
        ),
        Row("10a", "2 Ray workers against none, mpe2's simple_spread, whole training", workers, alone, 1.6, **by_wall),
        Row("10b", "the same, collecting while learning", overlapping, alone, 1.6, **by_wall),
        Row(
            "11", "start to first iteration, two-step game, against import torch",
            Side("first iteration", "startup", "first_iteration", (), whole=True, count=1),
            Side("import torch", "startup", "import_torch", (), whole=True, count=1),
            2, "starts", costs=True, **by_wall,
        ),
    ]  # fmt: skip
