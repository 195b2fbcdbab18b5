"""From an env and checkpoints to a report: play, solve, rank, write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from marl.analysis.crossplay import Effort, Field, Progress, cross_play
from marl.analysis.participants import Env, check_members, read_entrants
from marl.analysis.payoff_table import caption
from marl.analysis.report.best import best_section, find_best
from marl.analysis.report.bounds import (
    Bound,
    exact_bounds,
    exploitability_section,
    merged_bounds,
    table_bounds,
    trained_bounds,
)
from marl.analysis.report.content import Section, plural
from marl.analysis.report.curves import curves_section, run_curves
from marl.analysis.report.equilibria import empirical_equilibria, equilibria_section
from marl.analysis.report.game import GameFacts, game_facts, game_section, small_tree
from marl.analysis.report.names import ReportParticipant, contestants, env_of, spelled_out
from marl.analysis.report.page import as_page, as_text
from marl.analysis.report.payoffs import payoffs_section
from marl.analysis.report.ranking import ranking_section, rankings
from marl.analysis.report.sample import sample
from marl.analysis.report.shown import shown_game
from marl.analysis.report.strategic import strategic_section, strategic_view
from marl.errors import ConfigError, DataError
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.tree.tree import Tree
from marl.populations.matches import Players
from marl.registry import import_module, only_modules
from marl.runs.atomic import write_atomically
from marl.runs.files import safe_name
from marl.scenario.resolve import Setup
from marl.storage import make_folder
from marl.trust import given_by_user, words_of

FORMAT = 1
Symmetric: TypeAlias = bool | Literal["auto"]
MAX_NODES = 50_000
"""Nodes of a tree up to which exact numbers are given."""


@dataclass(frozen=True)
class ReportOptions:
    """What a report is asked for; the names are those of the command's options."""

    all_checkpoints: bool = False
    members: bool = False
    with_random: bool = True
    episodes: int = 100
    until_decided: bool = False
    by_seat: bool = False
    explore: bool | None = None
    workers: int = 0
    seed: int = 0
    best_response: int | None = None  # env steps of training per player
    max_nodes: int = MAX_NODES
    chance_samples: int | None = None  # reset seeds that stand for chance in the tree
    allow: Sequence[str] = ()
    imports: Sequence[str] = ()  # modules that register rankings, envs, ...


@dataclass(frozen=True, eq=False)
class Report:
    """Sections for readers, the same numbers for programs, and the payoff table."""

    title: str
    sections: list[Section]
    numbers: dict[str, Any]
    payoffs: PayoffTensor | None
    shown: dict[str, Any] | None = None  # what the page's drawings are made of

    @property
    def text(self) -> str:
        return as_text(self.title, self.sections)

    @property
    def page(self) -> str:
        return as_page(self.title, self.numbers["about"], self.sections, self.shown)

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "title": self.title, **self.numbers}

    def write(self, directory: Path) -> None:
        """``report.txt``, ``report.json``, ``report.html`` and, where somebody played, ``payoffs.json``."""
        made = checked_place(directory)
        make_folder(made)
        write_atomically(made / "report.txt", self.text)
        write_atomically(made / "report.json", json.dumps(self.as_json(), indent=1) + "\n")
        write_atomically(made / "report.html", self.page)
        if self.payoffs is not None:
            self.payoffs.save(made / "payoffs.json")


def default_directory(env: str) -> Path:
    return Path(f"report_{safe_name(env)}")


def checked_place(directory: Path) -> Path:
    """The directory of a report; told before anything is played if it cannot be written, and not made before it is needed."""
    directory = directory.expanduser()
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise DataError(f"the report cannot be written to {directory}: {there} is no directory that can be written to.")
    return directory


def build_report(
    env: str,
    checkpoints: Sequence[str | Path] = (),
    env_config: Mapping[str, Any] | None = None,
    players: Players | None = None,
    wishes: ReportOptions | None = None,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """A report on the env and on those who were trained for it. Matches are kept in ``directory``, not played again."""
    asked = wishes or ReportOptions()
    for module in asked.imports:
        import_module(module, "imports")
    Effort(asked.episodes, asked.until_decided)  # refuses what makes no sense
    names = spelled_out([str(name) for name in checkpoints], asked.all_checkpoints, asked.members, asked.with_random)
    played = env_of(env, env_config, names)
    if asked.best_response is not None:
        _check_best_response(played, names, players, asked)
    again = "the whole env, by ENV and --env-config (env, env_config=...)"
    game = env.partition(":")[2]  # not the whole name: a module that it stands for has to be allowed
    with given_by_user(words_of([env_config, game if "(" in game else None]), again):
        return _report(env, played, names, players, asked, directory, progress)


def _check_best_response(played: Env, names: Sequence[str], players: Players | None, asked: ReportOptions) -> None:
    """Training is that of the checkpoint's own run, so nothing may differ from it."""
    if played.env is not None or not names:
        raise ConfigError(
            "best responses are trained on checkpoints in their own env. Give both, or no --best-response."
        )
    if players or asked.explore is not None:
        raise ConfigError(
            "best responses are trained against the players of the checkpoint's own run, playing as they are measured: "
            "--best-response cannot be given with --players, --greedy or --explore. Leave one of them out."
        )


def _report(
    env: str,
    played: Env,
    names: Sequence[str],
    players: Players | None,
    asked: ReportOptions,
    directory: Path | None,
    progress: Progress | None,
) -> Report:
    symmetric: Symmetric = False if asked.by_seat else "auto"
    allowed = frozenset(asked.allow)
    entrants, setup = read_entrants(names or ["random"], played, allowed)
    field = Field(entrants, setup, players, symmetric, asked.seed)
    check_members(list(field.members.values()), setup.task, allowed)
    sampled = sample(setup, field.agents, asked.episodes, asked.seed)
    tree, note = small_tree(setup, field.agents, sampled, asked.max_nodes, asked.chance_samples)
    facts = game_facts(setup, field.agents, sampled, tree, note)
    if not names:
        about = f"{facts.episodes} episodes of random play; nobody trained took part."
        return Report(f"Report on {env}", [game_section(facts)], {"about": about, "game": facts.as_json()}, None)
    payoffs = cross_play(
        names,
        played.env,
        played.env_config,
        players,
        episodes=asked.episodes,
        until_decided=asked.until_decided,
        symmetric=symmetric,
        explore=asked.explore,
        num_workers=asked.workers,
        directory=directory,
        seed=asked.seed,
        allow=asked.allow,
        progress=progress,
    )
    who = contestants(names, entrants)
    payoffs = renamed(payoffs, who)
    with only_modules(allowed):
        bounds, notes = _bounds(payoffs, who, field, tree, setup, asked)
    report = _compose(env, who, facts, payoffs, bounds, notes, asked.seed)
    # Who sits where, so that matches can be played again.
    seats = {player: list(agents) for player, agents in field.agents.items()}
    return replace(report, numbers={**report.numbers, "seats": seats, "seed": asked.seed})


def renamed(payoffs: PayoffTensor, who: Sequence[ReportParticipant]) -> PayoffTensor:
    """The table with the report's names."""
    name = {one.label: one.name for one in who}
    names = []
    for labels in payoffs.names:
        names.append(tuple(name[label] for label in labels))
    return replace(payoffs, names=tuple(names))


def _bounds(
    payoffs: PayoffTensor,
    who: Sequence[ReportParticipant],
    field: Field,
    tree: Tree | None,
    setup: Setup,
    asked: ReportOptions,
) -> tuple[list[Bound], list[str]]:
    found: list[Bound] = []
    notes: list[str] = []
    if tree is not None:
        found, notes = exact_bounds(tree, field, who, setup.task.kinds, asked.explore)
    else:
        found, notes = merged_bounds(setup.scenario, field, who, setup.task.kinds, asked.explore, asked.chance_samples)
    # Where the exact number is known, a lower bound says nothing more.
    known = {bound.name for bound in found}
    found += [bound for bound in table_bounds(payoffs) if bound.name not in known]
    if asked.best_response is not None:
        found += trained_bounds(who, asked.best_response, asked.workers, asked.allow)
    return found, notes


def _compose(
    env: str,
    who: Sequence[ReportParticipant],
    facts: GameFacts,
    payoffs: PayoffTensor,
    bounds: Sequence[Bound],
    notes: Sequence[str],
    seed: int,
) -> Report:
    equilibria, ranked = empirical_equilibria(payoffs, seed=seed), rankings(payoffs, who, seed)
    curves, without = run_curves(who)
    best, names = find_best(ranked), [one.name for one in who]
    view = strategic_view(payoffs, seed)
    sections = [
        best_section(best, names),
        game_section(facts),
        payoffs_section(payoffs, who),
        ranking_section(ranked),
        *([] if view is None else [strategic_section(view)]),
        exploitability_section(bounds, notes, names),
        equilibria_section(equilibria),
        curves_section(curves, without),
    ]
    about = f"{plural(len(who), 'entrant')}; {caption(payoffs)}."
    numbers = {
        "about": about,
        "best": best.as_json(),
        "game": facts.as_json(),
        "entrants": [one.as_json() for one in who],
        "payoffs": payoffs.as_json(),
        "ranking": ranked.as_json(),
        "strategic": None if view is None else view.as_json(),
        "exploitability": [bound.as_json() for bound in bounds],
        "equilibria": equilibria.as_json(),
        "curves": [run.as_json() for run in curves],
    }
    shown = {**shown_game(payoffs, ranked), "payoffs": numbers["payoffs"], "bounds": numbers["exploitability"]}
    return Report(f"Report on {env}", sections, numbers, payoffs, shown)
