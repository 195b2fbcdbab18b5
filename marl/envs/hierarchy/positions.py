"""Posts of a hierarchy: places in the command that one agent after another fills, each with a goal of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, MultiAgentEnv, Obs
from marl.envs.batched import State
from marl.envs.hierarchy.goals import Goals, build_goals
from marl.envs.vector.layout import MASK, inner_space, obs_key
from marl.errors import ConfigError

if TYPE_CHECKING:
    import networkx as nx


class Level(Protocol):
    """What a post needs to know of its level."""

    @property
    def name(self) -> str: ...
    @property
    def horizon(self) -> int | None: ...
    @property
    def goals(self) -> dict[str, Any] | str | None: ...
    @property
    def extrinsic(self) -> float: ...


class Flattener:
    """A base agent's observation, without its envelope, as a flat float32 array."""

    def __init__(self, space: AnySpace) -> None:
        self.key = obs_key(space)
        self.space, masked = inner_space(space)
        self.mask_space: AnySpace | None = None
        if masked:
            assert isinstance(space, spaces.Dict)  # a mask stands beside the observation
            self.mask_space = space[MASK]
        self.size = int(spaces.flatdim(self.space))
        self.is_box = isinstance(self.space, spaces.Box)

    def __call__(self, value: Obs) -> Array:
        if self.key is not None:
            value = value[self.key]
        if not self.is_box:  # flattening a Box does nothing but cost time, and this runs for every agent in every step
            value = spaces.flatten(self.space, value)
        return np.array(value, np.float32).reshape(-1)  # a copy: the base env may go on writing into its own


@dataclass(slots=True)
class Life:
    """The agent that fills a post now: its goal, what the base agents saw when it was set, and how much time is used."""

    choice: Action  # None on the first level
    start: list[Array]
    used: list[int]  # goals set for each subordinate; of a worker: actions played


class Post:
    """A place in the command, and who fills it.

    A commander sees the flat observations of all base agents below it (zeros before they appear, the last ones after
    they ended), its own goal and the share of time left for it, and, one-hot, which of several subordinates it is to
    set a goal for. A worker sees its base agent's flat observation, its goal and the share of time left.
    """

    goals: Goals  # that it is given; not on the first level
    horizon: int  # of these goals
    observation_space: AnySpace
    action_space: AnySpace

    def __init__(self, name: str, commander: Post | None, members: Sequence[AgentID], is_worker: bool) -> None:
        self.name = name
        self.commander = commander
        self.members = list(members)
        self.is_worker = is_worker
        self.subordinates: list[Post] = []
        self.extrinsic = 0.0
        self.life: Life | None = None
        self.born = 0  # lives so far in this episode
        self.agent: AgentID = f"{name}_0"  # who fills the post, or filled it last
        if commander is not None:
            commander.subordinates.append(self)

    @property
    def pattern(self) -> str:
        return f"{self.name}_*"

    @property
    def seats(self) -> int:
        """Between an end and the next goal lies the commander's step: one seat will do. Only a first level over several
        base agents can end with the last of them and be needed by a new one in the same step."""
        if self.commander is None and len(self.members) > 1:
            return 2
        return 1

    @property
    def top(self) -> Post:
        post = self
        while post.commander is not None:
            post = post.commander
        return post

    @property
    def boss(self) -> Post:
        assert self.commander is not None
        return self.commander

    @property
    def lives(self) -> bool:
        return self.life is not None

    def clear(self) -> None:
        """As it was before the first step of an episode."""
        self.life = None
        self.born = 0
        self.agent = f"{self.name}_0"

    def enlist(self) -> None:
        """The first level lives without a goal."""
        if self.life is None:
            self._live(None, [])

    def begin(self, choice: Action, views: Mapping[AgentID, Array]) -> None:
        """A new agent fills the post and is given a goal."""
        if isinstance(choice, np.generic):
            choice = choice.item()  # a checkpoint holds plain numbers
        start = [views[member] for member in self.members]
        self._live(choice, start)

    def _live(self, choice: Action, start: list[Array]) -> None:
        self.agent = f"{self.name}_{self.born}"
        self.born += 1
        self.life = Life(choice, start, [0] * max(len(self.subordinates), 1))

    def welcome(self, member: AgentID, view: Array) -> None:
        """A base agent appears: the goal counts from here for it."""
        if self.life is None or member not in self.members:
            return
        if self.life.start:  # the first level has no goal that could count from anywhere
            self.life.start[self.members.index(member)] = view

    def end(self) -> None:
        self.life = None

    def count_goal_for(self, subordinate: Post) -> None:
        self._now.used[self.subordinates.index(subordinate)] += 1

    def count_action(self) -> None:
        self._now.used[0] += 1

    @property
    def _now(self) -> Life:
        assert self.life is not None
        return self.life

    # -- the goal that it was given --------------------------------------------------------------------------------

    def judge(
        self, lived: Set[AgentID], before: Mapping[AgentID, Array], after: Mapping[AgentID, Array]
    ) -> tuple[bool, float]:
        """Whether a base step reached the goal, and what it pays; looks at base agents that lived before the step."""
        life = self._now
        start: list[Array] = []
        old: list[Array] = []
        new: list[Array] = []
        for agent, view in zip(self.members, life.start, strict=True):
            if agent in lived:
                start.append(view)
                old.append(before[agent])
                new.append(after[agent])
        reached = bool(self.goals.reached(life.choice, start, new))
        paid = self.goals.reward(life.choice, start, old, new, reached)
        return reached, float(paid)

    def time_is_over(self, needy: Sequence[Post]) -> bool:
        """Whether it played all its actions, or would have to set one goal more than its time allows."""
        if self.commander is None:
            return False  # the first level lives as long as its base agents do
        spent = self._now.used
        if not self.is_worker:
            spent = [spent[self.subordinates.index(post)] for post in needy]
        return max(spent, default=0) >= self.horizon

    # -- what it sees ----------------------------------------------------------------------------------------------

    def observe(self, views: Mapping[AgentID, Array], mask: Array | None = None, order: Post | None = None) -> Obs:
        """The parts that the class describes, in that order; ``order`` is the subordinate that needs a goal."""
        life = self._now
        parts = [views[member] for member in self.members]
        if self.commander is not None:
            goal = self.goals.shown(life.choice, life.start, parts)
            # Without the time left, the same observation would be worth more or less: the goal ends with it.
            left = 1.0 - max(life.used) / self.horizon
            parts.append(goal)
            parts.append(np.array([left], np.float32))
        if len(self.subordinates) > 1:
            one_hot = [post is order for post in self.subordinates]
            parts.append(np.array(one_hot, np.float32))
        flat = np.concatenate(parts, dtype=np.float32)
        if not isinstance(self.observation_space, spaces.Dict):
            return flat
        space = self.observation_space[MASK]
        if mask is None:
            mask = np.ones(space.shape or ())
        return {"observation": flat, MASK: np.array(mask, space.dtype)}

    def make_spaces(self, flat: Sequence[Flattener], base_actions: AnySpace) -> None:
        """Spaces, once the goals given to this post and by it are known."""
        width = sum(f.size for f in flat)
        if self.commander is not None:
            width += self.goals.width + 1
        if len(self.subordinates) > 1:
            width += len(self.subordinates)
        seen: AnySpace = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        if self.subordinates:
            self.action_space = self._common_goal_space()
        else:
            self.action_space = base_actions
            if flat[0].mask_space is not None:
                seen = spaces.Dict({"observation": seen, MASK: flat[0].mask_space})
        self.observation_space = seen

    def _common_goal_space(self) -> AnySpace:
        """An agent has one action space, so goals for all its subordinates have to come from the same."""
        first = self.subordinates[0]
        for post in self.subordinates:
            if post.goals.space != first.goals.space:
                raise ConfigError(
                    f"hierarchy: {self.name!r} would choose from {first.goals.space} for {first.name!r} but "
                    f"from {post.goals.space} for {post.name!r}. Make `space` of the goals the same for both."
                )
        return first.goals.space

    # -- resuming --------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        saved = None
        if self.life is not None:
            saved = {"choice": self.life.choice, "start": list(self.life.start), "used": list(self.life.used)}
        return {"born": self.born, "life": saved}

    def set_state(self, state: State) -> None:
        self.born = state["born"]
        self.agent = f"{self.name}_{max(self.born - 1, 0)}"
        self.life = None
        saved = state["life"]
        if saved is not None:
            self.life = Life(saved["choice"], list(saved["start"]), list(saved["used"]))


def build_posts(
    base: MultiAgentEnv, graph: nx.DiGraph[str], levels: Sequence[Level], features: Sequence[int]
) -> list[Post]:
    """A post for each node of the command, from the top level down."""
    flat: dict[AgentID, Flattener] = {}
    for _, node in graph.nodes.items():
        if "agent" in node:
            agent = node["agent"]
            flat[agent] = Flattener(base.observation_space(agent))
    posts: dict[str, Post] = {}
    for name, node in graph.nodes.items():
        boss = None
        for above in graph.predecessors(name):  # one at most
            boss = posts[above]  # nodes are sorted by level, so a commander's post is there already
        post = Post(name, boss, _members(graph, name), "agent" in node)
        posts[name] = post
        if boss is not None:
            sizes = [flat[member].size for member in post.members]
            depth = node["level"]
            _set_goals(post, levels[depth - 1], levels[depth], features, sizes)
    # Only now: a commander chooses from the goals of its subordinates, whose posts come after its own.
    for post in posts.values():
        flatteners = [flat[member] for member in post.members]
        post.make_spaces(flatteners, base.action_space(post.members[0]))
    return list(posts.values())


def _set_goals(post: Post, above: Level, own: Level, features: Sequence[int], sizes: Sequence[int]) -> None:
    """The kind of goals that its commander sets, and how it is paid for them."""
    assert above.goals is not None
    assert above.horizon is not None
    post.goals = build_goals(above.goals, features, sizes, f"hierarchy: level {above.name!r}")
    post.horizon = above.horizon
    post.extrinsic = own.extrinsic


def _members(graph: nx.DiGraph[str], name: str) -> list[AgentID]:
    """Base agents at and below a node, in the order of the command."""
    agent = graph.nodes[name].get("agent")
    if agent is not None:
        return [agent]
    members: list[AgentID] = []
    for subordinate in graph.successors(name):
        members.extend(_members(graph, subordinate))
    return members
