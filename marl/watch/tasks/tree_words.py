"""A tree as JSON, with words for what happens in it: chance moves, actions, and what players know.

Nodes stand level by level and children side by side, so the numbers of children say where everything is. Moves that all
nodes of an information set share were seen by its player; moves that differ were hidden from it.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from marl.data.task import Array
from marl.envs.batched import BatchedEnv
from marl.envs.branching import action_names
from marl.envs.games.cards.betting import RANKS, BettingGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.gametheory.tree.tree import CHANCE, Tree

LONGEST = 60  # characters of an observation that has no words
SUITS = ("♠", "♥")


def json_of(tree: Tree, env: BatchedEnv, title: str) -> dict[str, Any]:
    """All that the page needs to draw and to solve the game."""
    sets = tree.sets
    by_chance = np.flatnonzero(tree.player[np.maximum(tree.parent, 0)] == CHANCE)
    by_chance = by_chance[by_chance > 0]  # the root has no parent
    labels = _choice_labels(tree, env)
    return {
        "name": tree.name,
        "title": title,
        "players": list(tree.players),
        "chance": tree.chance_json(),
        "constant_sum": tree.is_constant_sum,
        "zero_sum": tree.is_zero_sum,
        "player": tree.player.tolist(),
        "infoset": tree.infoset.tolist(),
        "num_children": tree.num_children.tolist(),
        "chance_probability": tree.probability[by_chance].tolist(),  # of nodes below chance moves, in their order
        "chance_label": [_chance_label(tree, env, node) for node in by_chance.tolist()],
        "payoffs": tree.payoffs[tree.terminal].tolist(),  # of terminal nodes, in their order
        "sets": {
            "player": sets.player.tolist(),
            "parent_choice": sets.parent_choice.tolist(),
            "num_actions": sets.num_actions.tolist(),
            "private": [hand_of(env, obs) for obs in sets.obs],
            "history": _histories(tree, labels),
        },
        "labels": labels,
    }


def _choice_labels(tree: Tree, env: BatchedEnv) -> list[str]:
    """Names of the actions as the env has them, or their numbers."""
    named = [_action_names(env, agent) for agent in tree.players]
    found = []
    for player, action in zip(tree.sets.player[tree.sets.owner].tolist(), tree.sets.action.tolist(), strict=True):
        names = named[player]
        found.append(names[action] if action < len(names) else str(action))
    return found


def _action_names(env: BatchedEnv, agent: str) -> tuple[str, ...]:
    if isinstance(env, LiarsDiceGames):
        bids = [f"{bid // env.sides + 1}×{bid % env.sides + 1}" for bid in range(env.num_bids)]
        return (*bids, "liar")
    return action_names(env, agent)


def _histories(tree: Tree, labels: list[str]) -> list[list[str]]:
    """For each information set: the moves on the way that all of its nodes share, without chance."""
    came = _moves_to(tree)
    found: list[list[str] | None] = [None] * len(tree.sets)
    for node in np.flatnonzero(tree.infoset >= 0).tolist():
        number = int(tree.infoset[node])
        before = found[number]
        if before is None:
            found[number] = [labels[choice] for choice in came[node]]
        elif before != [labels[choice] for choice in came[node]]:
            found[number] = _own_moves(tree, labels, number)
    return [moves or [] for moves in found]


def _moves_to(tree: Tree) -> list[tuple[int, ...]]:
    """The choices on the way to each node."""
    came: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        above = int(tree.parent[node])
        number = int(tree.infoset[above])
        step: tuple[int, ...] = ()
        if number >= 0:
            step = (int(tree.sets.first_choice[number] + tree.branch[node]),)
        came.append((*came[above], *step))
    return came


def _own_moves(tree: Tree, labels: list[str], number: int) -> list[str]:
    """What the player itself did before, which it always remembers."""
    moves: list[str] = []
    choice = int(tree.sets.parent_choice[number])
    while choice >= 0:
        moves.insert(0, labels[choice])
        choice = int(tree.sets.parent_choice[tree.sets.owner[choice]])
    return moves


def _chance_label(tree: Tree, env: BatchedEnv, node: int) -> str:
    """What chance did; only a deal at the root has words of its own."""
    number = int(tree.branch[node])
    if int(tree.parent[node]) == 0 and isinstance(env, BettingGames | LiarsDiceGames):
        deals = np.flatnonzero(env.deal_probabilities > 0)
        return deal_of(env, int(deals[number]))
    return f"start {number}"


# -- cards and dice ----------------------------------------------------------------------------------------------------


@singledispatch
def hand_of(env: BatchedEnv, obs: Array) -> str:
    """What a player alone knows at an information set; of envs without words for it, the observation itself."""
    del env
    if np.unique(obs).size <= 1:  # it tells nothing
        return ""
    text = " ".join(f"{number:g}" for number in np.ravel(obs).tolist())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


@hand_of.register
def _(env: BettingGames, obs: Array) -> str:
    names, count = _card_names(env), env.rules.num_cards
    own = names[int(obs[env.players : env.players + count].argmax())]
    at = env.players + count
    for _ in range(env.rules.board.shape[1]):
        turned_up = obs[at : at + count]
        if turned_up.any():
            own = f"{own}, table {names[int(turned_up.argmax())]}"
        at += count
    return own


@hand_of.register
def _(env: LiarsDiceGames, obs: Array) -> str:
    counts = np.rint(obs[2 : 2 + env.sides] * env.config.dice).astype(int)
    return _faces(counts.tolist())


@singledispatch
def deal_of(env: BatchedEnv, deal: int) -> str:
    """A deal in words, player by player."""
    del env
    return f"deal {deal}"


@deal_of.register
def _(env: BettingGames, deal: int) -> str:
    names = _card_names(env)
    held = " ".join(names[card] for card in env.rules.cards[deal].tolist())
    board = " ".join(names[card] for card in env.rules.board[deal].tolist())
    return f"{held} / {board}" if board else held


@deal_of.register
def _(env: LiarsDiceGames, deal: int) -> str:
    hands = divmod(deal, len(env.hands))
    return " | ".join(_faces(env.hands[hand].tolist()) for hand in hands)


def _faces(counts: list[int]) -> str:
    faces: list[str] = []
    for face, count in enumerate(counts):
        faces += [str(face + 1)] * count
    return " ".join(faces)


def _card_names(env: BettingGames) -> list[str]:
    """Ranks; with suits where the pack has them."""
    if not isinstance(env, LeducGames):
        return list(RANKS[-env.rules.num_cards :])
    names: list[str] = []
    for rank in RANKS[-env.config.ranks :]:
        names += [f"{rank}{suit}" for suit in SUITS]
    return names
