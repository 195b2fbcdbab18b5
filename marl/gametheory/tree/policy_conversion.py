"""Between strategies on a tree and policies that play.

``policies_of`` writes a strategy into tables that play in any rollout; ``strategy_of`` reads policies as a strategy, so that
the exact NashConv of a trained network is known. A network without memory takes one forward pass per player. One with a
memory is stepped along the information sets, which form a tree per player: level by level, each from its parent's memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from marl.data.task import Ints
from marl.errors import PolicyError
from marl.gametheory.readings import carried, check_fits, check_given, read
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy
from marl.policies.tabular import TabularPolicy

# -- from a strategy to policies -----------------------------------------------------------------------------------


def policies_of(tree: Tree, strategy: Behaviour, *, greedy: bool = False) -> dict[str, TabularPolicy]:
    """A policy per player that plays the strategy. It remembers its own past only where observations do not tell it."""
    strategy = tree.checked(strategy)
    return {name: _table(tree, strategy, player, greedy) for player, name in enumerate(tree.players)}


def _table(tree: Tree, strategy: Behaviour, player: int, greedy: bool) -> TabularPolicy:
    sets, mine, kind = tree.sets, tree.infosets(player), tree.kind_of(player)
    count, width = mine.stop - mine.start, kind.columns.options
    chances = np.zeros((count, width))
    choices = tree.choices(player)
    chances[sets.owner[choices] - mine.start, sets.action[choices]] = strategy[choices]
    obs = np.array(sets.obs[mine], kind.obs_dtype).reshape(count, kind.obs_width)
    after, legal = np.zeros(0, np.int64), np.zeros((0, 0), bool)
    if len(np.unique(obs, axis=0)) < count:
        before = sets.parent_choice[mine]
        row = sets.owner[np.maximum(before, 0)] - mine.start
        after = np.where(before >= 0, 1 + row * width + sets.action[np.maximum(before, 0)], 0)
        legal = _inputs(tree, player, kind.masked, np.arange(count)).legal
    seat = np.full(count, player - kind.first_seat)
    return TabularPolicy(kind, obs, chances, seat, after, legal, greedy=greedy)


# -- from policies to a strategy -----------------------------------------------------------------------------------


def strategy_of(tree: Tree, policies: Mapping[str, Policy], *, explore: bool | None = None) -> Behaviour:
    """The strategy that these policies play, by player's name.

    ``explore`` is read as in acting: drawing policies as they draw, or their most likely action; values with their epsilon
    of random play, or greedily. None: policies that draw are read as they draw, values greedily. Tables, mixtures and
    everything else with ``probabilities`` or ``action_distribution`` are read as they are; of nfsp that is the average policy.
    """
    check_given(tree.name, tree.players, policies)
    strategy = np.zeros(tree.num_choices)
    for player, name in enumerate(tree.players):
        check_fits(tree.name, name, tree.kind_of(player), policies[name])
        policy = policies[name]
        if isinstance(policy, Mixture):
            strategy[tree.choices(player)] = _read_mixture(tree, player, policy, explore)
        else:
            strategy[tree.choices(player)] = _read(tree, player, policy, explore)
    return strategy


def _read_mixture(tree: Tree, player: int, policy: Mixture, explore: bool | None) -> Behaviour:
    """One member per episode: mixed in sequence form, where strategies can be averaged, and behaviour again."""
    form = tree.form.players[player]
    draws, total = policy.draws_actions if explore is None else explore, np.zeros(form.num_sequences)
    for number, chance in enumerate(policy.chances.tolist()):
        if chance > 0:
            total += chance * form.plan(_read(tree, player, policy.member(number), draws))
    return form.behaviour(total)


def _read(tree: Tree, player: int, policy: Policy, explore: bool | None) -> Behaviour:
    """Chances of the player's choices, level by level where the policy has a memory."""
    sets, mine, choices = tree.sets, tree.infosets(player), tree.choices(player)
    found = np.zeros((mine.stop - mine.start, tree.kind_of(player).columns.options))
    if not len(found):
        return np.zeros(0)
    carry = np.zeros((len(found), policy.carry_size), np.float32)
    level = sets.level[mine]
    for depth in range(int(level.max()) + 1 if policy.carry_size else 1):
        rows = np.flatnonzero(level == depth) if policy.carry_size else np.arange(len(found))
        inputs = _inputs(tree, player, policy.kind.masked, rows)
        reading = read(tree.players[player], policy, inputs, carry[rows], explore)
        found[rows] = reading.chances
        below = np.flatnonzero(level == depth + 1) if policy.carry_size else rows[:0]
        if below.size:
            before = sets.parent_choice[mine][below]
            parent = np.searchsorted(rows, sets.owner[before] - mine.start)
            carry[below] = carried(policy, inputs, carry[rows], reading.memory, parent, sets.action[before])
    local = sets.owner[choices] - mine.start
    legal = found[local, sets.action[choices]]
    total = np.bincount(local, legal)
    if not (total > 0).all():  # also NaN
        raise PolicyError(
            f"the policy of {tree.players[player]} gives no legal action a chance at {int((~(total > 0)).sum())} of its "
            f"{len(found)} information sets. Its probabilities have to be 0 or more and hold a legal action."
        )
    return np.asarray(legal / total[local])


def _inputs(tree: Tree, player: int, masked: bool, rows: Ints) -> Inputs:
    """What the player sees at some of its information sets."""
    sets, kind, first = tree.sets, tree.kind_of(player), tree.infosets(player).start
    obs = np.array([sets.obs[first + row] for row in rows.tolist()], kind.obs_dtype).reshape(len(rows), kind.obs_width)
    legal = np.zeros((len(rows), kind.columns.options if masked else 0), bool)
    if masked:
        for i, row in enumerate(rows.tolist()):
            at = int(sets.first_choice[first + row])
            legal[i, sets.action[at : at + int(sets.num_actions[first + row])]] = True
    return Inputs(obs, legal, np.full(len(rows), player - kind.first_seat))
