"""How fast marl collects and learns, next to the bare env: ratios from one run.

Three rates per env, in env steps per second: ``raw`` steps the env itself with actions drawn in advance and resets
what has ended; ``sampling`` lets one shared policy play through the in-process pool; ``training`` is the whole
``Trainer.train``. Rounds of the three are interleaved and the best of each counts, because the machine is rarely alone.
A second measurement compares the cost of an env step in short and in long fragments.

    python benchmarks/throughput.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from marl.envs.games.two_step import TwoStepGames
from marl.training.trainer import Trainer

PPO = {"num_sgd_iter": 10, "sgd_minibatch_size": 400, "fcnet_hiddens": [64, 64], "evaluation": {"interval": 0}}
TWO_STEP, SPREAD = "two_step_game", "pettingzoo:mpe2/simple_spread_v3"
SEED = 0

Play = Callable[[int], None]
"""Plays so many steps in every copy."""


class Rate(NamedTuple):
    """Env steps per second of CPU time and of wall time."""

    cpu: float
    wall: float

    def better(self, other: Rate) -> Rate:
        return Rate(max(self.cpu, other.cpu), max(self.wall, other.wall))

    def share_of(self, other: Rate) -> Rate:
        return Rate(self.cpu / other.cpu, self.wall / other.wall)


class Cost(NamedTuple):
    """CPU microseconds per env step; ``system`` is mostly the first touch of the memory of large grids."""

    user: float
    system: float


@dataclass(frozen=True)
class Env:
    """What is measured: ``fragment`` steps in each of ``copies`` make one training batch."""

    env: str
    copies: int
    fragment: int
    raw_steps: int  # per round and copy; a fast env needs more of them to be timed at all
    raw_play: Callable[[int], Play]
    repeats: int
    lengths: tuple[int, ...]

    def trainer(self) -> Trainer:
        sizes = {"num_envs_per_worker": self.copies, "train_batch_size": self.copies * self.fragment}
        return Trainer("ppo", env=self.env, config={**PPO, **sizes, "seed": SEED})


# -- the bare envs -----------------------------------------------------------------------------------------------


def raw_two_step(copies: int) -> Play:
    """The native game on arrays."""
    env, rng = TwoStepGames(copies, {}), np.random.default_rng(SEED)
    env.reset(np.arange(copies), np.arange(copies))

    def play(steps: int) -> None:
        for actions in rng.integers(0, 2, (steps, copies, 2)):
            over = np.flatnonzero(env.step([actions]).over)
            if over.size:
                env.reset(over, over)

    return play


def raw_parallel(path: str) -> Callable[[int], Play]:
    """Copies of a PettingZoo parallel env, one after the other."""
    make = importlib.import_module(path).parallel_env

    def prepare(copies: int) -> Play:
        envs, rng = [make() for _ in range(copies)], np.random.default_rng(SEED)
        for env in envs:
            env.reset(seed=SEED)
        agents = envs[0].possible_agents
        sizes = [envs[0].action_space(agent).n for agent in agents]

        def play(steps: int) -> None:
            drawn = rng.integers(0, sizes, (steps, copies, len(agents))).tolist()
            seeds = rng.integers(0, 2**31 - 1, (steps, copies)).tolist()
            for actions, fresh in zip(drawn, seeds, strict=True):
                for env, chosen, seed in zip(envs, actions, fresh, strict=True):
                    env.step(dict(zip(agents, chosen, strict=True)))
                    if not env.agents:
                        env.reset(seed=seed)

        return play

    return prepare


def envs(quick: bool) -> list[Env]:
    lengths = (100, 500, 1_000) if quick else (100, 1_000, 10_000)
    part, repeats = (10, 1) if quick else (1, 5)
    return [
        Env(TWO_STEP, 256, 100 // part, 5_000 // part, raw_two_step, repeats, lengths),
        Env(SPREAD, 8, 500 // part, 500 // part, raw_parallel("mpe2.simple_spread_v3"), repeats, lengths),
    ]


# -- measuring -----------------------------------------------------------------------------------------------------


def timed(env_steps: int, play: Callable[[], object]) -> Rate:
    cpu, wall = time.process_time(), time.perf_counter()
    play()
    return Rate(env_steps / (time.process_time() - cpu), env_steps / (time.perf_counter() - wall))


def measure_rates(env: Env, trainer: Trainer) -> dict[str, Rate]:
    """Best of ``repeats`` interleaved rounds, after a short warm-up."""
    raw = env.raw_play(env.copies)
    batch = env.copies * env.fragment
    rounds: dict[str, Callable[[], Rate]] = {
        "raw": lambda: timed(env.copies * env.raw_steps, lambda: raw(env.raw_steps)),
        "sampling": lambda: timed(batch, lambda: trainer.workers.collect(env.fragment)),
        "training": lambda: timed(batch, trainer.train),
    }
    raw(10)
    trainer.workers.collect(10)
    best = dict.fromkeys(rounds, Rate(0.0, 0.0))
    for _ in range(env.repeats):
        for name, run in rounds.items():
            best[name] = best[name].better(run())
    return best


def measure_lengths(env: Env, trainer: Trainer) -> dict[int, Cost]:
    """Cost of sampling by fragment length. Every length plays the same number of steps in total."""
    total = max(env.lengths)
    best = dict.fromkeys(env.lengths, Cost(float("inf"), float("inf")))
    for _ in range(min(env.repeats, 2)):
        for length in env.lengths:
            before = os.times()
            for _part in range(total // length):
                trainer.workers.collect(length)
            after, steps = os.times(), total * env.copies / 1e6
            cost = Cost((after.user - before.user) / steps, (after.system - before.system) / steps)
            best[length] = min(best[length], cost, key=sum)
    return best


# -- showing -------------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """What has to be reached, and what was."""

    text: str
    bar: float
    value: float

    @property
    def met(self) -> bool:
        return self.value >= self.bar


def bars(rates: Mapping[str, Mapping[str, Rate]]) -> list[Bar]:
    spread, two_step = rates[SPREAD], rates[TWO_STEP]
    share = spread["sampling"].share_of(spread["raw"]).cpu
    return [
        Bar("simple_spread: sampling as a share of the raw rate, per CPU second", 0.8, share),
        Bar("two-step game: env steps sampled per CPU second", 200_000, two_step["sampling"].cpu),
    ]


def rate_table(rates: Mapping[str, Mapping[str, Rate]]) -> Table:
    table = Table("world", "what", title="Env steps per second, and their share of the raw rate")
    for heading in ("per CPU s", "share", "per wall s", "share"):
        table.add_column(heading, justify="right")
    for env, row in rates.items():
        for name, rate in row.items():
            share = rate.share_of(row["raw"])
            numbers = f"{rate.cpu:,.0f}", f"{share.cpu:.3f}", f"{rate.wall:,.0f}", f"{share.wall:.3f}"
            table.add_row(env, name, *numbers, end_section=name == "training")
    return table


def length_table(costs: Mapping[str, Mapping[int, Cost]]) -> Table:
    table = Table("world", title="Sampling: CPU microseconds per env step by fragment length T")
    for heading in ("T", "user", "system", "sum against the shortest"):
        table.add_column(heading, justify="right")
    for env, row in costs.items():
        for length, cost in row.items():
            numbers = f"{length:,}", f"{cost.user:,.2f}", f"{cost.system:,.2f}", f"{sum(cost) / sum(row[min(row)]):.2f}"
            table.add_row(env, *numbers, end_section=length == max(row))
    return table


def as_json(rates: Mapping[str, Mapping[str, Rate]], costs: Mapping[str, Mapping[int, Cost]]) -> dict[str, Any]:
    return {
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "worlds": {
            env: {name: {**rate._asdict(), "share": rate.share_of(row["raw"])._asdict()} for name, rate in row.items()}
            for env, row in rates.items()
        },
        "microseconds_by_length": {env: {n: c._asdict() for n, c in row.items()} for env, row in costs.items()},
        "bars": [{**goal._asdict(), "met": goal.met} for goal in bars(rates)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of marl next to the bare envs.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: small numbers of steps, no best of several")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    rates: dict[str, dict[str, Rate]] = {}
    costs: dict[str, dict[int, Cost]] = {}
    for env in envs(options.quick):
        with env.trainer() as trainer:
            rates[env.env] = measure_rates(env, trainer)
            costs[env.env] = measure_lengths(env, trainer)
    console = Console()
    console.print(rate_table(rates), length_table(costs))
    for goal in bars(rates):
        console.print(f"{'met    ' if goal.met else 'NOT MET'} {goal.text}: {goal.value:,.2f} (bar: {goal.bar:,g})")
    if options.json is not None:
        numbers = {"quick": options.quick, **as_json(rates, costs)}
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
