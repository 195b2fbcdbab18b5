"""Scenario files: forms, mistakes, and hostile input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from marl.algos.presets import ALGOS
from marl.errors import ConfigError, UserError
from marl.scenario.config import ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS, TOP_KEYS, Scenario
from marl.scenario.describe import describe
from marl.scenario.load import compose, load_scenario
from marl.scenario.reference import everything

NINE = ", ".join
BOMB = "env: e\n" + "".join(f"a{i}: &a{i} [{NINE([f'*a{i - 1}'] * 9) if i else '1'}]\n" for i in range(9))
SCENARIOS = sorted(Path(__file__).parents[2].glob("scenarios/*.yaml"))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_no_key_lives_in_two_sections() -> None:
    sections = [TOP_KEYS, ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS]
    for i, a in enumerate(sections):
        for b in sections[i + 1 :]:
            assert not a & b


def test_every_key_is_documented() -> None:
    text = everything()
    for name in (*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS):
        assert f"  {name} (" in text
    assert "None)" not in text.replace("default None", "")
    assert ": None" not in text


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_a_shipped_scenario_survives_its_complete_form(path: Path) -> None:
    scenario = load_scenario(path)
    again = compose(yaml.safe_load(yaml.safe_dump(describe(scenario))))
    assert describe(again) == describe(scenario)
    assert scenario.goal
    assert scenario.stop


def test_changes_by_set_reach_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "x.yaml", "env: two_step_game\nalgo: qmix\nnum_workers: 2\n")
    scenario = load_scenario(
        path, ["algo.name=vdn", "lr=5e-4", "num_workers=0", "fcnet_hiddens=[8, 8]", "evaluation.episodes=3"]
    )
    assert scenario.preset.name == "vdn"
    assert scenario.preset.configure(**scenario.algo_keys).lr == 5e-4
    assert (scenario.num_workers, scenario.model.fcnet_hiddens, scenario.evaluation.episodes) == (0, [8, 8], 3)
    assert scenario.name == "x"


def test_names_of_algorithms_are_case_insensitive() -> None:
    assert compose({"env": "e", "algo": "QMIX"}).preset is ALGOS["qmix"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"env": "e", "num_worker": 2}, "unknown key 'num_worker'. Did you mean 'num_workers'"),
        ({"env": "e", "algo": {"name": "qmix", "mixr": "sum"}}, "unknown key 'mixr'. Did you mean 'mixer'"),
        ({"env": "e", "algo": "qmxi"}, "unknown algorithm 'qmxi'.*Did you mean 'qmix'"),
        ({"env": "e", "evaluation": {"episode": 2}}, "unknown key 'evaluation.episode'. Did you mean 'episodes'"),
        (
            {"env": "e", "model": {"fcnet_hidden": [2]}},
            "unknown key 'model.fcnet_hidden'. Did you mean 'fcnet_hiddens'",
        ),
        ({"env": "e", "num_workers": "two"}, "num_workers = 'two' .* does not fit"),
        ({"env": "e", "num_workers": -1}, "greater than or equal to 0"),
        ({"env": "e", "lr": 0}, "lr = 0 .* greater than 0"),
        ({"env": "e", "algo": {"name": "dqn", "clip_param": 0.2}}, "dqn has no key 'clip_param'"),
        ({"algo": "ppo"}, "the key 'env' is missing"),
        (
            {"env": "e", "exploration_config": {"type": "EpsilonGreedy", "random_timesteps": 3}},
            "random_timesteps: 3 needs type.*, but type is EpsilonGreedy",
        ),
        ({"env": "e", "stop": 5}, "stop = 5"),
        ({"env": "e", "multiagent": {"policies": {"p": {"lrr": 1}}, "policy_mapping_fn": "shared"}}, ""),
    ],
)
def test_a_mistake_gets_one_clear_message(keys: dict[str, Any], text: str) -> None:
    if text:
        with pytest.raises(ConfigError, match=text):
            compose(keys)
        return
    from marl.scenario.resolve import resolve

    with pytest.raises(ConfigError, match=r"policies.p: unknown key 'lrr'. Did you mean 'lr'"):
        resolve(compose({**keys, "env": "two_step_game"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: [1, 2", "not readable YAML.*line"),
        ("!!python/object/apply:os.system ['touch owned']", "not readable YAML"),
        ("env: e\nenv: f", "given twice"),
        ("- a\n- b", "holds a list"),
        ("", "holds a NoneType"),
        ("just words", "holds a str"),
        (BOMB, "unfolds to more than"),
        ("[" * 3000, "not readable YAML|holds"),
        ("env: \x00", "not readable YAML"),
    ],
)  # fmt: skip
def test_broken_and_hostile_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_scenario(write(tmp_path / "bad.yaml", text))


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "two_step.yaml", "env: e")
    with pytest.raises(ConfigError, match=r"no scenario file .*Did you mean .*two_step\.yaml"):
        load_scenario(tmp_path / "two_stp.yaml")


@pytest.mark.parametrize("text", ["lr", "=3", "lr=[1"])
def test_a_bad_set_is_explained(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set"):
        load_scenario(write(tmp_path / "x.yaml", "env: e"), [text])


def test_the_scenario_class_and_its_keys_agree() -> None:
    assert set(Scenario.model_fields) == TOP_KEYS
