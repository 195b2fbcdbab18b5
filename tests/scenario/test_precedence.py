"""Which of several sources of a key wins: default < preset < file < --config < --set < the option of that key < policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from marl.cli.options import given, log_level_of, read_json
from marl.errors import ConfigError
from marl.run import raw_scenario
from marl.scenario.load import compose
from marl.scenario.resolve import resolve


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "env: two_step_game\nalgo: {name: dqn, lr: 0.01, gamma: 0.5, n_step: 3}\nseed: 1\nnum_workers: 1\n"
        "evaluation: {interval: 7, episodes: 8}\nenv_config: {one_hot_state_encoding: false}\n"
    )
    return path


def test_each_source_wins_over_those_before_it(file: Path) -> None:
    config = {"algo": {"lr": 0.02, "gamma": 0.6}, "seed": 2, "num_workers": 2}
    scenario = compose(raw_scenario(file, None, ["gamma=0.7", "seed=3", "num_workers=3"], config, {"num_workers": 0}))
    algo = scenario.preset.configure(**scenario.algo_keys)
    assert scenario.preset.name == "dqn"
    assert (algo.buffer_size, algo.n_step, algo.lr, algo.gamma) == (50_000, 3, 0.02, 0.7)  # type: ignore[attr-defined]
    assert (scenario.seed, scenario.num_workers, scenario.name) == (3, 0, "mine")


def test_a_policy_wins_over_them_all(file: Path) -> None:
    scenario = compose(raw_scenario(file, None, ["lr=0.03", "policies={p: {lr: 0.04}}", "num_workers=0"]))
    assert resolve(scenario).roles["p"].config.lr == 0.04


def test_sections_are_merged_and_maps_with_free_keys_are_replaced(file: Path) -> None:
    changes = {"evaluation": {"interval": 2}, "env_config": {"actions_are_logits": True}}
    scenario = compose(raw_scenario(file, None, ["evaluation.explore=true"], changes))
    assert (scenario.evaluation.interval, scenario.evaluation.episodes, scenario.evaluation.explore) == (2, 8, True)
    assert scenario.env_config == {"actions_are_logits": True}


def test_another_algorithm_keeps_the_keys_of_the_file(file: Path) -> None:
    scenario = compose(raw_scenario(file, None, ["algo=sac"]))
    assert (scenario.preset.name, scenario.algo["n_step"]) == ("sac", 3)


def test_json_comes_from_the_text_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"lr": 0.5}')
    assert read_json(f"@{tmp_path / 'keys.json'}") == read_json('{"lr": 0.5}') == {"lr": 0.5}
    for text, message in (("@nowhere.json", "no file"), ("[1]", "holds a list"), ('{"a" 1}', "line 1, column 6")):
        with pytest.raises(ConfigError, match=message):
            read_json(text)


def test_options_that_were_not_given_change_nothing() -> None:
    assert given(seed=0, num_workers=None) == {"seed": 0}
    assert [log_level_of(n) for n in range(4)] == [None, "INFO", "DEBUG", "DEBUG"]
