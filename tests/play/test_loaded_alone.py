"""A policy that was exported is loaded and played without the rooms that trained it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marl import Trainer

ROOT = Path(__file__).parents[2]
ROOMS = {
    "config",
    "data",
    "envs",
    "errors",
    "failures",
    "inputs",
    "mappers",
    "memory",
    "needs",
    "old_names",
    "play",
    "policies",
}
ROOMS |= {"registry", "trust"}
ENVS = {"adapters", "base", "vector"}
"""Of the envs only what reads observations: no env, no library of envs."""
PLAY = {"actor", "batch", "export", "observations"}
CODE = """
import json, sys
import numpy as np
import marl
policy = marl.load_policy(sys.argv[1])
one = policy.compute_action(np.zeros(4, np.float32), explore=True)
many = policy.compute_actions_batch(np.zeros((3, 4), np.float32))
assert one in (0, 1) and many.shape == (3,)
print(json.dumps(sorted(sys.modules)))
"""
NEVER = ["ray", "pettingzoo", "supersuit", "matplotlib", "tensorboard", "scipy", "networkx", "imageio", "PIL", "typer", "rich", "yaml", "pandas", "onnx", "onnxruntime"]  # fmt: skip


@pytest.mark.slow  # a process of its own, which imports torch
def test_playing_an_exported_policy_imports_no_trainer_no_ray_and_no_env(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [4], "evaluation": {"interval": 0}}) as trainer:
        trainer.export_model(tmp_path)
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, env=surroundings, timeout=300
    )
    assert done.returncode == 0, done.stderr
    loaded = [name.split(".") for name in json.loads(done.stdout)]
    of_marl = [name[1:] for name in loaded if name[0] == "marl"]
    assert {name[0] for name in of_marl if name} <= ROOMS
    assert {name[1] for name in of_marl if name[:1] == ["envs"] and len(name) > 1} <= ENVS
    assert {name[1] for name in of_marl if name[:1] == ["play"] and len(name) > 1} == PLAY
    assert not {name[0] for name in loaded} & set(NEVER)
