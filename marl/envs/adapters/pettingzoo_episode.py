"""An episode of an env under ids and rules that PettingZoo accepts; ``envs/adapters/export.py`` shows it to PettingZoo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from marl.data.task import AgentID, AnySpace
from marl.envs.adapters.pettingzoo_spaces import as_shown, blank, shown_space
from marl.envs.base import ALL, Action, Flags, Info, MultiAgentEnv, Obs, Rewards, StepResult, ending
from marl.envs.vector.env_errors import guarded, reset_pair, step_result
from marl.envs.vector.layout import kinds_of, pattern_of
from marl.envs.vector.vector_env import LONGEST_EMPTY
from marl.errors import ConfigError, EnvError

AGENT = "agent"
"""Key of an info: the env's own id of the agent, where the export uses ids of its own."""

STALE = "marl_stale"
"""Key of an info: true where the env showed the agent nothing in this step and does not ask it."""

LIVES = 200  # of each pattern, in envs whose agents come and go


@dataclass
class Outcome:
    """What came of a step, for everybody who was there before it or came in it."""

    rewards: Rewards = field(default_factory=dict)
    terminated: Flags = field(default_factory=dict)
    truncated: Flags = field(default_factory=dict)
    late: Rewards = field(default_factory=dict)  # of agents that had ended in an earlier step


class Lives:
    """Ids for the lives of an env's agents. In PettingZoo an agent that has ended never comes back in the episode.

    Agents known in advance keep their id; a second life, where there is one, is called ``x_life_2``. Elsewhere the
    agents of a pattern are numbered in the order in which they appear in the episode: ``car_0``, ``car_1``, ...
    """

    def __init__(self, env: MultiAgentEnv, lives: int) -> None:
        self.ids: dict[str, list[AgentID]] = {}  # by agent of the env, or by pattern
        self.key_of: dict[AgentID, str] = {}
        self.fixed = bool(env.possible_agents)
        for key in env.possible_agents or env.max_agents:
            self.ids[key] = []
            names = _names_of_lives(key)
            while len(self.ids[key]) < lives:
                name = next(names)
                if name not in self.key_of:  # another agent's name may look like this one's
                    self.ids[key].append(name)
                    self.key_of[name] = key
        self.renamed = not self.fixed or lives > 1
        self.clear()

    def clear(self) -> None:
        """A new episode begins."""
        self.taken = dict.fromkeys(self.ids, 0)
        self.latest: dict[AgentID, AgentID] = {}  # agent of the env -> id of its present or last life

    def begin(self, agent: AgentID, where: str) -> AgentID:
        """The id of a new life."""
        key: str | None = agent
        if not self.fixed or agent not in self.ids:
            key = pattern_of(agent, list(self.ids))
        if key is None:
            listed = "possible_agents" if self.fixed else "the patterns of max_agents"
            raise EnvError(f"{where}: agent {agent!r} is not in {listed} ({', '.join(self.ids)}). Add it there.")
        ids = self.ids[key]
        if self.taken[key] == len(ids):
            raise EnvError(
                f"{where}: agent {agent!r} appeared after all {len(ids)} ids of {key!r} had been used in this "
                "episode, and in PettingZoo an agent that has ended cannot come back. Raise lives in to_pettingzoo. A "
                "SuperSuit wrapper cannot be put over an env whose agents come back this often: leave it out of wrappers."
            )
        self.latest[agent] = ids[self.taken[key]]
        self.taken[key] += 1
        return self.latest[agent]


def _names_of_lives(key: str) -> Iterator[AgentID]:
    """Names without end: of a pattern its numbers from 0, of an agent its own name and those of its further lives."""
    if "*" in key:
        for number in count():
            yield key.replace("*", str(number))
    yield key
    for life in count(2):
        yield f"{key}_life_{life}"


class Stage:
    """Plays the env and keeps, under the ids of the export, who is there, what they saw last and who is asked.

    With ``turns``, steps in which nobody is asked are played at once; without, those in which nobody is alive.
    """

    def __init__(self, env: MultiAgentEnv, name: str, turns: bool, lives: int | None) -> None:
        kinds_of(env)  # an env that names no agents is told off here
        if lives is not None and lives < 1:
            raise ConfigError(f"lives is {lives}. Expected 1 or more: the ids for each agent or pattern.")
        if lives is None:
            lives = 1 if env.possible_agents else LIVES
        self.env = env
        self.name = name
        self.turns = turns
        self.lives = Lives(env, lives)
        self._played: dict[str, AnySpace] = {}
        self.observation_spaces: dict[AgentID, AnySpace] = {}
        self.action_spaces: dict[AgentID, AnySpace] = {}
        for key, ids in self.lives.ids.items():
            example = key.replace("*", "0")
            seen = shown_space(env.observation_space(example))
            self._played[key] = deepcopy(env.action_space(example))
            for agent in ids:
                self.observation_spaces[agent] = seen
                self.action_spaces[agent] = self._played[key]
        self.obs: dict[AgentID, Obs] = {}  # the latest one of everybody who has played in this episode
        self.infos: dict[AgentID, Info] = {}
        self.asked: list[AgentID] = []
        self.over = True
        self.steps = 0
        self._id_of: dict[AgentID, AgentID] = {}  # agents of the env that play now
        self._seen: set[AgentID] = set()  # of these, those that were shown something already

    @property
    def agents(self) -> list[AgentID]:
        """Ids of those who play now."""
        return list(self._id_of.values())

    def start(self, seed: int, options: Mapping[str, Any] | None) -> Outcome:
        """Begin an episode. Agents known in advance are there at once, others when they are first shown something."""
        self.lives.clear()
        self.steps = 0
        self.over = False
        self._id_of = {}
        self._seen = set()
        self.obs = {}
        self.infos = {}
        answer = guarded(lambda: self.env.reset(seed=seed, options=options), "reset", self._where)
        obs, infos = reset_pair(answer, self._where)
        outcome = Outcome()
        for agent in dict.fromkeys([*self.env.possible_agents, *obs]):
            self._join(agent, outcome)
        self._show(obs, infos)
        self._pass_time(outcome)
        if self.over:
            raise EnvError(
                f"{self._where()}: the episode was over before anybody was asked to act. Ask somebody in reset."
            )
        return outcome

    def seed_spaces_of_latecomers(self, seed: int) -> None:
        """Action spaces of patterns of which nobody is there yet, so that nobody could seed them by ``agents``."""
        for key, space in self._played.items():
            if not self.lives.taken[key]:
                space.seed(seed)

    def look(self, agent: AgentID) -> Obs:
        """A copy of the latest observation of somebody who plays or played in this episode."""
        return as_shown(self.observation_spaces[agent], self.obs[agent])

    def play(self, actions: Mapping[AgentID, Action]) -> Outcome:
        """Play the actions of all who are asked, and the steps after it that nobody takes part in."""
        outcome = Outcome(rewards=dict.fromkeys(self.agents, 0.0))
        played = {agent: actions[name] for agent, name in self._id_of.items() if name in self.asked}
        self._step(played, outcome)
        self._pass_time(outcome)
        return outcome

    def _pass_time(self, outcome: Outcome) -> None:
        for _ in range(LONGEST_EMPTY):
            wanted = self.asked if self.turns else self.agents
            if self.over or wanted:
                return
            self._step({}, outcome)
        missing = "asked to act" if self.turns else "alive"
        raise EnvError(
            f"{self._where()}: nobody has been {missing} for {LONGEST_EMPTY} steps. End the episode with '__all__', or ask "
            "somebody."
        )

    def _step(self, actions: dict[AgentID, Action], outcome: Outcome) -> None:
        self.steps += 1
        answer = guarded(lambda: self.env.step(actions), "step", self._where)
        result = step_result(answer, self._where)
        for agent in result.obs:
            if agent in self._id_of:
                continue
            played_before = agent in self.lives.latest
            if played_before and any(ending(agent, result.terminated, result.truncated)):
                continue  # an agent that ended before and is flagged again: an echo, not a new life
            self._join(agent, outcome)
        self._show(result.obs, result.infos)
        self._pay(result.rewards, outcome)
        self._end(result, outcome)

    def _join(self, agent: AgentID, outcome: Outcome) -> None:
        new = self.lives.begin(agent, self._where())
        self._id_of[agent] = new
        self.obs[new] = blank(self.observation_spaces[new])
        outcome.rewards[new] = 0.0

    def _show(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Info]) -> None:
        for agent, name in self._id_of.items():
            info = dict(infos.get(agent) or {})
            if self.lives.renamed:
                info[AGENT] = agent
            if agent in obs:
                self.obs[name] = self._converted(agent, name, obs[agent])
                self._seen.add(agent)
            else:
                info[STALE] = True
            self.infos[name] = info
        self.asked = [self._id_of[agent] for agent in obs if agent in self._id_of]

    def _converted(self, agent: AgentID, name: AgentID, value: Obs) -> Obs:
        space = self.observation_spaces[name]
        try:
            return as_shown(space, value)
        except (KeyError, TypeError, ValueError) as error:
            raise EnvError(
                f"{self._where()}: the observation of agent {agent!r} does not fit its space {space} ({type(error).__name__}: "
                f"{error}). Make the two agree; marl check finds such things."
            ) from error

    def _pay(self, rewards: Rewards, outcome: Outcome) -> None:
        for agent, reward in rewards.items():
            name = self.lives.latest.get(agent)
            if name in outcome.rewards:
                outcome.rewards[name] += float(reward)
            elif not reward:
                continue
            elif name is not None:
                outcome.late[name] = outcome.late.get(name, 0.0) + float(reward)
            else:
                raise EnvError(
                    f"{self._where()}: agent {agent!r} was paid {reward} without having appeared in this episode. Show it an "
                    "observation first, or pay nothing."
                )

    def _end(self, result: StepResult, outcome: Outcome) -> None:
        """Flags of all who play; the episode is over by ``__all__`` or, where that is never used, without anybody."""
        for agent, name in list(self._id_of.items()):
            ends, cut = ending(agent, result.terminated, result.truncated)
            outcome.terminated[name] = ends
            outcome.truncated[name] = cut
            if ends or cut:
                del self._id_of[agent]
                self._seen.discard(agent)
        env_says = ALL in result.terminated or ALL in result.truncated
        if env_says:
            self.over = any(ending(ALL, result.terminated, result.truncated))
        else:
            self.over = not self._seen
        if self.over:  # those who have never been shown anything leave with the others
            outcome.terminated |= dict.fromkeys(self._id_of.values(), True)
            self._id_of.clear()
        self.asked = [name for name in self.asked if name in self._id_of.values()]

    def _where(self) -> str:
        return f"env {self.name!r}, step {self.steps}"
