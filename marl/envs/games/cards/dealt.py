"""Envs whose chance is one draw at the start of an episode: the *deal*.

Cards that are only turned up later belong to the deal as well; they stay hidden until then. What follows is
deterministic, so the whole game is the sum over deals ``d`` of ``P(d)`` times a tree of moves. A game tree is therefore
built without any sampling::

    env = KuhnGames(len(deals), {})               # one env per deal with P(d) > 0
    frame = env.reset_to(np.arange(len(deals)), deals)
    rows = {name: array[repeated] for name, array in env.get_state().items()}
    level = KuhnGames(len(repeated), {})            # one env per node of the next level and action
    level.set_state(rows); frame = level.step([actions])

A deal's number is drawn from the env's seed by inverting the distribution function: the seed is scrambled to a number
``u`` in [0, 1) and the deal is the first ``d`` with ``P(0) + ... + P(d) > u``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array, Bools, Floats, Ints
from marl.envs.batched import BatchedEnv, NativeEnv, StepOutput
from marl.envs.games.particles.seeding import uniform
from marl.errors import EnvError


class DealtEnv(NativeEnv):
    """A native env that draws a deal per episode and nothing else.

    Subclasses set ``deal_probabilities`` (every possible deal, exact) and ``deal`` (zeros ``[E]``) when they are made,
    name ``deal`` among their ``state_arrays`` and implement ``_begin``. Deals that nobody can tell apart in some, or in
    all, episodes are allowed. An instance with any number of envs takes rows of ``get_state`` of any other instance.
    """

    deal_probabilities: NDArray[np.float64]
    deal: Ints

    @abstractmethod
    def _begin(self, env_ids: Ints) -> None:
        """Everything but the deal back to the start of an episode."""

    def reset_to(self, env_ids: Ints, deals: Ints) -> StepOutput:
        """Start new episodes in these envs with these deals; the answer shows all envs."""
        deals = np.asarray(deals)
        count = len(self.deal_probabilities)
        too_small = deals[deals < 0]
        too_large = deals[deals >= count]
        if too_small.size or too_large.size:
            wrong = too_large.max() if too_large.size else too_small.min()
            raise EnvError(
                f"{self.name}: there is no deal {wrong}. Deals are numbered from 0 to {count - 1}, as in deal_probabilities."
            )
        self.deal[env_ids] = deals
        self._begin(np.asarray(env_ids))
        return self._still()

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self.deal[env_ids] = draw(self.deal_probabilities, seeds)
        self._begin(env_ids)

    def _moves(self, actions: Sequence[Array], mover: Ints, legal: Bools, over: Bools) -> Ints:
        return checked_moves(self, actions, mover, legal, over)

    def _joint_moves(self, actions: Sequence[Array], legal: Bools, over: Bools) -> Ints:
        """The actions ``[E, A]`` of all players, who move at once; ``legal`` is ``[E, A, actions]``."""
        moves = []
        for seat in range(legal.shape[1]):
            moves.append(checked_moves(self, actions, np.full(self.num_envs, seat), legal[:, seat], over))
        return np.stack(moves, axis=1)


def checked_moves(env: BatchedEnv, actions: Sequence[Array], mover: Ints, legal: Bools, over: Bools) -> Ints:
    """The action ``[E]`` of each env's mover in a game of turns; envs that are over are not looked at."""
    env_ids = np.arange(env.num_envs)
    moves = actions[0][env_ids, mover].astype(np.int64, copy=False)
    known = (moves >= 0) & (moves < legal.shape[1])  # -1 would pass as the last column
    wrong = ~over & ~(known & legal[env_ids, np.where(known, moves, 0)])
    if wrong.any():
        env_id = int(np.flatnonzero(wrong)[0])
        raise EnvError(
            f"{env.name}: {env.seat_names[mover[env_id]]!r} played action {moves[env_id]} in env {env_id}, "
            f"which is not legal now. Legal: {', '.join(map(str, np.flatnonzero(legal[env_id])))}. "
            "Choose among the actions of its mask."
        )
    return moves


def draw(probabilities: NDArray[np.float64], seeds: Ints) -> Ints:
    """One outcome per seed."""
    found = np.searchsorted(np.cumsum(probabilities), uniform(seeds, 1)[:, 0], side="right")
    return np.minimum(found, len(probabilities) - 1)  # the sum may fall short of 1 by a rounding error


def turns(mover: Ints, over: Bools, players: int) -> Bools:
    """``[E, A]``: only the player to move is present, nobody once the episode is over."""
    present: Bools = (mover[:, None] == np.arange(players)) & ~over[:, None]
    return present


def settle(payoffs: Floats, over: Bools) -> tuple[Floats, Bools, Bools, Bools]:
    """What ``_play`` gives in a game that pays all players at its end and terminates them together."""
    ended = np.repeat(over[:, None], payoffs.shape[1], axis=1)
    return np.where(ended, payoffs, np.float32(0.0)), ended, np.zeros_like(ended), over
