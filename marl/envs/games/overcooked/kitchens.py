"""Overcooked as a natively batched env.

Two cooks bring onions to pots, three for a soup, wait until it is cooked, and carry it on a plate to where it is delivered,
which pays both of them 20. An action moves a cook (it turns, and steps if nothing is in the way), lets it stay, or lets it
reach for what is before it. Cooks who want the same cell, or each other's, stay where they are; the first one reaches first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv, State, StepOutput
from marl.envs.games.overcooked.layouts import LAYOUTS, read_layout
from marl.envs.games.overcooked.rules import (
    ACTIONS,
    CHANGES_CELL,
    CODE_AFTER,
    COOKED,
    HELD_AFTER,
    IDLE,
    INTERACT,
    ITEMS,
    NOTHING,
    PLATE,
    PLATE_ON_COUNTER,
    PLATE_TAKEN,
    POT,
    POT_EMPTY,
    REWARD,
    SHAPED,
    TAKES_PLATE,
)  # fmt: skip
from marl.envs.games.overcooked.scene import kitchen_picture, kitchen_scene
from marl.envs.games.overcooked.views import BOUNDS, CHANNELS, COOK, HOW_URGENT, OTHER, URGENT, Views
from marl.envs.games.particles.seeding import Doubles, uniform
from marl.errors import ConfigError

AGENTS = ("agent_0", "agent_1")
POSTURE_BITS = (
    4  # of a direction and a load, which are OTHER = 16 postures; shifts are several times faster than division
)


class OvercookedConfig(Config):
    """Keys of ``env_config``."""

    layout: str | list[str] = Field(
        "cramped_room",
        description=f"{', '.join(LAYOUTS)}, or the lines of a kitchen: W counter, O onions, B plates, P pot, X delivery, "
        "a space for floor, 0 and 1 (or A and A) where the cooks begin.",
    )
    max_steps: PositiveInt = Field(400, description="Env steps after which an episode is truncated.")
    shaped_rewards: float = Field(
        0.0,
        description="Weight of the shaped rewards (onion into a pot 3, useful plate 3, soup taken 5) in the rewards.",
    )
    random_reset: bool = Field(
        False, description="Episodes begin with cooks anywhere, anything in their hands and pots at any stage."
    )
    observation: Literal["flat", "grid"] = Field(
        "flat", description="flat: a row of numbers. grid: height x width x 26, for conv_filters."
    )


class OvercookedGames(NativeEnv):
    """``num_envs`` kitchens. Global state: what the first cook sees, every number divided by its largest value.

    Arrays end with the axis of the copies: ``cells`` ``[C, E]`` are codes of ``rules.py``; ``places`` (cells), ``facing``
    (up, down, right, left) and ``held`` are ``[2, E]``. ``shaped`` ``[E, 2]`` are the last step's shaped rewards, unweighted.
    """

    config_class = OvercookedConfig
    name = "fast:overcooked"
    state_arrays = ("cells", "places", "facing", "held", "clock", "soups", "weight", "next_weight")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = config = OvercookedConfig(**env_config)
        self.layout = layout = read_layout(config.layout)
        self.cells: Ints = np.tile(layout.codes[:, None], (1, num_envs))
        self.places: Ints = np.tile(np.array(layout.starts)[:, None], (1, num_envs))
        self.facing: Ints = np.zeros((2, num_envs), np.int64)
        self.held: Ints = np.zeros((2, num_envs), np.int64)
        self.clock: Ints = np.zeros(num_envs, np.int64)
        self.soups: Ints = np.zeros(num_envs, np.int64)
        """Delivered in the running episodes."""
        self.weight: Floats = np.full(num_envs, config.shaped_rewards, np.float32)
        self.next_weight: Floats = self.weight.copy()
        self.shaped: Floats = np.zeros((num_envs, 2), np.float32)
        self.views = Views(num_envs, layout.codes.size)
        self._painted: Ints = np.zeros((2, num_envs), np.int64)  # places and postures as the views show them
        self._front = layout.front.reshape(-1)
        self._leads = layout.leads.reshape(-1)
        self._all = np.arange(num_envs)
        self._pots = (layout.pots[:, None] * num_envs + self._all).reshape(-1)  # in the flat [C * E]
        # By cook and env, flat [2 * E]: the first cell of the env, and what makes a cook the other one for the first.
        self._firsts = np.tile(self._all * layout.codes.size, 2)
        self._other = np.repeat([0, OTHER], num_envs)
        self._everybody = np.ones((num_envs, 2), bool)
        shape = (layout.height, layout.width, CHANNELS)
        self.state_size = int(np.prod(shape))
        high = np.broadcast_to(BOUNDS, shape)
        if config.observation == "flat":
            high = high.reshape(-1)
        space = spaces.Box(np.zeros_like(high), high.copy(), dtype=np.uint8)
        self.kinds = number_seats([AgentType("agent", AGENTS, space, spaces.Discrete(len(ACTIONS)))])
        self._legal = [np.ones((num_envs, 2, 0), bool)]
        self._repaint(self._all)

    # -- episodes --------------------------------------------------------------------------------------------------

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        luck = uniform(seeds, 6 + self.layout.pots.size).T
        self.cells[:, env_ids] = self.layout.codes[:, None]
        self.places[:, env_ids] = np.array(self.layout.starts)[:, None]
        self.facing[:, env_ids] = luck[:2] * 4
        self.held[:, env_ids] = NOTHING
        self.clock[env_ids] = 0
        self.soups[env_ids] = 0
        self.weight[env_ids] = self.next_weight[env_ids]
        if self.config.random_reset:
            self._shuffle(env_ids, luck[2:])
        self._repaint(env_ids)

    def _shuffle(self, env_ids: Ints, luck: Doubles) -> None:
        """Cooks in two different cells, something in their hands, pots at any stage."""
        floor = self.layout.floor
        first = (luck[0] * floor.size).astype(np.int64)
        further = 1 + (luck[1] * (floor.size - 1)).astype(np.int64)
        self.places[:, env_ids] = floor[np.stack([first, (first + further) % floor.size])]
        self.held[:, env_ids] = luck[2:4] * len(ITEMS)
        self.cells[self.layout.pots[:, None], env_ids] = POT + (luck[4:] * (POT_EMPTY + 1)).astype(np.int64)

    def set_task(self, env_id: int, task: object) -> None:
        """The weight of the shaped rewards from the env's next reset on, so that they can fade while policies learn."""
        if isinstance(task, bool) or not isinstance(task, int | float):
            raise ConfigError(
                f"{self.name}: set_task({env_id}, {task!r}). Expected the weight of shaped rewards, a number."
            )
        self.next_weight[env_id] = task

    # -- a step ----------------------------------------------------------------------------------------------------

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        chosen = np.ascontiguousarray(actions[0].T, np.int64)
        reached, deals = self._reach(chosen)
        self._walk(chosen)
        cooked = self._cook()
        self.clock += 1
        urgent = self._urgent()
        self._show_cells(np.concatenate([reached, cooked]), urgent)
        self._show_cooks(urgent)
        paid = REWARD.take(deals).sum(axis=0)
        self.soups += paid > 0
        rewards = paid[:, None] + self.weight[:, None] * self.shaped
        late = self.clock >= self.config.max_steps
        return rewards, np.zeros((self.num_envs, 2), bool), np.repeat(late[:, None], 2, axis=1), late

    def _reach(self, chosen: Ints) -> tuple[Ints, Ints]:
        """Cooks who interact reach for what is before them, the first one first.

        Returns which cells have changed, as places in the flat ``[C * E]``, and the deals ``[2, E]`` that tables of
        ``rules.py`` know.
        """
        front = self._front.take(self.places * 4 + self.facing)
        spots = front * self.num_envs + self._all
        idle = (chosen != INTERACT) * IDLE
        cells = self.cells.reshape(-1)
        deals = np.empty_like(spots)
        shaped = np.empty(spots.shape, np.float32)
        for cook, spot in enumerate(spots):
            deal = cells.take(spot) * len(ITEMS) + self.held[cook] + idle[cook]
            takers = np.flatnonzero(deal == TAKES_PLATE)
            SHAPED.take(deal, out=shaped[cook])
            if takers.size:
                shaped[cook, takers] = PLATE_TAKEN * self._needs_plate(cook, takers)
            cells[spot] = CODE_AFTER.take(deal)
            self.held[cook] = HELD_AFTER.take(deal)
            deals[cook] = deal
        self.shaped = shaped.T
        return spots[CHANGES_CELL.take(deals)], deals

    def _needs_plate(self, cook: int, env_ids: Ints) -> Bools:
        """Whether a plate is of use: none lies about, and fewer are in hands than pots have something in them."""
        cells = self.cells[:, env_ids]
        lying = (cells == PLATE_ON_COUNTER).any(axis=0)
        in_use = (cells[self.layout.pots] != POT + POT_EMPTY).sum(axis=0)
        needed: Bools = ~lying & ((self.held[1 - cook, env_ids] == PLATE) < in_use)
        return needed

    def _walk(self, chosen: Ints) -> None:
        here = self.places
        there = self._leads.take(chosen * self.layout.codes.size + here)
        blocked = (there[0] == there[1]) | ((there[0] == here[1]) & (there[1] == here[0]))
        self.places = np.where(blocked, here, there)
        self.facing = np.where(chosen < 4, chosen, self.facing)

    def _cook(self) -> Ints:
        """Time passes in the pots. Returns which cells have changed, as places in the flat ``[C * E]``."""
        cells = self.cells.reshape(-1)
        before = cells.take(self._pots)
        after = COOKED.take(before)
        cells[self._pots] = after
        changed: Ints = self._pots[before != after]
        return changed

    # -- what is seen ----------------------------------------------------------------------------------------------

    def _urgent(self) -> Ints:
        """``[E]``: what is added to looks in the last steps of an episode."""
        return (self.clock > self.config.max_steps - HOW_URGENT) * URGENT

    def _posture(self) -> Ints:
        """``[2, E]``: a cook's cell, direction and load as one number."""
        return (self.places * 4 + self.facing) * len(ITEMS) + self.held

    def _show_cells(self, spots: Ints, urgent: Ints) -> None:
        """Paint these places of the flat ``[C * E]``, and all of an env whose last steps begin."""
        if spots.size:
            cells, env_ids = np.divmod(spots, self.num_envs)
            looks = self.cells.reshape(-1).take(spots) + urgent.take(env_ids)
            self.views.paint(env_ids * self.layout.codes.size, cells, looks, looks)
        begins = np.flatnonzero(self.clock == self.config.max_steps - HOW_URGENT + 1)
        if begins.size:
            self.views.hurry(begins)

    def _show_cooks(self, urgent: Ints) -> None:
        """Paint the cooks who have moved, turned or reached, and the floor that they have left."""
        posture = self._posture()
        moved = np.flatnonzero(posture != self._painted)
        before, now = self._painted.reshape(-1).take(moved), posture.reshape(-1).take(moved)
        firsts, other = self._firsts.take(moved), self._other.take(moved)
        late = np.concatenate([urgent, urgent]).take(moved)
        # All floor first: a cook may stand where the other one has been.
        self.views.paint(firsts, before >> POSTURE_BITS, late, late)
        looks = (now & (OTHER - 1)) + late
        looks += COOK
        looks_to_first = looks + other
        self.views.paint(firsts, now >> POSTURE_BITS, looks_to_first, looks_to_first ^ OTHER)
        self._painted = posture

    def _repaint(self, env_ids: Ints) -> None:
        """Paint all cells of these envs."""
        count = self.layout.codes.size
        urgent = self._urgent()
        looks = (self.cells[:, env_ids] + urgent[env_ids]).T.reshape(-1)
        self.views.paint(np.repeat(env_ids * count, count), np.tile(np.arange(count), len(env_ids)), looks, looks)
        self._painted[:, env_ids] = self._posture()[:, env_ids] ^ 1  # in the same cell, but not as they are
        self._show_cooks(urgent)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        obs = self.views.obs.reshape(self.num_envs, 2, -1)
        return [obs], self._legal, self._everybody, self.views.state.reshape(self.num_envs, -1)

    # -- saving and drawing ----------------------------------------------------------------------------------------

    def get_state(self) -> State:
        return {name: np.array(getattr(self, name).T, order="C") for name in self.state_arrays}

    def set_state(self, state: State) -> StepOutput:
        for name in self.state_arrays:
            setattr(self, name, np.array(np.asarray(state[name]).T, order="C"))
        self._repaint(self._all)
        return self._still()

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return ACTIONS

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        return kitchen_scene(self, env_id, viewer)

    def render(self, env_id: int) -> Array:
        return kitchen_picture(self, env_id)
