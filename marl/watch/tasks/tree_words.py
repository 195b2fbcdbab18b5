"""A tree as JSON, with words for what happens in it: chance moves, actions, and what players know.

Nodes stand level by level and children side by side, so the numbers of children say where everything is. Moves that all
nodes of an information set share were seen by its player; moves that differ were hidden from it.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from marl.data.task import Array, Ints
from marl.envs.batched import BatchedEnv
from marl.envs.branching import action_names
from marl.envs.games.cards.betting import RANKS, BettingGames
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.games.cards.goofspiel import GoofspielGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.envs.games.cards.tiny_hanabi import TinyHanabiGames
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
        "chance_label": _chance_labels(tree, env, by_chance),
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
    players = tree.sets.player[tree.sets.owner]
    found = []
    for player, action in zip(players.tolist(), tree.sets.action.tolist(), strict=True):
        label = str(action)
        if action < len(named[player]):
            label = named[player][action]
        found.append(label)
    return found


def _action_names(env: BatchedEnv, agent: str) -> tuple[str, ...]:
    if not isinstance(env, LiarsDiceGames):
        return action_names(env, agent)
    names = []
    for bid in range(env.num_bids):
        quantity, face = divmod(bid, env.sides)
        names.append(f"{quantity + 1}×{face + 1}")
    return (*names, "liar")


def _histories(tree: Tree, labels: list[str]) -> list[list[str]]:
    """For each information set: the moves on the way that all of its nodes share, without chance."""
    came = _moves_to(tree, labels)
    nodes = np.flatnonzero(tree.infoset >= 0)
    found: dict[int, list[str]] = {}
    for node, number in zip(nodes.tolist(), tree.infoset[nodes].tolist(), strict=True):
        moves = found.setdefault(number, came[node])
        if moves != came[node]:
            # Some moves were hidden from the player; its own it always remembers.
            found[number] = _own_moves(tree, labels, number)
    return [found[number] for number in range(len(tree.sets))]


def _moves_to(tree: Tree, labels: list[str]) -> list[list[str]]:
    """The moves on the way to each node; parents stand before their children."""
    came: list[list[str]] = [[]]
    for node in range(1, len(tree)):
        above = int(tree.parent[node])
        moves = came[above]
        number = int(tree.infoset[above])
        if number >= 0:
            choice = tree.sets.first_choice[number] + tree.branch[node]
            moves = [*moves, labels[choice]]
        came.append(moves)
    return came


def _own_moves(tree: Tree, labels: list[str], number: int) -> list[str]:
    """What the player of an information set did before, first move first."""
    moves: list[str] = []
    choice = int(tree.sets.parent_choice[number])
    while choice >= 0:
        moves.insert(0, labels[choice])
        owner = tree.sets.owner[choice]
        choice = int(tree.sets.parent_choice[owner])
    return moves


def _chance_labels(tree: Tree, env: BatchedEnv, nodes: Ints) -> list[str]:
    """What chance did on the way into these nodes; deals at the root have words of their own."""
    deals = np.zeros(0, np.int64)
    if isinstance(env, DealtEnv):
        deals = np.flatnonzero(env.deal_probabilities > 0)
    found = []
    for parent, branch in zip(tree.parent[nodes].tolist(), tree.branch[nodes].tolist(), strict=True):
        label = f"start {branch}"
        if parent == 0 and deals.size:
            label = deal_of(env, int(deals[branch]))
        found.append(label)
    return found


# -- cards and dice ----------------------------------------------------------------------------------------------------


@singledispatch
def hand_of(env: BatchedEnv, obs: Array) -> str:
    """What a player alone knows at an information set; of envs without words for it, the observation itself."""
    del env
    if np.unique(obs).size <= 1:  # it tells nothing
        return ""
    numbers = np.ravel(obs).tolist()
    text = " ".join(f"{number:g}" for number in numbers)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} …"
    return text


@hand_of.register
def _(env: BettingGames, obs: Array) -> str:
    names = _card_names(env)
    # Behind the player's number come its card and the cards on the table, each as a one-hot row.
    cards = 1 + env.rules.board.shape[1]
    first = env.players
    rows = obs[first : first + cards * len(names)].reshape(cards, len(names))
    known = names[int(rows[0].argmax())]
    for row in rows[1:]:
        if row.any():
            known = f"{known}, table {names[int(row.argmax())]}"
    return known


@hand_of.register
def _(env: LiarsDiceGames, obs: Array) -> str:
    shares = obs[env.players : env.players + env.sides]
    counts = np.rint(shares * env.config.dice)
    return _faces(counts.astype(np.int64))


@hand_of.register
def _(env: GoofspielGames, obs: Array) -> str:
    return f"holds {' '.join(map(str, env.hand_in(obs).tolist()))}"


@hand_of.register
def _(env: TinyHanabiGames, obs: Array) -> str:
    return f"card {int(obs[env.players :].argmax())}"


@singledispatch
def deal_of(env: BatchedEnv, deal: int) -> str:
    """A deal in words, player by player."""
    del env
    return f"deal {deal}"


@deal_of.register
def _(env: BettingGames, deal: int) -> str:
    names = np.array(_card_names(env))
    held = " ".join(names[env.rules.cards[deal]])
    board = " ".join(names[env.rules.board[deal]])
    if board:
        held = f"{held} / {board}"
    return held


@deal_of.register
def _(env: LiarsDiceGames, deal: int) -> str:
    held = np.unravel_index(deal, (len(env.hands),) * env.players)
    return " | ".join(_faces(env.hands[hand]) for hand in held)


@deal_of.register
def _(env: GoofspielGames, deal: int) -> str:
    prizes = env.orders[deal] + 1
    return f"prizes {' '.join(map(str, prizes.tolist()))}"


@deal_of.register
def _(env: TinyHanabiGames, deal: int) -> str:
    return " | ".join(map(str, env.cards[deal].tolist()))


def _faces(counts: Ints) -> str:
    """Dice by how many show each face, as the faces that they show."""
    faces = np.arange(1, len(counts) + 1)
    shown = np.repeat(faces, counts)
    return " ".join(map(str, shown.tolist()))


def _card_names(env: BettingGames) -> list[str]:
    """Ranks; with suits where the pack has them."""
    if isinstance(env, LeducGames):
        return env.card_names(SUITS)
    return list(RANKS[-env.rules.num_cards :])
