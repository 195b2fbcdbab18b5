"""``marl export --format onnx``: the files of every algorithm, what their description says, and what is refused."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import marl
from marl import Trainer
from marl.algos.presets import ALGOS
from marl.data.seal import check_seal
from marl.errors import CheckpointError, ConfigError
from marl.play.write_export import export_policies
from marl.policies.build import build_policies, weights_of
from marl.policies.distributions import Categorical
from marl.policies.policy import Policy
from marl.policies.tabular import TabularPolicy
from marl.policies.value_table import TABLE
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from tests.command import marl as command
from tests.play.onnx_runs import compare, learned, masks_of, session

CHOICES, NUMBERS, TEAM, CARDS = "CartPole-v1", "Pendulum-v1", "two_step_game", "leduc_poker"
ENVS: dict[str, tuple[str, ...]] = {
    "central_critic": (CHOICES, NUMBERS, TEAM, CARDS),
    "es": (CHOICES, NUMBERS),
    "marwil": (CHOICES, NUMBERS),
    "qmix": (CHOICES, TEAM),
    "maddpg": (NUMBERS, TEAM),
    "sac": (NUMBERS, CARDS),
    "nfsp": (CARDS,),
    "deep_cfr": (CARDS,),
    "rnad": (CARDS,),
}
"""Envs on which the algorithms of a family are tried: choices, coordinates, teams with agent ids, masks."""
BUILT_IN = [algo for algo in ALGOS if isinstance(ALGOS[algo].family.learner, str)]  # others were registered by tests
NETWORKS = [algo for algo in BUILT_IN if ALGOS[algo].family.acts != TABLE]
ALL = [(algo, env) for algo in NETWORKS for env in ENVS[ALGOS[algo].family.name]]


def setup_of(algo: str, env: str, **keys: Any) -> tuple[Setup, dict[str, Policy]]:
    setup = resolve(compose({"algo": algo, "env": env, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, **keys}))
    policies = build_policies(setup.policies, setup.task.kinds)
    for seed, policy in enumerate(policies.values()):
        learned(policy, seed)
    return setup, policies


@pytest.mark.parametrize(("algo", "env"), ALL)
def test_the_files_of_every_algorithm_play_as_it_does(tmp_path: Path, algo: str, env: str) -> None:
    setup, policies = setup_of(algo, env)
    folders = export_policies(tmp_path, setup, weights_of(policies), format="onnx")
    assert len(folders) == len(policies)
    for folder, policy in zip(folders, policies.values(), strict=True):
        content = (folder / "policy.onnx").read_bytes()
        check_described(json.loads((folder / "policy.json").read_text()), content)
        if algo == "nfsp":
            compare_chances(policy, content)
        else:
            compare(policy, content, setup.rollout.config)


def check_described(about: dict[str, Any], content: bytes) -> None:
    """The description is that of the file beside it."""
    check_seal(about, required=True)
    assert about["format"] == "onnx"
    assert about["sha256"] == hashlib.sha256(content).hexdigest()
    played = session(content)
    for told, ports in ((about["inputs"], played.get_inputs()), (about["outputs"], played.get_outputs())):
        assert [port["name"] for port in told] == [port.name for port in ports]
        assert [port["shape"] for port in told] == [port.shape for port in ports]


def compare_chances(policy: Any, content: bytes) -> None:
    """A mixed strategy has no greedy action: its logits are compared."""
    kind, rng = policy.kind, np.random.default_rng(0)
    obs, masks = rng.integers(0, 2, (1000, kind.obs_width)).astype(np.float32), masks_of(kind, 1000)
    (logits,) = session(content).run(None, {"obs": obs, "action_mask": masks})
    with torch.no_grad():
        expected = policy.logits(torch.from_numpy(obs), torch.zeros(1000, dtype=torch.int64), torch.from_numpy(masks))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


# -- from a run --------------------------------------------------------------------------------------------------------


def test_the_command_and_the_trainer_write_the_same_files(tmp_path: Path) -> None:
    keys = {"fcnet_hiddens": [4], "train_batch_size": 64, "sgd_minibatch_size": 64, "evaluation": {"interval": 0}}
    with Trainer("ppo", env="CartPole-v1", config={**keys, "observation_filter": "MeanStdFilter"}) as trainer:
        trainer.train()
        run = trainer.save(tmp_path / "run")
        (mine,) = trainer.export_model(tmp_path / "mine", format="onnx")
        policy = trainer.get_policy()
    done = command("export", run, "--out", tmp_path / "theirs", "--format", "onnx")
    theirs = tmp_path / "theirs" / "default_policy"
    assert (done.code, done.out) == (0, f"exported: {theirs}\n")
    assert sorted(file.name for file in theirs.iterdir()) == ["policy.json", "policy.onnx"]
    for name in ("policy.json", "policy.onnx"):
        assert (mine / name).read_bytes() == (theirs / name).read_bytes()
    compare(policy, (mine / "policy.onnx").read_bytes())
    with pytest.raises(CheckpointError, match=r"policy.onnx, which onnxruntime plays.*--format safetensors"):
        marl.load_policy(mine)
    mistaken = command("export", run, "--out", tmp_path / "no", "--format", "onxx")
    assert mistaken.code == 2
    assert "Expected safetensors or onnx" in mistaken.err
    assert not (tmp_path / "no").exists()


def test_without_the_package_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [4], "evaluation": {"interval": 0}}) as trainer:
        run = trainer.save(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "onnx", None)  # as if it were not installed
    done = command("export", run, "--out", tmp_path / "out", "--format", "onnx")
    assert done.code == 2
    assert len(done.errors) == len(done.err.splitlines()) == 1
    assert 'pip install "marl[onnx]"' in done.err
    assert not (tmp_path / "out").exists()


# -- what is refused ---------------------------------------------------------------------------------------------------


class OwnModel(marl.Model):
    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = torch.nn.Linear(inputs, outputs)

    def forward(self, features: torch.Tensor, carry: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(features), carry


class OwnPreprocessor(marl.Preprocessor):
    def __init__(self, space: Any, config: Mapping[str, Any]) -> None:
        super().__init__(space, config)
        self.size = 4

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.float()


class OwnDistribution(Categorical):
    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(int(space.n))


HERE = "tests.play.test_onnx_files"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"custom_model": f"{HERE}:OwnModel"}, "custom_model 'tests.play.test_onnx_files:OwnModel'"),
        ({"custom_preprocessor": f"{HERE}:OwnPreprocessor"}, "custom_preprocessor '.*:OwnPreprocessor'"),
        ({"custom_action_dist": f"{HERE}:OwnDistribution"}, "custom_action_dist '.*:OwnDistribution'"),
    ],
)
def test_parts_of_the_users_own_are_refused_by_name(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    setup, policies = setup_of("ppo", "CartPole-v1", **keys)
    with pytest.raises(
        ConfigError, match=f"policy 'default_policy' cannot be written as ONNX: it has the {told}.*safetensors"
    ):
        export_policies(tmp_path, setup, weights_of(policies), format="onnx")
    assert list(tmp_path.iterdir()) == []


def test_one_policy_that_cannot_be_written_leaves_nothing_of_the_others(tmp_path: Path) -> None:
    two = {"one": {}, "other": {"scripted": {"name": "random"}}}
    setup, policies = setup_of(
        "ppo", "matrix_game", policies=two, policy_mapping_fn={"player_0": "one", "player_1": "other"}
    )
    with pytest.raises(ConfigError, match=r"policy 'other' .* it is scripted \(random\)"):
        export_policies(tmp_path, setup, weights_of(policies), format="onnx")
    assert list(tmp_path.iterdir()) == []
    assert [folder.name for folder in export_policies(tmp_path, setup, weights_of(policies), ["one"], "onnx")] == [
        "one"
    ]


def test_mixtures_tables_and_odd_observations_are_refused_by_what_they_are() -> None:
    from marl.data.action_units import ActionUnits
    from marl.play.onnx_export.policy import onnx_of
    from tests.play.onnx_runs import policy_of

    flat, two = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
    mixture, spec = policy_of(flat, two, spec={"population": "league"})
    _, plain = policy_of(flat, two)
    odd, odd_spec = policy_of(spaces.Dict({"said": spaces.Text(3), "seen": flat}), two)
    for policy, recipe, told in (
        (mixture, spec, "mixture over the members of a population"),
        (TabularPolicy(mixture.kind), plain, "a TabularPolicy"),
        (odd, odd_spec, "observations of Text"),
    ):
        with pytest.raises(ConfigError, match=f"policy 'p' cannot be written as ONNX: .*{told}"):
            onnx_of("p", policy, recipe, ActionUnits())
