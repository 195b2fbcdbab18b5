"""``marl why``: what it prints, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.play import why as why_module
from marl.play.episode import Which, play_episode
from marl.play.questions import action_from_text, check_question
from tests.command import marl
from tests.play.runs import constant, opened, trained

SURE = 9.0


@pytest.fixture(scope="module")
def doves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why") / "doves"
    return constant(folder, "matrix_game", {"player_0": [SURE, 0.0], "player_1": [SURE, 0.0]})


def test_the_situation_the_effects_and_a_sentence_are_printed(doves: Path) -> None:
    done = marl("why", doves, "--episode", 17, "--agent", "player_0", "--step", 0, "--instead", "defect")
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "env 'matrix_game', episode 17 (seed 17, greedy), step 0 of 1"
    assert lines[1] == "player_0 (player_0) saw [1.0]"
    assert "0 cooperate 0.9999 - was done" in lines
    assert "1 defect 0.0001234 - instead" in lines
    assert "player_0 3 5 +2" in lines
    assert "player_1 3 0 -3" in lines
    assert "all together 6 5 -1" in lines
    assert lines[-2].startswith("One continuation is exact: from here on no policy draws")
    assert lines[-1] == (
        "Had player_0 done defect in step 0, it would have earned exactly 2 more. player_1 would have earned exactly 3 less."
    )


def test_json_is_one_object_with_both_ways_and_their_intervals(doves: Path) -> None:
    done = marl(
        "why", doves, "--agent", "player_1", "--step", 0, "--policy", "random", "--continuations", 400, "--json"
    )
    found = json.loads(done.out)
    assert (found["format"], found["version"], found["agent"]) == ("marl-why", 1, "player_1")
    answer = found["answer"]
    assert (answer["continuations"], answer["exact"], answer["policy"]) == (400, False, "random")
    # Cooperating earns 3 and defecting 5: an even mixture of both is 1 more.
    difference = answer["agents"]["player_1"]["difference"]
    assert difference["low"] < 1.0 < difference["high"]
    assert 0 < difference["high"] - difference["low"] < 0.5
    assert answer["agents"]["player_1"]["as_it_was"] == {"mean": 3.0, "low": 3.0, "high": 3.0, "episodes": 400}
    assert re.match(
        r"Had player_1 been played by random from step 0 on, it would have earned .* more on average",
        answer["sentence"],
    )
    assert found["situation"]["opinion"]["probabilities"][0][0] > 0.99


def test_without_another_action_only_the_situation_is_told(doves: Path) -> None:
    done = marl("why", doves, "--agent", "player_0", "--step", 0)
    assert done.code == 0
    assert "was done" in done.out
    assert "difference" not in done.out
    assert json.loads(marl("why", doves, "--agent", "player_0", "--step", 0, "--json").out)["answer"] is None


def test_what_was_done_anyway_is_called_so(doves: Path) -> None:
    done = marl("why", doves, "--agent", "player_0", "--step", 0, "--instead", "0")
    assert done.out.splitlines()[-1] == "That is what player_0 did in step 0, so nothing changes."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agent", "player_0", "--step", "4"], "episode 0 has no step 4: it has 1, from 0 to 0. Take one of these"),
        (["--agent", "player_8", "--step", "0"], "there is no agent 'player_8' in episode 0. Agents: player_0, player_1."),
        (["--agent", "player_0", "--step", "0", "--instead", "deflect"], "Its names: cooperate, defect. Did you mean 'defect'?"),
        (["--agent", "player_0", "--step", "0", "--instead", "2"], "no action of Discrete(2). Its names"),
        (["--agent", "player_0", "--step", "0", "--instead", "0.5"], "a number from 0 to 1"),
        (["--agent", "player_0", "--step", "0", "--policy", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_a_remedy(doves: Path, options: list[str], message: str) -> None:
    done = marl("why", doves, *options)
    assert done.code == 2
    (error,) = done.errors
    assert message in error
    assert "Traceback" not in done.err


def test_an_agent_that_is_not_asked_is_told_with_the_steps_in_which_it_is(tmp_path: Path) -> None:
    playable = opened(trained(tmp_path / "run", "traffic", env_config={"episode_length": 12}))
    tape = play_episode(playable, Which(0))
    with pytest.raises(ConfigError, match=r"not asked in step 3 of episode 0.* in the steps 0, 5, 10\. Take one"):
        check_question(tape, "traffic_light_0", 3)


def test_an_action_that_the_mask_forbids_is_refused(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", "leduc_poker")
    done = marl("why", path, "--agent", "player_0", "--step", 0, "--instead", "fold")
    assert done.code == 2
    assert "--instead fold: the action mask forbids it in this step. Legal: call, raise." in done.errors[0]
    assert marl("why", path, "--agent", "player_0", "--step", 0, "--instead", "raise").code == 0


@pytest.mark.parametrize(("text", "stored"), [("1,-3", [1.0, -3.0]), ("[0.5, 2]", [0.5, 2.0])])
def test_numbers_of_a_box_are_typed_with_commas_or_as_json(tmp_path: Path, text: str, stored: list[float]) -> None:
    playable = opened(trained(tmp_path / "run", "two_step_game", env_config={"actions_are_logits": True}))
    tape = play_episode(playable, Which(0))
    kind = tape.batch.task.kinds[0]
    assert action_from_text(text, kind, tape, "agent_1", 0, playable).tolist() == stored
    for wrong in ("1", "1,2,3", "a,b", "nan,0"):
        with pytest.raises(ConfigError, match="Give one of this space: 2 number"):
            action_from_text(wrong, kind, tape, "agent_1", 0, playable)


def test_a_box_value_is_what_the_env_is_given(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", "two_step_game", env_config={"actions_are_logits": True})
    # With such logits agent_0 picks the branch for certain.
    for text, team in (("50,-50", 7.0), ("-50,50", None)):
        found = json.loads(
            marl("why", path, "--agent", "agent_0", "--step", 0, "--instead", text, "--continuations", 50, "--json").out
        )
        together = found["answer"]["together"]["instead"]
        assert (together["mean"] == team and together["low"] == team) if team else together["mean"] < 7.0


def test_recorded_episodes_and_exports_are_asked_too(doves: Path, tmp_path: Path) -> None:
    assert (
        marl("rollout", doves, "--episodes", 2, "--policy", "player_1=random", "--save", tmp_path / "saved").code == 0
    )
    options = ["--episode", 1, "--agent", "player_0", "--step", 0, "--instead", "defect", "--json"]
    recorded = json.loads(marl("why", doves, "--recording", tmp_path / "saved", *options).out)
    assert recorded["answer"]["agents"]["player_0"]["difference"]["mean"] in (1.0, 2.0)  # against either move
    assert marl("export", doves, "--out", tmp_path / "exported").code == 0
    exported = json.loads(marl("why", tmp_path / "exported", *options).out)
    assert exported["answer"]["agents"]["player_0"]["difference"]["mean"] == 2.0
    assert exported["situation"]["expected"] is None


def test_ctrl_c_ends_it_without_a_traceback(doves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(why_module, "what_if", interrupted)
    done = marl("why", doves, "--agent", "player_0", "--step", 0, "--instead", "defect")
    assert (done.code, done.out, done.err) == (130, "", "stopped.\n")


def test_names_are_shown_as_they_are_and_never_as_markup(tmp_path: Path) -> None:
    payoffs = [[[3, 0], [5, 1]], [[3, 5], [0, 1]]]
    names = [["[red]stay[/red]", "[bold]go"], ["a", "b"]]
    path = trained(tmp_path / "run", "matrix_game", env_config={"payoffs": payoffs, "actions": names})
    done = marl("why", path, "--agent", "player_0", "--step", 0, "--instead", "[bold]go")
    assert done.code == 0
    assert "0 [red]stay[/red]" in done.out
    assert "1 [bold]go" in done.out
    assert "[bold]go in step 0" in done.out


def test_luck_of_an_env_is_found_behind_wrappers_and_what_is_shown_stays() -> None:
    from marl.envs.branching import Luck, generators
    from marl.envs.registry import make_batched_env

    env = make_batched_env("CartPole-v1", 2, {})
    env.reset(np.arange(2), np.array([1, 1]))
    shown = env.get_state()["obs"][0].copy()
    assert len(generators(env.envs[0])) == 1  # type: ignore[attr-defined]
    luck = Luck(env)
    luck.reseed(np.array([5, 5]))
    assert luck.drawn_anew
    assert not luck.used
    assert np.array_equal(env.get_state()["obs"][0], shown)
    generators(env.envs[0])[0].random()  # type: ignore[attr-defined]
    assert luck.used
    env.close()


def test_the_wind_of_a_maze_and_the_cars_of_traffic_are_drawn_anew_and_the_present_stays() -> None:
    from marl.envs.branching import Luck
    from marl.envs.registry import make_batched_env

    for name in ("windy_maze", "traffic"):
        env = make_batched_env(name, 3, {})
        before = env.reset(np.arange(3), np.array([4, 4, 4]))
        obs = [np.array(column) for column in before.obs]
        luck = Luck(env)
        luck.reseed(np.array([7, 7, 8]))
        assert luck.drawn_anew
        seen = []
        for _ in range(60):
            actions = [np.ones((3, kind.size), np.int64) for kind in env.kinds]
            output = env.step(actions)
            seen.append(np.concatenate([np.array(column).reshape(3, -1) for column in output.obs], axis=1))
            if output.over.any():
                break
        paths = np.stack(seen, axis=1).reshape(3, -1)
        assert np.array_equal(paths[0], paths[1])
        assert not np.array_equal(paths[0], paths[2])
        assert np.array_equal(obs[0][0], obs[0][2])
        env.close()
