"""What a scenario with ``env: external`` may say, and which algorithms learn from clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.driving import contract_of
from marl.envs.registry import make_env
from marl.errors import ConfigError, EnvError
from marl.runs.fields import explain
from marl.scenario.external import Learns, learns_from
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "external.md"
AGENTS, _ = contract_of(make_env("CartPole-v1"))
BASE: dict[str, Any] = {"env": "external", "env_config": {"agents": AGENTS}, "evaluation": {"interval": 0}}


def refused(**keys: Any) -> str:
    with pytest.raises(ConfigError) as error:
        resolve(compose({**BASE, **keys}))
    return str(error.value)


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"num_workers": 2}, "num_envs_per_worker is the number of episodes"),
        ({"fresh_env_per_episode": True}, "Let the client build it"),
        ({"env_timeout_s": 3.0}, "external: {episode_timeout_s: ...}"),
        ({"curriculum": [{"env_config": {}, "until": {"timesteps_total": 5}}]}, "Let clients change what they play"),
        ({"env_task_fn": "json:loads"}, "Let clients change what they play"),
        ({"population": {"kind": "self_play"}}, "Drop population"),
        ({"input": "data", "algo": "marwil"}, "Drop input"),
        ({"record_env": True}, "Film it there"),
        ({"render_env": True}, "Show it there"),
        ({"exploitability": {"interval": 2}}, "Set it to 0"),
        ({"evaluation": {"interval": 5}}, "Set evaluation: {interval: 0}, or give evaluation.env"),
    ],
)
def test_keys_that_mean_nothing_where_clients_play_are_refused_with_the_remedy(
    keys: dict[str, Any], remedy: str
) -> None:
    assert remedy in refused(**keys)


def test_an_env_of_evaluations_that_can_be_played_here_is_taken() -> None:
    setup = resolve(compose({**BASE, "evaluation": {"interval": 1, "episodes": 2, "env": "CartPole-v1"}}))
    assert setup.rollout.evaluation_recipe is not None
    assert setup.rollout.evaluation_recipe.env == "CartPole-v1"


def test_groups_of_the_contract_are_teams_unless_the_scenario_names_others() -> None:
    agents, size = contract_of(make_env("two_step_game"))
    named = {name: {**entry, "group": "pair"} for name, entry in agents.items()}
    keys = {**BASE, "env_config": {"agents": named, "state_size": size}, "algo": "qmix"}
    assert resolve(compose(keys)).task.groups == {"pair": (0, 1)}
    own = resolve(compose({**keys, "groups": {"first": ["agent_0"], "second": ["agent_1"]}}))
    assert set(own.task.groups) == {"first", "second"}


def test_without_a_server_an_external_env_says_how_it_is_played() -> None:
    env = make_env("external", {"agents": AGENTS})
    with pytest.raises(EnvError, match="marl run"):
        env.reset(seed=0)
    with pytest.raises(ConfigError, match="does not know its agents"):
        make_env("external", {})


@pytest.mark.parametrize("name", list(ALGOS))
def test_the_table_in_the_docs_says_of_every_algorithm_what_it_learns_from(name: str) -> None:
    preset = ALGOS[name]
    learns = learns_from(preset, preset.configure())
    row = re.search(rf"^\| {name} \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None, f"{name} is not in the table of {DOCS.name}"
    assert row[1] == learns.value


def test_what_cannot_learn_from_clients_is_refused_with_one_sentence() -> None:
    assert "which has to play games of its own" in refused(algo="es")
    assert learns_from(ALGOS["es"], ALGOS["es"].configure()) is Learns.NOTHING


def test_marl_explain_knows_the_fields_of_runs_with_clients() -> None:
    assert "older" in explain("info.stale_steps_dropped")
    assert "session" in explain("info.num_clients")


def test_a_server_that_strangers_could_reach_needs_a_token() -> None:
    with pytest.raises(ConfigError, match="token_file"):
        Trainer(env="external", config={**BASE, "external": {"host": "0.0.0.0", "port": 0}})


def test_a_space_that_cannot_be_built_is_told_in_one_sentence() -> None:
    agents = {"a": {"observation_space": {"type": "Bax"}, "action_space": {"type": "Discrete", "n": 2, "start": 0}}}
    told = refused(env_config={"agents": agents})
    assert told.startswith(
        "env_config: agents.a.observation_space: {'type': 'Bax'} is not a space (a space of type 'Bax'"
    )
    assert "unknown key 'agent'. Did you mean 'agents'" in refused(env_config={"agent": agents})


def test_agents_with_names_beside_patterns_have_policies_by_their_spaces() -> None:
    name = "light"
    seen = {"type": "Box", "low": 0, "high": 1, "shape": [2], "dtype": "float32"}
    cars = {"observation_space": seen, "action_space": {"type": "Discrete", "n": 2, "start": 0}, "max": 3}
    other = {"observation_space": seen, "action_space": {"type": "Discrete", "n": 5, "start": 0}}
    setup = resolve(compose({**BASE, "env_config": {"agents": {"car_*": cars, name: other}}}))
    (mine,), (theirs,) = setup.rollout.mapper.candidates(name), setup.rollout.mapper.candidates("car_2")
    assert mine != theirs
    assert set(setup.policies) == {mine, theirs}
