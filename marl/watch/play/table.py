"""One game with people in it: it is played by steps of an env runner, and can be played again from its seed and its moves.

Between two decisions of people the policies play by themselves. What they draw follows from the seed and the number of the
step, and what the env draws from the seed, so the same moves lead to the same game: that is how a move is taken back, and how
a game outlives the end of the process that it is played in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, AgentType, Array
from marl.envs.branching import action_names
from marl.envs.vector.episode_log import LONGEST_REPLAY, fingerprint
from marl.play.episode import force
from marl.play.return_summary import returns_by_agent
from marl.rollout.deciding import Actions
from marl.rollout.rollout_buffer import RolloutBuffer
from marl.watch.play.moves import read_move
from marl.watch.play.seating import Seating
from marl.watch.play.sights import Sights

FIRST_ROWS = 64


class Table:
    """A game under way. ``moves`` are the decisions of people so far, as the page sent them."""

    def __init__(
        self, seating: Seating, seed: int, *, explore: bool, open_picture: bool = False, quiet: bool = False
    ) -> None:
        self.seating, self.seed, self.explore, self.open_picture = seating, seed, explore, open_picture
        self.runner = seating.runner()
        env = self.runner.env
        task = replace(seating.playable.setup.task, kinds=env.kinds, state_size=env.state_size)
        memory = [column.shape[-1] for column in self.runner.carry]
        self.buffer = RolloutBuffer(task, self.runner.policy_ids, 1, complete_episodes=False, carry_sizes=memory)
        self.moves: list[dict[AgentID, Any]] = []
        self.asked: list[list[AgentID]] = []  # by step and seat: who sat there
        self.steps, self.room = 0, 0
        self.over, self.cut = False, False
        self.returns: dict[AgentID, float] = {}  # whole, once it is over
        self.sights = Sights(self, quiet)
        self._unused = np.random.default_rng(0)  # a paired runner has generators of its own
        self.runner.begin(np.array([0]), np.array([seed]))
        self._play_on()

    @classmethod
    def replayed(cls, seating: Seating, seed: int, moves: Sequence[Mapping[AgentID, Any]], **keys: Any) -> Table:
        """The same game again, up to where these decisions led."""
        table = cls(seating, seed, **keys, quiet=True)
        for decision in moves:
            table.play(decision)
        table.sights.quiet = False
        table.sights.look(last=True)
        return table

    def close(self) -> None:
        self.runner.env.close()

    # -- who and what ----------------------------------------------------------------------------------------------

    def place_of(self, agent: AgentID) -> tuple[int, int] | None:
        """Kind and seat of an agent that is asked now; None if it is not."""
        env = self.runner.env
        for seat in np.flatnonzero(self.runner.view.present[0]).tolist():
            if env.agent_at(0, seat) == agent:
                return self.buffer.task.kind_of(seat), seat
        return None

    def kind_of(self, agent: AgentID) -> AgentType:
        """The spaces of an agent, also while it is not asked."""
        names = self.runner.env.seat_names
        if agent in names:
            return self.buffer.task.kinds[self.buffer.task.kind_of(names.index(agent))]
        playable = self.seating.playable
        return self.buffer.task.kinds[playable.cast.kinds[self.seating.cast.mapper.candidates(agent)[0]]]

    @property
    def waiting(self) -> list[AgentID]:
        """The people who are asked now."""
        found: list[AgentID] = []
        if self.over:
            return found
        for agent in sorted(self.seating.people):
            if self.place_of(agent) is not None:
                found.append(agent)
        return found

    def names_of(self, agent: AgentID) -> tuple[str, ...]:
        return action_names(self.runner.env, agent)

    def name_of(self, agent: AgentID, stored: Array) -> str | None:
        """What the env calls an action; None where it only has a number, or several."""
        names = self.names_of(agent)
        if not names or np.ndim(stored):
            return None
        return names[int(stored)]

    @property
    def mark(self) -> str:
        """Tells whether a game that was played again is the same one."""
        view = self.runner.view
        return fingerprint([*view.obs, view.present, self.runner.stats.returns])

    # -- playing ---------------------------------------------------------------------------------------------------

    def checked(self, agent: AgentID, given: Any) -> Array:
        """A move as it is stored; refused if it is none, or not legal now."""
        place = self.place_of(agent)
        assert place is not None, agent  # the server only asks those who are waited for
        k, seat = place
        kind = self.buffer.task.kinds[k]
        mask = self.runner.view.legal[k][0, seat - kind.first_seat]
        return read_move(agent, given, kind, mask, self.seating.playable.setup.rollout.config)

    def play(self, decision: Mapping[AgentID, Any]) -> None:
        """All people who are asked have decided: this step, and then on until somebody is asked again."""
        stored = {agent: self.checked(agent, given) for agent, given in decision.items()}
        self.moves.append(dict(decision))
        self.sights.forget(decision)
        self._step(stored)
        self._play_on()

    def _play_on(self) -> None:
        while not self.over and not self.waiting:
            self._step({})
        self.sights.look(last=True)

    def _step(self, moves: Mapping[AgentID, Array]) -> None:
        runner, row = self.runner, self.steps
        self._make_room(row)
        runner.seeds = (self.seed, row)
        choices = runner.decide(self._unused, explore=self.explore)
        for agent, action in moves.items():
            self._do(choices, agent, action)
        self.asked.append([runner.env.agent_at(0, seat) for seat in range(len(runner.env.seat_names))])
        self.buffer.record(row, runner, choices)
        output = runner.advance(choices)
        over = runner.settle(output)
        self.buffer.settle(row, runner, output)
        self.steps += 1
        self.cut = not over.size and self.steps >= LONGEST_REPLAY
        self.over = bool(over.size) or self.cut
        if self.over:
            self._close_the_books()
        else:
            self.sights.look()

    def _do(self, choices: Actions, agent: AgentID, action: Array) -> None:
        place = self.place_of(agent)
        assert place is not None
        k, seat = place
        kind = self.buffer.task.kinds[k]
        here = np.zeros((1, kind.size), bool)
        here[0, seat - kind.first_seat] = True
        # The policy that shadows the person remembers what the person did.
        force(self.runner, choices, k, here, action[None])

    def _make_room(self, row: int) -> None:
        """By doubling: growing by one row would copy the whole game at every step."""
        if row < self.room:
            return
        more = max(FIRST_ROWS, self.room)
        self.buffer.context = self.room
        self.buffer.extend(more)
        self.room += more

    def _close_the_books(self) -> None:
        if self.cut:
            self.runner.stats.end(np.array([0]), self.runner.policy_of)
        for agent, paid in returns_by_agent(self.runner.stats.pop()).items():
            self.returns[agent] = float(paid[0])

    def batch(self) -> MultiAgentBatch:
        """All steps so far, as learners would get them."""
        self.buffer.context = 0
        self.buffer.extend(self.steps)
        self.room = self.steps
        return self.buffer.batch()

    def repeats(self, longer: Table) -> bool:
        """Whether this game is the beginning of the longer one."""
        mine, theirs, n = self.buffer.columns, longer.buffer.columns, self.steps
        same = [np.array_equal(mine["rewards"][:n], theirs["rewards"][:n])]
        for k, kind in enumerate(self.buffer.task.kinds):
            before, after = mine["obs"][k], theirs["obs"][k]
            same.append(np.array_equal(before[:n], after[:n]))
            if n < longer.steps:
                # What is seen now, and was seen in the longer game before its next step.
                here = self.runner.view.present[:, kind.seats]
                shown = self.runner.view.obs[k]
                same.append(np.array_equal(shown[here], after[n][here]))
        return all(same)
