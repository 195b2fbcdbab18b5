"""What the live exploitability costs: a run trains without it, with it in the run, and with it in a process of its own.

    python benchmarks/live_metric.py                              # phantom tic-tac-toe, 120 s of training each
    python benchmarks/live_metric.py --env dark_hex --share 0.5
    python benchmarks/live_metric.py --seconds 20 --json out.json

Every way trains for the same wall time with the same seed, one after the other. Told are the env steps per second, how many
measurements were made, what they took, and the share of wall time that they took: from the training (``in the run``), or from
another core (``own process``). CPU seconds are those of the process that trains: they say the same on a machine with other
work to do. On a machine with one core the two processes share it, and training slows down by the share.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from marl.training.trainer import Trainer

WAYS: dict[str, dict[str, Any]] = {
    "without": {},
    "in the run": {"interval": 1},
    "own process": {"interval": 1, "process": "own"},
}


def keys_of(way: str, options: argparse.Namespace) -> dict[str, Any]:
    exam = dict(WAYS[way])
    if way == "in the run":
        exam["interval"] = options.interval
    if "process" in exam:
        exam["share"] = options.share
    keys = {
        "env": options.env,
        "env_config": json.loads(options.env_config),
        "policy_mapping_fn": "per_agent",
        "num_envs_per_worker": 64,
        "train_batch_size": 4_096,
        "sgd_minibatch_size": 512,
        "fcnet_hiddens": [64, 64],
        "evaluation": {"interval": 0},
    }
    if exam:
        keys["exploitability"] = exam
    return keys


def measured(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train for so many seconds; what came of it."""
    found: list[dict[str, Any]] = []
    with Trainer("ppo", config=keys_of(way, options)) as trainer:
        trainer.train()  # whatever is made at the first iteration is no part of what is compared
        begun, cpu, steps, in_the_run = time.perf_counter(), time.process_time(), trainer.timesteps_total, 0.0
        while time.perf_counter() - begun < options.seconds:
            result = trainer.train()
            in_the_run += result["timers"].get("exploitability_time_ms", 0.0) / 1e3
            if "exploitability" in result:
                found.append(result["exploitability"])
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        steps = trainer.timesteps_total - steps
    spent = sum(one["seconds"] for one in found if "seconds" in one) or in_the_run
    return {
        "way": way,
        "steps_per_second": steps / wall,
        "steps_per_cpu_second": steps / cpu,  # of the process that trains
        "measurements": len(found),
        "seconds_each": spent / len(found) if found else 0.0,
        "share_of_wall": spent / wall,
        "nash_conv": [round(one["nash_conv"], 4) for one in found],
        "method": found[-1]["method"] if found else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="phantom_ttt")
    parser.add_argument("--env-config", default="{}", help="as JSON")
    parser.add_argument("--seconds", type=float, default=120.0, help="wall time of each way")
    parser.add_argument("--interval", type=int, default=20, help="iterations between measurements in the run")
    parser.add_argument("--share", type=float, default=0.2, help="of the process of its own")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    rows = []
    for way in WAYS:
        row = measured(way, options)
        rows.append(row)
        print(
            f"{way:12}  {row['steps_per_second']:8.0f} steps/s, {row['steps_per_cpu_second']:.0f} per CPU second of the run, "
            f"{row['measurements']:3d} measurements"
            f" ({row['method'] or '-'}) of {row['seconds_each']:.2f} s, {row['share_of_wall']:.1%} of wall time",
            flush=True,
        )
    base = rows[0]["steps_per_second"]
    for row in rows[1:]:
        print(f"{row['way']}: training at {row['steps_per_second'] / base:.1%} of its speed without")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
