"""Random command lines: sub-commands, options and values as ``--help`` lists them, and some that nobody listed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from marl.cli.app import app
from siege.canary import home_of
from siege.child import Command, Limits, run
from siege.ledger import CaseResult
from siege.prey import Prey
from siege.verdict import complaint

CASE = Limits(seconds=8.0)
FILES = (
    "run", "run", "run/checkpoints/best", "run/checkpoints/checkpoint_000006", "run/result.json", "recording", "export",
    "scenario.yaml", "scenario.yaml", "nowhere", "nowhere/x.yaml", ".", "..", "/", "", "/dev/null", "run/learning_curve.png",
    "-", "~", "a\nb", "x" * 300, "\udcff", "run#default_policy", "random", "best", "@run/params.json",
)  # fmt: skip
WORDS = (
    "", " ", "0", "-1", "1", "2", "1e9", "nan", "inf", "-inf", "abc", "ü", "🦊", "\udcff", "{}", "[]", "null", '{"a": 1}',
    '{"lr": "x"}',
    "{", "@nowhere", "seed=1", "algo.lr=x", "lr", "=", "a=b=c", "env=nowhere", "horizon=-1", "stop.training_iteration=1",
    "0..2", "0,0", "ppo", "qmix", "CartPole-v1", "two_step_game", "kuhn_poker", "matrix_game", "nowhere:Env", "os:system",
    "episode_reward_mean", "exact", "best_response", "max", "min", "asha", "fifo",
    "--", "-x", "--help", "x" * 3000, "env_config.size=9999999999999",
)  # fmt: skip
NUMBERS = ("0", "1", "1", "2", "3", "-1", "x", "1.5", "99999999999999999999", "", "nan", "1e5")
BOUNDS: dict[str, list[str]] = {  # what keeps a command that is right from taking minutes, and from starting Ray
    "run": ["--num-workers", "0", "--stop-iters", "1"],
    "train": ["--num-workers", "0", "--stop-iters", "1"],
    "crossplay": ["--workers", "0", "--episodes", "2"],
    "exploit": ["--workers", "0", "--timesteps", "64", "--episodes", "2"],
    "report": ["--workers", "0", "--episodes", "2"],
    "rollout": ["--episodes", "1"],
    "doctor": ["--without-ray"],
    "tune-throughput": ["--workers", "0", "--seconds", "0.01", "--copies", "1"],
    "debug": ["--stop-iters", "1"],
}
LEFT_OUT = (
    "bench",
    "tune",
)  # these start Ray or measure for minutes; bad words for them are tried all the same, with --help


class CommandLines:
    """The commands of ``marl``, with a finished run beside them."""

    kind = "command lines"

    def __init__(self, prey: Prey) -> None:
        self.prey = prey
        self.commands = dict(_commands(typer.main.get_command(app), ()))

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult:
        inside = self.prey.copy(folder)
        (inside / f"{self.prey.name}.yaml").rename(inside / "scenario.yaml")
        words = self._words(draw)
        ended = run(Command(words), inside, limits=CASE, environment=home_of(inside))
        outcome = "refused" if ended.code == 2 else "stopped in time" if ended.overtime else "ran"
        label = " ".join(words).encode(errors="replace").decode()
        return CaseResult(self.kind, number, label[:300], complaint(ended), outcome=outcome)

    def _words(self, draw: random.Random) -> list[str]:
        name = draw.choice(sorted(self.commands))
        command = self.commands[name]
        words: list[str] = []
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                count = draw.choice([1, 1, 1, 1, 0, 2]) if parameter.nargs == 1 else draw.randint(0, 3)
                words += [draw.choice(FILES if draw.random() < 0.8 else WORDS) for _ in range(count)]
            elif draw.random() < 0.2:
                words += _option(parameter, draw)
        words += BOUNDS.get(name, ["--help"] if name.split()[0] in LEFT_OUT else [])
        if draw.random() < 0.15:
            words.insert(draw.randrange(len(words) + 1), draw.choice([*WORDS, *FILES]))
        if draw.random() < 0.05:
            draw.shuffle(words)
        return [*(name.split() if draw.random() < 0.97 else [draw.choice(WORDS)]), *words]


def _option(parameter: Any, draw: random.Random) -> list[str]:
    flag: str = draw.choice(parameter.opts + parameter.secondary_opts)
    if parameter.is_flag or parameter.count or flag == "--help":
        return [flag]
    about = vars(parameter)
    kind = repr(about.get("type") or about.get("type_descriptor")).lower()  # of click's parameters, of newer typer's
    pool: tuple[str, ...] = WORDS
    if "int" in kind.split("parameter_info")[0] or "float" in kind:
        pool = NUMBERS
    elif "path" in kind and draw.random() < 0.8:
        pool = FILES
    return [flag] if draw.random() < 0.03 else [flag, draw.choice(pool)]


def _commands(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(names), command
        return
    for name, below in inner.items():
        yield from _commands(below, (*names, name))
