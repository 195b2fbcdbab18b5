"""Graphical games as an env: every node plays one action against all its neighbours and earns the sum.

The reward of node ``i`` is ``sum over neighbours j of T_ij[a_i, a_j]``; ``neighbours.py`` says how graphs and tables are
written. In a repeated game every round is a step and the last round terminates the episode.

A node sees a constant 1 unless it is shown more: ``observe: last`` shows the last actions of its neighbours as one-hots, in
the order of the nodes, with zeros behind the last neighbour of nodes that have fewer than others; ``observe_node`` the own
node as a one-hot. The global state is everybody's last action as one-hots, or a constant 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv
from marl.envs.games.networks.layout import MOST_EDGES, MOST_NODES, spread_out
from marl.envs.games.networks.neighbours import GraphicalConfig, build_game, read_config


class GraphicalGames(NativeEnv):
    """``num_envs`` copies of a graphical game. Nodes with equally many actions form one kind."""

    config_class = GraphicalConfig

    name = "graphical_game"
    deterministic = True
    state_arrays = ("rounds", "last")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = read_config(env_config)
        self.game = game = build_game(self.config)
        self.shows_last = self.config.observe == "last"
        self.most_actions = int(game.counts.max())
        self.state_size = len(game.nodes) * self.most_actions if self.shows_last else 1
        self.members = [np.flatnonzero(game.counts == count) for count in dict.fromkeys(game.counts.tolist())]
        self.kinds = number_seats([self._kind(nodes) for nodes in self.members])
        self.node_in_seat = np.concatenate(self.members)  # seats go by kind
        self.nodes = np.eye(len(game.nodes), dtype=np.float32)
        # Row h of the game shows `other[h]` to `me[h]`, as its neighbour number `place[h]`.
        self.place = np.arange(len(game.me)) - game.first_row[game.me]
        self.rounds = np.zeros(num_envs, np.int64)
        self.last = np.zeros((num_envs, len(game.nodes)), np.int64)

    def _kind(self, nodes: Ints) -> AgentType:
        count = int(self.game.counts[nodes[0]])
        name = "node" if len(self.members) == 1 else f"node_with_{count}_actions"
        shown = self.shows_last * int(self.game.degree.max()) * self.most_actions
        width = self.config.observe_node * len(self.game.nodes) + shown
        seen = spaces.Box(0, 1, (max(1, width),), np.float32)
        return AgentType(name, tuple(f"node_{self.game.nodes[i]}" for i in nodes), seen, spaces.Discrete(count))

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds  # nothing is random
        self.rounds[env_ids] = 0
        self.last[env_ids] = 0

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        for nodes, chosen in zip(self.members, actions, strict=True):
            self.last[:, nodes] = chosen
        rewards = self.game.payoffs(self.last)[:, self.node_in_seat].astype(np.float32)
        self.rounds += 1
        over = self.rounds >= self.config.repetitions
        ended = np.repeat(over[:, None], rewards.shape[1], axis=1)
        return rewards, ended, np.zeros_like(ended), over

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        played = self._played()
        sights = self._sights(played)
        obs = [sights[:, nodes] for nodes in self.members]
        legal = [np.ones((self.num_envs, kind.size, 0), bool) for kind in self.kinds]
        state = played.reshape(self.num_envs, -1) if self.shows_last else np.ones((self.num_envs, 1), np.float32)
        return obs, legal, np.ones((self.num_envs, len(self.game.nodes)), bool), state

    def _played(self) -> Floats:
        """``[E, nodes, actions]``: last actions as one-hots; zeros before the first round."""
        shown = np.eye(self.most_actions, dtype=np.float32)[self.last]
        return shown * (self.rounds > 0)[:, None, None].astype(np.float32)

    def _sights(self, played: Floats) -> Floats:
        """``[E, nodes, obs_width]``."""
        count, parts = len(self.game.nodes), []
        if self.config.observe_node:
            parts.append(np.broadcast_to(self.nodes, (self.num_envs, count, count)))
        if self.shows_last:
            around = np.zeros((self.num_envs, count, int(self.game.degree.max()), self.most_actions), np.float32)
            around[:, self.game.me, self.place] = played[:, self.game.other]
            parts.append(around.reshape(self.num_envs, count, -1))
        return np.concatenate(parts, axis=2) if parts else np.ones((self.num_envs, count, 1), np.float32)

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        """What everybody played and earned; a viewer sees its own node and, where it is shown them, its neighbours."""
        game = self.game
        pairs = tuple((game.nodes[i], game.nodes[j]) for i, j in zip(game.me, game.other, strict=True) if i < j)
        if len(game.nodes) > MOST_NODES or len(pairs) > MOST_EDGES:
            return None
        rounds = int(self.rounds[env_id])
        seen = self._seen_nodes(viewer, rounds)
        earned = game.payoffs(self.last[env_id])
        nodes: list[dict[str, Any]] = []
        for number, (x, y) in enumerate(spread_out(game.nodes, pairs)):
            node: dict[str, Any] = {"name": game.nodes[number], "x": x, "y": y}
            node["marked"] = viewer == f"node_{game.nodes[number]}"
            if seen[number]:
                action = int(self.last[env_id, number])
                node |= {"text": f"plays {action}, earns {earned[number]:g}", "colour": action % 8}
            nodes.append(node)
        index = {name: number for number, name in enumerate(game.nodes)}
        return {
            "kind": "network",
            "text": f"Graphical game of {len(nodes)} nodes, round {rounds} of {self.config.repetitions}.",
            "nodes": nodes,
            "edges": [{"start": index[a], "end": index[b]} for a, b in pairs],
        }

    def _seen_nodes(self, viewer: AgentID | None, rounds: int) -> Bools:
        """Whose last action is shown."""
        count = len(self.game.nodes)
        if viewer is None or rounds == 0 or rounds >= self.config.repetitions:
            return np.full(count, rounds > 0)
        own = np.array([viewer == f"node_{node}" for node in self.game.nodes])
        if not self.shows_last:
            return own
        # Row h of the game shows `other[h]` to `me[h]`.
        around = np.zeros(count, bool)
        around[self.game.other[own[self.game.me]]] = True
        return own | around

    def render(self, env_id: int) -> str:
        """What everybody played and earned in the last round."""
        lines = [f"graphical game, round {self.rounds[env_id]} of {self.config.repetitions}"]
        if self.rounds[env_id]:
            earned = self.game.payoffs(self.last[env_id])
            lines += [
                f"node {node}: action {action}, payoff {payoff:g}"
                for node, action, payoff in zip(self.game.nodes, self.last[env_id], earned, strict=True)
            ]
        return "\n".join(lines)
