"""Agents that come and go: every decision and every reward against books that the env keeps by itself, in plain dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID
from marl.envs.base import MultiAgentEnv, StepResult
from marl.errors import EnvError
from marl.mappers.mapper import Patterns
from tests.small_envs import Scripted, Step, decisions, worker_for

pytestmark = pytest.mark.slow

ALL = "__all__"
GAMMA = 0.5
SEATS = {"car_*": 90, "bike_*": 70, "bus_*": 40}
SPACES = {
    "car": (spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(3)),
    "bike": (spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(2)),
    "bus": (spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(4)),
}


# -- one leaves while another comes --------------------------------------------------------------------------------


def relay(seats: int) -> Scripted:
    """Two cars at a time; in the first and in the second step one of them is replaced."""
    steps = [
        Step(["car_2", "car_3"], {"car_1": 1, "car_2": 2}, terminated=["car_1"]),
        Step(["car_3", "car_4"], {"car_2": 4, "car_3": 8}, truncated=["car_2"]),
        Step([], {"car_3": 16, "car_4": 32}, terminated=["car_3", "car_4"]),
    ]
    return Scripted(["car_1", "car_2"], steps, patterns={"car_*": seats})


def test_an_agent_that_dies_and_one_that_is_born_in_the_same_step_keep_their_decisions_apart() -> None:
    rollout = worker_for(lambda _: relay(3)).collect(3)
    # (agent, step, reward, outcome, terminated, truncated); an observation is (number of the car, step)
    assert sorted((d[3][0], d[1], d[5], d[6], d[7], d[8]) for d in decisions([rollout.batch])) == [
        (1.0, 0, 1.0, (1.0, 1.0), True, False),
        (2.0, 0, 2.0, (2.0, 1.0), False, False),
        (2.0, 1, 4.0, (2.0, 2.0), False, True),
        (3.0, 1, 8.0, (3.0, 2.0), False, False),
        (3.0, 2, 16.0, (3.0, 3.0), True, False),
        (4.0, 2, 32.0, (4.0, 3.0), True, False),
    ]
    assert rollout.episodes.agent_means() == {"car_1": 1.0, "car_2": 6.0, "car_3": 24.0, "car_4": 32.0}


def test_the_newborn_takes_the_only_free_seat_and_the_next_one_the_seat_of_the_dead() -> None:
    batch = worker_for(lambda _: relay(3)).collect(3).batch
    numbers = batch.obs[0][:, 0, :, 0]
    assert [numbers[t][batch.present[t, 0]].tolist() for t in range(3)] == [[1, 2], [2, 3], [4, 3]]


def test_without_a_spare_seat_for_the_moment_of_the_change_the_error_says_so() -> None:
    with pytest.raises(
        EnvError, match=r"step 1: agent 'car_3' appeared while all 2 seats of 'car_\*' were taken.*still counts"
    ):
        worker_for(lambda _: relay(2)).collect(1)


def test_one_terminates_and_another_truncates_while_a_third_goes_on() -> None:
    steps = [
        Step(["a_2"], {"a_0": 1, "a_1": 2, "a_2": 4}, terminated=["a_0"], truncated=["a_1"]),
        Step([], {"a_2": 8}, terminated=["a_2"]),
    ]
    agents = ["a_0", "a_1", "a_2"]
    rollout = worker_for(lambda _: Scripted(agents, steps, agents=agents)).collect(2)
    assert [(d[2], d[1], d[5], d[7], d[8]) for d in decisions([rollout.batch])] == [
        (0, 0, 1.0, True, False),
        (1, 0, 2.0, False, True),
        (2, 0, 4.0, False, False),
        (2, 1, 8.0, True, False),
    ]
    assert rollout.episodes.lengths.tolist() == [2]


# -- two hundred of three kinds ------------------------------------------------------------------------------------


class Town(MultiAgentEnv):
    """Up to 200 agents of three kinds that are born, pause, are paid, terminate, truncate, sometimes without a last
    observation. The env writes its own books.

    With ``known`` ids there are 200 of them, which come back; otherwise every newborn has a new id.
    """

    def __init__(self, known: bool) -> None:
        self.known, self.number, self.episode = known, 0, -1
        if known:
            self.possible_agents = tuple(p.replace("*", str(i)) for p, n in SEATS.items() for i in range(n))
        else:
            self.max_agents = SEATS
        self.closed: list[tuple[Any, ...]] = []
        self.lost = 0
        self.returns: dict[tuple[int, AgentID], float] = {}

    def observation_space(self, agent: AgentID) -> Any:
        return SPACES[agent.split("_")[0]][0]

    def action_space(self, agent: AgentID) -> Any:
        return SPACES[agent.split("_")[0]][1]

    def look(self, agent: AgentID) -> Any:
        kind, number = agent.split("_")
        rest = self.rng.integers(0, 9, SPACES[kind][0].shape[0] - 1)
        return np.array([int(number), *rest], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        self.length = int(self.rng.integers(10, 20))
        self.episode += 1
        self.open: dict[AgentID, dict[str, Any]] = {}  # who waits for the outcome of which decision
        self.gone: list[AgentID] = []  # ended in the step before: their seats are not free yet
        obs = {a: self.look(a) for a in self.possible_agents or self._two_hundred()}
        self._ask(obs)
        return obs, {}

    def _two_hundred(self) -> list[AgentID]:
        return [a for pattern, seats in SEATS.items() for a in [self._newborn(pattern) for _ in range(seats)] if a]

    def _newborn(self, pattern: str) -> AgentID | None:
        alive = [a for a in (*self.open, *self.gone) if a.startswith(pattern[:-1])]
        if len(alive) >= SEATS[pattern]:
            return None
        self.number += 1
        number = int(self.rng.integers(SEATS[pattern])) if self.known else self.number
        agent = pattern.replace("*", str(number))
        if agent in alive or agent in self.open:
            return None
        self.open[agent] = {}
        return agent

    def _ask(self, obs: dict[AgentID, Any]) -> None:
        for agent, seen in obs.items():
            self.open[agent] = {"t": self.t, "obs": seen, "rewards": []}
            self.returns.setdefault((self.episode, agent), 0.0)

    def step(self, actions: dict[AgentID, Any]) -> Any:
        asked = {agent for agent, book in self.open.items() if book["t"] == self.t}
        assert set(actions) == asked
        for agent, action in actions.items():
            self.open[agent]["action"] = action
        self.t += 1
        before = list(self.open)
        rewards = self._pay(before)
        over = self.t == self.length
        ended = [a for a in before if over or self.rng.random() < 0.08]
        cut = set(before) if over else {a for a in ended if self.rng.random() < 0.5}
        seen = {
            a: self.look(a) for a in before if (self.rng.random() < 0.6 if a not in ended else self.rng.random() < 0.8)
        }
        for agent in before:
            if agent in ended or agent in seen:
                self._close(agent, seen.get(agent), agent in ended and agent not in cut, agent in cut)
        for agent in ended:
            del self.open[agent]
        self.gone = ended
        if not over:
            born = [self._newborn(p) for p in SEATS for _ in range(int(self.rng.integers(0, 8)))]
            seen |= {agent: self.look(agent) for agent in born if agent is not None}
            self._ask({a: o for a, o in seen.items() if a not in ended})
        flags = {a: True for a in ended if a not in cut}
        return StepResult(seen, rewards, flags, {ALL: True} if over else dict.fromkeys(cut, True), {})

    def _pay(self, alive: list[AgentID]) -> dict[AgentID, float]:
        """Whole numbers, also to those who have just gone."""
        rewards = {a: float(self.rng.integers(-4, 5)) for a in [*alive, *self.gone[:3]] if self.rng.random() < 0.7}
        for agent in alive:
            self.open[agent]["rewards"].append(rewards.get(agent, 0.0))
        for agent, reward in rewards.items():
            self.returns[self.episode, agent] += reward
        return rewards

    def _close(self, agent: AgentID, outcome: Any, terminated: bool, truncated: bool) -> None:
        book = self.open[agent]
        if truncated and outcome is None:
            self.lost += 1
            return
        worth = sum(GAMMA**i * reward for i, reward in enumerate(book["rewards"]))
        after = None if outcome is None else tuple(outcome.tolist())  # a terminated agent needs no last observation
        known = (self.episode, book["t"], agent, tuple(book["obs"].tolist()), book["action"], len(book["rewards"]))
        self.closed.append((*known, worth, after, terminated, truncated))


def trained(batches: list[MultiAgentBatch]) -> list[tuple[Any, ...]]:
    """The decisions in the grids, written like the env's books."""
    found = []
    for batch in batches:
        for policy in SPACES:
            rows = batch.for_policy(policy, gamma=GAMMA, kind=list(SPACES).index(policy))
            for i in range(len(rows)):
                seen = tuple(rows["obs"][i].tolist())
                outcome = tuple(rows["new_obs"][i].tolist())
                ends, cut = bool(rows["terminateds"][i]), bool(rows["truncateds"][i])
                known = (int(rows["eps_id"][i]), int(rows["t"][i]), f"{policy}_{int(seen[0])}", seen)
                rest = (int(rows["actions"][i]), int(rows["elapsed"][i]), float(rows["rewards"][i]), outcome, ends, cut)
                found.append((*known, *rest))
    return sorted(found)


@pytest.mark.parametrize("known", [True, False], ids=["known ids", "new ids"])
def test_each_decision_of_200_agents_of_3_kinds_agrees_with_the_books_of_the_env(known: bool) -> None:
    town = Town(known)
    mapper = Patterns({f"{kind}_*": kind for kind in SPACES})
    worker = worker_for(lambda _: town, mapper=mapper, policies=tuple(SPACES))
    town.episode, town.closed = -1, []  # the worker was built from the same object
    rollouts = [worker.collect(steps) for steps in (1, 7, 30, 13, 40)]
    ours = trained([rollout.batch for rollout in rollouts])
    theirs = sorted(town.closed, key=lambda row: row[:4])
    assert max(rollout.batch.present.sum(axis=2).max() for rollout in rollouts) == 200
    assert len(ours) == len(theirs) > 4_000
    for mine, book in zip(ours, theirs, strict=True):
        assert mine[:7] == book[:7]  # who, when, what was seen and done, how long it took and what it earned
        assert mine[8:] == book[8:]  # how it ended
        if book[7] is not None:
            assert mine[7] == book[7]  # where it led
    assert sum(rollout.decisions_lost for rollout in rollouts) == town.lost > 50


@pytest.mark.parametrize("known", [True, False], ids=["known ids", "new ids"])
def test_each_return_of_200_agents_agrees_with_the_books_of_the_env(known: bool) -> None:
    town = Town(known)
    mapper = Patterns({f"{kind}_*": kind for kind in SPACES})
    worker = worker_for(lambda _: town, mapper=mapper, policies=tuple(SPACES))
    town.episode, town.returns = -1, {}
    stats = worker.collect(60).episodes
    assert len(stats) >= 3
    ours: dict[tuple[int, AgentID], float] = {}
    for agent, episode, earned in zip(stats.agent, stats.episode, stats.returns, strict=True):
        ours[int(episode), stats.agents[agent]] = float(earned)
    whole = {key: earned for key, earned in town.returns.items() if key[0] < len(stats)}
    assert ours == pytest.approx(whole)
    assert stats.rewards.tolist() == pytest.approx(
        [sum(earned for (episode, _), earned in whole.items() if episode == i) for i in range(len(stats))]
    )
