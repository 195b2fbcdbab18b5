"""``marl check`` on natively batched envs: each finding by an env that triggers exactly this one."""

from __future__ import annotations

from typing import Any

import pytest

import marl
from marl.envs.check import CATALOG, examine
from tests.envs import bad_array_envs as bad
from tests.envs.test_check_dicts import ENVS as DICT_ENVS

ENVS = [
    (bad.Narrow, "wrong-answer"),
    (bad.WholeNumbers, "wrong-answer"),
    (bad.NoFrame, "wrong-answer"),
    (bad.Twins, "wrong-answer"),
    (bad.CrashArrays, "raised"),
    (bad.NaNArrays, "obs-nan"),
    (bad.NaNRewards, "reward-nan"),
    (bad.NaNState, "state-nan"),
    (bad.Outside, "obs-bounds"),
    (bad.TooManyChoices, "obs-range"),
    (bad.StuckArrays, "mask-empty"),
    (bad.AskedAndEnded, "asked-and-ended"),
    (bad.OverWithoutFlags, "over-without-flags"),
    (bad.BothFlagsArrays, "both-flags"),
    (bad.BlindArrays, "no-last-obs"),
    (bad.PaysTheAbsent, "reward-absent"),
    (bad.NeverAskedArrays, "never-asked"),
    (bad.EndlessArrays, "no-end"),
    (bad.IgnoresSeeds, "not-repeatable"),
    (bad.RemembersEpisodes, "remembers"),
    (bad.OneGenerator, "lanes-depend"),
    (bad.ResetsEverybody, "reset-touches-others"),
    (bad.LooksAtTheNeighbour, "reset-touches-others"),
    (bad.ForgetsLuck, "state-roundtrip"),
    (bad.AliasedArrays, "state-aliased"),
    (bad.ObjectArrays, "state-type"),
    (bad.CannotCloseArrays, "close"),
]


def codes(env: Any) -> list[str]:
    return [problem.code for problem in marl.check_env(env, steps=250, episodes=4)]


@pytest.mark.parametrize(("env", "code"), ENVS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_an_env_that_breaks_one_rule_gets_exactly_this_finding(env: Any, code: str) -> None:
    assert codes(env) == [code]


def test_a_sound_env_has_no_findings() -> None:
    assert codes(bad.SoundArrays) == []


@pytest.mark.parametrize("name", ["two_step_game", "matrix_game", "traffic"])
def test_the_built_in_games_pass(name: str) -> None:
    assert codes(name) == []


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("two_step_game", {"actions_are_logits": True}),
        ("two_step_game", {"one_hot_state_encoding": False}),
        ("traffic", {"max_cars": 3}),
    ],
)
def test_the_built_in_games_pass_with_other_keys(name: str, keys: dict[str, Any]) -> None:
    assert marl.check_env(name, keys, steps=250, episodes=4) == []


def test_every_rule_of_the_catalogue_is_tested_by_an_env_that_breaks_it() -> None:
    assert {code for _, code in [*DICT_ENVS, *ENVS]} == set(CATALOG)


def test_every_rule_but_the_free_texts_comes_with_a_remedy() -> None:
    assert {code for code, rule in CATALOG.items() if not rule.remedy} == {"unusable", "wrong-answer"}


def test_a_finding_names_the_env_and_the_step() -> None:
    (problem,) = marl.check_env(bad.NaNArrays)
    assert problem.text == "step 3: the observation of agent 'a_1' holds NaN or infinity."
    (problem,) = marl.check_env(bad.OneGenerator)
    assert "an episode of env_id 1 of 3 differs from the same episode in an env of one copy" in problem.text


def test_the_report_of_a_native_env_counts_seats_and_decisions() -> None:
    report = examine("traffic", {"max_cars": 3}, episodes=1).as_json()
    assert report["world"]["api"] == "arrays"
    assert [len(kind["agents"]) for kind in report["world"]["kinds"]] == [3, 2]
    assert report["random_play"]["episode_len"]["mean"] == 100.0
