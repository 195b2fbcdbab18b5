"""What a VMAS scenario costs: VMAS's own step against marl's shortcuts, and the env's share of an iteration of MAPPO.

    python benchmarks/vmas_shortcuts.py [--scenario balance] [--copies 64] [--steps 200] [--quick]

CPU seconds; the two ways of playing take turns with the same actions and seeds, and show the same numbers (which is checked).
The second part trains MAPPO both ways and tells which share of an iteration is spent in the env.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from marl.envs.adapters.vmas import VmasEnv
from marl.envs.registry import make_batched_env
from marl.training.trainer import Trainer

WAYS: dict[str, dict[str, Any]] = {"VMAS": {"plain": True}, "shortcuts": {}}


class Cost(NamedTuple):
    """CPU seconds, and how many of what they paid for."""

    stepping: float
    steps: int
    restarting: float
    restarts: int

    def told(self) -> str:
        step = 1e6 * self.stepping / self.steps
        restart = 1e6 * self.restarting / max(self.restarts, 1)
        return f"{step:8.0f} us a step of all copies, {restart:8.0f} us a restart of one ({self.restarts} of them)"


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    answer = call()
    return time.process_time() - began, answer


def play(scenario: str, copies: int, steps: int) -> dict[str, Cost]:
    """Both ways step by step with random actions; whatever ends starts again."""
    envs: dict[str, Any] = {}
    for way, keys in WAYS.items():
        envs[way] = make_batched_env(f"vmas:{scenario}", copies, keys)
        envs[way].reset(np.arange(copies), np.arange(copies))
    rng, spent = np.random.default_rng(0), dict.fromkeys(WAYS, Cost(0.0, 0, 0.0, 0))
    for step in range(steps):
        actions = draw(envs["VMAS"], rng)
        frames = {}
        for way, env in envs.items():
            stepping, frame = seconds(partial(env.step, actions))
            frames[way] = [np.array(column) for column in (*frame.obs, frame.rewards, frame.over)]
            ended, restarting = np.flatnonzero(frame.over), 0.0
            if len(ended):
                restarting, _ = seconds(partial(env.reset, ended, ended + step))
            old = spent[way]
            spent[way] = Cost(old[0] + stepping, old[1] + 1, old[2] + restarting, old[3] + len(ended))
        if not all(map(np.array_equal, *frames.values())):
            raise SystemExit(f"the two ways part at step {step}")
    return spent


def draw(env: VmasEnv, rng: np.random.Generator) -> list[np.ndarray]:
    columns = []
    for kind in env.kinds:
        shape = (env.num_envs, kind.size, *kind.action_shape)
        columns.append(rng.uniform(kind.action_space.low, kind.action_space.high, shape).astype(np.float32))
    return columns


def watch_envs() -> dict[bool, float]:
    """CPU seconds in the steps and resets of all envs from now on, by whether they are played plainly."""
    spent = {True: 0.0, False: 0.0}

    def watch(name: str) -> None:
        call = getattr(VmasEnv, name)

        def timed(env: VmasEnv, *arguments: Any) -> Any:
            took, answer = seconds(partial(call, env, *arguments))
            spent[env.config.plain] += took
            return answer

        setattr(VmasEnv, name, timed)

    watch("step")
    watch("reset")
    return spent


def train(scenario: str, copies: int, rounds: int) -> dict[str, tuple[float, float]]:
    """CPU seconds of an iteration and of the env in it, the best of ``rounds``, both ways in turn."""
    spent = watch_envs()
    best = dict.fromkeys(WAYS, (float("inf"), 0.0))
    with ExitStack() as stack:
        trainers = {way: stack.enter_context(mappo(scenario, copies, keys)) for way, keys in WAYS.items()}
        for _ in range(rounds):
            for way, trainer in trainers.items():
                spent.update({True: 0.0, False: 0.0})
                whole, _ = seconds(trainer.train)
                best[way] = min(best[way], (whole, sum(spent.values())))
    return best


def mappo(scenario: str, copies: int, env_config: dict[str, Any]) -> Trainer:
    config = {"num_envs_per_worker": copies, "train_batch_size": copies * 100, "env_config": env_config, "seed": 0}
    config |= {"sgd_minibatch_size": 4000, "evaluation": {"interval": 0}}
    return Trainer("mappo", env=f"vmas:{scenario}", config=config)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a VMAS scenario costs, with and without shortcuts.")
    parser.add_argument("--scenario", default="balance")
    parser.add_argument("--copies", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    options = parser.parse_args()
    steps, rounds = (10, 1) if options.quick else (options.steps, 5)
    costs = play(options.scenario, options.copies, steps)
    for way, cost in costs.items():
        print(f"{way:<10}{cost.told()}")
    whole = [cost.stepping + cost.restarting for cost in costs.values()]
    print(f"the env alone: {whole[0] / whole[1]:.2f} times as fast with shortcuts")
    iterations = train(options.scenario, options.copies, rounds)
    for way, (iteration, env) in iterations.items():
        print(f"{way:<10}{iteration:8.2f} CPU s an iteration of MAPPO, of which the env is {env / iteration:.0%}")
    print(f"an iteration: {iterations['VMAS'][0] / iterations['shortcuts'][0]:.2f} times as fast with shortcuts")


if __name__ == "__main__":
    main()
