"""``marl check`` on dict envs: each finding by an env that triggers exactly this one, and silence about sound envs."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.classic import tictactoe_v3

import marl
from marl.envs.check import examine
from tests.envs import bad_envs as bad
from tests.envs import forgetful_envs as forgetful

ENVS = [
    (bad.NoAgents, "unusable"),
    (bad.Crash, "raised"),
    (bad.FourTuple, "wrong-answer"),
    (bad.RewardAlone, "wrong-answer"),
    (bad.ObsAlone, "wrong-answer"),
    (bad.InfoText, "info-not-dict"),
    (bad.UnknownObs, "unknown-agent"),
    (bad.UnknownReward, "unknown-agent"),
    (bad.UnknownFlag, "unknown-agent"),
    (bad.Crowd, "too-many-agents"),
    (bad.NeverAsked, "never-asked"),
    (bad.Revenant, "asked-after-end"),
    (bad.PaysTheDead, "reward-absent"),
    (bad.PaysTheUnborn, "reward-absent"),
    (bad.WrongShape, "obs-shape"),
    (bad.LostKey, "obs-shape"),
    (bad.Fraction, "obs-type"),
    (bad.OutOfChoices, "obs-range"),
    (bad.OutOfSeveralChoices, "obs-range"),
    (bad.Doubles, "obs-precision"),
    (bad.OutOfBounds, "obs-bounds"),
    (bad.NotANumber, "obs-nan"),
    (bad.SharedObs, "obs-shared"),
    (bad.Mutated, "obs-mutated"),
    (bad.ChangedLater, "obs-mutated"),
    (bad.NewSpaces, "space-new"),
    (bad.GrowingSpace, "space-changed"),
    (bad.ShortMask, "mask-shape"),
    (bad.EmptyMask, "mask-empty"),
    (bad.SecretMask, "mask-unannounced"),
    (bad.BadReward, "reward-nan"),
    (bad.TextReward, "reward-type"),
    (bad.ArrayReward, "reward-type"),
    (bad.NumberFlags, "flag-type"),
    (bad.BothFlags, "both-flags"),
    (bad.NoLastObs, "no-last-obs"),
    (bad.NobodyLeft, "nobody-left"),
    (bad.Endless, "no-end"),
    (bad.WrongSum, "chance-list"),
    (bad.DeafToChance, "chance-outcome"),
    (bad.LuckyBesides, "chance-outcome"),
    (bad.ListsTooLittle, "chance-missing"),
    (bad.WrongWeights, "chance-weights"),
    (bad.TakesNoOptions, "chance-outcome"),
    (forgetful.GrowingState, "state-size"),
    (forgetful.BadState, "state-nan"),
    (forgetful.ObjectState, "state-type"),
    (forgetful.HalfSaved, "state-half"),
    (forgetful.ForgetsItsGenerator, "state-roundtrip"),
    (forgetful.Aliased, "state-aliased"),
    (forgetful.IgnoresItsSeed, "not-repeatable"),
    (forgetful.Remembers, "remembers"),
    (forgetful.SharesAGenerator, "copies-interfere"),
    (forgetful.NeedsASeed, "unseeded-reset"),
    (forgetful.CannotClose, "close"),
    (forgetful.unsendable(), "not-sendable"),
]


def codes(env: Any, **keys: Any) -> list[str]:
    return [problem.code for problem in marl.check_env(env, **{"steps": 250, "episodes": 4, **keys})]


@pytest.mark.parametrize(("env", "code"), ENVS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_an_env_that_breaks_one_rule_gets_exactly_this_finding(env: Any, code: str) -> None:
    assert codes(env) == [code]


@pytest.mark.parametrize(
    "env", [bad.Sound, bad.Saved, bad.Masked, bad.Cars, bad.Mixed, bad.Listed, bad.Certain], ids=lambda w: w.__name__
)
def test_sound_envs_have_no_findings(env: Any) -> None:
    assert codes(env) == []


@pytest.mark.parametrize("name", ["CartPole-v1", "pettingzoo:mpe2/simple_spread_v3", "pettingzoo:classic/tictactoe_v3"])
def test_envs_of_other_libraries_pass(name: str) -> None:
    assert codes(name) == []


def test_mixed_endings_are_a_note_and_not_a_problem() -> None:
    report = examine(bad.Mixed, steps=30)
    assert report.passed
    assert report.notes == {"mixed endings": "agents terminate and truncate in the same step (first in step 8)"}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (bad.Listed, "lists its chance: exact (2 outcomes)"),
        ("kuhn_poker", "lists its chance: exact (6 outcomes)"),
        (bad.Sound, "starts are sampled from seeds: 32 distinct starts in 32 seeds"),
        ("tests.gametheory.card_games:CardGame", "starts are sampled from seeds: 12 distinct starts in 64 seeds"),
        ("two_step_game", "says that nothing is random: exact"),
        (bad.Certain, "says that nothing is random: exact"),
        (bad.Alike, "starts are sampled from seeds: no chance seen in 32 seeds"),
    ],
)
def test_the_report_says_whether_chance_is_listed_or_sampled(env: Any, said: str) -> None:
    report = examine(env, steps=250)
    assert report.as_json()["chance"]["says"] == said
    assert ("chance", said) in report._lines()
    listed = {"starts": 0, "says": 1, "lists": int(said.partition("(")[2].partition(" ")[0] or 0)}[said.split()[0]]
    assert report.as_json()["chance"]["listed"] == listed


def test_a_list_that_contradicts_reset_is_an_error_and_a_reset_without_options_is_named() -> None:
    (wrong,) = marl.check_env(bad.WrongWeights, steps=250)
    assert wrong.severe
    (deaf,) = marl.check_env(bad.TakesNoOptions, steps=250)
    assert "reset(options={'chance': 0.0}) raised TypeError" in deaf.text


def test_a_crash_names_the_step_the_line_and_the_actions() -> None:
    (problem,) = marl.check_env(bad.Crash)
    assert problem.text.startswith("step 3: step raised ZeroDivisionError")
    assert "bad_envs.py:" in problem.text
    assert "in spoil: return result if self.t < 3 else 1 // 0" in problem.text
    assert "The actions were {'a_0':" in problem.text


def test_a_finding_says_who_when_how_often_and_what_to_do() -> None:
    (problem,) = marl.check_env(bad.OutOfBounds, steps=8)
    assert "step 7: the observation of agent 'a_0' is not in its space Box(-10.0, 10.0, (2,), float32)" in problem.text
    assert "it holds 11.0 at place 0, expected -10.0 to 10.0" in problem.text
    assert problem.severe
    assert str(problem).startswith("error: ")
    assert str(problem).endswith("check_bounds: false trains on it as it is.")
    assert problem.times > 2


def test_errors_come_before_warnings() -> None:
    class Several(bad.SharedObs):
        def spoil(self, result: Any) -> Any:
            return result._replace(rewards={"a_0": float("inf")})

    assert codes(Several) == ["reward-nan", "obs-shared"]


def test_an_env_given_as_an_object_is_copied_and_stays_as_it_was() -> None:
    env = forgetful.Remembers()
    assert codes(env) == ["remembers"]
    assert env.episodes == 0


def test_an_object_that_cannot_be_copied_is_checked_as_it_is() -> None:
    class Locked(bad.Sound):
        def __init__(self) -> None:
            self.lock = forgetful.LOCK

    class LockedAndForgetful(forgetful.Remembers):
        def __init__(self) -> None:
            self.lock = forgetful.LOCK

    assert codes(Locked()) == []
    assert codes(LockedAndForgetful()) == ["not-repeatable"]


def test_a_gymnasium_env_with_wrong_bounds_is_found() -> None:
    class Tilted(gym.Wrapper):  # type: ignore[type-arg]
        observation_space = spaces.Box(-0.01, 0.01, (4,), np.float32)

    assert codes(lambda _: Tilted(gym.make("CartPole-v1"))) == ["obs-bounds"]


def test_a_turn_based_pettingzoo_env_with_an_empty_mask_is_found() -> None:
    class Stuck(tictactoe_v3.raw_env):  # type: ignore[misc]
        def observe(self, agent: str) -> Any:
            seen = super().observe(agent)
            return {**seen, "action_mask": seen["action_mask"] * (seen["observation"].sum() < 4)}

    problems = marl.check_env(lambda _: Stuck(), steps=30)
    assert problems[0].code == "mask-empty"  # after that, random moves are illegal ones
    assert "agent 'player_1' is asked, but its action_mask is empty" in problems[0].text


def test_what_only_training_would_stumble_over_is_found_by_lifting_the_env_as_training_does() -> None:
    class ArrayFlags(bad.Sound):
        def spoil(self, result: Any) -> Any:
            return result._replace(terminated={"a_0": np.array([False, False])})

    assert codes(ArrayFlags) == ["unusable", "flag-type"]


def test_wrappers_are_checked_with_the_env() -> None:
    stacked = marl.check_env("pettingzoo:mpe2/simple_v3", steps=60, wrappers=[{"frame_stack_v1": {"stack_size": 2}}])
    assert [problem.code for problem in stacked] == ["obs-mutated"]  # SuperSuit shifts its frames in place


def test_the_report_tells_agents_lengths_returns_and_speed() -> None:
    report = examine(bad.Masked, episodes=3)
    env, play, speed = (report.as_json()[part] for part in ("world", "random_play", "speed"))
    assert env["kinds"][0]["agents"] == ["a_0", "a_1"]
    assert env["kinds"][0]["masked"]
    assert play["episode_len"] == {"mean": 8.0, "min": 8.0, "max": 8.0}
    assert play["episode_reward"]["mean"] == 16.0
    assert play["decisions_per_step"] == 2.0
    assert speed["steps_per_second"] == pytest.approx(1e3 / speed["step_ms"])
    assert 0 < speed["share_of_training"] < 1


def test_no_more_is_played_than_was_asked_for() -> None:
    for steps, episodes, played in ((20, 10, 20), (1000, 2, 16)):
        report = examine(bad.Sound, steps=steps, episodes=episodes)
        assert report.as_json()["random_play"]["steps"] == played
