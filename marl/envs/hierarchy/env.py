"""Hierarchies: commanders that set goals, on their own clocks, over a base env that knows nothing of it.

``HierarchicalEnv`` holds a *post* for each commander and for each agent of the base env. A post is filled by one
agent after another, ``low_level_0``, ``low_level_1``, ...: each is born with a goal and ends with it, so what one goal
earned never reaches the next. The first level has no goal and lives as long as its base agents do.

A commander decides in a step of its own, in which the base env stands still; then those below it are asked, with the
goal in their observation. It is asked again when the goal has been reached (the subordinate is terminated) or its time
is over (truncated): a goal lasts at most ``horizon`` decisions of the subordinate. For the last level these are steps of
the base env, for a middle level the goals that it sets itself, counted for each of its own subordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from marl.config import Config, explain
from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import ALL, ENV_STATE, Action, Flags, Info, MultiAgentEnv, Obs, Rewards, StepResult, ending
from marl.envs.batched import State
from marl.envs.hierarchy.command_graph import command_graph, draw_graph
from marl.envs.hierarchy.drawing import commanded_scene
from marl.envs.hierarchy.positions import Flattener, Post, build_posts
from marl.envs.vector.env_errors import reset_pair, step_result
from marl.envs.vector.layout import MASK, state_width
from marl.envs.wrapper import EnvWrapper

if TYPE_CHECKING:
    import networkx as nx


class LevelConfig(Config):
    """Keys of one entry of ``levels:``."""

    name: str = Field(
        description="Agents of the level are called NAME_*; the mapper `levels` knows top_, mid_, low_level."
    )
    horizon: PositiveInt | None = Field(
        None, description="How long a goal that it sets lasts at most, in decisions of the subordinate."
    )
    goals: dict[str, Any] | str | None = Field(
        None,
        description="Goals that it can set: features, changes, ... (docs/hierarchy.md), or package.module:Class.",
    )
    extrinsic: float = Field(0.0, description="Weight of the base env's reward in this level's own.")


class HierarchyConfig(Config):
    """Keys of the wrapper ``hierarchy``."""

    levels: list[LevelConfig] = Field(min_length=2, description="From the top down; the last one plays the base env.")
    features: list[NonNegativeInt] = Field([], description="Features of goals that name none of their own.")
    command: dict[str, list[str]] = Field(
        {},
        description="Commander to subordinates, down to base agents. Default: one commander per level, over everybody.",
    )

    @model_validator(mode="after")
    def _levels_fit(self) -> HierarchyConfig:
        *commanders, last = self.levels
        for level in commanders:
            if None in (level.horizon, level.goals):
                raise ValueError(f"level {level.name!r} commands, so it needs horizon and goals")
        commands = last.horizon is not None or last.goals is not None
        if commands:
            raise ValueError(f"level {last.name!r} is the last one: it commands nobody and has no horizon and no goals")
        first = commanders[0]
        if first.extrinsic:
            raise ValueError(f"level {first.name!r} is the first one: it is always paid the base env's reward")
        return self


class HierarchicalEnv(EnvWrapper):
    """A base env under command. Base agents have to be known in advance.

    Rewards, in the step in which the base env pays: the first level gets what the base agents below it get; lower
    levels get what their goal pays (``Goals.reward``), plus ``extrinsic`` times what the base agents below them get.
    """

    def __init__(self, base: MultiAgentEnv, **config: Any) -> None:
        super().__init__(base)
        try:
            self.config = HierarchyConfig(**config)
        except ValidationError as error:
            known = [*HierarchyConfig.model_fields, *LevelConfig.model_fields]
            raise explain(error, "hierarchy", known) from None
        self.agents = _agents_of(base)
        self._level_names = [level.name for level in self.config.levels]
        self._graph = command_graph(self._level_names, self.agents, self.config.command)
        self.posts = build_posts(base, self._graph, self.config.levels, self.config.features)
        self._by_name: dict[str, Post] = {}
        self._worker: dict[AgentID, Post] = {}
        for post in self.posts:
            self._by_name[post.name] = post
            if post.is_worker:
                self._worker[post.members[0]] = post
        # Longest first: an id belongs to the most special pattern that fits it.
        special_first = sorted(self.posts, key=lambda post: -len(post.name))
        self.possible_agents = ()
        self.max_agents = {post.pattern: post.seats for post in special_first}
        seen = [base.observation_space(agent) for agent in self.agents]
        self._flatten = dict(zip(self.agents, map(Flattener, seen), strict=True))
        self._state: Array | None = None
        width = state_width(seen)
        if width:  # the global state comes in observations
            self._state = np.zeros(width, np.float32)
        self._clear()

    def _clear(self) -> None:
        self._views = {agent: np.zeros(self._flatten[agent].size, np.float32) for agent in self.agents}
        self._masks: dict[AgentID, Array] = {}
        self._infos: Mapping[AgentID, Info] = {}
        self._alive: set[AgentID] = set()  # base agents
        self._asked: list[AgentID] = []  # base agents that the base env waits for
        self._orders: dict[Post, Post] = {}  # commanders that decide next, and for whom
        for post in self.posts:
            post.clear()

    @property
    def base(self) -> MultiAgentEnv:
        """The env under command."""
        return self.env

    # -- what the env is -----------------------------------------------------------------------------------------

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._by_name[agent.rpartition("_")[0]].observation_space

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._by_name[agent.rpartition("_")[0]].action_space

    def command_graph(self) -> nx.DiGraph[str]:
        """Who commands whom; nodes know their ``level`` and, on the last one, their base ``agent``."""
        return self._graph.copy()

    def draw_command(self, path: str | Path) -> Path:
        """Write the command structure as a PNG."""
        return draw_graph(self._graph, self._level_names, path)

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        """What the base env shows, with the goals that have been set."""
        return commanded_scene(self.env, self.posts, viewer)

    def state(self) -> Array | None:
        given = self.env.state()
        if given is None:
            return self._state
        return given

    # -- an episode ------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        self._clear()
        obs, infos = reset_pair(self.env.reset(seed=seed, options=options), _where)
        self._look(obs, infos)
        self._asked = list(obs)
        return self._ask()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        if not self._orders:
            return self._play(actions)
        for boss, post in self._orders.items():
            choice = actions[boss.agent]
            boss.count_goal_for(post)
            post.begin(choice, self._views)
        obs, infos = self._ask()
        return StepResult(obs, {}, {}, {}, infos)

    def _look(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Info]) -> None:
        """Remember what the base env shows."""
        self._infos = infos
        for agent, value in obs.items():
            flatten = self._flatten[agent]
            if flatten.key is not None:
                self._look_beside(agent, value, infos.get(agent) or {})
            self._views[agent] = flatten(value)
            if agent in self._alive:
                continue
            self._alive.add(agent)
            for post in self.posts:
                post.welcome(agent, self._views[agent])

    def _look_beside(self, agent: AgentID, value: Mapping[str, Any], info: Info) -> None:
        """The mask and the global state that stand in a dict beside the observation."""
        mask = value.get(MASK, info.get(MASK))
        if mask is not None:
            self._masks[agent] = np.array(mask)  # a copy: the base env may go on writing into its own
        self._state = value.get(ENV_STATE, self._state)

    def _ask(self) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        """Commanders whose subordinates need a goal; where nobody needs one, the workers that the base env waits for."""
        self._orders = self._missing_goals()
        obs: dict[AgentID, Obs] = {}
        infos: dict[AgentID, Info] = {}
        if self._orders:
            for boss, subordinate in self._orders.items():
                obs[boss.agent] = boss.observe(self._views, order=subordinate)
            return obs, infos
        for agent in self._asked:
            worker = self._worker[agent]
            obs[worker.agent] = worker.observe(self._views, self._masks.get(agent))
            infos[worker.agent] = self._infos.get(agent) or {}
        return obs, infos

    def _missing_goals(self) -> dict[Post, Post]:
        """Commanders that have to decide before the base env can go on, each with the first post that waits for it."""
        orders: dict[Post, Post] = {}
        for agent in self._asked:
            post = self._worker[agent]
            post.top.enlist()
            if post.lives:
                continue
            # A commander without a goal cannot set one: whoever has a goal and stands lowest above the worker decides.
            while not post.boss.lives:
                post = post.boss
            orders.setdefault(post.boss, post)
        return orders

    def _play(self, actions: dict[AgentID, Action]) -> StepResult:
        """One step of the base env."""
        workers: dict[AgentID, Post] = {}
        chosen: dict[AgentID, Action] = {}
        for agent in self._asked:
            worker = self._worker[agent]
            workers[agent] = worker
            chosen[agent] = actions[worker.agent]
            worker.count_action()
        lived = set(self._alive)
        before = dict(self._views)
        result = step_result(self.env.step(chosen), _where)
        self._look(result.obs, result.infos)
        ended = _ends(result, self._alive)
        self._alive -= ended.keys()

        reached, intrinsic = self._judge(lived, before)
        rewards = self._pay(result.rewards, intrinsic)
        cut_agents = {agent for agent, is_cut in ended.items() if is_cut}
        terminated, truncated, last = self._end_goals(cut_agents, reached, result.obs)
        terminated[ALL], truncated[ALL] = self._episode_flags(result, one_was_cut=bool(cut_agents))

        self._asked = []
        over = terminated[ALL] or truncated[ALL]
        if not over:
            self._asked = [agent for agent in result.obs if agent not in ended]
        obs, infos = self._ask()
        for agent, post in workers.items():
            infos.setdefault(post.agent, self._infos.get(agent) or {})
        return StepResult({**last, **obs}, rewards, terminated, truncated, infos)

    def _judge(self, lived: set[AgentID], before: Mapping[AgentID, Array]) -> tuple[set[Post], dict[Post, float]]:
        """Posts whose goal was reached in this step, and what the goals pay to all who have one."""
        reached: set[Post] = set()
        intrinsic: dict[Post, float] = {}
        for post in self.posts:
            has_goal = post.lives and post.commander is not None
            if not has_goal:
                continue
            is_reached, intrinsic[post] = post.judge(lived, before, self._views)
            if is_reached:
                reached.add(post)
        return reached, intrinsic

    def _episode_flags(self, result: StepResult, one_was_cut: bool) -> tuple[bool, bool]:
        """``__all__`` of both flags; a base env may leave it out, and is then over when the last of its agents ended."""
        base_says = ALL in result.terminated or ALL in result.truncated
        if base_says:
            if result.terminated.get(ALL):
                return True, False
            return False, bool(result.truncated.get(ALL))
        if self._alive:
            return False, False
        # "__all__" terminates all agents, so it may only say so where none was truncated.
        return not one_was_cut, one_was_cut

    def _pay(self, paid: Rewards, intrinsic: Mapping[Post, float]) -> Rewards:
        rewards: Rewards = {}
        for post in self.posts:
            extrinsic = 0.0
            for agent in post.members:
                if agent in paid:
                    extrinsic += float(paid[agent])
            if post in intrinsic:
                rewards[post.agent] = intrinsic[post] + post.extrinsic * extrinsic
                continue
            if post.commander is not None:
                continue
            is_paid = post.lives or extrinsic  # what comes after its end is not lost
            if is_paid:
                rewards[post.agent] = extrinsic
        return rewards

    def _end_goals(
        self, cut_agents: set[AgentID], reached: set[Post], seen: Mapping[AgentID, Obs]
    ) -> tuple[Flags, Flags, dict[AgentID, Obs]]:
        """End those whose goal was reached, whose time is over, or whose commander or base agents are gone.

        Returns both flags and the last observations; an end of base agents that the base env did not show is not shown.
        """
        terminated: Flags = {}
        truncated: Flags = {}
        last: dict[AgentID, Obs] = {}
        ending_posts = self._who_ends(cut_agents, reached)
        for post, is_cut in ending_posts.items():
            terminated[post.agent] = not is_cut
            truncated[post.agent] = is_cut
            shown_members = self._alive.union(seen).intersection(post.members)
            if shown_members:
                last[post.agent] = post.observe(self._views, self._masks.get(post.members[0]))
        for post in ending_posts:
            post.end()
        return terminated, truncated, last

    def _who_ends(self, cut_agents: set[AgentID], reached: set[Post]) -> dict[Post, bool]:
        """Posts whose agent ends in this step; True: truncated."""
        cut: dict[Post, bool] = {}
        living = [post for post in self.posts if post.lives]
        for post in reversed(living):  # from below: a commander's time is over when it would have to decide again
            if self._alive.isdisjoint(post.members):
                no_member_cut = cut_agents.isdisjoint(post.members)
                cut[post] = not (no_member_cut or post in reached)
            elif post in reached:
                cut[post] = False
            else:
                waiting = self._waiting_for(post, cut)
                if post.time_is_over(waiting):
                    cut[post] = True
        for post in living:  # from above: no goal outlives its commander
            if post.commander in cut:
                cut.setdefault(post, True)
        return cut

    def _waiting_for(self, boss: Post, ending: Mapping[Post, bool]) -> list[Post]:
        """Subordinates with base agents to lead and, after this step, without a goal."""
        waiting: list[Post] = []
        for post in boss.subordinates:
            keeps_goal = post.lives and post not in ending
            leads_nobody = self._alive.isdisjoint(post.members)
            if not keeps_goal and not leads_nobody:
                waiting.append(post)
        return waiting

    # -- resuming -----------------------------------------------------------------------------------------------

    def pack_state(self, inside: State) -> State:
        return {
            "base": inside,
            "views": dict(self._views),
            "masks": dict(self._masks),
            "alive": sorted(self._alive),
            "asked": list(self._asked),
            "state": self._state,
            "posts": {post.name: post.get_state() for post in self.posts},
        }

    def unpack_state(self, state: State) -> State:
        self._clear()
        self._views = dict(state["views"])
        self._masks = dict(state["masks"])
        self._alive = set(state["alive"])
        self._asked = list(state["asked"])
        self._state = state["state"]
        for post in self.posts:
            post.set_state(state["posts"][post.name])
        self._ask()
        return state["base"]


def _where() -> str:
    return "the base env of a hierarchy"


def _agents_of(base: MultiAgentEnv) -> tuple[AgentID, ...]:
    """Base agents, where all of them are known in advance."""
    if base.possible_agents:
        return tuple(base.possible_agents)
    if any("*" in pattern for pattern in base.max_agents):
        return ()
    return tuple(base.max_agents)


def _ends(result: StepResult, alive: Iterable[AgentID]) -> dict[AgentID, bool]:
    """Base agents that end in this step; True: truncated."""
    ended: dict[AgentID, bool] = {}
    for agent in alive:
        terminated, truncated = ending(agent, result.terminated, result.truncated)
        if terminated or truncated:
            ended[agent] = truncated
    return ended
