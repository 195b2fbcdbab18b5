"""What each activation costs: CPU time relative to tanh, acting and learning, at 400 and at 4,800 rows.

Acting is the policy's own ``act`` on that many observations; learning is one epoch of ppo's own learner, with minibatches of
that many rows, on one recorded batch (fast:simple_spread, 2 x 64). Turns of all activations are interleaved in one process on
one thread, and the best of each counts.

    python benchmarks/activations.py [--quick] [--json FILE] [--write]

``--write`` puts the costs into the description of ``fcnet_activation`` (marl/policies/config.py) and into the table of
docs/models.md. On an idle machine it takes about 40 seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import marl
from marl.policies.mlp import ACTIVATIONS
from marl.policies.policy import Inputs

ROOT = Path(__file__).parents[1]
PAGE, CONFIG = ROOT / "docs" / "models.md", ROOT / "marl" / "policies" / "config.py"
ROWS = (400, 4_800)
EPOCH = 9_600  # rows of the recorded batch: 3,200 env steps of three agents
AT_LEAST_S = 0.02  # of one turn, so that the clock counts for nothing
PLACES = ("acting", "learning")
Costs = dict[str, dict[str, float]]
"""Name of an activation -> ``learning, 400`` -> CPU time relative to tanh."""


def make_trainer(activation: str, rows: int) -> marl.Trainer:
    keys = {
        "env": "fast:simple_spread", "fcnet_hiddens": [64, 64], "fcnet_activation": activation, "num_envs_per_worker": 128,
        "train_batch_size": EPOCH // 3, "sgd_minibatch_size": rows, "num_sgd_iter": 1, "evaluation": {"interval": 0},
        "log_sys_usage": False, "seed": 0,
    }  # fmt: skip
    return marl.Trainer("ppo", config=keys)


def acting(trainer: marl.Trainer, rows: int) -> Callable[[], object]:
    policy = trainer.get_policy()
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(rows, policy.kind.obs_width)).astype(np.float32)
    inputs = Inputs(obs, np.ones((rows, 0), np.bool_), np.zeros(rows, np.int64))
    carry = np.zeros((rows, 0), np.float32)
    return lambda: policy.act(inputs, carry, rng, explore=True)


def learning(trainer: marl.Trainer) -> Callable[[], object]:
    learner, batch = trainer.learners[0], trainer.workers.collect(trainer.setup.fragment).batch
    return lambda: learner.learn(batch)


def seconds(work: Callable[[], object], often: int) -> float:
    began = time.process_time()
    for _ in range(often):
        work()
    return (time.process_time() - began) / often


def measure(turns: int) -> Costs:
    trainers = {(name, rows): make_trainer(name, rows) for name in ACTIVATIONS for rows in ROWS}
    work: dict[tuple[str, str], Callable[[], object]] = {}
    for (name, rows), trainer in trainers.items():
        work[name, f"acting, {rows}"] = acting(trainer, rows)
        work[name, f"learning, {rows}"] = learning(trainer)
    often = {key: max(1, round(AT_LEAST_S / min(seconds(do, 1) for _ in range(3)))) for key, do in work.items()}
    best: dict[tuple[str, str], float] = {}
    for _ in range(turns):
        for key, do in work.items():
            best[key] = min(best.get(key, np.inf), seconds(do, often[key]))
    for trainer in trainers.values():
        trainer.stop()
    costs: Costs = {name: {} for name in ACTIVATIONS}
    for (name, place), least in best.items():
        costs[name][place] = least / best["tanh", place]
    return costs


# -- showing -------------------------------------------------------------------------------------------------------


def places() -> list[str]:
    return [f"{place}, {rows}" for place in PLACES for rows in ROWS]


def table(costs: Costs) -> Table:
    shown = Table("activation", title="CPU time relative to tanh")
    for place in places():
        shown.add_column(f"{place} rows", justify="right")
    for name, row in costs.items():
        shown.add_row(name, *(f"{row[place]:.2f}" for place in places()))
    return shown


def sentence(costs: Costs) -> str:
    """As in the description of the key: learning with 400 rows."""
    return ", ".join(f"{name} {row['learning, 400']:.2f}" for name, row in costs.items() if name != "tanh")


def page_rows(costs: Costs) -> str:
    lines = [f"| `{name}` | {' | '.join(f'{row[place]:.2f}' for place in places())} |" for name, row in costs.items()]
    return "\n".join(lines)


def write(costs: Costs, config: Path = CONFIG, page: Path = PAGE) -> None:
    """Put the numbers where users read them; a place that is not there is a mistake."""
    replace(config, r"(?m)^(ACTIVATION_COST = ).*$", f'"{sentence(costs)}"')
    replace(page, r"(?m)(^\| activation \| acting.*\n\|[-|]+\n)(?:\| `\w+` .*\n)+", page_rows(costs) + "\n")


def replace(file: Path, pattern: str, text: str) -> None:
    """What stands behind the pattern's first group becomes ``text``."""
    before = file.read_text(encoding="utf-8")
    after, count = re.subn(pattern, lambda found: found[1] + text, before)
    if count != 1:
        raise SystemExit(f"{file}: found {count} places for the costs, expected one ({pattern})")
    file.write_text(after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument("--write", action="store_true", help="write them into the key's description and docs/models.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    costs = measure(turns=2 if given.quick else 25)
    Console().print(table(costs))
    if given.json is not None:
        content: Mapping[str, object] = {"quick": given.quick, "relative_to_tanh": costs}
        given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if given.write:
        write(costs)


if __name__ == "__main__":
    main()
