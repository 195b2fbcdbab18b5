"""``python -m tools.trace_step``: through how many files, functions and lines of the package one step of PPO runs.

A *step* is one round of the loop: collect a fragment of experience in this process, learn from it, send the weights out
(``collect_and_learn`` of ``training/rounds.py``). An *iteration* is ``Trainer.train()``: the step, and what is made of it
(result, stop conditions).
Both are traced after three iterations of warm-up, so that nothing of the set-up, of imports and of first calls counts.

- files: distinct files of the package in which a function was called;
- functions: distinct pairs of file and qualified name. Lambdas and generator expressions are functions of their own, and up to
  Python 3.11 list, set and dict comprehensions, too; those of one function have one name and count once;
- lines: distinct executed lines.

It is done with an env that works on arrays (``two_step_game``) and with a user's env that works on dicts. Files of the env
itself count only if they are in the package. ``--list`` prints the functions of a step in the order of their first calls.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np
from gymnasium import spaces

import marl
from marl.envs.base import StepResult
from marl.training.rounds import collect_and_learn
from tools.density import print_table

WARM_UP = 3  # iterations
CONFIG = {
    "num_workers": 0,
    "seed": 0,
    "train_batch_size": 200,
    "sgd_minibatch_size": 100,
    "num_sgd_iter": 2,
}  # small: it is soon done


class Tracer:
    """Notes which code below ``folder`` runs in this thread, inside of a ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.functions: dict[tuple[str, str], None] = {}  # (file, qualified name), in the order of first calls
        self.lines: set[tuple[str, int]] = set()
        self._inside: dict[CodeType, str | None] = {}  # the file below the folder, None elsewhere
        self._before: Any = None

    @property
    def files(self) -> list[str]:
        """In the order of first calls."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    def __enter__(self) -> Tracer:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self._inside:
            self._inside[code] = self._relative(code)
        file = self._inside[code]
        if file is None:
            return None
        self.functions.setdefault((file, code.co_qualname))

        def executed(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self.lines.add((file, frame.f_lineno))
            return executed

        return executed

    def _relative(self, code: CodeType) -> str | None:
        file = Path(code.co_filename)
        return str(file.relative_to(self.folder)) if file.is_relative_to(self.folder) else None


class Guess(marl.MultiAgentEnv):
    """What a user might write: two agents see a number each and are paid for telling its sign."""

    possible_agents = ("left", "right")
    seen = spaces.Box(-1.0, 1.0, (1,), np.float32)
    answers = spaces.Discrete(2)

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.length = 4
        self.steps = 0
        self.rng = np.random.default_rng()
        self.numbers: dict[str, float] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.seen

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.answers

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.steps = 0
        self.rng = np.random.default_rng(seed)
        return self._show(), {}

    def step(self, actions: Mapping[str, Any]) -> StepResult:
        rewards = {agent: float(answer == (self.numbers[agent] > 0)) for agent, answer in actions.items()}
        self.steps += 1
        over = {"__all__": self.steps == self.length}
        return StepResult(self._show(), rewards, over, {"__all__": False}, {})

    def _show(self) -> dict[str, Any]:
        self.numbers = {agent: self.rng.uniform(-1.0, 1.0) for agent in self.possible_agents}
        return {agent: np.array([number], np.float32) for agent, number in self.numbers.items()}


ENVS: dict[str, Any] = {"native": "two_step_game", "dict": Guess}


def trace(trainer: marl.Trainer, step: Callable[[], object]) -> Tracer:
    """What ``step`` runs through, of the package, after the trainer's warm-up."""
    for _ in range(WARM_UP):
        trainer.train()
    tracer = Tracer(Path(marl.__file__).parent)
    with tracer:
        step()
    return tracer


def trace_env(env: Any, what: str, algo: str) -> Tracer:
    """Traces a ``step`` or an ``iteration`` of an algorithm on an env, without workers."""
    with marl.Trainer(algo, env=env, config=CONFIG) as trainer:
        return trace(trainer, partial(collect_and_learn, trainer) if what == "step" else trainer.train)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    if given.list:
        tracer = trace_env(ENVS[given.list], "step", given.algo)
        for file, name in tracer.functions:
            print(f"{file} {name}")
        return 0
    rows = []
    for what in ("step", "iteration"):
        for name, env in ENVS.items():
            found = trace_env(env, what, given.algo)
            sizes = (len(found.files), len(found.functions), len(found.lines))
            rows.append((f"{what} of {given.algo}, {name} env", *map(str, sizes)))
    print_table(("", "files", "functions", "lines"), rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tools.trace_step", description="Count what one training step runs through."
    )
    parser.add_argument("--algo", default="ppo", help="Which preset; default ppo.")
    parser.add_argument(
        "--list", choices=sorted(ENVS), help="Print the functions of a step in the order of first calls."
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
