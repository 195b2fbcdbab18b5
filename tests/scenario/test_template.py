"""``marl init``: what it writes is valid, complete and runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from marl.errors import UserError
from marl.scenario.init_template import file_name, scenario_text
from marl.scenario.load import compose, load_scenario
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer


def uncommented(text: str, section: str) -> str:
    """The text with one commented section in use."""
    lines, on = [], False
    for line in text.splitlines():
        on = (on or line == f"# {section}:") and line.startswith("#")
        lines.append(line.removeprefix("# ") if on else line)
    return "\n".join(lines)


@pytest.mark.parametrize(("env", "algo"), [("two_step_game", "ppo"), ("CartPole-v1", "dqn"), ("Pendulum-v1", "sac")])
def test_a_written_scenario_is_valid_and_says_who_plays(env: str, algo: str, tmp_path: Path) -> None:
    text = scenario_text(env, {}, algo)
    path = tmp_path / file_name(env)
    path.write_text(text)
    scenario = load_scenario(path)
    setup = resolve(scenario)
    assert (scenario.env, scenario.preset.name, scenario.stop) == (env, algo, {"timesteps_total": 100_000})
    for kind in setup.task.kinds:
        assert all(agent in text for agent in kind.agents)
        assert str(kind.action_space) in text
    for key in scenario.preset.family.config.model_fields:
        assert f"{key}: " in text or key in scenario.preset.fixed
    assert max(map(len, text.splitlines())) <= 160


def test_it_runs_at_once(tmp_path: Path) -> None:
    scenario = compose({**yaml.safe_load(scenario_text("two_step_game", {}, "ppo")), "train_batch_size": 64})
    with Trainer(scenario=scenario) as trainer:
        assert trainer.train()["timesteps_total"] >= 64


def test_the_commented_section_of_policies_can_be_used(tmp_path: Path) -> None:
    text = uncommented(scenario_text("two_step_game", {}), "multiagent")
    assert list(resolve(compose(yaml.safe_load(text))).policies) == ["agent_0", "agent_1"]


def test_commented_keys_of_the_algorithm_can_be_used() -> None:
    text = scenario_text("CartPole-v1", {}, "ppo").replace("  # clip_param: ", "  clip_param: ")
    assert yaml.safe_load(text)["algo"]["clip_param"] > 0


def test_env_config_is_written_down_and_checked() -> None:
    text = scenario_text("two_step_game", {"one_hot_state_encoding": False})
    assert yaml.safe_load(text)["env_config"] == {"one_hot_state_encoding": False}
    with pytest.raises(UserError, match="one_hot"):
        scenario_text("two_step_game", {"one_hot": 1})


def test_file_names_come_from_the_last_word_of_the_env() -> None:
    assert file_name("pettingzoo:mpe2/simple_spread_v3") == "simple_spread_v3.yaml"
    assert file_name("CartPole-v1") == "cartpole_v1.yaml"
    assert file_name("my.module:MyWorld") == "myworld.yaml"
