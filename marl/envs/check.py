"""A world's contract, checked by playing it for a while with random actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.data.task import AgentID, Array
from marl.envs.base import ALL, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import BatchedEnv, Frame
from marl.envs.episode_log import fingerprint
from marl.envs.registry import EnvCreator, make_world
from marl.envs.vector import DictVector
from marl.errors import EnvError

BLIND = (
    "an agent was truncated without a last observation: its last decision cannot be learned from. Return the observation of "
    "an agent in the step that ends it."
)


@dataclass(frozen=True)
class Problem:
    """What is wrong, and how to mend it. ``severe``: training would fail or learn from wrong data."""

    text: str
    severe: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.severe else 'warning'}: {self.text}"


def check_env(
    env: str | EnvCreator | MultiAgentEnv, env_config: Mapping[str, Any] | None = None, steps: int = 200
) -> list[Problem]:
    """Play ``steps`` random steps and look for breaches of the contract; an empty list is a clean bill."""
    creator = (lambda _: env) if isinstance(env, MultiAgentEnv) else env
    world = make_world(creator, 1, env_config or {})
    found: dict[str, Problem] = {}
    try:
        first = _play(world, steps, found)
        if _play(world, steps, {}) != first:
            _add(
                found,
                "two episodes with the same seed and actions differ. Draw all randomness from the seed of reset.",
                False,
            )
    except EnvError as error:
        _add(found, str(error))
    except Exception as error:
        _add(found, f"the world raised {type(error).__name__}: {error}")
    finally:
        world.close()
    return list(found.values())


def _play(world: BatchedEnv, steps: int, found: dict[str, Problem]) -> list[str]:
    """Fingerprints of everything that the world showed."""
    rng = np.random.default_rng(0)
    shown = []
    frame = _reset(world, 1, found)
    seed = 2
    for step in range(steps):
        legal = [column.copy() for column in frame.legal]
        _check_masks(world, frame.present, legal, found, step)
        frame = world.step(_random_actions(world, legal, rng))
        shown.append(fingerprint([*frame.obs, frame.rewards, frame.terminated, frame.truncated]))
        _check_numbers(world, frame.obs, frame.rewards, found, step)
        if isinstance(world, DictVector):
            _check_dicts(world, found)
        if frame.blind.any():
            _add(found, BLIND, severe=False)
        if frame.late:
            _add(
                found,
                f"agent {frame.late[0][1]!r} was rewarded while absent: counted in its return, not in training.",
                False,
            )
        if frame.over[0]:
            frame = _reset(world, seed, found)
            seed += 1
    return shown


def _reset(world: BatchedEnv, seed: int, found: dict[str, Problem]) -> Frame:
    frame = world.reset(np.array([0]), np.array([seed]))
    _check_shapes(world, frame, found)
    if isinstance(world, DictVector):
        _check_observations(world, world.last_obs[0], found)
    return frame


def _check_shapes(world: BatchedEnv, frame: Frame, found: dict[str, Problem]) -> None:
    """A frame's arrays have the sizes that the kinds announce."""
    seats = sum(kind.size for kind in world.kinds)
    wanted = {
        "present": (world.num_envs, seats),
        "rewards": (world.num_envs, seats),
        "state": (world.num_envs, world.state_size),
    }
    for name, shape in wanted.items():
        if getattr(frame, name).shape != shape:
            _add(found, f"frame.{name} has shape {getattr(frame, name).shape}, expected {shape}.")
    for k, kind in enumerate(world.kinds):
        width = (world.num_envs, kind.size, kind.obs_width)
        if frame.obs[k].shape != width:
            _add(found, f"frame.obs[{k}] has shape {frame.obs[k].shape}, expected {width} for kind {kind.name!r}.")


def _random_actions(world: BatchedEnv, legal: list[Array], rng: np.random.Generator) -> list[Array]:
    actions = []
    for kind, mask in zip(world.kinds, legal, strict=True):
        space = kind.action_space
        space.seed(int(rng.integers(2**31)))
        column = np.zeros((1, kind.size, *kind.action_shape), kind.action_dtype)
        for i in range(kind.size):
            allowed = np.flatnonzero(mask[0, i])
            if allowed.size:
                column[0, i] = rng.choice(allowed)
            else:
                start = getattr(space, "start", 0)
                column[0, i] = (np.asarray(space.sample()) - start).reshape(kind.action_shape)
        actions.append(column)
    return actions


def _check_masks(world: BatchedEnv, present: Array, legal: list[Array], found: dict[str, Problem], step: int) -> None:
    for kind, mask in zip(world.kinds, legal, strict=True):
        if kind.legal_width:
            stuck = present[0, kind.seats] & ~mask[0].any(axis=1)
            for i in np.flatnonzero(stuck).tolist():
                _add(
                    found,
                    f"step {step}: agent {world.agent_at(0, kind.first_seat + i)!r} is asked, but action_mask is empty.",
                )


def _check_numbers(world: BatchedEnv, obs: Any, rewards: Array, found: dict[str, Problem], step: int) -> None:
    if not np.isfinite(rewards).all():
        seat = int(np.flatnonzero(~np.isfinite(rewards[0]))[0])
        _add(
            found,
            f"step {step}: the reward of agent {world.agent_at(0, seat)!r} is {rewards[0, seat]}. Return finite numbers.",
        )
    for kind, column in zip(world.kinds, obs, strict=True):
        if not np.isfinite(column).all():
            i = int(np.argwhere(~np.isfinite(column[0]))[0][0])
            _add(
                found,
                f"step {step}: the observation of agent {world.agent_at(0, kind.first_seat + i)!r} holds NaN or infinity.",
            )


def _check_observations(world: DictVector, obs: Mapping[AgentID, Obs], found: dict[str, Problem]) -> None:
    env = world.envs[0]
    for agent, value in obs.items():
        space = env.observation_space(agent)
        if not space.contains(value):
            _add(found, f"the observation of agent {agent!r} is not in its space {space}: got {_short(value)}.")
        if space is not env.observation_space(agent):
            again = f"observation_space({agent!r}) gives a new object each time. Build it once and return the same one."
            _add(found, again, severe=False)


def _check_dicts(world: DictVector, found: dict[str, Problem]) -> None:
    result = world.last_results[0]
    _check_observations(world, result.obs, found)
    for name in ("rewards", "terminated", "truncated"):
        strangers = [a for a in getattr(result, name) if a != ALL and not _known(world, a)]
        if strangers:
            _add(found, f"{name} names {strangers[0]!r}, which is not an agent of this world.")
    _check_sharing(result, found)


def _check_sharing(result: StepResult, found: dict[str, Problem]) -> None:
    arrays = [(a, v) for a, v in result.obs.items() if isinstance(v, np.ndarray)]
    for i, (agent, value) in enumerate(arrays):
        for other, other_value in arrays[i + 1 :]:
            if value is other_value:
                _add(
                    found,
                    f"agents {agent!r} and {other!r} get the same array object as observation. Return a copy each.",
                    False,
                )


def _known(world: DictVector, agent: AgentID) -> bool:
    env = world.envs[0]
    if env.possible_agents:
        return agent in env.possible_agents
    from marl.envs.layout import pattern_of

    return pattern_of(agent, list(env.max_agents)) is not None


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 120 else text[:117] + "..."


def _add(found: dict[str, Problem], text: str, severe: bool = True) -> None:
    """One problem per kind: texts that differ only in the step count once."""
    key = text.split(": ", 1)[-1] if text.startswith("step ") else text
    found.setdefault(key, Problem(text, severe))
