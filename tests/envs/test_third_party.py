"""Envs of other packages train and roll out by their name alone: stand-ins always, the originals where they are installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from marl.envs.adapters.gymnasium import GymnasiumEnv
from marl.envs.adapters.gymnasium_team import GymnasiumTeamEnv
from marl.envs.registry import make_env, resolve_env
from marl.errors import ConfigError, EnvError, UnknownNameError
from tests.command import marl
from tests.envs.stand_ins.warehouse import OnePlayerWithTwoHands, Warehouse

STAND_INS = "tests.envs.stand_ins"
SMALL = {
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 2},
    "model": {"fcnet_hiddens": [8]},
    "stop": {"training_iteration": 2},
    "horizon": 8,
    "evaluation": {"interval": 2, "episodes": 2},
}
EVEN = {f"{team}_{i}": [0.5, 0.25] for team in ("red", "blue") for i in range(2)}
BEACH = {f"agent_{i}": [0.5, 0.5] for i in range(4)}


def scenario(package: str, **keys: Any) -> Any:
    return pytest.param(package, keys, id=keys["env"].rpartition(".")[2])


CASES = [
    scenario("tests", env=f"{STAND_INS}.warehouse:stand-in-warehouse-2ag-v1"),
    scenario("tests", env=f"{STAND_INS}.robots_v1:parallel_env", env_config={"scenario": "Ant", "agent_conf": "2x3"}),
    scenario("tests", env=f"{STAND_INS}.battle:parallel_env", env_config={"map_size": 8}),
    scenario(
        "tests",
        env=f"{STAND_INS}.battle:Battle",
        env_config={"map_size": 8, "vector_rewards": True},
        wrappers=[{f"{STAND_INS}.battle:LinearReward": {"weights": EVEN}}],
    ),
]
ORIGINALS = [
    scenario("rware", env="rware:rware-tiny-2ag-v2"),
    scenario(
        "gymnasium_robotics",
        env="gymnasium_robotics.mamujoco_v1:parallel_env",
        env_config={"scenario": "Ant", "agent_conf": "2x4"},
    ),
    scenario("magent2", env="magent2.environments.battle_v4:parallel_env", env_config={"map_size": 16}),
    scenario(
        "momaland",
        env="momaland.envs.beach.mobeach_v0:parallel_env",
        env_config={"num_agents": 4, "num_timesteps": 5},
        wrappers=[{"momaland.utils.parallel_wrappers:LinearizeReward": {"weights": BEACH}}],
        check_bounds=False,  # its observations leave their space
    ),
    scenario("ale_py", env="ALE/Pong-v5", env_config={"obs_type": "ram"}),
]


def train_and_roll_out(keys: dict[str, Any], package: str, folder: Path) -> None:
    file = folder / "env.yaml"
    file.write_text(yaml.safe_dump({**SMALL, **keys}))
    trained = marl("run", str(file), "--local-dir", str(folder / "runs"), "--quiet")
    assert trained.code == 0, trained.err
    (run,) = (folder / "runs" / "env").iterdir()
    played = marl("rollout", str(run), "--steps", "10", "--allow", package)
    assert played.code == 0, played.err
    assert "env steps" in played.out


@pytest.mark.slow
@pytest.mark.parametrize(("package", "keys"), CASES)
def test_an_env_of_this_shape_trains_and_rolls_out_by_its_name(package: str, keys: Any, tmp_path: Path) -> None:
    train_and_roll_out(keys, package, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("package", "keys"), ORIGINALS)
def test_an_env_of_another_package_trains_and_rolls_out_by_its_name(package: str, keys: Any, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed (docs/optional_envs.md)")
    train_and_roll_out(keys, package, tmp_path)


# -- Tuple spaces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says_how_many", [True, False])
def test_tuple_spaces_with_a_reward_each_are_several_agents(says_how_many: bool) -> None:
    env = make_env(Warehouse, {"n_agents": 3, "says_how_many": says_how_many})
    assert isinstance(env, GymnasiumTeamEnv)
    assert env.possible_agents == ("agent_0", "agent_1", "agent_2")
    obs, _ = env.reset(seed=4)
    assert [seen.shape for seen in obs.values()] == [(2,)] * 3
    result = env.step({"agent_2": 2, "agent_0": 2, "agent_1": 0})
    assert result.rewards == {"agent_0": 1.0, "agent_1": 0.0, "agent_2": 3.0}
    assert (result.terminated, result.truncated) == ({"__all__": False}, {"__all__": False})
    assert result.infos["agent_1"] == {"time": 1}
    assert int(result.obs["agent_0"][0]) == int(obs["agent_0"][0]) + 1


class Flagged(Warehouse):
    """Says for each robot whether it is done."""

    flags: tuple[Any, Any] = (False, False)

    def step(self, action: Any) -> Any:
        obs, rewards, _, _, info = super().step(action)
        return obs, rewards, *self.flags, info


@pytest.mark.parametrize(
    ("terminated", "truncated", "ended", "cut"),
    [
        ([True, False], [False, False], False, False),
        ([True, True], [False, False], True, False),
        ([False, False], [True, True], False, True),
        ([True, False], [False, True], False, True),  # each is done in its own way, so the episode must not go on
        (True, [True, False], True, False),
    ],
)
def test_an_episode_is_over_when_every_agent_is_done_in_one_way_or_the_other(
    terminated: Any, truncated: Any, ended: bool, cut: bool
) -> None:
    inner = Flagged(n_agents=2)
    inner.flags = (terminated, truncated)
    env = GymnasiumTeamEnv(inner)
    env.reset(seed=0)
    result = env.step({"agent_0": 0, "agent_1": 0})
    assert (result.terminated, result.truncated) == ({"__all__": ended}, {"__all__": cut})


def test_one_agent_with_tuple_spaces_stays_one_agent() -> None:
    env = make_env(OnePlayerWithTwoHands)
    assert isinstance(env, GymnasiumEnv)
    assert env.possible_agents == ("agent_0",)


def test_finding_out_who_is_paid_leaves_no_seed_behind() -> None:
    starts = set()
    for _ in range(12):
        env = make_env(Warehouse, {"n_agents": 3, "says_how_many": False})
        starts.add(tuple(float(seen[0]) for seen in env.reset()[0].values()))
    assert len(starts) > 1


def test_a_list_of_another_length_is_told() -> None:
    class Stingy(Warehouse):
        def step(self, action: Any) -> Any:
            seen, rewards, *rest = super().step(action)
            return seen, rewards[:1], *rest

    env = make_env(Stingy)
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"Stingy gave \[.*\] for 2 agents.*one entry per agent"):
        env.step({"agent_0": 1, "agent_1": 1})


# -- names -----------------------------------------------------------------------------------------------------------


def test_a_package_before_an_id_registers_it() -> None:
    env = make_env(f"{STAND_INS}.warehouse:stand-in-warehouse-2ag-v1", {"length": 2})
    env.reset(seed=0)
    env.step({"agent_0": 1, "agent_1": 1})
    assert env.step({"agent_0": 1, "agent_1": 1}).truncated == {"__all__": True}
    with pytest.raises(
        UnknownNameError, match=r"registers no id 'stand-in-warehouse-3ag-v1'.*stand-in-warehouse-2ag-v1"
    ):
        resolve_env(f"{STAND_INS}.warehouse:stand-in-warehouse-3ag-v1")


def test_an_alias_that_is_no_submodule_is_found() -> None:
    env = make_env(f"{STAND_INS}.robots_v1:parallel_env", {"scenario": "Ant", "agent_conf": "3x2", "noise": 1})
    assert env.possible_agents == ("agent_0", "agent_1", "agent_2")
    assert env.users_env.keys == {"noise": 1}  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"cannot import 'tests.envs.stand_ins.robots_v2'"):
        resolve_env(f"{STAND_INS}.robots_v2:parallel_env")


def test_a_wrapper_of_pettingzoos_kind_gets_a_pettingzoo_env() -> None:
    wrappers = [{f"{STAND_INS}.battle:LinearReward": {"weights": EVEN}}]
    env = make_env(f"{STAND_INS}.battle:Battle", {"map_size": 8, "vector_rewards": True}, wrappers)
    env.reset(seed=0)
    rewards = env.step(dict.fromkeys(env.possible_agents, 1)).rewards
    assert rewards == dict.fromkeys(env.possible_agents, 0.5 * 1.0 + 0.25 * 2.0)


@pytest.mark.parametrize(
    ("env", "package", "pip"),
    [
        ("rware:rware-tiny-2ag-v2", "rware", "pip install rware"),
        ("gymnasium_robotics.mamujoco_v1:parallel_env", "gymnasium_robotics", "pip install gymnasium-robotics"),
        ("magent2.environments.battle_v4:parallel_env", "magent2", "pip install magent2"),
        ("momaland.envs.beach.mobeach_v0:parallel_env", "momaland", "pip install momaland"),
        ("ALE/Pong-v5", "ale_py", r"pip install 'gymnasium\[atari\]'"),
        ("PongNoFrameskip-v4", "ale_py", r"pip install 'gymnasium\[atari\]'"),
    ],
)
def test_a_missing_package_is_named_with_its_pip_command(
    env: str, package: str, pip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # what Python itself does for a module that must not be found
    monkeypatch.setattr("gymnasium.registry", {})
    with pytest.raises(ConfigError, match=f"{package}.*{pip}"):
        resolve_env(env)
