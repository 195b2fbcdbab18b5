"""How fast every preset learns, next to a bare torch loop that makes the same updates.

``learner`` gives recorded grids to the preset's own learner; ``bare`` gives the same grids to a loop written by hand
(``bare_on_policy.py``, ``bare_replay.py``; the same replay class). Both are in updates per second. Rounds of the two are
interleaved and the best of each counts. ``training`` is the whole ``Trainer.train`` in env steps per second. Everything runs
in one process on one thread, so presets with asynchronous collection are measured without it.

    python benchmarks/updates.py [--quick] [--json FILE] [--only PRESET ...] [--hiddens 64 64]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bare_on_policy import ActorCritic, Counterfactual, Evolution
from bare_regrets import Regrets
from bare_replay import Deterministic, Fictitious, NoisyValues, Rainbow, Soft, SoftValues, Values
from rich.console import Console
from rich.table import Table

from marl.algos.deep_cfr.learner import DeepCfrLearner
from marl.algos.es.learner import EsLearner, Scores
from marl.algos.presets import ALGOS
from marl.data.batch import MultiAgentBatch
from marl.training.trainer import Trainer
from marl.training.walks.source import WalkSource

CARTPOLE: Mapping[str, Any] = {"env": "CartPole-v1"}
PENDULUM: Mapping[str, Any] = {"env": "Pendulum-v1"}
CARDS: Mapping[str, Any] = {"env": "kuhn_poker"}
SPREAD: Mapping[str, Any] = {"env": "fast:simple_spread"}
ENVS = {
    **dict.fromkeys(("ddpg", "td3", "apex_ddpg", "sac", "masac"), PENDULUM),
    **dict.fromkeys(("maa2c", "coma", "mappo", "happo", "vdn", "qmix"), SPREAD),
    "maddpg": {**SPREAD, "env_config": {"continuous_actions": True}},
    "deep_cfr": CARDS,
    "escher": CARDS,
}
BARE = {
    **dict.fromkeys(
        (
            "pg",
            "a2c",
            "a3c",
            "ia2c",
            "maa2c",
            "impala",
            "ppo",
            "ippo",
            "mappo",
            "happo",
            "mmd",
            "nashpg",
            "rnad",
            "marwil",
            "bc",
        ),
        ActorCritic,
    ),
    **dict.fromkeys(("dqn", "iql", "hysteretic", "apex", "vdn", "qmix"), Values),
    **dict.fromkeys(("ddpg", "td3", "apex_ddpg", "maddpg"), Deterministic),
    "coma": Counterfactual,
    "noisy_dqn": NoisyValues,
    "rainbow": Rainbow,
    "softq": SoftValues,
    **dict.fromkeys(("sac", "masac"), Soft),
    "nfsp": Fictitious,
}
COPIES = 8
BARS = {"ppo": 1.3, "dqn": 1.5}  # largest time of an update, as a multiple of the bare loop's
SEED = 0


class Rate(NamedTuple):
    """Per second of CPU time and of wall time."""

    cpu: float = 0.0
    wall: float = 0.0

    def better(self, other: Rate) -> Rate:
        return Rate(max(self.cpu, other.cpu), max(self.wall, other.wall))


@dataclass(frozen=True)
class Row:
    """One preset's rates; ``bare`` is None where there is no loop by hand (a user's own preset)."""

    env: str
    learner: Rate
    bare: Rate | None
    training: Rate

    @property
    def times(self) -> float | None:
        """CPU time of an update as a multiple of the bare loop's."""
        return self.bare.cpu / self.learner.cpu if self.bare is not None else None


@dataclass(frozen=True)
class Racer:
    """Something that can be run again and again, and a counter of what it has done so far."""

    run: Callable[[], object]
    count: Callable[[], int]

    def timed(self, often: int = 1) -> Rate:
        before, cpu, wall = self.count(), time.process_time(), time.perf_counter()
        for _ in range(often):
            self.run()
        done = self.count() - before
        return Rate(done / (time.process_time() - cpu), done / (time.perf_counter() - wall))


def make_trainer(algo: str, hiddens: Sequence[int], quick: bool) -> Trainer:
    family = ALGOS[algo].family
    keys: dict[str, Any] = {"num_envs_per_worker": COPIES, "evaluation": {"interval": 0}, "seed": SEED}
    keys |= {"fcnet_hiddens": list(hiddens), **ENVS.get(algo, CARTPOLE)}
    if "learning_starts" in family.config.model_fields:
        keys["learning_starts"] = 1
    if quick:
        keys |= {"train_batch_size": 400} if family.on_policy else {"timesteps_per_iteration": 64}
    return Trainer(algo, config=keys)


def lessons(trainer: Trainer, quick: bool) -> list[MultiAgentBatch]:
    """Recorded grids: one batch for on-policy learners, several fragments for those with a replay."""
    on_policy = trainer.scenario.preset.family.on_policy
    grids = [trainer.workers.collect(trainer.setup.fragment).batch for _ in range(2 if on_policy or quick else 10)]
    return grids[1:] if on_policy else grids  # the first may hold no whole episode


def measure(algo: str, hiddens: Sequence[int], repeats: int, quick: bool) -> Row:
    """Interleaved rounds of the learner and of the loop by hand, then of training."""
    with make_trainer(algo, hiddens, quick) as trainer:
        if algo == "es":
            racers = from_scores(trainer, hiddens)
        elif isinstance(trainer.source, WalkSource):
            racers = from_walks(trainer, trainer.source, hiddens)
        else:
            racers = from_grids(trainer, algo, hiddens, quick)
        first = racers[0].count()
        for racer in racers:
            racer.run()  # a warm-up; also, the replay is full enough
        often = max(1, -(-(2 if quick else 60) // max(1, racers[0].count() - first)))
        best = [Rate() for _ in racers]
        for _ in range(repeats):
            best = [rate.better(racer.timed(often)) for rate, racer in zip(best, racers, strict=True)]
        whole, training = Racer(trainer.train, lambda: trainer.timesteps_total), Rate()
        for _ in range(min(repeats, 2)):
            training = training.better(whole.timed())
        return Row(str(trainer.scenario.env), best[0], best[1] if len(best) > 1 else None, training)


def from_grids(trainer: Trainer, algo: str, hiddens: Sequence[int], quick: bool) -> list[Racer]:
    """The learner and, where there is one, the loop by hand, on the same grids."""
    learner, grids = trainer.learners[0], lessons(trainer, quick)
    config = next(iter(trainer.setup.roles.values())).config
    racers = [Racer(lambda: [learner.learn(grid) for grid in grids], lambda: learner.counters["num_updates"])]
    if algo in BARE:
        loop = BARE[algo](algo, trainer.setup.task, config, hiddens)
        racers.append(Racer(lambda: [loop.learn(grid) for grid in grids], lambda: loop.updates))
    return racers


def from_scores(trainer: Trainer, hiddens: Sequence[int]) -> list[Racer]:
    """es learns from the scores of a population, which are made up here."""
    learner = trainer.learners[0]
    assert isinstance(learner, EsLearner)
    name, config = next(iter(learner.configs.items()))
    loop = Evolution(trainer.setup.task, config, hiddens)
    scores = np.random.default_rng(SEED).normal(size=(config.num_perturbations, 2)).astype(np.float32)
    grid = trainer.workers.local_worker().buffer.batch()

    def teach() -> None:
        learner.tell({name: Scores(learner.propose()[name], scores, 1, 1)})
        learner.learn(grid)

    return [
        Racer(teach, lambda: learner.counters["num_updates"]),
        Racer(lambda: loop.learn(scores), lambda: loop.updates),
    ]


def from_walks(trainer: Trainer, source: WalkSource, hiddens: Sequence[int]) -> list[Racer]:
    """deep_cfr and escher learn from walks, of which one iteration's are learned from again and again."""
    learner = trainer.learners[0]
    assert isinstance(learner, DeepCfrLearner)
    source.collect(0)
    told = dict(learner.told)
    ((name, walked),) = told.items()
    loop = Regrets(learner.policies[name].kind, learner.configs[name], walked, hiddens)
    grid = trainer.workers.local_worker().buffer.batch()

    def teach() -> None:
        learner.tell(told)
        learner.learn(grid)

    return [Racer(teach, lambda: learner.counters["num_updates"]), Racer(loop.learn, lambda: loop.updates)]


# -- showing -------------------------------------------------------------------------------------------------------


def table(rows: Mapping[str, Row]) -> Table:
    shown = Table("preset", "world", title="Updates and env steps per CPU second")
    for heading in ("learner, updates", "bare loop, updates", "time of the bare loop's", "training, env steps"):
        shown.add_column(heading, justify="right")
    for algo, row in rows.items():
        bare, times = ("-", "-") if row.bare is None else (f"{row.bare.cpu:,.0f}", f"{row.times:.2f}x")
        shown.add_row(algo, row.env, f"{row.learner.cpu:,.0f}", bare, times, f"{row.training.cpu:,.0f}")
    return shown


def as_json(rows: Mapping[str, Row], hiddens: Sequence[int]) -> dict[str, Any]:
    return {
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "hiddens": list(hiddens),
        "presets": {
            algo: {
                "world": row.env, "learner": row.learner._asdict(), "training": row.training._asdict(),
                "bare": None if row.bare is None else row.bare._asdict(), "times": row.times,
            }
            for algo, row in rows.items()
        },
        "bars": [
            {"preset": algo, "bar": bar, "value": rows[algo].times, "met": met(rows[algo], bar)}
            for algo, bar in BARS.items() if algo in rows
        ],
    }  # fmt: skip


def met(row: Row, bar: float) -> bool:
    return row.times is not None and row.times <= bar


def with_networks() -> list[str]:
    """Presets whose updates a bare torch loop can be held against; tables have no networks."""
    return [name for name in ALGOS if ALGOS[name].family.name != "tabular"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Updates per second of every preset next to bare torch loops.")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument("--only", nargs="+", metavar="PRESET", default=with_networks(), help="default: all but tables")
    parser.add_argument("--hiddens", nargs="+", type=int, default=[64, 64], help="hidden layers; default: 64 64")
    options = parser.parse_args()
    torch.set_num_threads(1)
    repeats = 1 if options.quick else 5
    rows = {algo: measure(algo, options.hiddens, repeats, options.quick) for algo in options.only}
    console = Console()
    console.print(table(rows))
    for algo, bar in BARS.items():
        if algo in rows:
            verdict = "met    " if met(rows[algo], bar) else "NOT MET"
            console.print(f"{verdict} {algo}: {rows[algo].times:.2f} times the bare loop's time (bar: {bar:g})")
    if options.json is not None:
        options.json.write_text(json.dumps({"quick": options.quick, **as_json(rows, options.hiddens)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
