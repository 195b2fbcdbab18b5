"""Policies as files: what was exported acts as the trainer does, anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl import Trainer
from marl.cli.play import export
from marl.data.episode import Episode
from marl.data.space_json import space_from_json, space_to_json
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError
from marl.play.actor import Actor
from marl.play.export import ABOUT, WEIGHTS
from tests.training.trees import differences

ROOT = Path(__file__).parents[2]
TINY = {"train_batch_size": 64, "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
APART = {**TINY, "multiagent": {"policy_mapping_fn": "per_agent"}}


def cartpole_actions(trainer: Trainer) -> str:
    """What the trainer's policy does in the episode of seed 0."""
    env = gym.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    actions, over = [], False
    while not over:
        actions.append(trainer.compute_action(obs))
        obs, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return "".join(map(str, actions))


@pytest.mark.parametrize("algo", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_a_bare_script_plays_an_exported_policy_as_the_trainer_does(tmp_path: Path, algo: str) -> None:
    keys = {**TINY, "observation_filter": "MeanStdFilter"} if algo == "ppo" else {"fcnet_hiddens": [8]}
    with Trainer(algo, env="CartPole-v1", config={**keys, "evaluation": {"interval": 0}}) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run")
        expected = cartpole_actions(trainer)
    export(Path(path), tmp_path / "files")
    script = ROOT / "examples" / "play_exported_policy.py"
    code = (
        f"import runpy, sys; sys.argv = [{str(script)!r}, {str(tmp_path / 'files')!r}]; runpy.run_path({str(script)!r})"
    )
    check = "; assert 'marl.training.trainer' not in sys.modules and 'ray' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(expected)} steps: {expected}\n"


def test_the_example_is_a_script_of_ten_lines() -> None:
    lines = (ROOT / "examples" / "play_exported_policy.py").read_text().splitlines()
    code = [line for line in lines if line and not line.startswith(("import", '"""'))]
    assert len(code) <= 10


def test_weights_go_out_and_come_back_bit_for_bit(tmp_path: Path) -> None:
    with (
        Trainer("ppo", env="matrix_game", config=APART) as one,
        Trainer("ppo", env="matrix_game", config={**APART, "seed": 1}) as other,
    ):
        one.train()
        folders = one.export_model(tmp_path)
        assert [folder.name for folder in folders] == ["player_0", "player_1"]
        assert sorted(file.name for file in folders[0].iterdir()) == [ABOUT, WEIGHTS]
        before = other.get_weights()
        assert other.import_model(tmp_path, policies=["player_1"]) == ["player_1"]
        after = other.get_weights()
        assert differences(after["player_0"], before["player_0"]) == []
        assert differences(after["player_1"], one.get_weights()["player_1"]) == []
        assert other.import_model(tmp_path) == ["player_0", "player_1"]
        assert differences(other.get_weights(), one.get_weights()) == []
        other.import_model(tmp_path / "player_0", policies=["player_1"])  # one alone may stand in for another
        assert differences(other.get_weights()["player_1"], one.get_weights()["player_0"]) == []
        other.train()  # and the learner goes on from there


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_imported_weights_reach_the_workers(tmp_path: Path) -> None:
    with Trainer("ppo", env="matrix_game", config=TINY) as one:
        one.export_model(tmp_path)
        expected = one.get_weights()
    with Trainer("ppo", env="matrix_game", config={**TINY, "seed": 1, "num_workers": 2}) as other:
        other.import_model(tmp_path)
        for weights in other.workers.foreach_worker(lambda worker: worker.get_weights()):
            assert differences(weights, expected) == []


@pytest.mark.parametrize(
    ("algo", "env", "keys"),
    [
        ("ppo", "liars_dice", {}),  # masks
        ("dqn", "two_step_game", {"agent_id": True}),
        ("ddpg", "Pendulum-v1", {}),
        ("sac", "Pendulum-v1", {}),
        ("nfsp", "kuhn_poker", {}),
        ("ppo", "Pendulum-v1", {"normalize_actions": False, "clip_actions": True}),
        ("ppo", "traffic", {}),  # two kinds of agents, without fixed names
    ],
)
def test_every_way_of_acting_survives_the_files(tmp_path: Path, algo: str, env: str, keys: dict[str, Any]) -> None:
    config = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, **keys}
    with Trainer(algo, env=env, config=config) as trainer:
        trainer.export_model(tmp_path)
        for name, policy in trainer.policies.items():
            loaded = marl.load_policy(f"{tmp_path}#{name}")
            kind = policy.kind
            agent = kind.agents[0].replace("*[0]", "3")
            for seed in range(5):
                kind.observation_space.seed(seed)
                obs = kind.observation_space.sample()
                info = {"action_mask": [1, *[0] * (kind.legal_width - 1)]} if kind.masked else {}
                given = Actor(policy, trainer.setup.rollout.config, np.random.default_rng(seed))
                loaded.rng = np.random.default_rng(seed)
                mine, theirs = (
                    actor.compute_action(obs, agent=agent, info=info, explore=seed > 2) for actor in (loaded, given)
                )
                np.testing.assert_array_equal(mine, theirs)
                assert kind.action_space.contains(mine)
                assert not kind.masked or mine == 0


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (3,), np.float32),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Box(np.array([-1.0, 0.1]), np.array([1.0, np.inf]), dtype=np.float64),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        spaces.MultiBinary(4),
        spaces.Dict(b=spaces.Discrete(2), a=spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, ())])),
    ],
    ids=str,
)
def test_a_space_comes_back_from_plain_json(space: Any) -> None:
    text = json.dumps(space_to_json(space), allow_nan=False)
    again = space_from_json(json.loads(text))
    assert again == space
    assert not isinstance(space, spaces.Dict) or list(again.spaces) == list(space.spaces)  # type: ignore[attr-defined]


# -- refusals ----------------------------------------------------------------------------------------------------------


def exported(folder: Path, env: str = "matrix_game", **keys: Any) -> Path:
    with Trainer("ppo", env=env, config={**TINY, **keys}) as trainer:
        trainer.export_model(folder)
    return folder


def test_what_does_not_fit_is_refused_and_nothing_has_changed(tmp_path: Path) -> None:
    files, maze = exported(tmp_path / "files"), exported(tmp_path / "maze", "windy_maze")
    wide = exported(tmp_path / "wide", fcnet_hiddens=[9])
    with Trainer("ppo", env="matrix_game", config=APART) as trainer:
        before = trainer.get_weights()
        with pytest.raises(CheckpointError, match=r"none of which this run has \(player_0, player_1\)"):
            trainer.import_model(files)
        with pytest.raises(CheckpointError, match=r"has no policy 'player_0'. It has default_policy"):
            trainer.import_model(files, policies=["player_0", "player_1"])
        with pytest.raises(SpaceMismatchError, match="of this run plays"):
            trainer.import_model(maze, policies=["player_0"])
        with pytest.raises(CheckpointError, match="as policy 'player_0' does not fit"):
            trainer.import_model(wide, policies=["player_0"])
        with pytest.raises(ConfigError, match="there is no policy 'player_2'"):
            trainer.export_model(tmp_path / "out", policies=["player_2"])
        with pytest.raises(CheckpointError, match="holds no exported policy"):
            trainer.import_model(tmp_path)
        assert differences(trainer.get_weights(), before) == []
    assert not (tmp_path / "out").exists()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    folder = exported(tmp_path) / "default_policy"
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=f"is damaged .*{WEIGHTS} is not what {ABOUT} was written for"):
        marl.load_policy(tmp_path)
    (folder / WEIGHTS).write_bytes(whole)
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps({**about, "format": 9}))
    with pytest.raises(CheckpointError, match="has format 9; this marl reads formats 1 and 2"):
        marl.load_policy(tmp_path)
    (folder / ABOUT).write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        marl.load_policy(tmp_path)


def test_a_module_of_the_user_has_to_be_allowed(tmp_path: Path) -> None:
    config = {**TINY, "policies": {"p": {"scripted": "tests.training.test_export:always_one"}}, "train_batch_size": 8}
    with Trainer("ppo", env="matrix_game", config=config) as trainer:
        trainer.export_model(tmp_path)
    with pytest.raises(ConfigError, match="tests"):
        marl.load_policy(tmp_path)
    assert marl.load_policy(tmp_path, allow=["tests"]).compute_action(np.ones(1, np.float32)) == 1


def always_one(obs: Any, rng: Any) -> int:
    return 1


def test_of_several_policies_one_has_to_be_named(tmp_path: Path) -> None:
    exported(tmp_path, multiagent={"policy_mapping_fn": "per_agent"})
    with pytest.raises(CheckpointError, match=r"holds the policies player_0, player_1. Say which one: .*#player_0"):
        marl.load_policy(tmp_path)
    assert marl.load_policy(f"{tmp_path}#player_1").policy.kind.agents == ("player_0", "player_1")


# -- one decision at a time --------------------------------------------------------------------------------------------


def test_a_dict_of_observations_gives_a_dict_of_actions_by_the_mapping() -> None:
    with Trainer("ppo", env="matrix_game", config=APART) as trainer:
        obs = {agent: np.ones(1, np.float32) for agent in ("player_0", "player_1")}
        one_by_one = {agent: trainer.compute_action(obs[agent], policy_id=agent) for agent in obs}
        assert trainer.compute_actions(obs) == one_by_one
        by_first = trainer.compute_actions(obs, policy_id="player_0")
        assert by_first == dict.fromkeys(obs, one_by_one["player_0"])
        actions, states, extras = trainer.compute_actions(obs, full_fetch=True)
        assert actions == one_by_one
        assert [state.shape for state in states.values()] == [(0,), (0,)]
        assert all(extra["action_logp"] <= 0 for extra in extras.values())


def test_a_drawn_policy_stays_the_same_within_an_episode() -> None:
    drawn = {**TINY, "multiagent": {"policy_mapping_fn": {"player_*": ["a", "b"]}, "policies": ["a", "b"]}}
    with Trainer("ppo", env="matrix_game", config=drawn) as trainer:
        weights = trainer.get_weights()
        for name, move in (("a", 0), ("b", 1)):
            for key, array in weights[name].items():
                array[...] = 0
                if key.startswith("model.network") and array.shape == (2,):
                    array[move] = 9.0
        trainer.set_weights(weights)
        obs = {"player_0": np.ones(1, np.float32)}
        found = set()
        for seed in range(20):
            episode = Episode(seed, seed)
            moves = {trainer.compute_actions(obs, episode=episode)["player_0"] for _ in range(3)}
            assert moves == {"ab".index(episode.policies["player_0"])}
            found |= moves
        assert found == {0, 1}


def test_the_previous_action_is_what_was_really_done() -> None:
    config = {**TINY, "use_lstm": True, "lstm_cell_size": 4, "lstm_use_prev_action": True}
    with Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        obs = np.zeros(4, np.float32)
        action, state, _ = trainer.compute_action(obs, full_fetch=True)  # type: ignore[misc]
        same, other = action, 1 - action
        plain, told, changed = (
            trainer.compute_action(obs, state=state, prev_action=prev, full_fetch=True)[1]  # type: ignore[index]
            for prev in (None, same, other)
        )
        assert np.array_equal(plain, told)
        assert not np.array_equal(plain[:-2], changed[:-2])  # the memory saw another action
        with pytest.raises(SpaceMismatchError, match=r"prev_action 7, which is none of Discrete\(2\)"):
            trainer.compute_action(obs, prev_action=7)


def test_state_action_reward_info_and_policy_may_be_given_by_position() -> None:
    config = {**TINY, "use_lstm": True, "lstm_cell_size": 4, "lstm_use_prev_reward": True}
    with Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        obs = np.zeros(4, np.float32)
        _, state, _ = trainer.compute_action(obs, [], None, None, {}, "default_policy", True)  # type: ignore[misc]
        named = trainer.compute_action(obs, state=state, prev_action=1, prev_reward=2.0, full_fetch=True)
        placed = trainer.compute_action(obs, state, 1, 2.0, {}, "default_policy", True)
        without = trainer.compute_action(obs, state, 1, 0.0, {}, "default_policy", True)
        assert np.array_equal(named[1], placed[1])  # type: ignore[index]
        assert not np.array_equal(placed[1], without[1])  # type: ignore[index]
