"""No key of any algorithm is parsed and ignored: a changed value changes what a few updates make of the weights."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from pydantic.fields import FieldInfo

import marl
from marl.algos.family import Preset
from marl.algos.presets import ALGOS
from marl.errors import UserError
from tests.algos.updates import same, small_keys, weights_after

LOSS = "tests.algos.test_update_keys:Pulling"
GROUPED = {"groups": {"team": ["agent_0", "agent_1"]}, "policy_mapping_fn": "per_agent"}
COORDINATES = {"env_config": {"actions": "box"}}
PRIORITIES = {"prioritized_replay": True}

# What a key needs beside it before it can mean anything.
WITH: Mapping[str, Mapping[str, Any]] = {
    "prioritized_replay_alpha": PRIORITIES,
    "prioritized_replay_beta": PRIORITIES,
    "kl_target": {"kl_coeff": 0.5},
    "magnet_tau": {"magnet_coeff": 0.5},
    "magnet_every": {"magnet_coeff": 0.5},
    "target_noise": COORDINATES,
    "target_noise_clip": {**COORDINATES, "target_noise": 0.3},
    "share_reward": GROUPED,
    "critic_sees": GROUPED,
    "critic_sees_actions": {**GROUPED, "critic_values": "actions"},
    "sequential_update": GROUPED,
    "custom_loss_config": {"custom_loss": LOSS},
    "bootstrap_at_time_limit": {"horizon": 3},  # of four moves
    "v_min": {"num_atoms": 5},
    "v_max": {"num_atoms": 5},
    "clip_param": {"num_sgd_iter": 8},
    "averaging": {"lr": 0.1},  # its default, as it means nothing without averaging
    "double_q": {"lr": 0.2, "target_update_every": 100},  # until online and target networks prefer different actions
}

# Values for keys of which half the default would not do.
VALUES: Mapping[str, Any] = {
    "lr_schedule": [[0, 0.003], [64, 0.0]],
    "entropy_coeff_schedule": [[0, 0.5], [64, 0.0]],
    "grad_clip": 1e-3,
    "optimizer": {"type": "sgd"},
    "intrinsic": {"kind": "rnd"},
    "custom_loss": LOSS,
    "custom_loss_config": {"towards": 2.0},
    "buffer_size": 24,
    "reservoir_size": 8,
    "learning_starts": 40,
    "train_batch_size": 16,
    "huber_delta": 0.01,
    "vf_clip_param": 1e-3,
    "clip_param": 1e-3,
    "kl_target": 1e-9,
    "entropy_coeff": 0.5,
    "kl_coeff": 0.5,
    "magnet_coeff": 0.5,
    "magnet_every": 2,
    "backward_kl_coeff": 0.5,
    "backward_kl_coeff_schedule": [[0, 0.5], [64, 0.0]],
    "regularisation_every": 1,
    "neurd_threshold": 1e-3,
    "neurd_clip": 0.1,
    "max_advantage_weight": 0.9,
    "num_atoms": 5,
    "memory_size": 4,
    "hypernet_embed": 4,
    "reward_shift": 1.0,
    "target_noise": 0.1,
    "target_entropy": -3.0,
}

# Keys that change no weights, with the reason.
WITHOUT_EFFECT: Mapping[str, str] = {
    "full_td_error": "decides what results list, not what is learned",
    "max_states": "ends a run whose table would grow further",
    "max_branches": "ends a run whose traversals would not",
}


class Pulling(marl.Loss):
    """Draws all parameters of a policy towards a number."""

    def __call__(self, loss: torch.Tensor, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        towards = float(self.config.get("towards", 1.0))
        pulls = [(parameter - towards).square().mean() for parameter in self.policy.parameters()]
        return loss + torch.stack(pulls).sum()


def other_value(key: str, field: FieldInfo, default: Any) -> Any:
    """Some value that is not the default."""
    if key in VALUES:
        return VALUES[key]
    if isinstance(default, bool):
        return not default
    if get_origin(field.annotation) is Literal:
        return next(value for value in get_args(field.annotation) if value != default)
    if isinstance(default, int):
        return max(1, default // 2) if default != 1 else 2
    if isinstance(default, float):
        return default / 2 if default else 0.5
    assert default is None, f"give {key} a value in VALUES: its default {default!r} says nothing about others"
    return 0.003


def settings(preset: Preset, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of a run without the changed one, and with it."""
    usual = small_keys(preset).get(key, getattr(preset.configure(), key))
    context = dict(WITH.get(key, {}))
    if key == "normalize_rewards":  # null stands for one of both
        usual = bool(preset.configure().acting.get("units"))
    return context, {**context, key: other_value(key, preset.family.config.model_fields[key], usual)}


def refusal(preset: Preset, keys: Mapping[str, Any]) -> str:
    """Why the preset does not take these keys; empty where it does."""
    own = {key: value for key, value in keys.items() if key in preset.family.config.model_fields}
    try:
        preset.configure(**own)
    except (ValueError, UserError) as error:
        return str(error)
    return ""


@cache
def base_weights(algo: str, context: str) -> list[Any]:
    """Several keys are changed in the same surroundings."""
    return weights_after(algo, iterations_of(algo), **json.loads(context))


def iterations_of(algo: str) -> int:
    """Players of Deep CFR learn in turn, and what is played is an average: it shows later what a player has learned."""
    return 4 if ALGOS[algo].family.name == "deep_cfr" else 2


def distinct() -> list[str]:
    """One preset of each family and each choice of what is fixed; the others differ from it in defaults alone."""
    found: dict[str, str] = {}
    for name in ALGOS:
        preset = ALGOS[name]
        fixed = {key: preset.defaults[key] for key in preset.fixed}
        found.setdefault(f"{preset.family.name} {fixed}", name)
    return list(found.values())


NOT_HERE = ("float_states",)  # decides which envs are refused: tests/algos/test_tabular.py
CASES = [(name, key) for name in distinct() for key in ALGOS[name].family.config.model_fields if key not in NOT_HERE]


@pytest.mark.parametrize(("algo", "key"), CASES)
def test_every_key_changes_what_is_learned_or_is_refused(algo: str, key: str) -> None:
    before, after = settings(ALGOS[algo], key)
    refused = refusal(ALGOS[algo], after)
    if refused:
        declared = [rf"{given}: .* (needs|means nothing here)" for given in after]
        declared += [rf"needs {given}: " for given in after]
        assert f"{algo} has {key}" in refused or any(re.search(told, refused) for told in declared), refused
        return
    changed = not same(base_weights(algo, json.dumps(before)), weights_after(algo, iterations_of(algo), **after))
    assert changed == (key not in WITHOUT_EFFECT)
