"""A game in extensive form as flat arrays.

Nodes stand level by level, the children of a node side by side. Information sets are numbered player by player and, within
a player, by how many decisions of its own came before. A *choice* is one action at one information set. Choices have one
numbering over the whole game, so a behavioural strategy of all players is one vector ``[C]`` that sums to 1 within every
information set. Everybody remembers what it saw and did, so the information sets of a player form a tree: ``parent_choice``
is the last choice of the same player on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.task import AgentType, Array, Ints
from marl.errors import ConfigError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from marl.gametheory.tree.sequence import SequenceForm

Reals: TypeAlias = NDArray[np.float64]
Behaviour: TypeAlias = NDArray[np.float64]
"""Probability of every choice of every player ``[C]``."""
ChanceMode: TypeAlias = Literal["none", "exact", "sampled"]
"""``exact``: all of it is in the tree, with its probabilities. ``sampled``: seeds stand for it. ``none``: it says so."""
CHANCE, TERMINAL = -1, -2
"""What stands in ``Tree.player`` where nobody decides."""


@dataclass(frozen=True, eq=False)
class ChanceSample:
    """Reset seeds that stand for chance. Starts that play alike are one."""

    counts: Ints  # [D] how many seeds gave each start, in the order of the root's children

    @property
    def seeds(self) -> int:
        return int(self.counts.sum())

    @property
    def starts(self) -> int:
        return len(self.counts)

    @property
    def unseen(self) -> float:
        """How likely the next seed gives a start that is not in the tree (Good, 1953): the share of starts seen once.

        One is added to both counts, so that no sample, however long, claims to have seen everything. A sample of one start
        has seen no chance at all, which says little about rare events: it counts as if one start had been seen once.
        """
        once = 1 if self.starts == 1 else int((self.counts == 1).sum())
        return (once + 1) / (self.seeds + 1)

    def as_json(self) -> dict[str, float]:
        return {"seeds": self.seeds, "starts": self.starts, "unseen": self.unseen}


@dataclass(frozen=True, eq=False)
class InfoSets:
    """What the players can tell apart. ``I`` information sets, ``C`` choices."""

    player: Ints  # [I]
    level: Ints  # [I] decisions of the same player before
    parent_choice: Ints  # [I] the player's choice before, or -1
    first_choice: Ints  # [I]
    num_actions: Ints  # [I]
    obs: tuple[Array, ...]  # [I] rows as the env shows them
    action: Ints  # [C] the env's number of the action
    labels: tuple[str, ...]  # [C]

    def __len__(self) -> int:
        return len(self.player)

    @cached_property
    def owner(self) -> Ints:
        """Information set of each choice ``[C]``."""
        return np.repeat(np.arange(len(self)), self.num_actions)


@dataclass(frozen=True, eq=False)
class Tree:
    """``N`` nodes of ``P`` players. ``payoffs`` of a terminal node are everything that was paid on the way to it."""

    name: str
    players: tuple[str, ...]
    chance: ChanceMode
    kinds: tuple[AgentType, ...]  # spaces of the players, which sit on the seats 0 .. P - 1
    parent: Ints  # [N], -1 at the root
    branch: Ints  # [N] which child of its parent
    player: Ints  # [N] who decides, CHANCE or TERMINAL
    infoset: Ints  # [N] or -1
    first_child: Ints  # [N]
    num_children: Ints  # [N]
    probability: Reals  # [N] of the chance move that leads here; 1 below decisions
    payoffs: Reals  # [N, P], 0 but at terminal nodes
    levels: Ints  # [depth + 2] where each level of the tree begins, and N
    sets: InfoSets
    sample: ChanceSample | None = None  # where chance is sampled

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def num_players(self) -> int:
        return len(self.players)

    @property
    def num_choices(self) -> int:
        return len(self.sets.action)

    @cached_property
    def terminal(self) -> Ints:
        return np.flatnonzero(self.player == TERMINAL)

    @cached_property
    def scale(self) -> float:
        """The largest payoff of anybody, by its absolute value: what is tiny is tiny next to it."""
        return float(np.abs(self.payoffs).max())

    @cached_property
    def scales(self) -> Reals:
        """The same for each player ``[P]``: units may differ."""
        return np.asarray(np.abs(self.payoffs).max(axis=0))

    @cached_property
    def is_zero_sum(self) -> bool:
        return bool(np.abs(self.payoffs.sum(axis=1)).max() <= 1e-6 * self.scale)

    @cached_property
    def is_constant_sum(self) -> bool:
        """Whether all ways to end pay the same in all."""
        total = self.payoffs[self.terminal].sum(axis=1)
        return bool(np.ptp(total) <= 1e-6 * self.scale)

    @cached_property
    def form(self) -> SequenceForm:
        """The sequence form, which all solvers work on; built once."""
        from marl.gametheory.tree.sequence import SequenceForm

        return SequenceForm(self)

    @cached_property
    def _bounds(self) -> list[tuple[int, int, int, int]]:
        """First and last information set and choice of each player."""
        sets, found, total = self.sets, [], 0
        for player in range(self.num_players):
            mine = np.flatnonzero(sets.player == player)
            first = int(mine[0]) if mine.size else 0
            count = int(sets.num_actions[mine].sum())
            found.append((first, first + mine.size, total, total + count))
            total += count
        return found

    def infosets(self, player: int) -> slice:
        """The player's information sets."""
        return slice(*self._bounds[player][:2])

    def choices(self, player: int) -> slice:
        """The player's part of a behavioural strategy."""
        return slice(*self._bounds[player][2:])

    def player_index(self, player: str) -> int:
        if player not in self.players:
            raise UnknownNameError(
                f"game {self.name!r} has no player {player!r}.{did_you_mean(player, self.players)} Players: "
                f"{', '.join(self.players)}."
            )
        return self.players.index(player)

    def kind_of(self, player: int) -> AgentType:
        """Spaces of the player."""
        return next(kind for kind in self.kinds if kind.seats.start <= player < kind.seats.stop)

    def chance_json(self) -> dict[str, Any]:
        """How chance is in the tree, for files."""
        return {"mode": self.chance, **(self.sample.as_json() if self.sample is not None else {})}

    # -- strategies ------------------------------------------------------------------------------------------------

    def uniform(self) -> Behaviour:
        """Every action with the same chance."""
        return np.repeat(1.0 / self.sets.num_actions, self.sets.num_actions)

    def first_action(self) -> Behaviour:
        """The first legal action everywhere."""
        strategy = np.zeros(self.num_choices)
        strategy[self.sets.first_choice] = 1.0
        return strategy

    def always(self, label: str) -> Behaviour:
        """The action of that name everywhere; the first legal one where there is none of that name."""
        strategy, named = self.first_action(), np.array([name == label for name in self.sets.labels])
        if not named.any():
            raise UnknownNameError(
                f"game {self.name!r} has no action {label!r}.{did_you_mean(label, set(self.sets.labels))} Actions: "
                f"{', '.join(dict.fromkeys(self.sets.labels))}."
            )
        holds = np.zeros(len(self.sets), bool)
        holds[self.sets.owner[named]] = True
        return np.where(holds[self.sets.owner], named.astype(np.float64), strategy)

    def checked(self, strategy: Behaviour) -> Behaviour:
        """The strategy as an array; refuses what is not a distribution at every information set."""
        found = np.asarray(strategy, np.float64)
        if found.shape != (self.num_choices,):
            raise ConfigError(
                f"game {self.name!r}: a strategy of shape {found.shape} was given; expected one probability for each of the "
                f"{self.num_choices} choices of all players. Start from tree.uniform()."
            )
        sums = np.add.reduceat(found, self.sets.first_choice) if len(self.sets) else np.zeros(0)
        wrong = np.flatnonzero(
            ~(np.abs(sums - 1.0) <= 1e-6) | (np.minimum.reduceat(found, self.sets.first_choice) < -1e-6)
        )
        if wrong.size:
            i = int(wrong[0])
            part = found[self.sets.first_choice[i] :][: self.sets.num_actions[i]]
            raise ConfigError(
                f"game {self.name!r}: the strategy at information set {i} of {self.players[self.sets.player[i]]} is {part}; "
                "expected probabilities that sum to 1."
            )
        return found

    def joined(self, parts: Mapping[int, Behaviour], rest: Behaviour) -> Behaviour:
        """A strategy of all players: some players' parts put into a whole one."""
        whole = rest.copy()
        for player, part in parts.items():
            whole[self.choices(player)] = part
        return whole

    def table(self, strategy: Behaviour) -> list[dict[str, object]]:
        """One row per information set, to look at: player, observation, probability of each action."""
        sets, rows = self.sets, []
        for i in range(len(sets)):
            mine = range(int(sets.first_choice[i]), int(sets.first_choice[i] + sets.num_actions[i]))
            chances = {sets.labels[c]: float(strategy[c]) for c in mine}
            rows.append({"player": self.players[sets.player[i]], "obs": sets.obs[i].tolist(), "strategy": chances})
        return rows
