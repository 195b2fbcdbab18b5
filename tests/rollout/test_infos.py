"""With ``keep_infos`` batches hold what the env said beside its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from tests.documents.parts import PG, PPO, MyEnv, Traffic


def test_every_decision_has_what_the_env_said_when_it_ended() -> None:
    config = {**PPO, "keep_infos": True, "num_envs_per_worker": 2}
    with marl.Trainer("ppo", env=lambda config: MyEnv(config), config=config) as trainer:
        rows = trainer.workers.collect(8).batch.for_agent("agent_0")
        assert [info["left"] for info in rows["infos"]] == [3 - step for step in rows["t"]]
        assert "infos" in rows.summarize()
        trainer.train()  # learners are not shown them


def test_decisions_of_several_steps_have_the_infos_of_their_last_one() -> None:
    with marl.Trainer("pg", env=Traffic, config={**PG, "keep_infos": True}) as trainer:
        batch = trainer.workers.collect(12).batch
        light = batch.for_agent("traffic_light_1")
        assert len(light) > 3
        last = light["t"] + light["elapsed"]  # the env counts the step that has just been made
        said = [info.get("t") for info in light["infos"]]
        assert all(told in (None, expected) for told, expected in zip(said, last, strict=True))
        assert any(told is not None for told in said)


def test_without_the_key_there_is_no_such_column() -> None:
    with marl.Trainer("pg", env=Traffic, config=PG) as trainer:
        assert "infos" not in trainer.workers.collect(12).batch.for_agent("car_1")


class PayByInfo(marl.Callbacks):
    """Rewards are what the infos say."""

    def on_postprocess_trajectory(self, *, postprocessed_batch: Any, **_: Any) -> None:
        said = [float(info["left"]) for info in postprocessed_batch["infos"]]
        postprocessed_batch["rewards"] = np.array(said, np.float32)


def make(config: Any) -> MyEnv:
    return MyEnv(config)


@pytest.mark.parametrize("batch_mode", ["truncate_episodes", "complete_episodes"])
def test_callbacks_read_them_and_a_restart_keeps_those_of_running_episodes(batch_mode: str, tmp_path: Path) -> None:
    config = {**PPO, "train_batch_size": 6, "keep_infos": True, "callbacks": PayByInfo, "batch_mode": batch_mode}

    def weights(run: marl.Trainer) -> dict[str, Any]:
        for _ in range(3):
            run.train()
        return run.get_policy().get_weights()

    with marl.Trainer("ppo", env=make, config=config) as run:
        for _ in range(2):
            run.train()
        checkpoint = run.save(tmp_path / "checkpoint")
        expected = weights(run)
    with marl.Trainer.from_checkpoint(checkpoint, allow=["tests"]) as again:
        found = weights(again)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
