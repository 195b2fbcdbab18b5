"""What clients are to keep to: the agents of an env and their spaces, as they are without its wrappers."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from marl.envs.external.contract import Contract, ExternalAgent
from marl.envs.external.env import ReportedEnv
from marl.envs.registry import make_env
from marl.envs.vector.layout import kinds_of
from marl.serve.served import contract_of

BOX = {"type": "Box", "low": -1.0, "high": 1.0, "shape": [2], "dtype": "float32"}
TWO = {"type": "Discrete", "n": 2, "start": 0}


def test_the_kinds_of_a_contract_are_those_of_its_env() -> None:
    for name in ("CartPole-v1", "two_step_game", "matrix_game", "pettingzoo:classic/tictactoe_v3", "windy_maze"):
        env = make_env(name)
        mine = kinds_of(ReportedEnv(contract_of(env)))
        theirs = kinds_of(env)
        assert [(kind.agents, kind.observation_space, kind.action_space, kind.masked) for kind in mine] == [
            (kind.agents, kind.observation_space, kind.action_space, kind.masked) for kind in theirs
        ], name


def test_a_name_beside_a_pattern_is_one_agent_and_no_pattern() -> None:
    contract = Contract(
        {
            "car_*": ExternalAgent(observation_space=BOX, action_space=TWO, max=3),
            "light": ExternalAgent(observation_space=BOX, action_space=TWO),
        }
    )
    (kind,) = kinds_of(ReportedEnv(contract))
    assert kind.agents == ("car_*[0]", "car_*[1]", "car_*[2]", "light")
    assert contract.name_of("light") == "light"
    assert contract.name_of("lights") is None
    assert contract.name_of("car_7") == "car_*"
    assert contract.name_of("car_") is None


def test_masks_of_several_choices_have_an_entry_for_each_option() -> None:
    choices = {"type": "MultiDiscrete", "nvec": [2, 3], "start": [0, 0]}
    contract = Contract({"a": ExternalAgent(observation_space=BOX, action_space=choices, action_mask=True)})
    space = contract.observation_space("a")
    assert isinstance(space, spaces.Dict)
    assert space["action_mask"] == spaces.MultiBinary(5)
    (kind,) = kinds_of(ReportedEnv(contract))
    assert kind.masked
    assert kind.legal_width == 5
    assert kind.observation_space == spaces.Box(-1, 1, (2,), np.float32)
