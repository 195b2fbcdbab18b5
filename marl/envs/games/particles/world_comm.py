"""World with words: adversaries, led by one that sees all and speaks, chase agents among forests that hide them.

An agent pays 5 for each adversary that it overlaps with, 0.05 times the distance to the nearest food, and twice what leaving
the plane costs in tag; it gets 2 for each food that it overlaps with. An adversary gets 5 for each overlapping pair of an
agent and an adversary and pays 0.1 times its distance to the nearest agent. Nobody sees another one (zeros instead) unless
both are in the same forest or neither is in any; the leader of the adversaries sees all. Everybody sees its own velocity and
position, everything that stands still and the others as seen from itself, the velocities of the other agents, and in which
forests it is (1 or -1 each). Adversaries and the leader also see the leader's last word. The leader moves and says one of
four words: ``move + 5 * word``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints
from marl.envs.games.particles.drawing import Colour, Disc
from marl.envs.games.particles.games import MOVES, NUM_MOVES, ParticleConfig, ParticleGames, chooses, ids, sees
from marl.envs.games.particles.observations import Sight, others, write_slots
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles
from marl.envs.games.particles.tag import leaving
from marl.envs.games.particles.words import lamps, moves_and_words, names_of_moves_and_words, sayings

ADVERSARY = Body(0.075, solid=True, acceleration=3.0, top_speed=1.0)
AGENT = Body(0.045, solid=True, acceleration=4.0, top_speed=1.3)
OBSTACLE, FOOD, FOREST = Body(0.2, solid=True), Body(0.03), Body(0.3)
STANDING_WITHIN = 0.9
NUM_WORDS = 4
LEADER = 0
CAUGHT, EATEN, HUNGER, CHASE, LEAVING = 5.0, 2.0, 0.05, 0.1, 2.0
LEADER_RED, RED, GREEN = (0.65, 0.15, 0.15), (0.95, 0.45, 0.45), (0.45, 0.95, 0.45)
GREY, BLUE, PALE_GREEN = (0.25, 0.25, 0.25), (0.15, 0.15, 0.65), (0.6, 0.9, 0.6)  # obstacles, food, forests
SCENE_COLOURS = {"food": 0, "forest": 2}


class WorldCommConfig(ParticleConfig):
    """Keys of ``env_config``."""

    num_good: PositiveInt = Field(2, description="Agents that are chased and eat.")
    num_adversaries: PositiveInt = Field(4, description="Adversaries that chase, their leader included.")
    num_obstacles: NonNegativeInt = Field(1, description="Obstacles that stand in the way.")
    num_food: PositiveInt = Field(2, description="Places with food.")
    num_forests: NonNegativeInt = Field(2, description="Forests, which hide whoever is inside.")
    continuous_actions: bool = Field(
        False, description="Moves are five numbers 0..1, and the leader's words four more, instead of one of 5 or 20."
    )


class WorldCommGames(ParticleGames):
    """``num_envs`` games. Kinds: the leader, other adversaries (if any), agents. ``words`` ``[E, 1, 4]`` are the leader's."""

    config_class = WorldCommConfig

    name = "fast:simple_world_comm"
    state_arrays = (*ParticleGames.state_arrays, "words")
    config: WorldCommConfig

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = WorldCommConfig(**env_config)
        chasing, chased = config.num_adversaries, config.num_good
        standing = [OBSTACLE] * config.num_obstacles + [FOOD] * config.num_food + [FOREST] * config.num_forests
        bodies = Bodies(num_envs, [ADVERSARY] * chasing + [AGENT] * chased, standing)
        movers = chasing + chased
        self.adversaries, self.agents = slice(0, chasing), slice(chasing, movers)
        first_food = movers + config.num_obstacles
        self.food = slice(first_food, first_food + config.num_food)
        self.forests = slice(first_food + config.num_food, bodies.num_bodies)
        self.teams = self._teams(chasing, movers)
        self.looks = [Look(bodies, team, self.agents) for team in self.teams.values()]
        kinds = [self._kind(config, k, name) for k, name in enumerate(self.teams)]
        super().__init__(num_envs, config, bodies, kinds)
        self.starts_within[movers:] = STANDING_WITHIN
        self.heard = np.zeros((1, NUM_WORDS, num_envs), np.float32)
        self.words = self.heard.transpose(2, 0, 1)

    @staticmethod
    def _teams(chasing: int, movers: int) -> dict[str, Ints]:
        """Who belongs to which kind; a leader without others leads nobody."""
        everybody = np.arange(movers)
        teams = {"leadadversary": everybody[:1], "adversary": everybody[1:chasing], "agent": everybody[chasing:]}
        return {name: team for name, team in teams.items() if team.size}

    def _kind(self, config: WorldCommConfig, k: int, name: str) -> AgentType:
        continuous = config.continuous_actions
        look = self.looks[k]
        width = 4 + 2 * look.slots + config.num_forests
        if name != "agent":
            width += NUM_WORDS
        count = NUM_MOVES
        if name == "leadadversary":
            count = NUM_MOVES + NUM_WORDS if continuous else NUM_MOVES * NUM_WORDS
        return AgentType(name, ids(name, len(look.team)), sees(width), chooses(count, continuous))

    # -- playing ---------------------------------------------------------------------------------------------------

    def _directions(self, actions: Sequence[Array]) -> Doubles:
        led, self.heard[:] = moves_and_words(actions[LEADER], NUM_WORDS, self.config.continuous_actions)
        return self._moves(np.concatenate([led, *actions[1:]], axis=1))

    def _begin(self, env_ids: Ints, positions: Doubles) -> None:
        self.words[env_ids] = 0.0
        super()._begin(env_ids, positions)

    def _touching(self, movers: slice, bodies: slice) -> Bools:
        """``[movers, bodies, E]``: which pairs overlap."""
        pairs = movers, bodies
        touching: Bools = self.bodies.distance[pairs] < self.bodies.touching_at[pairs][..., None]
        return touching

    def _in_forests(self) -> Bools:
        """``[movers, forests, E]``: who is in which forest."""
        return self._touching(slice(0, self.bodies.num_movers), self.forests)

    def _visible(self, inside: Bools) -> Bools:
        """``[movers, movers, E]``: whom the first one sees."""
        hidden: Bools = np.asarray(inside.any(axis=1))
        visible: Bools = ~(hidden[:, None] | hidden)  # both in the open
        for forest in range(inside.shape[1]):
            visible |= inside[:, None, forest] & inside[:, forest]
        visible[LEADER] = True
        return visible

    def _look(self) -> None:
        inside = self._in_forests()
        visible = self._visible(inside)
        where = np.where(inside, np.float32(1), np.float32(-1))
        word = self.heard[0]
        for name, sheet, look in zip(self.teams, self.sights, self.looks, strict=True):
            column = look.write_bodies(sheet, visible)
            if name == "agent":
                column = _write(sheet, column, where[look.team])
                look.write_velocities(sheet, column, visible)
                continue
            column = look.write_velocities(sheet, column, visible)
            column = _write(sheet, column, where[look.team])
            sheet[:, column:] = word

    def _pay(self) -> Floats:
        distance = self.bodies.distance
        caught = self._touching(self.adversaries, self.agents)
        eaten = self._touching(self.agents, self.food).sum(axis=1)
        hungry = distance[self.agents, self.food].min(axis=1)
        outside = leaving(self.bodies.position[:, self.agents])
        rewards = np.empty((self.num_envs, self.bodies.num_movers), np.float32)
        # All adversaries are paid for every catch, whoever made it, and each for its own way.
        behind = distance[self.adversaries, self.agents].min(axis=1)
        rewards[:, self.adversaries] = (CAUGHT * caught.sum(axis=(0, 1)) - CHASE * behind).T
        rewards[:, self.agents] = (EATEN * eaten - CAUGHT * caught.sum(axis=0) - LEAVING * outside - HUNGER * hungry).T
        return rewards

    # -- drawing ---------------------------------------------------------------------------------------------------

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        if agent != self.seat_names[LEADER] or self.config.continuous_actions:
            return super().action_names(agent)
        return names_of_moves_and_words(MOVES, NUM_WORDS)

    def word_of(self, env_id: int, agent: AgentID) -> int:
        if agent != self.seat_names[LEADER]:
            return 0
        return int(self.words[env_id, 0].argmax())

    def bodies_named(self) -> list[tuple[str, str]]:
        named = super().bodies_named()[: self.bodies.num_movers]
        counts = {
            "obstacle": self.config.num_obstacles,
            "food": self.config.num_food,
            "forest": self.config.num_forests,
        }
        for role, count in counts.items():
            named += [(f"{role} {number}", role) for number in range(count)]
        return named

    def hidden_from(self, env_id: int, viewer: AgentID | None) -> set[AgentID]:
        """Whom forests hide from the viewer."""
        if viewer not in self.seat_names:
            return set()
        visible = self._visible(self._in_forests())[self.seat_names.index(viewer), :, env_id]
        return {name for name, seen in zip(self.seat_names, visible, strict=True) if not seen and name != viewer}

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """Whoever is hidden from the viewer is not shown, and agents do not hear the leader."""
        scene = super().scene(env_id, viewer)
        for body in scene["bodies"]:
            if body["role"] in SCENE_COLOURS:
                body["colour"] = SCENE_COLOURS[body["role"]]
        if viewer not in self.kinds[-1].agents:
            leader = self.seat_names[: LEADER + 1]
            scene["said"] = sayings(leader, self.words[env_id], self.config.continuous_actions)
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        del env_id
        config = self.config
        movers: list[Colour] = [LEADER_RED, *[RED] * (config.num_adversaries - 1), *[GREEN] * config.num_good]
        return [*movers, *[GREY] * config.num_obstacles, *[BLUE] * config.num_food, *[PALE_GREEN] * config.num_forests]

    def _signs(self, env_id: int, reach: float) -> Sequence[Disc]:
        return lamps(self.words[env_id], reach)


class Look:
    """How the members of one team see bodies and the velocities of agents. ``slots`` counts pairs of numbers."""

    def __init__(self, bodies: Bodies, team: Ints, agents: slice) -> None:
        self.bodies, self.team = bodies, team
        self.seats = slice(int(team[0]), int(team[-1]) + 1)
        everybody = np.arange(bodies.num_movers)
        standing = np.tile(np.arange(bodies.num_movers, bodies.num_bodies), (len(team), 1))
        self.company = others(team, everybody)
        self.prey = others(team, everybody[agents])
        self.sight_of_standing = Sight(bodies, team, standing, None)
        self.sight_of_company = Sight(bodies, team, self.company, None)
        self.slots = standing.shape[1] + self.company.shape[1] + self.prey.shape[1]

    def write_bodies(self, sheet: Floats, visible: Bools) -> int:
        """Own velocity and position, what stands still, the others; returns the next column."""
        sheet[:, 0:2] = self.bodies.velocity[:, self.seats].swapaxes(0, 1)
        sheet[:, 2:4] = self.bodies.position[:, self.seats].swapaxes(0, 1)
        write_slots(sheet, 4, self.sight_of_standing.look())
        column = 4 + 2 * self.sight_of_standing.slots
        write_slots(sheet, column, self.sight_of_company.look() * visible[self.team[:, None], self.company])
        return int(column + 2 * self.sight_of_company.slots)

    def write_velocities(self, sheet: Floats, column: int, visible: Bools) -> int:
        """Those of the other agents, as far as they are seen; returns the next column."""
        velocities = self.bodies.velocity[:, self.prey] * visible[self.team[:, None], self.prey]
        write_slots(sheet, column, velocities)
        return int(column + 2 * self.prey.shape[1])


def _write(sheet: Floats, column: int, values: Floats) -> int:
    """Puts ``[n, width, E]`` there; returns the next column."""
    end: int = column + values.shape[1]
    sheet[:, column:end] = values
    return end
