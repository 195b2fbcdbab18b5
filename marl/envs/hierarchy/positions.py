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
        self.mask_space: AnySpace | None = space[MASK] if masked and isinstance(space, spaces.Dict) else None
        self.size = int(spaces.flatdim(self.space))
        self.is_box = isinstance(self.space, spaces.Box)

    def __call__(self, value: Obs) -> Array:
        inner = value if self.key is None else value[self.key]
        flat = inner if self.is_box else spaces.flatten(self.space, inner)
        return np.array(flat, np.float32).reshape(-1)  # a copy: the base env may go on writing into its own


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
        self.name, self.commander, self.members, self.is_worker = name, commander, list(members), is_worker
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
        return 2 if self.commander is None and len(self.members) > 1 else 1

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
        self.life, self.born, self.agent = None, 0, f"{self.name}_0"

    def enlist(self) -> None:
        """The first level lives without a goal."""
        if self.life is None:
            self._live(None, [])

    def begin(self, choice: Action, views: Mapping[AgentID, Array]) -> None:
        """Somebody new fills the post and is given a goal."""
        self._live(choice.item() if isinstance(choice, np.generic) else choice, self._seen(views))

    def _live(self, choice: Action, start: list[Array]) -> None:
        self.agent = f"{self.name}_{self.born}"
        self.born += 1
        self.life = Life(choice, start, [0] * max(len(self.subordinates), 1))

    def welcome(self, member: AgentID, view: Array) -> None:
        """A base agent appears: the goal counts from here for it."""
        if self.life is not None and self.life.start and member in self.members:
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

    def _seen(self, views: Mapping[AgentID, Array]) -> list[Array]:
        return [views[agent] for agent in self.members]

    # -- the goal that it was given --------------------------------------------------------------------------------

    def judge(
        self, lived: Set[AgentID], before: Mapping[AgentID, Array], after: Mapping[AgentID, Array]
    ) -> tuple[bool, float]:
        """Whether a base step reached the goal, and what it pays; looks at base agents that lived before the step."""
        life = self._now
        pairs = [(agent, view) for agent, view in zip(self.members, life.start, strict=True) if agent in lived]
        start, now = [view for _, view in pairs], [after[agent] for agent, _ in pairs]
        reached = bool(self.goals.reached(life.choice, start, now))
        paid = self.goals.reward(life.choice, start, [before[agent] for agent, _ in pairs], now, reached)
        return reached, float(paid)

    def time_is_over(self, needy: Sequence[Post]) -> bool:
        """Whether it played all its actions, or would have to set one goal more than its time allows."""
        if self.commander is None:
            return False
        used = self._now.used
        spent = used if self.is_worker else [used[self.subordinates.index(post)] for post in needy]
        return any(count >= self.horizon for count in spent)

    # -- what it sees ----------------------------------------------------------------------------------------------

    def observe(self, views: Mapping[AgentID, Array], mask: Array | None = None, order: Post | None = None) -> Obs:
        life = self._now
        parts = self._seen(views)
        if self.commander is not None:
            left = 1.0 - max(life.used) / self.horizon
            parts += [self.goals.shown(life.choice, life.start, parts), np.array([left], np.float32)]
        if len(self.subordinates) > 1:
            parts.append(np.array([post is order for post in self.subordinates], np.float32))
        flat = np.concatenate(parts, dtype=np.float32)
        if not isinstance(self.observation_space, spaces.Dict):
            return flat
        legal = self.observation_space[MASK]
        everything = np.ones(legal.shape or (), legal.dtype)
        return {"observation": flat, MASK: everything if mask is None else np.array(mask, legal.dtype)}

    def make_spaces(self, flat: Sequence[Flattener], base_actions: AnySpace) -> None:
        """Spaces, once the goals given to this post and by it are known."""
        width = sum(f.size for f in flat)
        if self.commander is not None:
            width += self.goals.width + 1
        if len(self.subordinates) > 1:
            width += len(self.subordinates)
        seen: AnySpace = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.action_space = base_actions
        if self.subordinates:
            self.action_space = self.subordinates[0].goals.space
            odd = [post for post in self.subordinates if post.goals.space != self.action_space]
            if odd:
                raise ConfigError(
                    f"hierarchy: {self.name!r} would choose from {self.action_space} for {self.subordinates[0].name!r} but "
                    f"from {odd[0].goals.space} for {odd[0].name!r}. Make `space` of the goals the same for both."
                )
        elif flat[0].mask_space is not None:
            seen = spaces.Dict({"observation": seen, MASK: flat[0].mask_space})
        self.observation_space = seen

    # -- resuming --------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        life = self.life
        now = None if life is None else {"choice": life.choice, "start": list(life.start), "used": list(life.used)}
        return {"born": self.born, "life": now}

    def set_state(self, state: State) -> None:
        self.born, life = state["born"], state["life"]
        self.agent = f"{self.name}_{max(self.born - 1, 0)}"
        self.life = None if life is None else Life(life["choice"], list(life["start"]), list(life["used"]))


def build_posts(
    base: MultiAgentEnv, graph: nx.DiGraph[str], levels: Sequence[Level], features: Sequence[int]
) -> list[Post]:
    """A post for each node of the command, from the top level down."""
    flat: dict[AgentID, Flattener] = {}
    for _, node in graph.nodes.items():
        if "agent" in node:
            flat[node["agent"]] = Flattener(base.observation_space(node["agent"]))
    posts: dict[str, Post] = {}
    for name, node in graph.nodes.items():  # nodes are sorted by level, so a commander's post is there already
        bosses = [posts[boss] for boss in graph.predecessors(name)]
        members = _members(graph, name)
        boss = bosses[0] if bosses else None
        posts[name] = Post(name, boss, members, "agent" in node)
        if boss is not None:
            sizes = [flat[agent].size for agent in members]
            _set_goals(posts[name], levels[node["level"] - 1], levels[node["level"]], features, sizes)
    for post in posts.values():
        post.make_spaces([flat[agent] for agent in post.members], base.action_space(post.members[0]))
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
    return [member for subordinate in graph.successors(name) for member in _members(graph, subordinate)]
