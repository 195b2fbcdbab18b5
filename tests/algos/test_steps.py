"""How far one update moves every block of parameters: by the step size of its time, along a gradient that is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.algos.optimiser import FlatOptimiser
from marl.algos.presets import ALGOS
from marl.algos.sac.learner import SacLearner
from tests.algos.updates import found_in, one_update

CLIP = 1e-3  # smaller than every gradient here, so every clipped gradient has exactly this norm
SGD: dict[str, Any] = {"optimizer": {"type": "sgd"}, "grad_clip": CLIP}
FALLING = [[0, 16.0], [64, 0.0]]  # in the middle of it after 32 env steps
COMMON_LAYERS = {"policy_mapping_fn": "per_agent", "shared": {"encoder": "common"}}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{algo: (algo, {}) for algo in ALGOS if ALGOS[algo].family.name != "tabular"},  # which has no gradient
    # A new scale of returns rescales the last layer of the critic, besides what its gradient does.
    **{algo: (algo, {"normalize_values": False}) for algo in ALGOS if ALGOS[algo].defaults.get("normalize_values")},
    # No more than 64 env steps, and weights that only updates change.
    "deep_cfr": ("deep_cfr", {"horizon": 2, "restart_regrets": False}),
    "escher": ("escher", {"horizon": 2, "restart_regrets": False, "traversals": 6}),
    **{f"{algo} with shared layers": (algo, COMMON_LAYERS) for algo in ("ppo", "marwil", "dqn", "vdn")},
    "ddpg with coordinates": ("ddpg", {"env_config": {"actions": "box"}}),
    "sac with coordinates": ("sac", {"env_config": {"actions": "box"}}),
    "dqn with atoms": ("dqn", {"num_atoms": 5}),
    "ppo with a memory": ("ppo", {"use_lstm": True, "lstm_cell_size": 4}),
    "ppo with attention": ("ppo", {"use_attention": True, "attention_dim": 4, "attention_memory_inference": 3}),
    "dqn with a memory": ("dqn", {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4}),
}


def moves(algo: str, **keys: Any) -> tuple[dict[str, float], int]:
    """How far each block of parameters moved in one update, by its name, and the env steps until then."""
    with one_update(algo, **keys) as trainer:
        blocks = found_in(trainer.learners, FlatOptimiser)
        assert blocks
        before = [block.flat.clone() for block in blocks]
        trainer.train()
        assert [learner.counters["num_updates"] for learner in trainer.learners] == [1] * len(trainer.learners)
        steps = max(steps for learner in trainer.learners for steps in learner.timesteps.values())
        return {block.name: float((block.flat - old).norm()) for block, old in zip(blocks, before, strict=True)}, steps


def clipped(found: dict[str, float]) -> dict[str, float]:
    """Without the temperature of sac, one number whose gradient is not clipped."""
    return {name: moved for name, moved in found.items() if "temperature" not in name}


@pytest.mark.parametrize("run", list(RUNS))
def test_every_block_moves_by_the_step_size_of_its_time_times_the_largest_norm(run: str) -> None:
    algo, keys = RUNS[run]
    found, steps = moves(algo, **SGD, **keys, lr_schedule=FALLING)
    lr = float(np.interp(steps, [0, 64], [16.0, 0.0]))
    assert 0 < steps < 64
    expected = {name: 0.01 if "average" in name else lr for name in clipped(found)}  # nfsp: average_lr has no schedule
    assert clipped(found) == pytest.approx({name: rate * CLIP for name, rate in expected.items()}, rel=2e-3)


@pytest.mark.parametrize("run", list(RUNS))
def test_without_a_schedule_every_block_moves_by_lr_and_without_a_limit_further(run: str) -> None:
    algo, keys = RUNS[run]
    rates = {"lr": 4.0, **({"average_lr": 4.0} if algo in ("nfsp", "deep_cfr", "escher") else {})}
    found, _ = moves(algo, **SGD, **keys, **rates)
    assert clipped(found) == pytest.approx(dict.fromkeys(clipped(found), 4.0 * CLIP), rel=2e-3)
    free, _ = moves(algo, **{**SGD, "grad_clip": None}, **keys, **rates)
    assert all(free[name] > 1.5 * moved for name, moved in clipped(found).items())


SEVERAL = [name for name in ALGOS if "actor_lr" in ALGOS[name].family.config.model_fields]


@pytest.mark.parametrize("algo", SEVERAL)
@pytest.mark.parametrize(("own", "rates"), [("actor_lr", (3.0, 4.0)), ("critic_lr", (4.0, 3.0))])
def test_learners_with_several_step_sizes_move_each_block_by_its_own(
    algo: str, own: str, rates: tuple[float, float]
) -> None:
    found, _ = moves(algo, **SGD, **{own: 3.0}, lr=4.0)
    actor = found.pop("policy 'default_policy'")
    (critic,) = clipped(found).values()
    assert (actor, critic) == pytest.approx((rates[0] * CLIP, rates[1] * CLIP), rel=2e-3)


@pytest.mark.parametrize("rate", [0.01, 0.02])
def test_the_temperature_of_sac_falls_by_its_step_size_times_the_entropy_above_its_target(rate: float) -> None:
    with one_update("sac", **SGD, alpha_lr=rate, initial_alpha=0.5) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, SacLearner)
        stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
        moved = float(learner.actor_critics["default_policy"].log_alpha.detach()) - np.log(0.5)
    above = stats["entropy"] - stats["target_entropy"]
    assert above > 0.1  # nearly even chances, and half of the largest entropy is wanted
    assert moved == pytest.approx(-rate * 0.5 * above, rel=1e-3)


@pytest.mark.parametrize(
    ("run", "blocks"),
    [
        ("qmix", {"policy 'default_policy'", "mixer of 'all'"}),
        ("sac", {"policy 'default_policy'", "critics of 'default_policy'", "temperature of 'default_policy'"}),
        ("ddpg", {"policy 'default_policy'", "critic of policy 'default_policy'"}),
        ("nfsp", {"policy 'default_policy'", "average of policy 'default_policy'"}),
        ("ppo with shared layers", {"policy 'agent_0'", "policy 'agent_1'", "layers 'common'"}),
    ],
)
def test_these_tests_look_at_all_blocks_of_a_learner(run: str, blocks: set[str]) -> None:
    algo, keys = RUNS[run]
    with one_update(algo, **keys) as trainer:
        assert {block.name for block in found_in(trainer.learners, FlatOptimiser)} == blocks
