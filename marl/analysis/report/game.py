"""What kind of game it is: sampled from random play, and exactly where the tree is small.

Random play shows what holds in all episodes that were played: payoffs that add up to 0 (zero-sum) or to a constant, payoffs
that are the same for all (cooperative), and whether seats earn the same within errors. It proves none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marl.analysis.exploit import sampled_in_words
from marl.analysis.report.content import Block, Grid, Section, Words, joined, meaning, number, plural, with_error
from marl.analysis.report.equilibria import ALL_UP_TO, SHOWN, mix_in_words
from marl.analysis.report.sample import Sample
from marl.data.task import AgentID, Task
from marl.errors import ChanceError, UserError
from marl.gametheory.solve import all_equilibria
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.normal import one_shot
from marl.gametheory.tree.sampled import gains_with_errors, value_errors
from marl.gametheory.tree.tree import Tree
from marl.gametheory.tree.value import equilibrium
from marl.populations.matches import PlayerID
from marl.populations.payoff_estimates import standard_error
from marl.scenario.env import env_name
from marl.scenario.resolve import Setup
from marl.training.examination.game import env_as_played

ROUNDING = 1e-5  # of the env's float32, relative to the largest payoff
ERRORS_APART = 3.0
"""Seats whose payoffs differ by more standard errors are said to differ."""


@dataclass(frozen=True)
class TreeFacts:
    """Numbers of a small game; with standard errors where chance was sampled, else these are 0."""

    nodes: int
    information_sets: int
    chance: str
    exact: bool
    sample: dict[str, float] | None  # seeds, different starts, share unseen
    zero_sum: bool
    uniform_nash_conv: float
    uniform_nash_conv_stderr: float
    values: dict[str, float] | None  # of the players in equilibrium, by linear program; two players, constant-sum
    value_stderrs: dict[str, float] | None
    equilibria: list[str]  # in words; of two players who both decide once, up to 8 actions each
    degenerate: bool  # these are corners of whole sets of equilibria


@dataclass(frozen=True)
class GameFacts:
    """The game as random play shows it."""

    env: str
    players: dict[PlayerID, list[AgentID]]
    spaces: dict[PlayerID, list[str]]
    episodes: int
    means: dict[PlayerID, float]
    stderrs: dict[PlayerID, float]
    episode_length: float
    turn_based: bool
    zero_sum: bool
    constant_sum: bool
    total: float  # of all players' payoffs, on average
    cooperative: bool
    silent: bool  # nobody was ever paid anything
    same_spaces: bool
    seat_gap: float  # between the seats that differ most clearly
    seat_gap_stderr: float
    seats_differ: bool
    tree: TreeFacts | None
    tree_note: str  # why there is none, or what it stands for

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def game_facts(
    setup: Setup, agents: Mapping[PlayerID, Sequence[AgentID]], sampled: Sample, tree: Tree | None, note: str
) -> GameFacts:
    returns, names = sampled.returns, list(agents)
    total = returns.sum(axis=1)
    # Relative: float32 keeps seven digits, so large payoffs have large rounding errors.
    close = ROUNDING * float(np.abs(returns).max())
    spaces = {player: _spaces(mine, setup.task) for player, mine in agents.items()}
    gap, error = _clearest_gap(returns)
    zero_sum = constant_sum = cooperative = False
    if len(names) > 1:  # what one player earns is shared by all in an empty way
        zero_sum = bool(np.abs(total).max() <= close)
        constant_sum = bool(np.ptp(total) <= close)
        cooperative = bool(np.ptp(returns, axis=1).max() <= close)
    return GameFacts(
        env=env_name(setup.rollout.env),
        players={player: list(mine) for player, mine in agents.items()},
        spaces=spaces,
        episodes=len(returns),
        means=dict(zip(names, returns.mean(axis=0).tolist(), strict=True)),
        stderrs=dict(zip(names, standard_error(returns).tolist(), strict=True)),
        episode_length=float(np.mean(sampled.walks.lengths)),
        turn_based=sampled.walks.most_at_once == 1 and sum(map(len, agents.values())) > 1,
        zero_sum=zero_sum,
        constant_sum=constant_sum,
        total=float(total.mean()),
        cooperative=cooperative,
        silent=not returns.any(),
        same_spaces=len({tuple(mine) for mine in spaces.values()}) == 1,
        seat_gap=gap,
        seat_gap_stderr=error,
        seats_differ=gap > max(ERRORS_APART * error, close),
        tree=tree_facts(tree) if tree is not None else None,
        tree_note=note,
    )


def _spaces(agents: Sequence[AgentID], task: Task) -> list[str]:
    """What the player's agents see and do, each pair of spaces once."""
    found = []
    for kind in task.kinds:
        names = {name.split("[")[0] for name in kind.agents}
        if names & set(agents):
            mask = ", legal actions are told" if kind.masked else ""
            # numpy breaks long bounds of a space into lines.
            sees = " ".join(str(kind.observation_space).split())
            found.append(f"sees {sees}, does {kind.action_space}{mask}")
    return found


def _clearest_gap(returns: Any) -> tuple[float, float]:
    """The difference of two seats' payoffs that is largest for its error, and the error; episode by episode."""
    found: list[tuple[float, float]] = []
    for one in range(returns.shape[1]):
        for other in range(one):
            # Episode by episode: luck that both seats share in an episode falls out of the difference.
            ahead = returns[:, [one]] - returns[:, [other]]
            found.append((abs(float(ahead.mean())), float(standard_error(ahead)[0])))
    return max(found, key=lambda pair: pair[0] - ERRORS_APART * pair[1], default=(0.0, 0.0))


def small_tree(
    setup: Setup,
    agents: Mapping[PlayerID, Sequence[AgentID]],
    sampled: Sample,
    max_nodes: int,
    chance_samples: int | None = None,
) -> tuple[Tree | None, str]:
    """The game's tree if it is small; else why not."""
    scenario = setup.scenario
    # What random play has shown is asked first: to find out that a tree is huge by building it takes long.
    if not sampled.walks.discrete:
        return None, "some actions are not a choice among a few, so there is no finite tree."
    if sampled.walks.nodes > max_nodes:
        size = sampled.walks.size
        return None, f"the tree has {size} nodes, estimated from random play, more than max_nodes ({max_nodes:,})."
    sizes = set(map(len, agents.values()))
    if sizes != {1}:
        return None, "trees are built for envs whose players are single agents."
    try:
        tree = build_tree(
            env_as_played(scenario, setup.rollout.wrappers),
            setup.rollout.env_config,
            chance_samples=chance_samples,
            max_nodes=max_nodes,
        )
    except ChanceError:  # a mistake to mend: the env says something wrong about itself
        raise
    except UserError as error:
        return None, str(error)
    if tree.sample is None:
        return tree, ""
    return tree, f"{sampled_in_words(tree.sample.as_json())}."


def tree_facts(tree: Tree) -> TreeFacts:
    values = errors = None
    if tree.num_players == 2 and tree.is_constant_sum:
        solved = equilibrium(tree)
        values = dict(zip(tree.players, solved.values.tolist(), strict=True))
        errors = dict(zip(tree.players, value_errors(tree, solved.strategy).tolist(), strict=True))
    uniform = gains_with_errors(tree, tree.uniform())
    equilibria, degenerate = _equilibria(tree)
    return TreeFacts(
        nodes=len(tree),
        information_sets=len(tree.sets),
        chance=tree.chance,
        exact=tree.sample is None,
        sample=None if tree.sample is None else tree.sample.as_json(),
        zero_sum=tree.is_zero_sum,
        uniform_nash_conv=uniform.nash_conv,
        uniform_nash_conv_stderr=uniform.total_error,
        values=values,
        value_stderrs=errors,
        equilibria=equilibria,
        degenerate=degenerate,
    )


def _equilibria(tree: Tree) -> tuple[list[str], bool]:
    """All equilibria of a table of two players, and whether it is degenerate, where its payoffs are exact: others may have
    none in common with a sample."""
    if tree.num_players != 2 or tree.sample is not None:
        return [], False
    game = one_shot(tree)
    if game is None or max(game.shape) > ALL_UP_TO:
        return [], False
    told, listed = [], all_equilibria(game)
    for found in listed:
        plays = []
        for player, actions, mix in zip(game.players, game.actions, found.profile, strict=True):
            chances = dict(zip(actions, mix.tolist(), strict=True))
            plays.append(f"{player}: {mix_in_words(chances)}")
        values = ", ".join(map(number, found.values))
        told.append(f"{'; '.join(plays)} (payoffs {values})")
    return told, listed.degenerate


# -- the section ---------------------------------------------------------------------------------------------------


def game_section(facts: GameFacts) -> Section:
    rows = []
    for player, agents in facts.players.items():
        earned = with_error(facts.means[player], facts.stderrs[player])
        rows.append([player, ", ".join(agents), "; ".join(facts.spaces[player]), earned])
    moves = "agents take turns" if facts.turn_based else "several agents may move at once"
    if sum(map(len, facts.players.values())) == 1:
        moves = "one agent plays alone"
    blocks: list[Block] = [
        Words(
            f"{facts.env}: {plural(len(facts.players), 'player')}; {moves}; steps of an episode of random play: "
            f"{facts.episode_length:.4g} on average."
        ),
        Grid("Players, and what each earns when all play at random", ["player", "agents", "spaces", "payoff"], rows),
        *[Words(text) for text in verdicts(facts)],
        meaning(
            f"This was sampled over {facts.episodes} episodes of random play: it holds in what was seen, and rare events may "
            "not have been seen."
        ),
        *_kinds_of_games(facts),
        *_tree_blocks(facts),
    ]
    return Section("game", "The game", blocks)


def _kinds_of_games(facts: GameFacts) -> list[Block]:
    if len(facts.players) < 2:
        return []
    return [
        meaning(
            "In a zero-sum game one wins what the others lose. In a cooperative game all are paid the same. In a symmetric "
            "game it does not matter who sits where."
        )
    ]


def verdicts(facts: GameFacts) -> list[str]:
    """One sentence per property; never more than the data can tell."""
    sampled = f"sampled over {facts.episodes} episodes"
    if facts.silent:
        return [f"Nobody was paid anything in random play ({sampled}), so nothing can be told about the payoffs."]
    if len(facts.players) < 2:
        return []
    if facts.zero_sum:
        found = [f"Zero-sum: the players' payoffs added up to 0 in every episode ({sampled})."]
    elif facts.constant_sum:
        found = [f"Constant-sum: the players' payoffs added up to {number(facts.total)} in every episode ({sampled})."]
    else:
        found = [f"Not zero-sum: the sum of all payoffs differs from episode to episode ({sampled})."]
    if facts.cooperative:
        found.append(f"Cooperative: all players were paid the same in every episode ({sampled}).")
    gap = with_error(facts.seat_gap, facts.seat_gap_stderr)
    if not facts.same_spaces:
        found.append("Not symmetric: the players' spaces differ.")
    elif facts.seats_differ:
        found.append(f"Not symmetric: in random play the seats' payoffs differ by {gap} ({sampled}).")
    else:
        found.append(
            f"Perhaps symmetric: equal spaces, and no seat earned clearly more (largest difference {gap}; {sampled})."
        )
    return found


def _tree_blocks(facts: GameFacts) -> list[Block]:
    tree = facts.tree
    if tree is None:
        return [Words(f"No exact solution: {facts.tree_note}")]
    exact = "exact" if tree.exact else "sampled chance"
    blocks: list[Block] = [Grid(f"The whole game ({exact})", ["", ""], _tree_rows(tree))]
    more = len(tree.equilibria) - SHOWN
    if more > 0:
        blocks.append(Words(f"{more} more equilibria are in the JSON file."))
    if tree.degenerate:
        blocks.append(
            Words(
                "The game is degenerate: some strategy has more best replies than it has actions in use. Its equilibria come "
                "in whole sets, of which the corners are listed; mixtures of corners may be equilibria as well."
            )
        )
    if facts.tree_note:
        blocks.append(Words(f"Note: {facts.tree_note}"))
    value = ""
    if tree.values:
        value = f"The value is what a player earns if {joined(list(facts.players))} play perfectly. "
    blocks.append(
        meaning(
            f"The game is small enough to look at every way it can go. {value}NashConv is what all players together could "
            "still gain by playing better, each on its own: 0 means that nobody can."
        )
    )
    return blocks


def _tree_rows(tree: TreeFacts) -> list[list[str]]:
    chance = {"none": "none", "exact": "all of it is in the tree", "sampled": "seeds stand for it"}[tree.chance]
    if tree.sample is not None and tree.sample["starts"] == 1:
        chance = f"all {tree.sample['seeds']:,} seeds in the tree play alike"
    rows = [
        ["nodes of the tree", f"{tree.nodes:,}"],
        ["information sets", f"{tree.information_sets:,}"],
        ["chance", chance],
        ["zero-sum", "yes" if tree.zero_sum else "no"],
        ["NashConv of uniform play", _figure(tree.uniform_nash_conv, tree.uniform_nash_conv_stderr)],
    ]
    if tree.values is not None and tree.value_stderrs is not None:
        for player, earns in tree.values.items():
            rows.append([f"value for {player}", _figure(earns, tree.value_stderrs[player])])
    for place, told in enumerate(tree.equilibria[:SHOWN], 1):
        rows.append([f"equilibrium {place}", told])
    return rows


def _figure(value: float, error: float) -> str:
    if not error:
        return number(value, 6)
    return f"~ {with_error(value, error)}"
