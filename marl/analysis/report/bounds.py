"""How much could be won against each entrant: exactly, or from below.

    NashConv(s) = sum_i  max_r u_i(r, s_-i) - u_i(s),      everybody plays the same entrant ``s``

On a small tree ``r`` ranges over all strategies: exact. In the payoff table it ranges over the entrants: a lower bound.
Where one population was averaged over seats, a deviator plays ``r`` on all seats, which can only earn less: still a lower
bound. A trained best response gives another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from marl.analysis.crossplay import Field
from marl.analysis.exploit import exploitability_of
from marl.analysis.report.content import Block, Grid, Live, Section, Words, meaning, number, with_error
from marl.analysis.report.names import ReportParticipant
from marl.data.task import AgentType
from marl.envs.wrappers import read_wrappers
from marl.errors import UserError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.sampled import gains_with_errors
from marl.gametheory.tree.tree import Tree
from marl.policies.policy import Policy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.members import build
from marl.scenario.config import Scenario
from marl.training.examination.game import env_as_played
from marl.training.examination.positions import positions_for
from marl.training.examiner import EXACT, LOWER, SAMPLED

MOST_SECONDS = 20.0  # of an exact measurement of one entrant, as estimated
SIGNS = {EXACT: "", SAMPLED: "~ ", LOWER: "≥ "}


@dataclass(frozen=True)
class Bound:
    """One way to look at one entrant."""

    name: str
    nash_conv: float
    stderr: float
    bound: str  # exact, sampled chance, or lower bound
    how: str
    gains: Mapping[str, float]  # per player
    errors: Mapping[str, float] = field(default_factory=dict)  # of these, where they are known

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def table_bounds(payoffs: PayoffTensor) -> list[Bound]:
    """From below: the best reply among the entrants to each entrant that plays all players."""
    rivals = set(chain.from_iterable(payoffs.names))
    shared = set.intersection(*map(set, payoffs.names))
    return [_table_bound(payoffs, name, len(rivals)) for name in payoffs.names[0] if name in shared]


def _table_bound(payoffs: PayoffTensor, name: str, rivals: int) -> Bound:
    place = tuple(names.index(name) for names in payoffs.names)
    parts, error, replies = {}, 0.0, []
    for i, player in enumerate(payoffs.players):
        row: tuple[Any, ...] = (i, *place[:i], slice(None), *place[i + 1 :])
        gain = payoffs.mean[row] - payoffs.mean[(i, *place)]
        best = int(np.nanargmax(gain))
        parts[player] = max(0.0, float(gain[best]))
        if gain[best] > 0:
            replies.append(payoffs.names[i][best])
            # Errors are added up: right where both seats show the same matches, cautious elsewhere.
            error += float(np.hypot(payoffs.stderr[row][best], payoffs.stderr[(i, *place)]))
    reply = f": {', '.join(dict.fromkeys(replies))}" if replies else ": nobody does better than it does itself"
    how = f"best of the {rivals} entrants{reply}"
    return Bound(name, sum(parts.values()), error, LOWER, how, parts)


def exact_bounds(
    tree: Tree, field: Field, who: Sequence[ReportParticipant], kinds: Sequence[AgentType], explore: bool | None
) -> tuple[list[Bound], list[str]]:
    """Exactly, for every entrant that plays all players and can be read as a table; and notes on those that cannot."""
    found, notes = [], []
    bound = EXACT if tree.sample is None else SAMPLED
    for one, policies in profiles(field, who, kinds):
        try:
            parts = gains_with_errors(tree, strategy_of(tree, policies, explore=explore))
        except UserError as error:
            notes.append(f"{one.name} has no exact NashConv: {error}")
            continue
        gains = dict(zip(tree.players, parts.gains.tolist(), strict=True))
        errors = dict(zip(tree.players, parts.errors.tolist(), strict=True))
        how = "best reply in the whole tree"
        found.append(Bound(one.name, parts.nash_conv, parts.total_error, bound, how, gains, errors))
    return found, notes


def profiles(
    field: Field, who: Sequence[ReportParticipant], kinds: Sequence[AgentType]
) -> Iterator[tuple[ReportParticipant, dict[str, Policy]]]:
    """The policies of every entrant that plays all players, by agent."""
    seats = sum(map(len, field.agents.values()))
    for one in who:
        policies: dict[str, Policy] = {}
        for agents, strategies in zip(field.agents.values(), field.strategies, strict=True):
            members = strategies.get(one.label, ())
            policies |= {agent: build(member, kinds) for agent, member in zip(agents, members, strict=False)}
        if len(policies) == seats:  # else it plays only some of the players, and is no profile
            yield one, policies


def merged_bounds(
    scenario: Scenario,
    field: Field,
    who: Sequence[ReportParticipant],
    kinds: Sequence[AgentType],
    explore: bool | None,
    chance_samples: int | None,
) -> tuple[list[Bound], list[str]]:
    """Exactly, by merged positions, where the tree is too large; and notes on what stood in the way."""
    if any(len(agents) > 1 or "*" in agents[0] for agents in field.agents.values()):
        return [], []  # groups of agents
    try:
        env = env_as_played(scenario, read_wrappers(scenario.wrappers))
        game = MergedGame(positions_for(env, scenario.env_config, ExploitabilityConfig(chance_samples=chance_samples)))
    except UserError as error:
        return [], [f"Positions were not merged either: {error}"]
    positions, found, notes = game.positions, [], []
    bound = EXACT if positions.sample is None else SAMPLED
    for one, policies in profiles(field, who, kinds):
        try:
            measured = game.measure(policies, limit=MOST_SECONDS, explore=explore)
        except UserError as error:
            notes.append(f"{one.name} has no exact NashConv: {error}")
            continue
        gains = dict(zip(positions.players, measured.gains.tolist(), strict=True))
        how = f"best reply in {len(positions):,} merged positions"
        errors = dict(zip(positions.players, measured.errors.tolist(), strict=True))
        found.append(Bound(one.name, measured.nash_conv, measured.total_error, bound, how, gains, errors))
    return found, notes


def trained_bounds(
    who: Sequence[ReportParticipant], timesteps: int, workers: int, allow: Collection[str]
) -> list[Bound]:
    """From below, by best responses that are trained against each whole checkpoint."""
    config = ExploitabilityConfig(method="trained", best_response_timesteps=timesteps)
    found = []
    for one in who:
        if one.whole:
            assert one.folder is not None
            seen = exploitability_of(Path(one.folder), config, workers, allow)
            how = f"best responses trained for {seen.timesteps:,} env steps in all"
            found.append(Bound(one.name, seen.nash_conv, seen.stderr, seen.bound, how, seen.gains, seen.errors))
    return found


def exploitability_section(bounds: Sequence[Bound], notes: Sequence[str], order: Sequence[str]) -> Section:
    ranked = sorted(bounds, key=lambda one: order.index(one.name))
    rows = []
    for one in ranked:
        figure = with_error(one.nash_conv, one.stderr) if one.stderr else number(one.nash_conv, 4)
        rows.append([one.name, f"{SIGNS[one.bound]}{figure}", one.bound, one.how])
    blocks: list[Block] = [
        Live("bounds", []),
        Grid("NashConv when everybody plays the same entrant", ["entrant", "NashConv", "", "found by"], rows),
        *[Words(note) for note in notes],
        meaning(
            "NashConv: if all players were played by this entrant, how much could they gain together, each by replying as "
            "well as possible while the others stay as they are? 0 means that it cannot be exploited. Exact numbers look "
            "at every reply there is. Sampled chance does too, but seeds stand for chance: such a figure tends to err "
            "upwards, by about its error. Lower bounds look at some replies only: the truth is as large or larger, and a "
            "bound of 0 means that no better reply was found, not that there is none. The best of several measured "
            "numbers is a little too high by luck, about as much as its error."
        ),
    ]
    if not rows:
        blocks = [Words("No entrant plays all players, so there is nobody whose NashConv could be asked for.")]
    return Section("exploitability", "Exploitability", blocks)
