"""The sequence form: a strategy as the products of a player's own probabilities along its own choices.

A *sequence* of a player is its last choice, or nothing (sequence 0); sequence ``c + 1`` ends with the player's choice ``c``.
The plan ``x`` of a behavioural strategy ``s`` is ``x[0] = 1`` and ``x[c + 1] = x[parent of c] * s[c]``. A terminal node ``z``
is reached with chance ``p(z) * prod_i x_i[sequence of i at z]``, so expected payoffs are linear in each player's plan:

    u_i(x) = x_i . g_i,    g_i[s] = sum over terminal z with i's sequence s of  p(z) u_i(z) prod_{j != i} x_j[...]

``g_i`` are the counterfactual payoffs of the player. With two players ``g_0 = A_0 x_1`` with a sparse matrix ``A_0``. Terminal
nodes with equal sequences of all players count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from marl.data.task import Ints
from marl.gametheory.tree.kernels import Index, Product, add, product, short
from marl.gametheory.tree.tree import CHANCE, Behaviour, Reals, Tree

EQUALLY_GOOD = ALMOST_NEVER = 1e-12
"""Payoffs that differ by less (in units of the largest) are equal, and chances below that are none: it is rounding."""


@dataclass(frozen=True, slots=True)
class Level:
    """Information sets of one player with equally many own decisions before. Numbers of choices are the player's own."""

    choices: slice
    sequences: slice  # of these choices
    first: Ints  # [sets] first choice of each set, from the level's first
    owner: Ints  # [choices] set of each choice, from the level's first
    before: Ints  # [choices] the sequence that leads to the choice's set
    parents: Ints  # sequences that lead to sets of this level, each once
    groups: Ints  # [parents] first set behind each of them
    # The same for sparse products: numbers count from the first sequence of the level before.
    above: slice  # sequences of the level before; of the first level: the empty sequence
    behind: Index  # [above + 1] where the choices behind each of them begin
    leading: Index  # [choices] the sequence that leads to the choice's set
    numbers: Index  # [choices + 1] 0, 1, ...


class Aside(NamedTuple):
    """What decides where the others never lead: both ``[sequences]``, and both are used up."""

    leads: Reals  # chance of the others to lead to terminal nodes of this sequence
    payoffs: Reals  # counterfactual payoffs against something else


class Ends(NamedTuple):
    """The ``Z`` terminal nodes, in the tree's order."""

    sequences: Ints  # [Z, P] of every player
    start: Ints  # [Z] which child of the root they lie below; 0 where the root is no chance move


class PlayerForm:
    """One player's sequences, level by level."""

    def __init__(self, tree: Tree, player: int) -> None:
        sets, mine, choices = tree.sets, tree.infosets(player), tree.choices(player)
        self.choices, self.num_choices = choices, choices.stop - choices.start
        self.num_sequences = self.num_choices + 1
        self.num_sets = mine.stop - mine.start
        self.first = sets.first_choice[mine] - choices.start
        self.counts = sets.num_actions[mine]
        self.owner = np.repeat(np.arange(self.num_sets), self.counts)
        self.uniform = 1.0 / self.counts[self.owner]
        parents = sets.parent_choice[mine]
        self.parent = np.where(parents >= 0, parents - choices.start + 1, 0)  # [sets] sequence before each set
        self.equally_good = EQUALLY_GOOD * tree.scale
        self.begins = short(np.append(self.first, self.num_choices))  # [sets + 1]
        self.numbers = short(np.arange(self.num_choices))
        self.ones = np.ones(self.num_choices)
        self.levels = self._levels(sets.level[mine])

    def _levels(self, level: Ints) -> list[Level]:
        found: list[Level] = []
        above = slice(0, 1)
        for depth in range(int(level.max()) + 1 if level.size else 0):
            at, stop = np.searchsorted(level, [depth, depth + 1])
            first = self.first[at:stop]
            begin, end = int(first[0]), int(first[-1] + self.counts[stop - 1])
            parents, groups = np.unique(self.parent[at:stop], return_index=True)  # they are sorted
            owner = self.owner[begin:end] - at
            sequences = slice(begin + 1, end + 1)
            before = self.parent[at:stop][owner]
            numbers = short(np.arange(end - begin + 1))
            behind = short(np.searchsorted(before, np.arange(above.start, above.stop + 1)))
            leading = short(before - above.start)
            one = Level(
                slice(begin, end),
                sequences,
                first - begin,
                owner,
                before,
                parents,
                groups,
                above,
                behind,
                leading,
                numbers,
            )
            found.append(one)
            above = sequences
        return found

    # -- between plans and behaviour -------------------------------------------------------------------------------

    def plan(self, behaviour: Behaviour) -> Reals:
        """Realisation plan ``[sequences]`` of the player's part of a strategy."""
        plan = np.zeros(self.num_sequences)
        plan[0] = 1.0
        add(self.plan_products(behaviour, plan))
        return plan

    def plan_products(self, behaviour: Behaviour, plan: Reals) -> list[Product]:
        """What makes a plan of a strategy: ``plan`` is 1 at the empty sequence and 0 elsewhere before."""
        # A matrix with one entry per row: the choice's chance, in the column of the sequence that leads there.
        return [
            product(level.numbers, level.leading, behaviour[level.choices], plan[level.above], plan[level.sequences])
            for level in self.levels
        ]

    def behaviour(self, plan: Reals) -> Behaviour:
        """Each choice's share among those of its set; equal shares where the plan never comes there."""
        if not self.num_sets:
            return np.zeros(0)
        weights = plan[1:]
        total = np.add.reduceat(weights, self.first)[self.owner]
        return np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), self.uniform)

    # -- backwards through the levels ------------------------------------------------------------------------------

    def best_value(self, payoffs: Reals) -> float:
        """The most that the player can earn against counterfactual payoffs ``[sequences]``, which are used up."""
        for level in reversed(self.levels):
            best = np.maximum.reduceat(payoffs[level.sequences], level.first)
            payoffs[level.parents] += np.add.reduceat(best, level.groups)
        return float(payoffs[0])

    def best_response(self, payoffs: Reals, aside: Aside | None = None) -> tuple[float, Behaviour]:
        """The same with a pure strategy that earns it: the first of equally good actions.

        At sets that the others never lead to every action is equally good; ``aside`` says what decides there instead.
        """
        chosen, other = np.zeros(self.num_choices), aside or Aside(np.ones_like(payoffs), np.zeros_like(payoffs))
        for level in reversed(self.levels):
            here, instead = payoffs[level.sequences], other.payoffs[level.sequences]
            reached = np.add.reduceat(other.leads[level.sequences], level.first)
            merit = np.where(reached[level.owner] > ALMOST_NEVER, here, instead)
            best = np.maximum.reduceat(merit, level.first)
            good = np.flatnonzero(merit >= best[level.owner] - self.equally_good)
            picked = good[np.unique(level.owner[good], return_index=True)[1]]
            chosen[level.choices.start + picked] = 1.0
            payoffs[level.parents] += np.add.reduceat(here[picked], level.groups)
            other.payoffs[level.parents] += np.add.reduceat(instead[picked], level.groups)
            other.leads[level.parents] += np.add.reduceat(reached, level.groups)
        return float(payoffs[0]), chosen

    def fold_products(self, payoffs: Reals, behaviour: Behaviour) -> list[Product]:
        """What turns counterfactual payoffs at terminal nodes into those of the whole game behind each sequence, in place.

        The last one adds up the value of the game at the empty sequence.
        """
        return [
            product(
                level.behind, level.numbers, behaviour[level.choices], payoffs[level.sequences], payoffs[level.above]
            )
            for level in reversed(self.levels)
        ]

    def set_product(self, weights: Reals, numbers: Reals, out: Reals) -> Product:
        """``sum_c weights[c] numbers[c]`` over the choices of each information set, added to ``out`` ``[sets]``."""
        return product(self.begins, self.numbers, weights, numbers, out)

    def regrets(self, payoffs: Reals, behaviour: Behaviour) -> Reals:
        """How much more each choice would earn than the strategy at its set ``[choices]``, by counterfactual payoffs.

        ``payoffs`` ``[sequences]`` are used up; ``payoffs[0]`` is the value of the strategy afterwards.
        """
        earned = np.zeros(self.num_sets)
        add([*self.fold_products(payoffs, behaviour), self.set_product(behaviour, payoffs[1:], earned)])
        return np.asarray(payoffs[1:] - earned[self.owner])


class SequenceForm:
    """All players' sequences and what they earn together."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.players = [PlayerForm(tree, player) for player in range(tree.num_players)]
        sequences, reach = self._at_nodes()
        end = tree.terminal
        self.sequences, which = np.unique(sequences[end], axis=0, return_inverse=True)  # [K, P]
        which = which.reshape(-1)
        paid = [np.bincount(which, reach[end] * column, len(self.sequences)) for column in tree.payoffs[end].T]
        self.payoffs = np.stack(paid)  # [P, K] payoffs times chance
        self.chances: Reals = np.bincount(which, reach[end], len(self.sequences)).astype(np.float64)  # [K]

    def _at_nodes(self) -> tuple[Ints, Reals]:
        """Every player's sequence ``[N, P]`` and the probability of all chance moves ``[N]`` on the way to each node."""
        tree = self.tree
        sequences, reach = np.zeros((len(tree), tree.num_players), np.int64), np.ones(len(tree))
        offset = np.array([form.choices.start for form in self.players])
        for begin, end in zip(tree.levels[1:-1], tree.levels[2:], strict=True):
            nodes = np.arange(begin, end)
            above = tree.parent[nodes]
            sequences[nodes], reach[nodes] = sequences[above], reach[above] * tree.probability[nodes]
            decided = np.flatnonzero(tree.player[above] != CHANCE)
            who = tree.player[above[decided]]
            choice = tree.sets.first_choice[tree.infoset[above[decided]]] + tree.branch[nodes[decided]]
            sequences[nodes[decided], who] = choice - offset[who] + 1
        return sequences, reach

    @cached_property
    def ends(self) -> Ends:
        """Terminal nodes one by one, which ``payoffs`` adds up."""
        tree, start = self.tree, np.zeros(len(self.tree), np.int64)
        if tree.player[0] == CHANCE:
            start[tree.parent == 0] = tree.branch[tree.parent == 0]
            for begin, end in zip(tree.levels[2:-1], tree.levels[3:], strict=True):
                start[begin:end] = start[tree.parent[begin:end]]
        return Ends(self._at_nodes()[0][tree.terminal], start[tree.terminal])

    @cached_property
    def matrices(self) -> tuple[Any, Any]:
        """Two players: ``A_0`` ``[S_0, S_1]`` and ``A_1`` ``[S_1, S_0]``, sparse by rows."""
        return self._matrix(0, self.payoffs[0]), self._matrix(1, self.payoffs[1])

    @cached_property
    def chance_matrices(self) -> tuple[Any, Any]:
        """The same of the chance to end there."""
        return self._matrix(0, self.chances), self._matrix(1, self.chances)

    def _matrix(self, player: int, numbers: Reals) -> Any:
        rows, columns = self.sequences[:, player], self.sequences[:, 1 - player]
        shape = (self.players[player].num_sequences, self.players[1 - player].num_sequences)
        matrix = sparse.csr_array((numbers, (rows, columns)), shape=shape)
        return sparse.csr_array((matrix.data, short(matrix.indices), short(matrix.indptr)), shape=shape)

    def plans(self, strategy: Behaviour) -> list[Reals]:
        return [form.plan(strategy[form.choices]) for form in self.players]

    def behaviour(self, plans: Sequence[Reals]) -> Behaviour:
        """The strategy of all players behind their plans."""
        return np.concatenate([form.behaviour(plan) for form, plan in zip(self.players, plans, strict=True)])

    def counterfactual(self, player: int, plans: Sequence[Reals], out: Reals | None = None) -> Reals:
        """``g_i``: what each sequence of the player earns at terminal nodes, given the plans of the others.

        A new array, or ``out``.
        """
        if len(self.players) == 2:
            return _applied(self.matrices[player], plans[1 - player], out)
        return self._collected(player, self.payoffs[player], plans, out)

    def reached(self, player: int, plans: Sequence[Reals]) -> Reals:
        """How likely chance and the others lead to terminal nodes of each sequence of the player."""
        if len(self.players) == 2:
            return _applied(self.chance_matrices[player], plans[1 - player])
        return self._collected(player, self.chances, plans)

    def _collected(self, player: int, numbers: Reals, plans: Sequence[Reals], out: Reals | None = None) -> Reals:
        """Sums of ``numbers`` ``[K]`` times the plans of the others, for each sequence of the player."""
        weights = numbers
        for other, plan in enumerate(plans):
            if other != player:
                weights = weights * plan[self.sequences[:, other]]
        found = np.bincount(self.sequences[:, player], weights, self.players[player].num_sequences)
        if out is None:
            return np.asarray(found, np.float64)
        out[:] = found
        return out

    def leads(self, player: int, plans: Sequence[Reals]) -> Reals:
        """How much the plans of the others lead to terminal nodes of each sequence of the player: 0 where never."""
        return self._collected(player, np.ones(len(self.sequences)), plans)

    def values(self, plans: Sequence[Reals]) -> Reals:
        """What each player earns ``[P]``."""
        weights = np.ones(len(self.sequences))
        for player, plan in enumerate(plans):
            weights = weights * plan[self.sequences[:, player]]
        return np.asarray(self.payoffs @ weights)


def _applied(matrix: Any, plan: Reals, out: Reals | None = None) -> Reals:
    """``matrix @ plan``, a new array or ``out``."""
    found = np.empty(matrix.shape[0]) if out is None else out
    found.fill(0.0)
    add([product(matrix.indptr, matrix.indices, matrix.data, plan, found)])
    return found
