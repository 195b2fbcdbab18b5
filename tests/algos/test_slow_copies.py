"""Slow copies move, when they should and as far as they should: target networks, target mixers, target actors, magnets."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from marl.algos.config import OptimizerConfig
from marl.algos.learner import Learner
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.nfsp.learner import NfspLearner
from marl.algos.off_policy import TargetNetwork
from marl.algos.optimiser import FlatOptimiser
from marl.algos.presets import ALGOS
from marl.algos.qmix.learner import QmixLearner
from marl.algos.sac.learner import SacLearner
from tests.algos.updates import one_update

PER_AGENT = {"policy_mapping_fn": "per_agent"}
PLAIN = {"normalize_rewards": False}  # else the last layers of slow copies change with the unit, and no value does


def with_key(key: str) -> list[str]:
    return [name for name in ALGOS if key in ALGOS[name].family.config.model_fields]


def pairs(learner: Learner) -> dict[str, tuple[nn.Module, nn.Module]]:
    """Every slow copy with the module that it follows, by a name."""
    if isinstance(learner, NfspLearner):
        return pairs(learner.best)
    if isinstance(learner, QmixLearner):
        found: dict[str, Any] = {name: (copy, learner.values[name]) for name, copy in learner.targets.items()}
        return found | {f"mixer of {team.name}": (team.target_mixer, team.mixer) for team in learner.teams}
    found = {}
    if isinstance(learner, MaddpgLearner):
        for name, pupil in learner.actor_critics.items():
            found |= {name: (pupil.target_actor, pupil.actor)}
            found |= {f"critics of {name}": (pupil.target_critics, pupil.critics)}
    elif isinstance(learner, SacLearner):
        for name, pupil in learner.actor_critics.items():
            found |= {f"critics of {name}": (pupil.target_critics, pupil.critics)}
    assert found, f"say which slow copies {type(learner).__name__} has"
    return found


def plain(algo: str) -> dict[str, Any]:
    return PLAIN if "normalize_rewards" in ALGOS[algo].family.config.model_fields else {}


def flat(module: nn.Module) -> torch.Tensor:
    parameters = [parameter.detach().reshape(-1) for parameter in module.parameters()]
    return torch.cat(parameters) if parameters else torch.zeros(0)


@pytest.mark.parametrize("algo", with_key("target_update_every"))
def test_hard_copies_stand_still_until_it_is_time_and_then_equal_what_they_follow(algo: str) -> None:
    whole = {"tau": 1.0} if algo in with_key("tau") else {}
    with one_update(algo, target_update_every=3, **PER_AGENT, **plain(algo), **whole) as trainer:
        trainer.train()  # the first update: the copies are what they were before it
        learners = trainer.learners
        first = [{name: flat(copy) for name, (copy, _) in pairs(learner).items()} for learner in learners]
        for update in (2, 3, 4, 5, 6):
            trainer.train()
            assert [learner.counters["num_updates"] for learner in learners] == [update] * len(learners)
            for learner, old in zip(learners, first, strict=True):
                for name, (copy, followed) in pairs(learner).items():
                    if update in (3, 6):
                        assert torch.equal(flat(copy), flat(followed)), name
                        old[name] = flat(copy)
                    else:
                        assert torch.equal(flat(copy), old[name]), name
                        assert not len(flat(copy)) or not torch.equal(flat(copy), flat(followed)), name
        assert [learner.counters["num_target_updates"] for learner in learners] == [2] * len(learners)


@pytest.mark.parametrize("env", [{"actions": "discrete"}, {"actions": "box"}], ids=["choices", "coordinates"])
@pytest.mark.parametrize("algo", with_key("tau"))
def test_soft_copies_move_by_tau_after_every_update(algo: str, env: dict[str, str]) -> None:
    every = {}
    if "target_update_every" in ALGOS[algo].family.config.model_fields:
        if env["actions"] == "box":
            pytest.skip(f"{algo} has values of choices")
        every = {"target_update_every": 1}
    with one_update(algo, env, tau=0.25, **PER_AGENT, **plain(algo), **every) as trainer:
        for _ in range(2):
            before = [{name: flat(copy) for name, (copy, _) in pairs(learner).items()} for learner in trainer.learners]
            trainer.train()
            for learner, old in zip(trainer.learners, before, strict=True):
                assert pairs(learner).keys() == old.keys()
                for name, (copy, followed) in pairs(learner).items():
                    assert not len(flat(copy)) or not torch.equal(flat(copy), old[name]), name
                    expected = 0.75 * old[name] + 0.25 * flat(followed)
                    assert torch.allclose(flat(copy), expected, rtol=1e-5, atol=1e-7), name


@pytest.mark.parametrize("algo", with_key("magnet_tau"))
def test_magnets_move_by_their_share_after_every_training_batch(algo: str) -> None:
    with one_update(algo, magnet_coeff=0.1, magnet_tau=0.25, magnet_every=1, **PER_AGENT) as trainer:
        for _ in range(2):
            magnets = [magnet for learner in trainer.learners for magnet in learner.magnets.values()]  # type: ignore[attr-defined]
            before = [flat(magnet.copy) for magnet in magnets]
            trainer.train()
            assert len(magnets) == 2
            for magnet, old in zip(magnets, before, strict=True):
                assert not torch.equal(flat(magnet.copy), old)
                assert torch.allclose(flat(magnet.copy), 0.75 * old + 0.25 * flat(magnet.actor), rtol=1e-5, atol=1e-7)


def test_a_magnet_stands_still_for_the_training_batches_that_it_is_told_to_and_then_jumps() -> None:
    with one_update("nashpg", magnet_every=3) as trainer:
        (learner,) = trainer.learners
        (magnet,) = learner.magnets.values()  # type: ignore[attr-defined]
        for moves in (False, False, True, False, False, True):
            before = flat(magnet.copy)
            trainer.train()
            assert torch.equal(flat(magnet.copy), before) is not moves
            assert torch.equal(flat(magnet.copy), flat(magnet.actor)) is moves
            # What it has waited for is part of its state, so a resumed run moves it at the same time.
            state = magnet.state_dict()
            magnet.waited = 99
            magnet.load_state_dict(state)


@pytest.mark.parametrize("algo", ["td3", "ddpg"])
def test_delayed_actors_and_their_targets_wait_for_every_second_update(algo: str) -> None:
    with one_update(algo, policy_delay=2, tau=0.25) as trainer:
        (learner,) = trainer.learners
        for moves in (False, True, False, True):
            before = {name: (flat(copy), flat(followed)) for name, (copy, followed) in pairs(learner).items()}
            trainer.train()
            for name, (copy, followed) in pairs(learner).items():
                assert torch.equal(flat(copy), before[name][0]) is not moves
                assert torch.equal(flat(followed), before[name][1]) is (name == "default_policy" and not moves)


@pytest.mark.parametrize("frozen", [False, True], ids=["all is learned", "a part is not learned"])
def test_a_copy_moves_alike_whether_its_numbers_lie_in_one_tensor_or_not(frozen: bool) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[1].bias.requires_grad_(not frozen)
    apart, together = deepcopy(module), deepcopy(module)
    optimiser = FlatOptimiser(module.parameters(), OptimizerConfig(), 0.1, "a module")
    targets = TargetNetwork(apart, module), TargetNetwork(together, module, optimiser)
    assert (targets[1].optimiser is None) is frozen
    for _ in range(3):
        optimiser.flat.add_(torch.linspace(-1, 1, len(optimiser.flat)))
        for target in targets:
            target.move(0.25)
    assert not torch.equal(flat(apart), flat(module))
    torch.testing.assert_close(flat(together), flat(apart))
    together.load_state_dict(module.state_dict())  # as a checkpoint does: the copy stays laid out
    targets[1].move(0.25)
    torch.testing.assert_close(flat(together), flat(module))


def test_the_statistics_of_a_filter_come_along_with_a_copy() -> None:
    for algo, keys in (("dqn", {"target_update_every": 2, "tau": 1.0, **PLAIN}), ("ddpg", {"tau": 0.25})):
        with one_update(algo, observation_filter="MeanStdFilter", **keys) as trainer:
            for _ in range(2):
                seen = {name: buffer.clone() for name, buffer in trainer.policies["default_policy"].named_buffers()}
                trainer.train()
            copy, followed = pairs(trainer.learners[0])["default_policy"]
            mine = dict(copy.named_buffers())
            assert mine.keys() == seen.keys() == dict(followed.named_buffers()).keys()
            # The copy was made in the update, before the filter saw the newest observations.
            assert all(torch.equal(mine[name], seen[name]) for name in mine)
            assert any(float(buffer.float().abs().sum()) > 0 for buffer in seen.values())
