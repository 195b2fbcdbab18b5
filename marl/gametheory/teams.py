"""Two against one: what a team can guarantee itself when its members cannot talk while they play.

A team of two players with one goal meets an adversary who knows their strategies. What the team earns at worst depends on what
it may agree on before the game:

* *correlated* (Celli and Gatti, 2018): a signal that the adversary does not see tells both which plans to play, so the team
  mixes over pairs of plans. The value is exact, by column generation: a linear program mixes the pairs found so far and gives
  the adversary's reply; a mixed-integer program finds the pair that is best against it. When no pair is better, the mixture
  and the reply prove each other.
* *independent*, the team-maxmin equilibrium (von Stengel and Koller, 1997): each member mixes for itself. That problem is not
  convex, so it is climbed from several starts. What is found is guaranteed, a lower bound of the best; the correlated value
  is an upper one.

All programs are in sequence form: as long as the game has sequences, not strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from marl.errors import ConfigError
from marl.gametheory.tree.sequence import PlayerForm
from marl.gametheory.tree.tree import Behaviour, Reals, Tree
from marl.gametheory.tree.value import flow_of, maxmin_program

TOLERANCE = 1e-9  # in units of the largest payoff
SAME = 1e-12  # payoffs of two pairs that are nearer are those of one pair
MOST_ROUNDS = 10_000
TURNS = 200
MOST_STEPS, NARROWEST = 1_000, 1e-7  # linear programs of a climb, and how near they look in the end
KEPT = 0.1  # the share of a promised gain that a pair has to keep


@dataclass(frozen=True, eq=False)
class TeamPlan:
    """What the team does with some chance: a strategy of each member, as tables of ``Tree`` have them."""

    chance: float
    strategies: dict[str, Behaviour]


@dataclass(frozen=True, eq=False)
class TeamMaxmin:
    """``value`` is guaranteed against every adversary; no such team can be sure of more than ``upper``."""

    team: tuple[str, str]
    adversary: str
    correlated: bool
    value: float
    upper: float
    plans: tuple[TeamPlan, ...]
    reply: Behaviour  # of the adversary, where it was found; else empty
    rounds: int


def team_maxmin(tree: Tree, adversary: str, *, correlated: bool = True, starts: int = 8, seed: int = 0) -> TeamMaxmin:
    """The team of the other two players of a game of three. Its members are paid what they are paid together.

    ``starts`` and ``seed`` are about independent members, who begin with so many random strategies.
    """
    if starts < 1:
        raise ConfigError(f"team_maxmin: starts is {starts}; expected at least one start.")
    game = _Game.of(tree, adversary)
    found = _correlated(game)
    if correlated:
        return found
    return _independent(game, found.upper, starts, seed)


@dataclass(frozen=True, eq=False)
class _Game:
    """The tree as the team sees it: ``K`` ends, with sequences and payoffs times chance."""

    tree: Tree
    team: tuple[int, int]
    adversary: int
    paid: Reals  # [K] to the team, in units of the largest payoff

    @classmethod
    def of(cls, tree: Tree, adversary: str) -> _Game:
        if tree.num_players != 3:
            raise ConfigError(
                f"game {tree.name!r} has {tree.num_players} players; a team of two against one needs three."
            )
        alone = tree.player_index(adversary)
        first, second = (player for player in range(3) if player != alone)
        # Plans of the first are whole numbers in the program that looks for pairs: the fewer the better.
        if tree.form.players[first].num_sequences > tree.form.players[second].num_sequences:
            first, second = second, first
        paid = tree.form.payoffs[[first, second]].sum(axis=0) / (tree.scale or 1.0)
        return cls(tree, (first, second), alone, paid)

    def form(self, player: int) -> PlayerForm:
        return self.tree.form.players[player]

    def at_ends(self, player: int, plan: Reals) -> Reals:
        """``[K]``: the plan's weight of the player's sequence at every end."""
        return np.asarray(plan[self.tree.form.sequences[:, player]])

    def matrix(self, row: int, column: int, weights: Reals) -> Any:
        """Payoffs by sequences of two players, where ``weights`` ``[K]`` stand for what the third does."""
        sequences = self.tree.form.sequences
        shape = (self.form(row).num_sequences, self.form(column).num_sequences)
        entries = (self.paid * weights, (sequences[:, row], sequences[:, column]))
        return sparse.csr_array(sparse.coo_array(entries, shape=shape))

    def strategies(self, plans: Sequence[Reals]) -> dict[str, Behaviour]:
        found = {}
        for player, plan in zip(self.team, plans, strict=True):
            found[self.tree.players[player]] = self.form(player).behaviour(np.maximum(plan, 0.0))
        return found


# -- with a signal -----------------------------------------------------------------------------------------------------


def _correlated(game: _Game) -> TeamMaxmin:
    first, second = game.team
    pairs: list[tuple[Reals, Reals]] = []
    columns: list[Reals] = []
    even = game.form(game.adversary)
    reply = even.plan(even.uniform)
    value = -np.inf
    chances: Reals = np.zeros(0)
    for _ in range(MOST_ROUNDS):
        pair, worth = _best_pair(game, reply)
        column = _earned(game, pair)
        # A pair that is in the mixture already cannot make it better: only rounding of the programs says that it is.
        if pairs and (worth <= value + TOLERANCE or _holds(columns, column)):
            break
        pairs.append(pair)
        columns.append(column)
        value, chances, reply = _mixed(columns, even)
    scale = game.tree.scale or 1.0
    plans = [
        TeamPlan(float(chance), game.strategies(pair))
        for chance, pair in zip(chances, pairs, strict=True)
        if chance > TOLERANCE
    ]
    return TeamMaxmin(
        team=(game.tree.players[first], game.tree.players[second]),
        adversary=game.tree.players[game.adversary],
        correlated=True,
        value=value * scale,
        upper=max(value, worth) * scale,
        plans=tuple(plans),
        reply=even.behaviour(np.maximum(reply, 0.0)),
        rounds=len(pairs),
    )


def _earned(game: _Game, pair: tuple[Reals, Reals]) -> Reals:
    """What the pair of plans earns at each of the adversary's sequences."""
    first, second = game.team
    weights = game.paid * game.at_ends(first, pair[0]) * game.at_ends(second, pair[1])
    places = game.tree.form.sequences[:, game.adversary]
    return np.asarray(np.bincount(places, weights, game.form(game.adversary).num_sequences), np.float64)


def _holds(columns: Sequence[Reals], column: Reals) -> bool:
    return bool((np.abs(np.stack(columns) - column).max(axis=1) <= SAME).any())


def _mixed(columns: Sequence[Reals], adversary: PlayerForm) -> tuple[float, Reals, Reals]:
    """The best mixture of pairs, by what each earns at the adversary's sequences: its value, chances, and the reply to it."""
    count, sets = len(columns), adversary.num_sets + 1
    goal = np.zeros(count + sets)
    goal[count] = -1.0
    found = linprog(
        goal,
        A_ub=sparse.hstack([sparse.csr_array(-np.stack(columns, axis=1)), flow_of(adversary).T], format="csr"),
        b_ub=np.zeros(adversary.num_sequences),
        A_eq=np.concatenate([np.ones(count), np.zeros(sets)])[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * count + [(None, None)] * sets,
        method="highs",
    )
    _check(found)
    # HiGHS gives the marginals of a minimisation, hence the sign.
    return -float(found.fun), found.x[:count], np.maximum(-found.ineqlin.marginals, 0.0)


def _best_pair(game: _Game, reply: Reals) -> tuple[tuple[Reals, Reals], float]:
    """The pair of plans that earns most against the adversary's plan, and what it earns.

    With whole numbers ``x`` and any plan ``y`` an end is reached with weight ``w = x y``, which is linear:
    ``w <= x``, ``w <= y`` and ``w >= x + y - 1``.
    """
    first, second = (game.form(player) for player in game.team)
    payoffs = sparse.coo_array(game.matrix(*game.team, game.at_ends(game.adversary, reply)))
    payoffs.eliminate_zeros()
    ends = len(payoffs.data)
    rows, columns = payoffs.coords
    xs, ys = first.num_sequences, second.num_sequences
    of_x = sparse.csr_array((np.ones(ends), (np.arange(ends), rows)), shape=(ends, xs))
    of_y = sparse.csr_array((np.ones(ends), (np.arange(ends), columns)), shape=(ends, ys))
    one = sparse.eye_array(ends, format="csr")
    rules = [
        [flow_of(first), None, None],
        [None, flow_of(second), None],
        [-of_x, None, one],
        [None, -of_y, one],
        [of_x, of_y, -one],
    ]
    flows = np.concatenate([_start(first), _start(second)])
    lower = np.concatenate([flows, np.full(3 * ends, -np.inf)])
    upper = np.concatenate([flows, np.zeros(2 * ends), np.ones(ends)])
    found = milp(
        np.concatenate([np.zeros(xs + ys), -payoffs.data]),
        integrality=np.concatenate([np.ones(xs), np.zeros(ys + ends)]),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(sparse.block_array(rules, format="csr"), lower, upper),
        options={"mip_rel_gap": 0.0},
    )
    _check(found)
    return (np.round(found.x[:xs]), found.x[xs : xs + ys]), -float(found.fun)


def _start(form: PlayerForm) -> Reals:
    """The empty sequence has weight 1; what enters an information set leaves it."""
    start = np.zeros(form.num_sets + 1)
    start[0] = 1.0
    return start


def _check(found: Any) -> None:
    if found.status != 0:
        raise ConfigError(f"a program of the team was not solved: {found.message} Take a smaller version of the game.")


# -- each for itself ---------------------------------------------------------------------------------------------------


def _independent(game: _Game, upper: float, starts: int, seed: int) -> TeamMaxmin:
    """From several random starts: both climb together, then take turns while that helps."""
    rng = np.random.default_rng(seed)
    best, plans, rounds = -np.inf, [np.zeros(0), np.zeros(0)], 0
    for _ in range(starts):
        begun = [_random_plan(game.form(player), rng) for player in game.team]
        value, now, turns = _in_turns(game, _climbed(game, begun))
        rounds += turns
        if value > best:
            best, plans = value, now
    first, second = game.team
    return TeamMaxmin(
        team=(game.tree.players[first], game.tree.players[second]),
        adversary=game.tree.players[game.adversary],
        correlated=False,
        value=best * (game.tree.scale or 1.0),
        upper=upper,
        plans=(TeamPlan(1.0, game.strategies(plans)),),
        reply=np.zeros(0),
        rounds=rounds,
    )


def _climbed(game: _Game, plans: Sequence[Reals]) -> list[Reals]:
    """A better pair near these plans ``x`` and ``y``, by linear programs.

    What the team earns is linear in each plan, so near the pair it is about ``A(x', y) + A(x, y') - A(x, y)``. A program finds
    the best pair within ``radius`` by that, and the radius shrinks where the pair does not keep what it promised. Members who
    only take turns get stuck where neither gains alone.
    """
    now, radius = list(plans), 0.5
    value = _worst(game, now)
    for _ in range(MOST_STEPS):
        promised, near = _linear_step(game, now, radius)
        if promised <= value + TOLERANCE or radius < NARROWEST:
            break
        kept = _worst(game, near) - value
        if kept < KEPT * (promised - value):
            radius /= 4
            continue
        now, value, radius = near, value + kept, min(1.0, 2 * radius)
    return now


def _linear_step(game: _Game, plans: Sequence[Reals], radius: float) -> tuple[float, list[Reals]]:
    """What the best pair within the radius would earn if payoffs were linear, and the pair:

    maximise q[0]   such that   E' q <= A(x', y) + A(x, y') - A(x, y),   x' and y' are plans near x and y
    """
    (first, second), alone = game.team, game.form(game.adversary)
    by_x = game.matrix(game.adversary, first, game.at_ends(second, plans[1]))
    by_y = game.matrix(game.adversary, second, game.at_ends(first, plans[0]))
    forms = [game.form(player) for player in game.team]
    point = np.concatenate(plans)
    sizes, sets = len(point), alone.num_sets + 1
    goal = np.zeros(sizes + sets)
    goal[sizes] = -1.0
    flows = sparse.block_diag([flow_of(form) for form in forms], format="csr")
    low, high = np.maximum(0.0, point - radius), np.minimum(1.0, point + radius)
    found = linprog(
        goal,
        A_ub=sparse.hstack([-by_x, -by_y, flow_of(alone).T], format="csr"),
        b_ub=-(by_x @ plans[0]),
        A_eq=sparse.hstack([flows, sparse.csr_array((flows.shape[0], sets))], format="csr"),
        b_eq=np.concatenate([_start(form) for form in forms]),
        bounds=np.concatenate([np.stack([low, high], axis=1), np.full((sets, 2), (-np.inf, np.inf))]),
        method="highs",
    )
    _check(found)
    parts = np.split(found.x[:sizes], [forms[0].num_sequences])
    # What rounding left over is no plan yet: shares of behaviour are.
    return -float(found.fun), [
        form.plan(form.behaviour(np.maximum(part, 0.0))) for form, part in zip(forms, parts, strict=True)
    ]


def _worst(game: _Game, plans: Sequence[Reals]) -> float:
    """What the pair earns against the adversary's best reply."""
    return -game.form(game.adversary).best_value(-_earned(game, (plans[0], plans[1])))


def _in_turns(game: _Game, plans: list[Reals]) -> tuple[float, list[Reals], int]:
    """Each member's best plan while the other's is held fast, in turns; what they guarantee never falls."""
    now, value = list(plans), -np.inf
    for turn in range(TURNS):
        moving = turn % 2
        before, (value, now[moving]) = value, _one_turn(game, moving, now[1 - moving])
        if turn > 0 and value <= before + TOLERANCE:
            break
    return value, now, turn + 1


def _one_turn(game: _Game, moving: int, fast: Reals) -> tuple[float, Reals]:
    player, other = game.team[moving], game.team[1 - moving]
    payoffs = game.matrix(player, game.adversary, game.at_ends(other, fast))
    found = maxmin_program(payoffs, game.form(player), game.form(game.adversary))
    _check(found)
    return -float(found.fun), np.maximum(found.x[: game.form(player).num_sequences], 0.0)


def _random_plan(form: PlayerForm, rng: np.random.Generator) -> Reals:
    weights = rng.exponential(size=form.num_choices)
    total = np.bincount(form.owner, weights, form.num_sets)
    return form.plan(weights / total[form.owner])
