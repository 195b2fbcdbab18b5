"""VMAS scenarios as natively batched envs: ``env: vmas:balance``.

One ``vmas.make_env(num_envs=E)`` plays all copies; its tensors become the arrays of a frame, agent by agent, with no loop over
copies in a step. VMAS (Bettini et al., 2022) draws from generators that all its envs in a process share. Here every env has
generators of its own, and a reset seeds them with the env's seed, so the start of an episode follows from its seed alone,
whatever the env_id and the number of copies.

What a scenario draws *during* an episode (noise, new places after a catch) it draws for all copies at once: with one copy that
follows from the seed as well, with several it follows from all their seeds together. What VMAS keeps once for all copies (the
goal of ``simple_adversary``) is drawn anew whenever all copies start together. Its physics looks up for all copies together
which bodies may touch, so a contact at the rim of a line can depend on what happens in other copies. A run as a whole is
repeated exactly by the same seeds and actions in the same number of copies.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentType, AnySpace, Array, Bools, Floats, Ints, number_seats
from marl.envs.adapters.optional import need, undrawable
from marl.envs.adapters.permits import check_places
from marl.envs.adapters.vmas_shortcuts import Shortcuts, can_shorten, flat
from marl.envs.adapters.vmas_state import Memory
from marl.envs.batched import BatchedEnv, State, StepOutput
from marl.envs.vector.env_errors import guarded
from marl.envs.vector.layout import kind_names
from marl.errors import ConfigError, UnknownNameError, did_you_mean, let_through

OURS = (
    "scenario",
    "num_envs",
    "seed",
    "wrapper",
    "wrapper_kwargs",
    "dict_spaces",
    "grad_enabled",
    "terminated_truncated",
)
"""Arguments of ``vmas.make_env`` that are not the user's to set."""


class VmasConfig(Config):
    """Keys of ``env_config`` that VMAS has for every scenario; all other keys go to the scenario (``n_agents``, ...)."""

    continuous_actions: bool = Field(True, description="Forces as numbers; if false, one of a few discrete moves.")
    multidiscrete_actions: bool = Field(False, description="Discrete actions stay apart instead of one number for all.")
    clamp_actions: bool = Field(True, description="Clip continuous actions to their range instead of refusing them.")
    max_steps: PositiveInt | None = Field(
        100, description="Env steps until an episode is truncated; null: never, then the scenario has to end by itself."
    )
    device: str = Field("cpu", description="Where VMAS computes.")
    reset_together: bool = Field(
        False,
        description="Where all copies start at once, let VMAS draw all starts in one call from the first copy's seed: faster "
        "with many copies, but the other copies' own seeds do not count then.",
    )
    plain: bool = Field(
        False, description="Call VMAS's own step and physics instead of marl's shortcuts: the same numbers, but slower."
    )


OWN_KEYS = {"reset_together", "plain"}
"""Keys of ``VmasConfig`` that are not VMAS's."""


@cache
def vmas_env(scenario: str) -> type[VmasEnv]:
    """The env class of a scenario."""
    vmas = need("vmas", "vmas")
    known = [*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios]
    if scenario not in known:
        raise UnknownNameError(
            f"unknown VMAS scenario {scenario!r}.{did_you_mean(scenario, known)} Known: {', '.join(known)}."
        )
    return type(f"Vmas_{scenario}", (VmasEnv,), {"scenario": scenario, "name": f"vmas:{scenario}"})


class VmasEnv(BatchedEnv):
    """``num_envs`` copies of one scenario. VMAS knows no global state, so ``state_size`` is 0."""

    config_class = VmasConfig
    hands_on_keys = True  # to the scenario

    scenario: str

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        own: dict[str, Any] = {}
        scenario_keys: dict[str, Any] = {}
        for key, value in env_config.items():
            keys = own if key in VmasConfig.model_fields else scenario_keys
            keys[key] = value
        self.config = VmasConfig(**own)
        self._luck: list[Any] = _first_generators()
        self._seeded: int | None = None  # what the generators of numpy and Python still have to be seeded with
        self._where = f"env {self.name!r}, worker {getattr(env_config, 'worker_index', 0)}"
        with self._own_luck():
            self.env = self._make(scenario_keys)
        self.kinds = self._find_kinds()
        order = {agent.name: i for i, agent in enumerate(self.env.agents)}
        self._agent_of: list[list[int]] = []  # kind, column -> VMAS's number
        for kind in self.kinds:
            self._agent_of.append([order[name] for name in kind.agents])
        self._by_seat = list(chain.from_iterable(self._agent_of))
        self._obs = [np.zeros((num_envs, kind.size, kind.obs_width), np.float32) for kind in self.kinds]
        self._no_masks = [np.ones((num_envs, kind.size, 0), bool) for kind in self.kinds]
        self._no_state = np.zeros((num_envs, 0), np.float32)
        self._shortcuts: Shortcuts | None = None
        if not self.config.plain and can_shorten(self.env):
            self._shortcuts = Shortcuts(self.env, self.scenario)
        self._memory = Memory(self.env.scenario, self.env.device)

    def _make(self, scenario_keys: Mapping[str, Any]) -> Any:
        check_places(self.name, scenario_keys)
        for key in scenario_keys:
            if key in OURS:
                raise ConfigError(f"env {self.name!r}: env_config may not set {key!r}, which marl sets. Leave it out.")
        with warnings.catch_warnings():
            # VMAS only warns about a key that it does not know; a typo would train another game.
            warnings.filterwarnings("error", message=".*not used by the scenario.*")
            try:
                return need("vmas", "vmas").make_env(
                    self.scenario,
                    num_envs=self.num_envs,
                    seed=0,
                    terminated_truncated=True,
                    **self.config.model_dump(exclude=OWN_KEYS),
                    **scenario_keys,
                )
            except Warning as unused:
                raise ConfigError(
                    f"env {self.name!r}: the scenario does not know all keys of env_config. VMAS says: {unused} For every "
                    f"scenario there are {', '.join(VmasConfig.model_fields)}."
                ) from None

    def _find_kinds(self) -> tuple[AgentType, ...]:
        """Agents with equal spaces are one kind."""
        with self._own_luck():
            seen = self.env.reset(seed=0)
        teams: dict[tuple[int, str], list[str]] = {}
        found: dict[tuple[int, str], tuple[AnySpace, AnySpace]] = {}
        for agent, sight, action in zip(self.env.agents, seen, self.env.action_space, strict=True):
            width = flat(sight, self.num_envs).shape[1]
            key = (width, repr(action))  # spaces of the old gym package cannot be hashed
            teams.setdefault(key, []).append(agent.name)
            found[key] = (spaces.Box(-np.inf, np.inf, (width,), np.float32), _action_space(action))
        names = kind_names(list(teams.values()))
        kinds: list[AgentType] = []
        for name, key in zip(names, teams, strict=True):
            kinds.append(AgentType(name, tuple(teams[key]), *found[key]))
        return number_seats(kinds)

    # -- the array API ---------------------------------------------------------------------------------------------

    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        wanted = [seed % 2**32 for seed in seeds.tolist()]
        if len(env_ids) == self.num_envs:
            with self._own_luck():
                self.env.reset(seed=wanted[0], return_observations=False)  # also what all copies share
        if len(env_ids) < self.num_envs or not self.config.reset_together:
            self._restart(env_ids.tolist(), wanted)
        for shown, column in zip(self._obs, self._observe(), strict=True):
            shown[env_ids] = column[env_ids]  # the others keep what they saw: an observation may be noisy
        return self._frame(np.zeros((self.num_envs, len(self._by_seat)), np.float32))

    def _restart(self, env_ids: list[int], seeds: list[int]) -> None:
        """A new episode in some copies, each from its own seed."""
        if self._shortcuts is not None:
            with self._shortcuts.luck(self._luck):
                self._shortcuts.restart(env_ids, seeds)
            if not self._shortcuts.all_generators:
                self._seeded = seeds[-1]
            return
        with self._own_luck():
            for env_id, seed in zip(env_ids, seeds, strict=True):
                self.env.seed(seed)
                self.env.reset_at(env_id, return_observations=False)

    def _observe(self) -> list[Array]:
        if self._shortcuts is not None:
            with self._shortcuts.luck(self._luck):
                return self._shortcuts.observations(self._agent_of, self.kinds)
        with self._own_luck():
            (seen,) = self.env.get_from_scenario(
                get_observations=True, get_rewards=False, get_infos=False, get_dones=False
            )
        return self._columns(seen)

    def step(self, actions: Sequence[Array]) -> StepOutput:
        if self._shortcuts is not None:
            return self._quick_step(self._shortcuts, actions)
        by_agent: list[Any] = [None] * len(self._by_seat)
        for column, numbers in zip(actions, self._agent_of, strict=True):
            tensor = torch.as_tensor(column, device=self.env.device)
            for i, number in enumerate(numbers):
                by_agent[number] = tensor[:, i].reshape(self.num_envs, -1)
        with self._own_luck():
            answer = guarded(lambda: self.env.step(by_agent), "step", lambda: self._where)
        seen, rewards, terminated, truncated, _ = answer
        self._obs = self._columns(seen)
        paid = torch.stack([rewards[i] for i in self._by_seat], dim=1).reshape(self.num_envs, -1)
        return self._frame(_numpy(paid).astype(np.float32, copy=False), _numpy(terminated), _numpy(truncated))

    def _quick_step(self, shortcuts: Shortcuts, actions: Sequence[Array]) -> StepOutput:
        by_agent: list[Any] = [None] * len(self._by_seat)
        for column, numbers in zip(actions, self._agent_of, strict=True):
            for i, number in enumerate(numbers):
                by_agent[number] = column[:, i]
        with shortcuts.luck(self._luck):
            # In VMAS's order: a scenario may work something out for its rewards that its observations show.
            rewards = guarded(lambda: shortcuts.play(by_agent, self._by_seat), "step", lambda: self._where)
            self._obs = shortcuts.observations(self._agent_of, self.kinds)
            terminated, truncated = shortcuts.env._done()
        return self._frame(rewards, terminated.numpy(), truncated.numpy())

    def _columns(self, seen: Sequence[Any]) -> list[Array]:
        columns: list[Array] = []
        for numbers in self._agent_of:
            views = [flat(seen[i], self.num_envs) for i in numbers]
            columns.append(_numpy(torch.stack(views, dim=1)))
        return columns

    def _frame(self, rewards: Floats, terminated: Bools | None = None, truncated: Bools | None = None) -> StepOutput:
        nobody = np.zeros((self.num_envs, len(self._by_seat)), bool)
        ends = nobody
        if terminated is not None:  # VMAS ends all agents of a copy at once
            ends = nobody | terminated[:, None]
        cut = nobody
        if truncated is not None:
            cut = (nobody | truncated[:, None]) & ~ends  # both at once: terminated wins, nothing is bootstrapped
        over: Bools = np.any(ends | cut, axis=1)
        return StepOutput(self._obs, self._no_masks, ~(ends | cut), self._no_state, rewards, ends, cut, over, nobody)

    # -- state and randomness --------------------------------------------------------------------------------------

    def get_state(self) -> State:
        self._settle_luck()
        twister = self._luck[1]
        return {
            "memory": self._memory.save(),
            "steps": _numpy(self.env.steps).copy(),
            "obs": [column.copy() for column in self._obs],
            "luck": {
                "torch": self._luck[0].numpy().copy(),
                "numpy": [np.array(twister[1]), *map(float, twister[2:])],
                "python": [np.array(self._luck[2][1]), self._luck[2][2]],
            },
        }

    def set_state(self, state: State) -> StepOutput:
        self._memory.restore(state["memory"])
        self.env.steps = torch.as_tensor(np.array(state["steps"]), device=self.env.device)
        self._obs = [np.array(column) for column in state["obs"]]
        luck = state["luck"]
        keys, place, has_gauss, gauss = luck["numpy"]
        version = random.getstate()[0]
        self._luck = [
            torch.from_numpy(np.array(luck["torch"], np.uint8)),
            ("MT19937", np.array(keys, np.uint32), int(place), int(has_gauss), gauss),
            (version, tuple(np.asarray(luck["python"][0]).tolist()), luck["python"][1]),
        ]
        self._seeded = None
        return self._frame(np.zeros((self.num_envs, len(self._by_seat)), np.float32))

    def reseed(self, seeds: Ints) -> bool:
        """All copies draw from the same generators, so the seed of the first one stands for all."""
        self._luck = _first_generators(int(seeds[0]) % 2**32)
        self._seeded = None
        return True

    def _settle_luck(self) -> None:
        """Seed the generators that the scenario does not draw from, as VMAS would have done at the last reset."""
        if self._seeded is not None:
            self._luck[1:] = _first_generators(self._seeded)[1:]
            self._seeded = None

    @contextmanager
    def _own_luck(self) -> Iterator[None]:
        """VMAS draws from this env's generators within the block. It leaves those of everybody else as they were."""
        self._settle_luck()
        shared = need("vmas.simulator.environment", "vmas").Environment.vmas_random_state
        shared[:] = self._luck
        try:
            yield
        finally:
            self._luck = list(shared)

    def render(self, env_id: int) -> Array | None:
        """A picture; VMAS draws it with OpenGL, which needs EGL (no display) or a display."""
        before = _generators()
        try:
            with self._own_luck():
                picture = self.env.render(mode="rgb_array", env_index=env_id)
        except BaseException as error:
            let_through(error)
            _set_generators(before)  # VMAS gives them back only where nothing fails
            raise undrawable(self.name, error) from error
        return np.asarray(picture, np.uint8)


def _numpy(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy()
    return array


def _action_space(space: Any) -> AnySpace:
    """VMAS speaks the spaces of the old ``gym`` package."""
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.nvec, np.int64))
    return spaces.Box(space.low, space.high, space.shape, np.float32)


def _generators() -> list[Any]:
    """States of the three generators that VMAS draws from."""
    return [torch.random.get_rng_state(), np.random.get_state(), random.getstate()]  # noqa: NPY002


def _first_generators(seed: int = 0) -> list[Any]:
    """The same states whenever an env is new."""
    return [
        torch.Generator().manual_seed(seed).get_state(),
        np.random.RandomState(seed).get_state(),
        random.Random(seed).getstate(),
    ]


def _set_generators(states: list[Any]) -> None:
    torch.random.set_rng_state(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    random.setstate(states[2])
