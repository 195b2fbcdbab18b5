"""How long a report on ten checkpoints with 100 episodes per pairing takes, from the command to the page.

    python benchmarks/report.py [--env pettingzoo:classic/tictactoe_v3] [--checkpoints 10] [--episodes 100] [--workers 0]

Trains a short self-play run first, which is not counted; the goal is one minute on two cores.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from marl import Trainer

SMALL = {"train_batch_size": 512, "sgd_minibatch_size": 256, "num_sgd_iter": 2, "fcnet_hiddens": [128, 128]}


def train(env: str, checkpoints: int, run: Path) -> None:
    keys = {**SMALL, "env": env, "num_envs_per_worker": 16, "evaluation": {"interval": 0}}
    with Trainer("ppo", config=keys) as trainer:
        for iteration in range(1, checkpoints + 1):
            trainer.train()
            trainer.save(run / "checkpoints" / f"checkpoint_{iteration:06d}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="pettingzoo:classic/tictactoe_v3")
    parser.add_argument("--checkpoints", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(given.env, given.checkpoints, run)
        command = [sys.executable, "-m", "marl.cli", "report", given.env, str(run), "--all-checkpoints"]
        command += ["--episodes", str(given.episodes), "--workers", str(given.workers), "--out", f"{folder}/out"]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pairings = (given.checkpoints + 1) * (given.checkpoints + 2) // 2
    print(f"{given.env}: {given.checkpoints} checkpoints and random, {pairings} pairings of {given.episodes} episodes")
    print(f"wall {wall:.1f} s, CPU {cpu:.1f} s (goal: 60 s on two cores)")


if __name__ == "__main__":
    main()
