"""What Ray workers are given and know: resources as Ray reports them, log level, filters, an env on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from marl.rollout.ray_instance import stop_ray
from marl.training.trainer import Trainer
from tests.conftest import start_ray
from tests.rollout.pay_env import PayEnv
from tests.rollout.test_ray_watch import soon

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SMALL: dict[str, Any] = {
    "env": PayEnv, "train_batch_size": 16, "sgd_minibatch_size": 16, "num_sgd_iter": 1, "fcnet_hiddens": [4],
    "evaluation": {"interval": 0}, "num_workers": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def rich_ray() -> Iterator[Any]:
    """A Ray that says it has 4 CPUs, one GPU and three fires (nothing has to be there for Ray to count it), in place of that of
    the session, which comes back afterwards."""
    import ray

    of_session = ray.is_initialized()
    stop_ray()
    start_ray(num_cpus=4, num_gpus=1, resources={"fire": 3})
    yield ray
    stop_ray()
    if of_session:
        start_ray()


def assigned(worker: Any) -> dict[str, float] | None:
    """What Ray says that it gave to the process of this worker."""
    import ray

    return dict(ray.get_runtime_context().get_assigned_resources()) if worker.index else None


def test_every_worker_gets_the_resources_that_its_keys_ask_for(rich_ray: Any) -> None:
    keys = {"num_cpus_per_worker": 1.5, "num_gpus_per_worker": 0.5, "custom_resources_per_worker": {"fire": 1.0}}
    with Trainer("ppo", config={**SMALL, **keys}) as trainer:
        trainer.train()
        assert trainer.workers.foreach_worker(assigned) == [None, *[{"CPU": 1.5, "GPU": 0.5, "fire": 1.0}] * 2]

        def rest() -> tuple[float, float, float]:
            free = rich_ray.available_resources()
            return free["CPU"], free.get("GPU", 0), free["fire"]

        assert soon(lambda: rest() == (1.0, 0, 1.0)), rest()  # the raylet tells the head node of it in its own time


def test_workers_know_the_log_level_and_that_they_are_remote(rich_ray: Any) -> None:
    def known(worker: Any) -> tuple[int, bool]:
        return logging.getLogger("marl").level, worker.spec.config.on_ray

    keys = {**SMALL, "log_level": "ERROR", "env": telling_env}
    with Trainer("ppo", config=keys) as trainer:
        assert trainer.workers.foreach_worker(known) == [(logging.ERROR, True)] * 3
        told = trainer.workers.foreach_env(lambda env: env.config["told"])
    assert [remote for ((remote, _),) in told] == [True, True]
    assert len({seed for ((_, seed),) in told}) == 2
    logging.getLogger("marl").setLevel(logging.WARNING)


def telling_env(config: Any) -> PayEnv:
    env = PayEnv()
    env.config = {"told": (config.remote, config.seed)}
    return env


def test_all_workers_have_the_same_filter(rich_ray: Any) -> None:
    def statistics(worker: Any) -> dict[str, list[float]]:
        found = worker.filters["default_policy"]
        return {name: tensor.reshape(-1).tolist() for name, tensor in found.state_dict().items()}

    with Trainer("ppo", config={**SMALL, "observation_filter": "MeanStdFilter"}) as trainer:
        trainer.train()
        trainer.train()
        first, *others = trainer.workers.foreach_worker(statistics)
    assert first["count"][0] >= 32
    assert others == [first, first]


@pytest.mark.parametrize("wanted", [False, True])
def test_the_driver_has_an_env_beside_workers_only_if_asked(wanted: bool, rich_ray: Any) -> None:
    keys = {**SMALL, "num_workers": 1, "num_envs_per_worker": 2, "create_env_on_driver": wanted}
    with Trainer("ppo", config=keys) as trainer:
        trainer.workers.start()
        names = trainer.workers.foreach_env(lambda env: type(env).__name__)
        assert names == [["PayEnv"] * 2] * (2 if wanted else 1)
        result = trainer.train()
        assert result["timesteps_total"] == 16  # the driver's copies do not collect
