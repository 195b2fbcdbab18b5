"""What Ray workers bring: whole training by PPO on simple_spread, in wall time, against the same copies of the env in process.

Three ways: in process; two Ray workers that wait for the learner, and it for them (``collection: sync``); two that play the
next round while it learns (``overlap``). Blocks of some iterations of each are interleaved and the best block counts. A block
of overlapping workers ends when the round ahead has been played, so none of its work is left to the next one.

    python benchmarks/workers.py                 # training that goes on
    python benchmarks/workers.py --from-start    # new processes: the first seconds, also with workers of low priority
    python benchmarks/workers.py --quick         # a smoke run

The machine has to be idle: three processes share two cores here, and wall time is all that counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from marl.training.trainer import Trainer

SPREAD = "pettingzoo:mpe2/simple_spread_v3"
COPIES = 8
PPO = {
    "num_sgd_iter": 10,
    "sgd_minibatch_size": 400,
    "fcnet_hiddens": [64, 64],
    "evaluation": {"interval": 0},
    "seed": 0,
}
HERE, SYNC, OVERLAP = "in process", "2 workers", "2 workers, overlap"
TWO = {"num_workers": 2, "num_envs_per_worker": COPIES // 2, "ray_num_cpus": 4}  # both pairs of workers live at once
WAYS: dict[str, dict[str, Any]] = {
    HERE: {"num_workers": 0, "num_envs_per_worker": COPIES},
    SYNC: {**TWO, "collection": "sync"},
    OVERLAP: {**TWO, "collection": "overlap"},
}
BAR = 1.6
LOW_PRIORITY = "15"  # Ray's own default of RAY_worker_niceness
FIRST_S = 10.0


class Block(NamedTuple):
    """Some iterations of one way of collecting."""

    steps_per_s: float
    waited: float  # share of the time in which the learner waited for experience
    learned: float
    brought: float  # weights to the workers


def trainer_of(way: str, batch: int) -> Trainer:
    return Trainer("ppo", env=SPREAD, config={**PPO, **WAYS[way], "train_batch_size": batch})


def measure(trainer: Trainer, iterations: int) -> Block:
    started, steps = time.perf_counter(), 0
    waited, learned, brought = 0.0, 0.0, 0.0
    for _ in range(iterations):
        result = trainer.train()
        steps += result["timesteps_this_iter"]
        timers = result["timers"]
        waited += timers["sample_time_ms"]
        learned += timers["learn_time_ms"] + timers["load_time_ms"]
        brought += timers["sync_time_ms"]
    trainer.workers.foreach_worker(lambda worker: worker.ping())  # what is under way is a part of this block
    took = time.perf_counter() - started
    return Block(steps / took, *(ms / 1_000 / took for ms in (waited, learned, brought)))


def interleaved(batch: int, iterations: int, repeats: int) -> dict[str, Block]:
    best: dict[str, Block] = {}
    with ExitStack() as stack:
        trainers = {way: stack.enter_context(trainer_of(way, batch)) for way in WAYS}
        for trainer in trainers.values():
            measure(trainer, 1)
        for _ in range(repeats):
            for way, trainer in trainers.items():
                block = measure(trainer, iterations)
                best[way] = max(block, best.get(way, block))
    return best


# -- from the start ------------------------------------------------------------------------------------------------------


class Start(NamedTuple):
    """A run of its own process."""

    took: float  # seconds from the start of the process until all steps were learned from
    first_s: float  # seconds until the first iteration
    early: float  # env steps per second in the ten seconds after it


def run_alone(way: str, batch: int, iterations: int) -> None:
    """In a process of its own: a line with the time of day per iteration."""
    with trainer_of(way, batch) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            print(json.dumps([time.time(), result["timesteps_total"]]), flush=True)


def start(way: str, batch: int, iterations: int, niceness: str) -> Start:
    command = [sys.executable, __file__, "--alone", way, "--batch", str(batch), "--iterations", str(iterations)]
    environment = {**os.environ, "RAY_worker_niceness": niceness}
    started = time.time()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    first, begun = lines[0]
    early = [(moment - first, steps - begun) for moment, steps in lines[1:] if moment - first <= FIRST_S] or [(1.0, 0)]
    seconds, steps = early[-1]
    return Start(lines[-1][0] - started, first - started, steps / seconds)


def from_start(batch: int, iterations: int, repeats: int) -> dict[str, Start]:
    best: dict[str, Start] = {}
    ways = [(HERE, HERE, "0")]
    for way in (SYNC, OVERLAP):
        ways += [(way, way, "0"), (f"{way}, low priority", way, LOW_PRIORITY)]
    for _ in range(repeats):
        for name, way, niceness in ways:
            found = start(way, batch, iterations, niceness)
            best[name] = min(found, best.get(name, found))
    return best


# -- showing -------------------------------------------------------------------------------------------------------------


def block_table(blocks: Mapping[str, Block]) -> Table:
    table = Table("way", title="Whole training, env steps per second of wall time")
    for heading in ("steps per s", "against in process", "learner waits", "learns", "sends weights"):
        table.add_column(heading, justify="right")
    for way, block in blocks.items():
        shares = [f"{share:.3f}" for share in (block.waited, block.learned, block.brought)]
        table.add_row(way, f"{block.steps_per_s:,.0f}", f"{block.steps_per_s / blocks[HERE].steps_per_s:.2f}", *shares)
    return table


def start_table(starts: Mapping[str, Start]) -> Table:
    table = Table("way", title="From the start of the process")
    for heading in ("seconds to the end", "to the first iteration", f"steps per s in the next {FIRST_S:g} s"):
        table.add_column(heading, justify="right")
    for way, found in starts.items():
        table.add_row(way, f"{found.took:.1f}", f"{found.first_s:.1f}", f"{found.early:,.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole training with Ray workers against in process.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: one short block of each")
    parser.add_argument("--from-start", action="store_true", help="new processes instead of training that goes on")
    parser.add_argument("--batch", type=int, default=4_000, help="env steps per training batch")
    parser.add_argument("--iterations", type=int, default=5, help="of a block, or of a process")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument("--alone", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        run_alone(options.alone, options.batch, options.iterations)
        return
    sizes = (400, 2, 1) if options.quick else (options.batch, options.iterations, options.repeats)
    console = Console()
    if options.from_start:
        starts = from_start(*sizes)
        console.print(start_table(starts))
        numbers = {way: found._asdict() for way, found in starts.items()}
    else:
        blocks = interleaved(*sizes)
        console.print(block_table(blocks))
        ratio = blocks[OVERLAP].steps_per_s / blocks[HERE].steps_per_s
        console.print(
            f"{'met    ' if ratio >= BAR else 'NOT MET'} overlapping workers against in process: {ratio:.2f} (bar: {BAR})"
        )
        numbers = {way: block._asdict() for way, block in blocks.items()}
    if options.json is not None:
        options.json.write_text(json.dumps({"quick": options.quick, "ways": numbers}, indent=2) + "\n")


if __name__ == "__main__":
    main()
