"""Playing checkpoints: how much is played, by whom, and what is told of it."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl import Trainer
from marl.algos.presets import ALGOS
from marl.cli.play import rollout
from marl.data.episode import EpisodeStats
from marl.envs.games.matrix import MatrixGames
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError
from marl.play.changes import ACTING, Changes
from marl.play.playback import RolloutOptions, play
from marl.play.policy_sources import read_sources
from marl.play.return_summary import Tally, estimate, returns_by_agent, table
from tests.small_envs import Scripted, Step

TINY = {"train_batch_size": 64, "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
COOPERATE, DEFECT = 0, 1


def checkpoint(env: str, folder: Path, **keys: Any) -> Path:
    with Trainer("ppo", env=env, config={**TINY, **keys}) as trainer:
        return Path(trainer.save(folder))


def stubborn(folder: Path, algo: str = "ppo", mapping: str = "per_agent", **moves: int) -> Path:
    """A run on the prisoner's dilemma whose policies always make the same move: all weights are 0 but the last bias."""
    keys = TINY if algo == "ppo" else {"fcnet_hiddens": [4, 4], "dueling": False, "evaluation": {"interval": 0}}
    with Trainer(algo, env="matrix_game", config={**keys, "multiagent": {"policy_mapping_fn": mapping}}) as trainer:
        weights = trainer.get_weights()
        for name, move in moves.items():
            for key, array in weights[name].items():
                if key == "unit":  # of values
                    continue
                array[...] = 0
                if key.startswith("model.network") and array.shape == (2,):
                    array[move] = 9.0
        trainer.set_weights(weights)
        return Path(trainer.save(folder))


def earned(path: Path, **policies: str) -> dict[str, float]:
    (tally,) = play(path, RolloutOptions(episodes=2), changes=Changes(policies=policies), say=lambda _: None)
    return {name: found.mean for name, found in tally.agents().items()}


def test_exactly_so_many_env_steps_or_episodes_are_played(tmp_path: Path) -> None:
    path = checkpoint("two_step_game", tmp_path / "run")
    lines: list[str] = []
    (tally,) = play(path, RolloutOptions(steps=7), say=lines.append)
    assert (tally.env_steps, len(tally.stats), len(lines)) == (7, 3, 3)  # an episode has two steps
    (tally,) = play(path, RolloutOptions(episodes=5), say=lines.append)
    assert (tally.env_steps, len(tally.stats)) == (10, 5)


def test_texts_are_printed_from_the_beginning_of_an_episode_on(tmp_path: Path) -> None:
    path = checkpoint("two_step_game", tmp_path / "run")
    lines: list[str] = []
    play(path, RolloutOptions(episodes=1, render=True), say=lines.append)
    assert [line.startswith("two-step game") for line in lines] == [True, True, True, False]
    assert "first state" in lines[0]


def test_pictures_need_a_display_and_an_env_that_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    pictures = checkpoint("windy_maze", tmp_path / "maze")
    with pytest.raises(ConfigError, match="env 'windy_maze' draws pictures, and there is no display"):
        play(pictures, RolloutOptions(render=True))
    nothing = checkpoint("tests.training.test_playback:blank", tmp_path / "blank")
    for wishes in (RolloutOptions(render=True), RolloutOptions(video=tmp_path / "film.gif")):
        with pytest.raises(ConfigError, match=r"env 'tests.training.test_playback:blank' draws nothing"):
            play(nothing, wishes, frozenset({"tests"}))
    assert not (tmp_path / "film.gif").exists()


def blank(config: dict[str, Any]) -> Scripted:
    return Scripted(["agent_0"], [Step([], {"agent_0": 1.0}, terminated=["agent_0"])], agents=["agent_0"])


def test_a_picture_goes_to_a_window_where_there_is_a_display(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.setenv("DISPLAY", ":0")
    plt.switch_backend("agg")  # a window that nobody sees
    plt.close("all")  # what other tests have left open
    path = checkpoint("windy_maze", tmp_path / "maze")
    (tally,) = play(path, RolloutOptions(steps=2, render=True, fps=100), say=lambda _: None)
    assert tally.env_steps == 2
    assert plt.get_fignums() == []  # closed at the end


# -- who plays ---------------------------------------------------------------------------------------------------------


def test_policies_of_several_runs_meet(tmp_path: Path) -> None:
    doves = stubborn(tmp_path / "doves", player_0=COOPERATE, player_1=COOPERATE)
    hawks = stubborn(tmp_path / "hawks", player_0=DEFECT, player_1=DEFECT)
    assert earned(doves) == {"player_0": 3.0, "player_1": 3.0}
    assert earned(doves, player_1=str(hawks)) == {"player_0": 0.0, "player_1": 5.0}
    assert earned(doves, player_0=f"{hawks}#player_1") == {"player_0": 5.0, "player_1": 0.0}
    assert earned(doves, player_0=str(hawks), player_1=str(hawks)) == {"player_0": 1.0, "player_1": 1.0}


def test_an_agent_of_a_shared_policy_is_played_by_one_of_another_algorithm(tmp_path: Path) -> None:
    doves = stubborn(tmp_path / "doves", mapping="shared", default_policy=COOPERATE)
    hawks = stubborn(tmp_path / "hawks", "dqn", mapping="shared", default_policy=DEFECT)
    assert earned(doves, player_1=str(hawks)) == {"player_0": 0.0, "player_1": 5.0}
    assert earned(doves, **{"player_*": str(hawks)}) == {"player_0": 1.0, "player_1": 1.0}
    (tally,) = play(
        doves, RolloutOptions(episodes=2), changes=Changes(policies={"player_1": str(hawks)}), say=lambda _: None
    )
    assert {name: found.mean for name, found in tally.policies().items()} == {"default_policy": 0.0, "player_1": 5.0}


def test_an_exported_policy_and_a_random_one_may_take_part(tmp_path: Path) -> None:
    doves = stubborn(tmp_path / "doves", player_0=COOPERATE, player_1=COOPERATE)
    hawks = stubborn(tmp_path / "hawks", player_0=DEFECT, player_1=DEFECT)
    with Trainer.from_checkpoint(hawks) as trainer:
        trainer.export_model(tmp_path / "files")
    assert earned(doves, player_1=str(tmp_path / "files")) == {"player_0": 0.0, "player_1": 5.0}
    (tally,) = play(doves, RolloutOptions(50), changes=Changes(policies={"player_1": "random"}), say=lambda _: None)
    assert set(tally.stats.returns[tally.stats.agent == 1].tolist()) == {3.0, 5.0}  # both moves came


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        ("player_9=random", ConfigError, "there is no policy and no agent of this name.*Did you mean 'player_.'"),
        ("player_0={maze}", SpaceMismatchError, "plays .*, but agents like 'player_0' have"),
        ("player_0={run}#nobody", CheckpointError, "has no policy 'nobody'. It has player_0, player_1"),
        ("player_0={tmp}/nowhere", CheckpointError, "nowhere"),
    ],
)
def test_a_policy_that_cannot_play_is_refused(tmp_path: Path, policy: str, error: Any, message: str) -> None:
    run = stubborn(tmp_path / "run", player_0=COOPERATE)
    maze = checkpoint("windy_maze", tmp_path / "maze")
    sources = read_sources([policy.format(run=run, maze=maze, tmp=tmp_path)])
    with pytest.raises(error, match=message):
        play(run, RolloutOptions(), changes=Changes(policies=sources))


@pytest.mark.parametrize("given", [["a"], ["=x"], ["a="], ["a=1", "a=2"]])
def test_a_mistyped_policy_option_is_refused(given: list[str]) -> None:
    with pytest.raises(ConfigError, match="--policy"):
        read_sources(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["player_0=random", "player_[0]=random"],
            r"--policy player_0=random plays nobody: --policy player_\[0\]=random",
        ),
        (
            ["player_?=random", "player_[1]=random"],
            r"--policy player_\[1\]=random plays nobody: --policy player_\?=random",
        ),
        (
            ["nobody=random"],
            "nobody=random plays nobody: the mapping of the run never chooses it, but player_0, player_1",
        ),
    ],
)
def test_a_policy_that_would_play_nobody_is_refused(tmp_path: Path, given: list[str], message: str) -> None:
    run = with_an_examiner(tmp_path / "run")
    with pytest.raises(ConfigError, match=message):
        play(run, RolloutOptions(), changes=Changes(policies=read_sources(given)))


def with_an_examiner(folder: Path) -> Path:
    """A run whose policy 'nobody' plays in evaluations alone."""
    multiagent = {"policies": ["player_0", "player_1", "nobody"], "policy_mapping_fn": "per_agent"}
    exam = {"interval": 0, "policy_mapping_fn": {"player_0": "nobody", "player_1": "player_1"}}
    return checkpoint("matrix_game", folder, multiagent=multiagent, evaluation=exam)


def test_agents_that_are_left_to_a_replaced_policy_keep_it(tmp_path: Path) -> None:
    doves = stubborn(tmp_path / "doves", mapping="shared", default_policy=COOPERATE)
    hawks = stubborn(tmp_path / "hawks", mapping="shared", default_policy=DEFECT)
    assert earned(doves, default_policy=str(hawks), player_1=str(doves)) == {"player_0": 5.0, "player_1": 0.0}


# -- another env -----------------------------------------------------------------------------------------------------


def test_keys_of_the_run_can_be_changed(tmp_path: Path) -> None:
    run = stubborn(tmp_path / "run", player_0=COOPERATE, player_1=DEFECT)
    for changes in (Changes(env_config={"repetitions": 3}), Changes(sets=["env_config.repetitions=3"])):
        (tally,) = play(run, RolloutOptions(episodes=1), changes=changes, say=lambda _: None)
        assert tally.stats.lengths.tolist() == [3]
        assert tally.stats.rewards.tolist() == [15.0]  # the defector gets 5 in each round
    (tally,) = play(run, RolloutOptions(episodes=1), changes=Changes(sets=["horizon=2", "env_config.repetitions=9"]))
    assert tally.stats.lengths.tolist() == [2]
    stag = Changes(env="matrix_game", env_config={"game": "stag_hunt"})
    (tally,) = play(run, RolloutOptions(episodes=1), changes=stag, say=lambda _: None)
    assert tally.stats.rewards.tolist() == [4.0]  # 1 for the hunter, 3 for the other one


def test_policies_that_the_checkpoint_does_not_have_must_come_from_somewhere(tmp_path: Path) -> None:
    run = stubborn(tmp_path / "run", mapping="shared", default_policy=DEFECT)
    apart = ["multiagent.policy_mapping_fn=per_agent", "multiagent.policies={player_0: {}, player_1: {}}"]
    with pytest.raises(CheckpointError, match=r"has no policy 'player_0'.*--policy player_0=PATH"):
        play(run, RolloutOptions(), changes=Changes(sets=apart))
    given = Changes(sets=apart, policies={"player_0": str(run), "player_1": str(run)})
    (tally,) = play(run, RolloutOptions(episodes=1), changes=given, say=lambda _: None)
    assert tally.stats.rewards.tolist() == [2.0]


@pytest.mark.parametrize(
    "text",
    [
        "lr=5", "algo.lr=5", "algo={lr: 5}", "num_workers=2", "num_envs_per_worker=4", "checkpoint_freq=1", "seed=3",
        "stop.timesteps_total=9", "evaluation.interval=3", "multiagent.policies_to_train=[player_0]", "explore=true",
        "multiagent.policies.player_0.lr=5", "policies={player_0: {algo: {gamma: 0.5}}}", "output=somewhere",
        "exploration_config.initial_epsilon=0.5", "model.max_seq_len=3", "model.attention_memory_training=3", "callbacks=a:B", "torch_threads=2",
    ],
)  # fmt: skip
def test_a_key_that_changes_nothing_in_a_rollout_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"=... changes nothing in a rollout, which neither learns nor uses workers"):
        Changes(sets=[text]).applied({})


@pytest.mark.parametrize(
    "text",
    [
        "horizon=3", "env_config.lr=5", "env_config={seed: 1}", "wrappers=[]", "clip_rewards=true", "algo.name=a2c",
        "multiagent.policy_mapping_fn=shared", "multiagent.policies.p.scripted=random", "algo.anticipatory=0.5",
        "exploration_config.type=StochasticSampling", "fcnet_hiddens=[4]", "fresh_env_per_episode=true", "hrizon=3",
    ],
)  # fmt: skip
def test_a_key_that_counts_in_a_rollout_may_be_set(text: str) -> None:
    assert Changes(sets=[text]).applied({})


def test_every_key_that_acting_policies_are_built_from_counts() -> None:
    for name in ALGOS:
        config = ALGOS[name].family.config
        source = inspect.getsource(inspect.getattr_static(config, "acting").fget)
        if "self.normalizes" in source:
            source = source.replace("self.normalizes", inspect.getsource(config.normalizes.fget))
        assert set(re.findall(r"self\.(\w+)", source)) <= ACTING


def test_an_env_of_evaluations_is_not_needed(tmp_path: Path) -> None:
    exam = {"interval": 1, "env": "tests.training.test_playback:Examined"}
    with Trainer("ppo", env="matrix_game", config={**TINY, "evaluation": exam}) as trainer:
        path = Path(trainer.save(tmp_path / "run"))
    (tally,) = play(path, RolloutOptions(episodes=1), say=lambda _: None)  # its module was not allowed
    assert len(tally.stats) == 1


class Examined(MatrixGames):
    """An env of the user's own."""


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_the_interval_is_students(tmp_path: Path) -> None:
    found = estimate(np.array([1.0, 2.0, 3.0]))
    assert found.mean == 2.0
    assert found.margin == pytest.approx(4.302653 / np.sqrt(3), abs=1e-5)  # t of 2 degrees of freedom, deviation 1
    assert estimate(np.array([7.0])).margin is None


def test_an_agent_that_came_back_is_added_up_within_its_episode() -> None:
    none = np.zeros(0, np.int64)
    assert returns_by_agent(EpisodeStats(np.zeros(0, np.float32), none, [], none, none, none, np.zeros(0))) == {}
    stats = EpisodeStats(
        rewards=np.array([6, 4], np.float32), lengths=np.array([2, 2]), agents=["a", "b"],
        agent=np.array([0, 1, 0, 0]), episode=np.array([0, 0, 0, 1]), policy=np.array([0, 0, 1, 0]),
        returns=np.array([1, 2, 3, 4], np.float32),
    )  # fmt: skip
    assert {name: found.tolist() for name, found in returns_by_agent(stats).items()} == {"a": [4.0, 4.0], "b": [2.0]}
    lines = table([Tally(False, 4, stats, ["p", "q"])])
    assert [line.split("  ")[0] for line in lines[1:]] == ["episode", "policy p", "policy q", "agent a", "agent b"]


def test_greedy_and_exploring_play_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = checkpoint("matrix_game", tmp_path / "run")
    rollout(run, episodes=30, both=True)
    out = capsys.readouterr().out
    assert out.splitlines()[-2].startswith("greedy: 30 env steps, 30 episodes")
    assert out.splitlines()[-1].startswith("exploring: 30 env steps, 30 episodes")
    titles = next(line for line in out.splitlines() if line.startswith("mean return"))
    assert titles.split("  ")[-1] == "exploring"
    greedy, exploring = play(run, RolloutOptions(30, explore=(False, True)), say=lambda _: None)
    assert len(set(greedy.stats.rewards.tolist())) == 1  # a matrix game without memory: the same move every time
    assert len(set(exploring.stats.rewards.tolist())) > 1


def test_json_tells_returns_per_policy_and_per_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stubborn(tmp_path / "run", player_0=COOPERATE, player_1=DEFECT)
    rollout(run, episodes=3, as_json=True)
    told = json.loads(capsys.readouterr().out)
    (played,) = told["play"]
    assert played["episodes"] == 3
    assert played["episode_rewards"] == [5.0, 5.0, 5.0]
    assert played["agents"]["player_1"] == {"mean": 5.0, "low": 5.0, "high": 5.0, "episodes": 3}
    assert played["policies"]["player_0"]["mean"] == 0.0


def test_options_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--episodes and --steps"):
        rollout(tmp_path, episodes=1, steps=1)
    with pytest.raises(ConfigError, match="--explore and --both"):
        rollout(tmp_path, explore=True, both=True)
    with pytest.raises(ConfigError, match="--fps is the speed of --video FILE or --render"):
        rollout(tmp_path, fps=10)
