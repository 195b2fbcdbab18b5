"""From marks in a config to the keys of each trial, and how single runs and wrong marks are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marl.errors import ConfigError
from marl.scenario.load import compose, load_scenario
from marl.tune import choice, grid_search, loguniform, randint, uniform
from marl.tune.search import short_names, variants


def test_grids_multiply_and_the_first_key_changes_slowest() -> None:
    keys = {"env": "e", "lr": grid_search([0.1, 0.2]), "model": {"fcnet_hiddens": grid_search([[8], [16, 16], [4]])}}
    found = variants(keys, num_samples=1, seed=0)
    assert [variant.params for variant in found] == [
        {"lr": 0.1, "fcnet_hiddens": [8]},
        {"lr": 0.1, "fcnet_hiddens": [16, 16]},
        {"lr": 0.1, "fcnet_hiddens": [4]},
        {"lr": 0.2, "fcnet_hiddens": [8]},
        {"lr": 0.2, "fcnet_hiddens": [16, 16]},
        {"lr": 0.2, "fcnet_hiddens": [4]},
    ]
    assert found[1].config == {"env": "e", "lr": 0.1, "model": {"fcnet_hiddens": [16, 16]}}
    assert keys["lr"] == {"grid_search": [0.1, 0.2]}  # what was given stays as it was


def test_marks_are_found_in_lists_and_below_policies() -> None:
    keys = {
        "wrappers": [{"frame_stack_v1": {"stack_size": grid_search([2, 4])}}],
        "multiagent": {"policies": {"car": {"lr": grid_search([0.1])}, "light": {"lr": grid_search([0.3])}}},
    }
    last = variants(keys, 1, 0)[-1]
    assert last.params == {"stack_size": 4, "car/lr": 0.1, "light/lr": 0.3}
    assert last.config["wrappers"] == [{"frame_stack_v1": {"stack_size": 4}}]
    assert last.config["multiagent"] == {"policies": {"car": {"lr": 0.1}, "light": {"lr": 0.3}}}


def test_draws_stay_in_their_range_and_repeat_for_the_same_seed() -> None:
    keys = {"a": uniform(2, 3), "b": loguniform(1e-4, 1e-2), "c": randint(5, 8), "d": choice(["x", "y"])}
    found = variants(keys, num_samples=200, seed=7)
    columns = {name: [variant.params[name] for variant in found] for name in "abcd"}
    assert 2 <= min(columns["a"]) < 2.1 < 2.9 < max(columns["a"]) <= 3
    assert sum(value < 1e-3 for value in columns["b"]) == pytest.approx(100, abs=25)  # half of the logarithms
    assert set(columns["c"]) == {5, 6, 7}
    assert set(columns["d"]) == {"x", "y"}
    assert [variant.params for variant in variants(keys, 200, 7)] == [variant.params for variant in found]
    assert columns["a"] != [variant.params["a"] for variant in variants(keys, 200, 8)]


def test_another_key_does_not_change_a_draw() -> None:
    alone, together = variants({"a": uniform(0, 1)}, 3, 0), variants({"b": uniform(0, 1), "a": uniform(0, 1)}, 3, 0)
    assert [v.params["a"] for v in alone] == [v.params["a"] for v in together]
    assert [v.params["a"] for v in together] != [v.params["b"] for v in together]


def test_samples_of_the_same_values_have_seeds_of_their_own() -> None:
    found = variants({"lr": grid_search([0.1, 0.2]), "seed": 10}, num_samples=2, seed=10)
    assert [(v.params["lr"], v.config["seed"]) for v in found] == [(0.1, 10), (0.2, 10), (0.1, 11), (0.2, 11)]
    searched = variants({"seed": grid_search([1, 2])}, num_samples=2, seed=0)
    assert [v.config["seed"] for v in searched] == [1, 2, 1, 2]


def test_short_names_use_as_many_words_as_they_need() -> None:
    paths = [("algo", "lr"), ("multiagent", "policies", "a", "lr"), ("model", "dueling")]
    assert list(short_names(paths).values()) == ["algo/lr", "a/lr", "dueling"]


@pytest.mark.parametrize(
    ("mark", "part"),
    [
        ({"grid_search": []}, "expected a list of values"),
        ({"grid_search": 3}, "expected a list of values"),
        ({"uniform": [1]}, "expected two numbers"),
        ({"uniform": [2, 1]}, "the smaller one first"),
        ({"uniform": ["a", "b"]}, "expected two numbers"),
        ({"randint": [1, 2.5]}, "expected two whole numbers"),
        ({"loguniform": [0, 1]}, "expected positive numbers"),
    ],
)
def test_a_wrong_mark_is_told_by_its_key(mark: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=rf"algo\.lr: .*{part}"):
        variants({"algo": {"lr": mark}}, 1, 0)


@pytest.mark.parametrize(
    "keys",
    [
        {"lr": {"grid_search": [0.1, 0.2]}},
        {"algo": {"name": "ppo", "lr": {"uniform": [0.1, 0.2]}}},
        {"env_config": {"payoff": {"grid_search": [1, 2]}}},
        {"tune": {"num_samples": 2}},
    ],
)
def test_a_single_run_refuses_a_search_and_says_how_to_start_it(keys: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="marl tune FILE"):
        compose({"env": "two_step_game", **keys})
    file = tmp_path / "x.yaml"
    file.write_text("env: two_step_game\nalgo: {name: ppo, lr: {grid_search: [0.1]}}\n")
    with pytest.raises(ConfigError, match=r"algo\.lr is a search \(grid_search\)"):
        load_scenario(file)


def test_what_an_env_calls_choice_is_its_own_business() -> None:
    config = {"choice": ["left", "right"]}
    assert compose({"env": "two_step_game", "env_config": config}).env_config == config
