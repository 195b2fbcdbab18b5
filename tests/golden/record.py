"""Recorded playthroughs: what every built-in game shows for fixed seeds and actions.

``python -m tests.golden.record``, from the root of the project, records all games anew; names behind it pick
some. Do so only when a game was changed on purpose, and look at the difference before it is committed. A new
game is one more line in ``GAMES``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, Array
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.games.boards.battleship import Battleship
from marl.envs.games.boards.connect_four import ConnectFour
from marl.envs.games.boards.dark_hex import DarkHex
from marl.envs.games.boards.nim import Nim
from marl.envs.games.boards.phantom_ttt import PhantomTicTacToe
from marl.envs.games.boards.tic_tac_toe import TicTacToe
from marl.envs.games.cards.goofspiel import GoofspielGames
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.envs.games.cards.tiny_hanabi import TinyHanabiGames
from marl.envs.games.matrix import MatrixGames
from marl.envs.games.networks.congestion import CongestionGames
from marl.envs.games.networks.graphical import GraphicalGames
from marl.envs.games.repeat import RepeatGames
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.vector.vector_env import DictVector

FOLDER = Path(__file__).parent
NUM_ENVS, STEPS, DIGITS = 2, 14, 4
SMALL_MAZE = {"rooms": (1, 2), "room_size": 1, "wind": 0.4, "turn": 0.5, "limit": 10}

GAMES: dict[str, Callable[[], BatchedEnv]] = {
    "two_step_game": lambda: TwoStepGames(NUM_ENVS, {}),
    "two_step_game_logits": lambda: TwoStepGames(NUM_ENVS, {"actions_are_logits": True}),
    "matrix_game": lambda: MatrixGames(
        NUM_ENVS, {"game": "climbing", "repetitions": 5, "observe": "last", "observe_round": True}
    ),
    "traffic": lambda: TrafficGames(
        NUM_ENVS,
        {"max_cars": 3, "spare_names": 1, "arrival_rate": 0.5, "failure_rate": 0.4, "light_period": 2}
        | {"block_length": 2, "dark_periods": 1, "episode_length": 10},
    ),
    "kuhn_poker": lambda: KuhnGames(NUM_ENVS, {}),
    "leduc_poker": lambda: LeducGames(NUM_ENVS, {}),
    "liars_dice": lambda: LiarsDiceGames(NUM_ENVS, {"sides": 3}),
    "phantom_ttt": lambda: PhantomTicTacToe(NUM_ENVS, {}),
    "dark_hex": lambda: DarkHex(NUM_ENVS, {"rows": 2, "version": "abrupt"}),
    "tic_tac_toe": lambda: TicTacToe(NUM_ENVS, {"misere": True}),
    "connect_four": lambda: ConnectFour(NUM_ENVS, {"rows": 3, "columns": 4, "connect": 3}),
    "nim": lambda: Nim(NUM_ENVS, {"piles": [2, 3]}),
    "battleship": lambda: Battleship(NUM_ENVS, {"rows": 3, "loss_multiplier": 0.5}),
    "goofspiel": lambda: GoofspielGames(NUM_ENVS, {"imp_info": True, "players": 3}),
    "tiny_hanabi": lambda: TinyHanabiGames(NUM_ENVS, {}),
    "leduc_poker_3": lambda: LeducGames(NUM_ENVS, {"players": 3, "ranks": 4}),
    "congestion": lambda: CongestionGames(NUM_ENVS, {"network": "braess", "repetitions": 5, "observe": "last"}),
    "graphical_game": lambda: GraphicalGames(
        NUM_ENVS,
        {"graph": {"generator": "path_graph", "n": 3}, "game": "stag_hunt"}
        | {"repetitions": 5, "observe": "last", "observe_node": True},
    ),
    "repeat_after_delay": lambda: RepeatGames(NUM_ENVS, {"delay": 3, "length": 2, "agents": 2}),
    "windy_maze": lambda: DictVector([WindyMaze(SMALL_MAZE) for _ in range(NUM_ENVS)], "windy_maze"),
}


Chooser = Callable[[int, StepOutput], list[Any]]


def random_actions(env: BatchedEnv) -> list[list[Any]]:
    """Legal actions per step and kind; the playthrough keeps them, so replaying needs no generator."""
    rng = np.random.default_rng(0)
    actions: list[list[Any]] = []

    def choose(step: int, frame: StepOutput) -> list[Any]:
        del step
        drawn = [_draw(kind, legal, env.num_envs, rng) for kind, legal in zip(env.kinds, frame.legal, strict=True)]
        actions.append([column.tolist() for column in drawn])
        return actions[-1]

    _frames(env, choose, STEPS)
    return actions


def _draw(kind: AgentType, legal: Array, env_ids: int, rng: np.random.Generator) -> Array:
    shape = (env_ids, kind.size, *kind.action_shape)
    if legal.shape[-1]:
        return (rng.random(legal.shape) * (legal + 1e-9)).argmax(axis=-1)  # any action, where none is legal
    if isinstance(kind.action_space, spaces.Discrete):
        return rng.integers(int(kind.action_space.n), size=shape)
    return rng.normal(size=shape).round(2)


def play(env: BatchedEnv, actions: list[list[Any]]) -> list[dict[str, Any]]:
    """Frames of these actions as plain lists. Every reset has its own seed: 0, 1, 2, ..."""
    return _frames(env, lambda step, _: actions[step], len(actions))


def _frames(env: BatchedEnv, choose: Chooser, steps: int) -> list[dict[str, Any]]:
    env_ids, seeds = np.arange(env.num_envs), np.arange(env.num_envs)
    frame = env.reset(env_ids, seeds)
    frames = [_plain(env, frame)]
    for step in range(steps):
        chosen = choose(step, frame)
        columns = [np.array(c, kind.action_dtype) for c, kind in zip(chosen, env.kinds, strict=True)]
        frame = env.step(columns)
        frames.append(_plain(env, frame))
        if frame.over.any():
            env_ids = np.flatnonzero(frame.over)
            seeds = seeds.max() + 1 + np.arange(len(env_ids))
            frame = env.reset(env_ids, seeds)
            frames.append(_plain(env, frame))
    return frames


def _plain(env: BatchedEnv, frame: StepOutput) -> dict[str, Any]:
    return {
        "obs": [_rounded(column) for column in frame.obs],
        "legal": [column.astype(int).tolist() for column in frame.legal if column.shape[-1]],
        "rewards": _rounded(frame.rewards),
        "state": _rounded(frame.state),
        "present": frame.present.astype(int).tolist(),
        "terminated": frame.terminated.astype(int).tolist(),
        "truncated": frame.truncated.astype(int).tolist(),
        "over": frame.over.astype(int).tolist(),
        "born": [[env_id, seat, env.agent_at(env_id, seat)] for env_id, seat in frame.born],
    }


def _rounded(column: Array) -> list[Any]:
    numbers: list[Any] = np.asarray(column, np.float64).round(DIGITS).tolist()
    return numbers


def path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def record(name: str) -> None:
    """Write the playthrough of one game, one line per frame."""
    actions = random_actions(GAMES[name]())
    frames = play(GAMES[name](), actions)
    lines = ",\n".join(json.dumps(frame, separators=(",", ":")) for frame in frames)
    path(name).write_text(f'{{"actions":{json.dumps(actions, separators=(",", ":"))},\n"frames":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    for game in sys.argv[1:] or GAMES:
        record(game)
        print(f"recorded {path(game).name}")
