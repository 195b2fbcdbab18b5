"""JaxMARL's Overcooked in the terms of our arrays, and the recording of it that tests replay.

Where ``jaxmarl`` is installed (marl need not be), from the root of the repository::

    python -m tests.envs.games.overcooked_original

plays all layouts and writes ``overcooked_original.npz``: starts, actions, and what every step showed and paid. Observations
are kept as differences from step to step, which pack well.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.envs.games.overcooked_cooks import Cook

RECORDING = Path(__file__).with_suffix(".npz")
LAYOUTS = ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit")
COPIES, STEPS = 4, 160
PADDING = 4  # cells of wall around the map of JaxMARL's state
CODES = {1: 0, 10: 0, 2: 1, 3: 2, 5: 3, 9: 4, 4: 5, 6: 6, 7: 7}  # its objects, but for pots; cooks stand on floor
POT, POT_CODE = 8, 8
HELD = {1: 0, 3: 1, 5: 2, 9: 3}


class Original:
    """``copies`` kitchens of JaxMARL, stepped together."""

    def __init__(self, layout: str, copies: int, max_steps: int, random_reset: bool = False) -> None:
        import jax

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts

            env = Overcooked(overcooked_layouts[layout], random_reset=random_reset, max_steps=max_steps)
        self.jax, self.copies, self.width = jax, copies, env.width
        self._reset = jax.jit(jax.vmap(env.reset))
        self._step = jax.jit(jax.vmap(env.step_env))
        self.state: Any = None

    def reset(self, seed: int) -> np.ndarray:
        obs, self.state = self._reset(self._keys(seed))
        return self._seen(obs)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Observations ``[E, 2, height, width, 26]``, rewards and shaped rewards ``[E, 2]``, done ``[E]``."""
        chosen = {f"agent_{i}": actions[:, i] for i in range(2)}
        obs, self.state, rewards, done, infos = self._step(self._keys(0), self.state, chosen)
        return self._seen(obs), _both(rewards), _both(infos["shaped_reward"]), np.asarray(done["__all__"])

    def arrays(self) -> dict[str, np.ndarray]:
        """The state as ours: codes of cells ``[E, C]``, places, directions and loads ``[E, 2]``, clock ``[E]``."""
        board = np.asarray(self.state.maze_map)[:, PADDING:-PADDING, PADDING:-PADDING].astype(np.int64)
        objects, status = board[..., 0].reshape(self.copies, -1), board[..., 2].reshape(self.copies, -1)
        cells = np.vectorize(lambda thing: CODES.get(thing, POT_CODE))(objects)
        places = np.asarray(self.state.agent_pos).astype(np.int64) @ np.array([1, self.width])
        return {
            "cells": np.where(objects == POT, POT_CODE + status, cells),
            "places": places,
            "facing": np.asarray(self.state.agent_dir_idx).astype(np.int64),
            "held": np.vectorize(HELD.__getitem__)(np.asarray(self.state.agent_inv)),
            "clock": np.asarray(self.state.step).astype(np.int64),
        }

    def _keys(self, seed: int) -> Any:
        return self.jax.random.split(self.jax.random.PRNGKey(seed), self.copies)

    def _seen(self, obs: Any) -> np.ndarray:
        return _both(obs)


def _both(values: Any) -> np.ndarray:
    return np.stack([np.asarray(values["agent_0"]), np.asarray(values["agent_1"])], axis=1)


class Crew:
    """Two cooks for each copy; in every fourth copy they do anything."""

    def __init__(self, width: int, copies: int, seed: int) -> None:
        self.cooks = []
        for copy in range(copies):
            careless = 1.0 if copy % 4 == 3 else 0.15
            self.cooks.append([Cook(width, seed + 2 * copy + i, careless) for i in range(2)])

    def actions(self, now: dict[str, np.ndarray]) -> np.ndarray:
        """``[E, 2]``, from arrays as ``Original.arrays`` gives them."""
        chosen = []
        for copy, pair in enumerate(self.cooks):
            codes = now["cells"][copy].tolist()
            places, facing, held = (now[name][copy].tolist() for name in ("places", "facing", "held"))
            chosen.append(
                [pair[i].action(codes, places[i], facing[i], held[i], places[1 - i], held[1 - i]) for i in range(2)]
            )
        return np.array(chosen)


def record(layout: str, random_reset: bool) -> dict[str, np.ndarray]:
    """One episode in every copy."""
    original = Original(layout, COPIES, STEPS, random_reset)
    crew = Crew(original.width, COPIES, seed=7)
    seen = [original.reset(seed=11)]
    start = original.arrays()
    played: dict[str, list[np.ndarray]] = {"actions": [], "rewards": [], "shaped": [], "done": []}
    for _ in range(STEPS):
        actions = crew.actions(original.arrays())
        obs, rewards, shaped, done = original.step(actions)
        seen.append(obs)
        for name, value in zip(played, (actions, rewards, shaped, done), strict=True):
            played[name].append(value)
    small = {"actions": np.uint8, "rewards": np.uint8, "shaped": np.uint8, "done": bool}
    columns = {name: np.array(values).astype(small[name]) for name, values in played.items()}
    shown = np.array(seen).reshape(STEPS + 1, COPIES, 2, -1)
    columns["obs"] = np.diff(shown, axis=0, prepend=np.zeros_like(shown[:1]))  # bytes: differences go round
    return columns | {name: value.astype(np.uint8) for name, value in start.items()}


def main() -> None:
    columns = {}
    for layout in LAYOUTS:
        for random_reset in (False, True):
            for name, value in record(layout, random_reset).items():
                columns[f"{layout}.{'anywhere' if random_reset else 'start'}.{name}"] = value
            paid = columns[f"{layout}.{'anywhere' if random_reset else 'start'}.rewards"][..., 0].sum(axis=0) // 20
            print(layout, random_reset, "soups:", paid.tolist())
    np.savez_compressed(RECORDING, **columns)
    print(RECORDING.name, RECORDING.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
