"""The table of the frontier: learners of imperfect-information games by the exact NashConv of what they play.

For every game, method and seed a run of so many plies, measured exactly on its way (``--points``): by merged
positions, or by the tree. What is measured is the current policy, or a method's average policy where that is what it proposes.

    python benchmarks/frontier.py FOLDER                          # the whole table
    python benchmarks/frontier.py FOLDER --plies 1000000 --methods ppo,mmd --seeds 3
    python benchmarks/frontier.py FOLDER --settings protocol      # the settings of the published benchmark, 3 x 512 tanh
    python benchmarks/frontier.py FOLDER --page docs/benchmarks.md      # the table and the curves into the page; runs nothing

FOLDER holds a file of points per run and its newest checkpoint: stop it at any time (Ctrl-C, kill), and the same command goes
on. Runs that are complete are not made again. Seeds come one after the other: at batches of this size a stack of them
takes 1.4 times as long. Two processes may share the work if they are given different games or methods.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from frontier_page import write_page
from frontier_settings import (
    GAMES,
    METHODS,
    OTHER_PLIES,
    OTHER_POINTS,
    OTHER_SEEDS,
    PLIES,
    POINTS,
    PROTOCOL_METHODS,
    SEEDS,
    TABLE_GAMES,
    scenario_of,
)
from rich.console import Console

from marl.algos.presets import ALGOS
from marl.errors import UserError
from marl.gametheory.merged.game import merge_game
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import nash_conv
from marl.policies.policy import Policy
from marl.scenario.load import compose
from marl.training.trainer import Trainer

FIRST_SEED = 1000
Judge = Callable[[Mapping[str, Policy]], float]
console = Console()


def judge_of(game: str) -> Judge:
    """What computes NashConv of both players' policies; made once per game, as positions take some seconds."""
    played = GAMES[game]
    if played.merged:
        merged = merge_game(played.env, played.env_config)
        return lambda policies: merged.measure(policies).nash_conv
    tree = build_tree(played.env, dict(played.env_config))
    return lambda policies: nash_conv(tree, strategy_of(tree, policies))


class Run:
    """One game, method and seed, with its files."""

    def __init__(self, folder: Path, options: argparse.Namespace, game: str, method: str, seed: int) -> None:
        self.game, self.method, self.seed = game, method, seed
        self.plies: int = options.plies or PLIES.get(method, OTHER_PLIES)
        self.measurements: int = options.points or POINTS.get(method, OTHER_POINTS)
        self.keys = scenario_of(game, method, self.plies, seed, options.settings)
        self.folder = folder / f"{game}.{method}.{seed}"
        self.file = self.folder / "points.json"

    def read(self) -> dict[str, Any]:
        """What is known; a run with other plies or keys is another run."""
        empty: dict[str, Any] = {"plies": self.plies, "keys": self.keys, "points": [], "checkpoint": None}
        if not self.file.is_file():
            return empty
        known: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        same = known["plies"] == self.plies and known["keys"] == json.loads(json.dumps(self.keys))
        return known if same else empty

    @property
    def complete(self) -> bool:
        points = self.read()["points"]
        return bool(points) and points[-1]["plies"] >= self.plies

    def _trainer(self, known: Mapping[str, Any]) -> Trainer:
        if known["checkpoint"] is None:
            return Trainer(scenario=compose(self.keys, "frontier"))
        return Trainer.from_checkpoint(self.folder / known["checkpoint"])

    def go_on(self, judge: Judge) -> None:
        """Train and measure until the plies are played."""
        known = self.read()
        points: list[dict[str, float]] = known["points"]
        spent = points[-1]["train_s"] if points else 0.0
        with self._trainer(known) as trainer:
            since = time.process_time()
            while trainer.timesteps_total < self.plies:
                trainer.train()
                if self._stretch(trainer.timesteps_total) > self._stretch(points[-1]["plies"] if points else 0):
                    spent += time.process_time() - since
                    points.append(self._measured(trainer, judge, spent))
                    self._keep(trainer, known)
                    since = time.process_time()

    def _stretch(self, plies: float) -> int:
        """In which part of the run this is, from one measurement to the next."""
        return int(plies * self.measurements // self.plies)

    def _measured(self, trainer: Trainer, judge: Judge, spent: float) -> dict[str, float]:
        began = time.process_time()
        found = judge(_players(trainer))
        took = time.process_time() - began
        console.print(f"{self.game} {self.method} {self.seed}: {trainer.timesteps_total:,} plies, NashConv {found:.4f}")
        return {
            "plies": trainer.timesteps_total, "nash_conv": found, "train_s": round(spent, 1), "measure_s": round(took, 2),
        }  # fmt: skip

    def _keep(self, trainer: Trainer, known: dict[str, Any]) -> None:
        """The checkpoint first: a file of points never names one that is not there."""
        old, known["checkpoint"] = known["checkpoint"], f"at_{trainer.timesteps_total}"
        trainer.save(self.folder / known["checkpoint"])
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(known, indent=1), encoding="utf-8")
        part.replace(self.file)
        if old is not None:
            shutil.rmtree(self.folder / old, ignore_errors=True)


def _players(trainer: Trainer) -> dict[str, Policy]:
    """Who plays whom, as the run proposes it: the answer of a population, else the mapping."""
    mapper = trainer.setup.proposed_mapper
    return {seat: trainer.policies[mapper.candidates(seat)[0]] for seat in trainer.setup.task.seat_names}


def runs_of(folder: Path, options: argparse.Namespace, game: str, method: str) -> list[Run]:
    count = options.seeds or SEEDS.get(method, OTHER_SEEDS)
    return [Run(folder, options, game, method, FIRST_SEED + i) for i in range(count)]


def play(runs: list[Run], judge: Judge) -> None:
    """All seeds of one cell that are not complete."""
    for run in runs:
        if not run.complete:
            run.go_on(judge)


def chosen(text: str | None, known: Collection[str], usual: tuple[str, ...]) -> list[str]:
    names = text.split(",") if text else list(usual)
    for name in names:
        if name not in known:
            raise SystemExit(f"unknown: {name}. Known: {', '.join(known)}.")
    return names


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--games", help=f"names with commas; all: {','.join(TABLE_GAMES)}")
    parser.add_argument("--methods", help=f"names with commas, in their order; all: {','.join(METHODS)}")
    parser.add_argument("--plies", type=int, help="of each run; 10 M for ppo and mmd, 1 or 2 M for the others")
    parser.add_argument("--points", type=int, help="measurements of each run; 20, of psro 4")
    parser.add_argument("--seeds", type=int, help="of each method; 5 for ppo and mmd, 3 for others")
    parser.add_argument("--settings", choices=("own", "protocol"), default="own")
    parser.add_argument(
        "--page", type=Path, help="write table and curves into the marked section of this page, and end"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.page is not None:
        write_page(options.folder, options.page)
        return
    games = chosen(options.games, GAMES, TABLE_GAMES)
    known = METHODS if options.settings == "own" else PROTOCOL_METHODS
    methods = chosen(options.methods, known, tuple(known))
    judges: dict[str, Judge] = {}
    for method in methods:  # the first methods in all games before the next ones: a part of the table is of use as well
        if method not in ALGOS and method != "psro":
            console.print(f"{method} is not there, and is left out.")
            continue
        for game in games:
            cell = runs_of(options.folder, options, game, method)
            if all(run.complete for run in cell):
                continue
            if game not in judges:
                judges = {game: judge_of(game)}  # one at a time: positions take some hundred megabytes
            try:
                play(cell, judges[game])
            except UserError as error:
                console.print(f"{game} {method}: {error}")


if __name__ == "__main__":
    main()
