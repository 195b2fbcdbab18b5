"""What a round of collecting and of learning costs as things grow: env copies, agents, policies, observations, Ray workers.

The env (``scale_env.py``) costs next to nothing, so what is measured is marl's own. CPU seconds of one process on one thread,
the best of several rounds. Ray workers run on a cluster of several nodes that all are on this machine; what counts there is
the CPU time of the driver and of the Ray daemon beside it, because these do not become more when workers are added.

    python benchmarks/scale.py [--json benchmarks/scale.json] [--quick] [--no-ray]
    python benchmarks/scale_page.py            # fits the model, draws the curves, writes docs/scale.md from the JSON

On two idle cores it takes about six minutes, with ``--quick`` one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from scale_env import Crowd

import marl
from marl.data.clock import Clock
from marl.policies.build import weights_of
from marl.rollout.pool import concat_rollouts

HERE = Path(__file__).parent
MINIBATCHES = (100, 400, 1_600, 4_800)  # rows
NODES, CPUS_PER_NODE = 4, 2  # of the cluster; the driver's own node has no room for workers
STORE = 200_000_000  # bytes of each node's object store


@dataclass(frozen=True)
class Point:
    """One combination of sizes."""

    envs: int = 64
    agents: int = 3
    policies: int = 1
    obs: int = 18
    ticks: int = 16
    epochs: int = 2
    workers: int = 0
    minibatch: int = 400

    @property
    def rows(self) -> int:
        """Decisions of one round, of one worker."""
        return self.envs * self.agents * self.ticks


BASE = Point()
AXES: dict[str, list[Point]] = {
    "envs": [replace(BASE, envs=n) for n in (1, 4, 16, 64, 256, 1024, 4096)],
    "agents": [replace(BASE, envs=16, agents=n) for n in (1, 3, 10, 30, 100, 300, 1000)],
    "policies": [replace(BASE, envs=16, agents=200, policies=n) for n in (1, 2, 5, 20, 50, 200)],
    "obs": [replace(BASE, obs=n) for n in (4, 18, 64, 256, 1024, 4096)],
}
QUICK = {"envs": 1024, "agents": 300, "policies": 50, "obs": 1024}  # largest values of a quick run
WORKERS = (1, 2, 4, 8)
MANY = (2, 8, 32, 64)  # rollouts that are put side by side without Ray


def others(count: int) -> list[Point]:
    """Points off the axes, drawn evenly in the logarithm: without them a fit could not tell sums from products."""
    rng, found = np.random.default_rng(1), list[Point]()
    while len(found) < count:
        logs = [rng.uniform(0, np.log(largest)) for largest in (1024, 200, 512, 64)]
        envs, agents, obs, ticks = (round(float(np.exp(log))) for log in logs)
        policies = int(rng.integers(1, min(agents, 20) + 1))
        minibatch = int(rng.choice(MINIBATCHES))
        point = Point(envs, agents, policies, obs, max(ticks, 2), int(rng.integers(1, 5)), minibatch=minibatch)
        if 200 <= point.rows <= 60_000 and point.rows * point.obs <= 4_000_000:
            found.append(point)
    return found


def points(quick: bool) -> Iterator[tuple[str, Point]]:
    for axis, along in AXES.items():
        for point in along:
            if not quick or getattr(point, axis) <= QUICK[axis]:
                yield axis, point
    for point in others(6 if quick else 24):
        yield "", point


# -- one process -----------------------------------------------------------------------------------------------------


@contextmanager
def trainer_of(point: Point) -> Iterator[marl.Trainer]:
    def plays(agent: str, *_: object, **__: object) -> str:
        return f"p{int(agent.rsplit('_', 1)[1]) % point.policies}"

    keys: dict[str, Any] = {
        "env": "crowd", "env_config": {"agents": point.agents, "obs_size": point.obs}, "num_envs_per_worker": point.envs,
        "train_batch_size": point.envs * point.ticks * max(1, point.workers), "rollout_fragment_length": point.ticks,
        "sgd_minibatch_size": point.minibatch, "num_sgd_iter": point.epochs, "fcnet_hiddens": [64, 64],
        "evaluation": {"interval": 0}, "log_sys_usage": False, "num_workers": point.workers, "seed": 0,
    }  # fmt: skip
    if point.policies > 1:
        policies = {f"p{i}": {} for i in range(point.policies)}
        keys["multiagent"] = {"policies": policies, "policy_mapping_fn": plays}
    with marl.Trainer("ppo", config=keys) as trainer:
        yield trainer


def best_seconds(work: Callable[[], object], least: float) -> float:
    """The shortest of the calls that fit into ``least`` CPU seconds, of two at least, after one to warm up."""
    work()
    spent: list[float] = []
    while len(spent) < 2 or sum(spent) < least:
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
        if len(spent) >= 200:
            break
    return min(spent)


class CpuClock(Clock):
    """Books CPU time: what the same process does, whoever else is at work on the machine."""

    def start(self) -> None:
        self._last = time.process_time()

    def lap(self, activity: str) -> None:
        now = time.process_time()
        self.seconds[activity] = self.seconds.get(activity, 0.0) + now - self._last
        self._last = now


def measure(point: Point, least: float) -> dict[str, float]:
    """Seconds of a round: ``collect``, ``learn``, and what of learning is making rows with advantages (``load``)."""
    with trainer_of(point) as trainer:
        batch = trainer.workers.collect(point.ticks).batch
        loads: list[float] = []
        for learner in trainer.learners:
            learner.clock = CpuClock()

        def learn() -> None:
            trainer.learning.learn(batch)
            loads.append(sum(learner.clock.pop().get("load", 0.0) for learner in trainer.learners))

        collect = best_seconds(lambda: trainer.workers.collect(point.ticks), least)
        return {"collect": collect, "learn": best_seconds(learn, least), "load": min(loads)}


def side_by_side(quick: bool, least: float) -> list[dict[str, Any]]:
    """What joining the rollouts of many workers costs; one rollout stands for all of them."""
    found = []
    for obs in (18, 256):
        point = replace(BASE, envs=32, ticks=25, obs=obs)
        with trainer_of(point) as trainer:
            rollout = trainer.workers.collect(point.ticks)
        for count in MANY[: 2 if quick else None]:
            seconds = best_seconds(partial(concat_rollouts, [rollout] * count), least)
            found.append({"workers": count, "bytes": bytes_in(rollout.batch) * count, "seconds": seconds})
    return found


def bytes_in(batch: Any) -> int:
    """Bytes of all columns."""
    total = 0
    for value in vars(batch).values():
        arrays = value if isinstance(value, list | tuple) else [value]
        total += sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    return total


# -- a cluster on this machine ---------------------------------------------------------------------------------------


@contextmanager
def cluster() -> Iterator[Callable[[], float]]:
    """Several Ray nodes; gives a clock of the CPU seconds of the daemon beside the driver."""
    import psutil
    import ray
    from ray.cluster_utils import Cluster

    # Workers find this folder's modules as the driver does.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(NODES):
            made.add_node(num_cpus=CPUS_PER_NODE, object_store_memory=STORE)
        ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
        daemon = psutil.Process(made.head_node.all_processes["raylet"][0].process.pid)
        yield lambda: sum(daemon.cpu_times()[:2])
        ray.shutdown()
    finally:
        made.shutdown()


def with_workers(quick: bool) -> Iterable[dict[str, Any]]:
    """The driver's share of a round, by the number of workers and the size of what they send."""
    with cluster() as daemon:
        for obs in (18, 256):
            for workers in WORKERS[: 2 if quick else None]:
                point = replace(BASE, envs=32, ticks=25, obs=obs, workers=workers)
                with trainer_of(point) as trainer:
                    yield asdict(point) | on_driver(trainer, point, daemon, rounds=3 if quick else 30)


def on_driver(trainer: marl.Trainer, point: Point, daemon: Callable[[], float], rounds: int) -> dict[str, float]:
    pool = trainer.workers
    for _ in range(3):
        batch = pool.collect(point.ticks).batch
        pool.sync_weights()
    weights = sum(array.nbytes for policy in weights_of(trainer.policies).values() for array in policy.values())
    took = dict.fromkeys(("gather", "broadcast", "daemon", "wall"), 0.0)
    helped, began = daemon(), time.perf_counter()
    for _ in range(rounds):
        first = time.process_time()
        pool.collect(point.ticks)
        second = time.process_time()
        pool.sync_weights()
        took["gather"] += second - first
        took["broadcast"] += time.process_time() - second
    took["daemon"], took["wall"] = daemon() - helped, time.perf_counter() - began
    per_round = {name: seconds / rounds for name, seconds in took.items()}
    return {"bytes": bytes_in(batch), "weight_bytes": weights, **per_round}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=HERE / "scale.json", help="default: benchmarks/scale.json")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points, whose numbers mean little")
    parser.add_argument(
        "--no-ray", action="store_true", help="leave the Ray workers out; the old ones in the JSON stay"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    marl.register_env("crowd", Crowd)
    console, began, least = Console(stderr=True), time.perf_counter(), 0.1 if given.quick else 0.5
    found: dict[str, Any] = {"quick": given.quick, "machine": machine(), "points": []}
    found |= {"nodes": NODES, "cpus": CPUS_PER_NODE}
    for axis, point in points(given.quick):
        row = {"axis": axis, **asdict(point), **measure(point, least)}
        console.print(
            f"{time.perf_counter() - began:6.0f} s  {point}  collect {row['collect']:.4f}  learn {row['learn']:.4f}"
        )
        found["points"].append(row)
    found["concat"] = side_by_side(given.quick, least)
    found["workers"] = (
        json.loads(given.json.read_text())["workers"] if given.no_ray else list(with_workers(given.quick))
    )
    found["took_s"] = round(time.perf_counter() - began)
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    console.print(
        f"wrote {given.json} after {found['took_s']} s; python benchmarks/scale_page.py makes docs/scale.md of it"
    )


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "python": platform.python_version(), "torch": torch.__version__, "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
