"""Mutated scenario files: the shipped ones with keys, values, lines and bytes changed. They run, or are refused in words."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from siege.canary import home_of
from siege.child import Command, Limits, run
from siege.ledger import CaseResult
from siege.mutate import mutate
from siege.verdict import complaint

CASE = Limits(seconds=8.0)
LINES = (
    "env: &a [*a]", "x: &x {y: *x}", "algo: !!python/object/apply:os.system ['true']", "seed: !!int 0x1F", "<<: {seed: 1}",
    "seed: 1\nseed: 2", "\t- tab", "name: |\n  a\n b", "? {a: 1}\n: 2", "---\nenv: CartPole-v1", "num_workers: 1e999",
    "seed: 1" + "0" * 5000, "name: " + "[" * 900, "name: " + "{a: " * 300, "%YAML 9.9", "stop: {training_iteration: .nan}",
    "seed: 2026-01-01", "seed: 0o17", "name: !!binary abc", "lr: {grid_search: [1, 2]}",
    "model: {custom_model: nowhere:Model}",
)  # fmt: skip


class Inputs:
    """Shipped scenarios to be mutated."""

    kind = "scenarios"

    def __init__(self, scenarios: Path) -> None:
        self.texts = {file.name: file.read_text() for file in sorted(scenarios.glob("*.yaml"))}

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult:
        folder.mkdir(parents=True, exist_ok=True)
        name = draw.choice(sorted(self.texts))
        content, told = _mutated(self.texts[name], draw)
        (folder / "scenario.yaml").write_bytes(content)
        command = draw.choices(_COMMANDS, [8, 1])[0]
        ended = run(command, folder, limits=CASE, environment=home_of(folder))
        outcome = "refused" if ended.code == 2 else "stopped in time" if ended.overtime else "ran"
        return CaseResult(self.kind, number, f"{name}: {told[:300]}", complaint(ended), outcome=outcome)


_SHORT = ["--local-dir", "out", "--stop-iters", "1", "--num-workers", "0", "--quiet"]
_COMMANDS: Sequence[Command] = (
    Command(["run", "scenario.yaml", *_SHORT]),
    Command(["train", "-f", "scenario.yaml", *_SHORT]),
)


def _mutated(text: str, draw: random.Random) -> tuple[bytes, str]:
    (change,) = draw.choices([_other_keys, _other_lines, _other_bytes], [7, 2, 1])
    return change(text, draw)


def _other_keys(text: str, draw: random.Random) -> tuple[bytes, str]:
    tree = copy.deepcopy(yaml.safe_load(text))
    told = mutate(tree, draw, draw.choice([1, 1, 1, 2, 3, 6]))
    try:
        content = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    except RecursionError:  # nested too deeply for this writer; JSON is YAML as well
        content = json.dumps(tree)
    return content.encode(errors="replace"), "; ".join(told)


def _other_lines(text: str, draw: random.Random) -> tuple[bytes, str]:
    lines = text.splitlines()
    at = draw.randrange(len(lines))
    manner = draw.choice(["delete", "repeat", "indent", "add", "add", "add", "swap"])
    if manner == "delete":
        del lines[at]
    elif manner == "repeat":
        lines.insert(at, lines[at])
    elif manner == "indent":
        lines[at] = " " * draw.randint(1, 5) + lines[at]
    elif manner == "swap":
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, draw.choice(LINES))
    return "\n".join(lines).encode(), f"{manner} line {at}: {lines[min(at, len(lines) - 1)][:60]!r}"


def _other_bytes(text: str, draw: random.Random) -> tuple[bytes, str]:
    content = bytearray(text.encode())
    for _ in range(draw.choice([1, 5, 50])):
        at = draw.randrange(len(content))
        manners: tuple[Callable[[], None], ...] = (
            lambda at=at: content.__setitem__(at, draw.randrange(256)),  # type: ignore[misc]
            lambda at=at: content.insert(at, draw.randrange(256)),  # type: ignore[misc]
            lambda at=at: content.__delitem__(slice(at, at + draw.randint(1, 20))),  # type: ignore[misc]
        )
        draw.choice(manners)()
        if not content:
            break
    return bytes(content), "bytes"
