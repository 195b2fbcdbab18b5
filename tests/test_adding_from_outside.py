"""What can be added without an edit in marl: each in a module of its own, which a run or a report then uses."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

from marl.algos.presets import ALGOS
from marl.analysis.exploit import exploitability_of
from marl.cli.app import app
from marl.envs.families import ENV_FAMILIES, register_env_family
from marl.envs.registry import make_env
from marl.errors import ConfigError, LoggerError, UnknownNameError, UserError
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import RANKINGS, bootstrap, register_ranking, scored
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.kinds import POPULATIONS, register_population
from marl.populations.meta_solvers import META_SOLVERS
from marl.registry import Registry, only_modules
from marl.runs.loggers import LOGGERS
from marl.scenario.load import compose
from marl.scenario.reference import scenario_keys
from marl.scenario.schema import scenario_schema
from marl.training.trainer import Trainer

Write = Callable[[str, str], str]
REGISTRIES: tuple[Registry[Any], ...] = (ALGOS, POPULATIONS, META_SOLVERS, ENV_FAMILIES, RANKINGS, LOGGERS)
RPS: dict[str, Any] = {
    "env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}, "train_batch_size": 64, "sgd_minibatch_size": 32,
    "num_sgd_iter": 1, "fcnet_hiddens": [4], "num_envs_per_worker": 16, "evaluation": {"interval": 0},
}  # fmt: skip


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module of the user's own to the working directory; what it registers is forgotten after the test."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
        monkeypatch.setattr(registry, "_added", set(registry._added))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    written = []

    def write(name: str, code: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(code), encoding="utf-8")
        importlib.invalidate_caches()
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


# -- algorithms ----------------------------------------------------------------------------------------------------


def test_an_algorithm_learns_in_its_own_way(module: Write) -> None:
    name = module(
        "own_algorithm",
        """
        import marl
        from marl.algos.central_critic.learner import CentralCriticLearner

        class Counting(CentralCriticLearner):
            "ppo that counts its batches."
            like = "ppo"
            defaults = {"lr": 0.125}
            batches = 0

            def learn(self, batch):
                self.batches += 1
                return {name: {**row, "batches": self.batches} for name, row in super().learn(batch).items()}

        marl.register_algorithm("counting", Counting)
        """,
    )
    with Trainer("counting", config={**RPS, "imports": [name]}) as trainer:
        trainer.train()
        stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert (stats["batches"], stats["cur_lr"]) == (2, 0.125)


# -- populations ---------------------------------------------------------------------------------------------------


OLDEST = """
    import numpy as np
    import marl

    class Oldest(marl.PopulationKind):
        description = "the very first snapshot"
        keys = ("window",)

        def answer(self, round_end):
            return round_end.even()

        def opponents(self, round_end, learner, foe, answer):
            return np.eye(round_end.size(foe))[0]

    marl.register_population("oldest", Oldest)
"""


def test_a_population_kind_decides_whom_a_learner_meets(module: Write) -> None:
    population = {"kind": "Oldest", "round_timesteps": 64, "window": 2}
    keys = {**RPS, "imports": [module("own_kind", OLDEST)], "population": population}
    with Trainer("ppo", config=keys) as trainer:
        trainer.train()
        trainer.train()
        assert trainer.population is not None
        met = trainer.population.mixture("player_1.against.player_0").chances.tolist()
        answer = trainer.population.numbers["meta_strategy"]["player_0"]
        assert trainer.population.as_json()["kind"] == "oldest"
    assert met == [1.0, 0.0, 0.0]
    assert answer == pytest.approx([1 / 3] * 3)


def test_help_schema_and_messages_know_a_kind_from_outside(module: Write) -> None:
    compose({**RPS, "imports": [module("own_kind", OLDEST)]})
    assert "oldest: the very first snapshot." in scenario_keys()
    assert "self_play: the newest snapshots." in scenario_keys()
    enum = scenario_schema()["$defs"]["PopulationConfig"]["properties"]["kind"]["enum"]
    assert enum == ["self_play", "fictitious", "prioritised", "league", "psro", "p2sro", "anytime_psro", "oldest"]
    for population, message in (
        ({"kind": "oldst"}, r"population\.kind: unknown population kind 'oldst'.*Did you mean 'oldest'\?"),
        ({"kind": "psro", "window": 2}, "window: 2 needs kind: self_play or oldest, but kind is psro. .*drop window"),
        ({"kind": "oldest", "matches": 9}, "oldest needs no payoff table"),
    ):
        with pytest.raises(ConfigError, match=message):
            compose({**RPS, "population": population})


def test_a_kind_that_fails_or_says_no_chances_is_named(module: Write) -> None:
    name = module(
        "own_kind",
        """
        import marl

        class Wrong(marl.PopulationKind):
            def answer(self, round_end):
                return [[0.5] * round_end.size(side) for side in round_end.layout.sides]

        class Broken(marl.PopulationKind):
            def opponents(self, round_end, learner, foe, answer):
                return 1 / 0

        marl.register_population("wrong", Wrong)
        marl.register_population("broken", Broken)
        """,
    )
    for kind, message in (
        ("wrong", r"'wrong': answer says \[0\.5 0\.5 0\.5\] for the population 'player_0'; expected 3 chances"),
        ("broken", r"'broken'\.opponents failed: ZeroDivisionError.*own_kind\.py:\d+, in opponents: return 1 / 0"),
    ):
        keys = {**RPS, "imports": [name], "population": {"kind": kind, "round_timesteps": 64}}
        with Trainer("ppo", config=keys) as trainer, pytest.raises(UserError, match=message):
            trainer.train()
            trainer.train()


def test_what_is_no_kind_and_what_is_built_in_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected a class derived from marl\.PopulationKind"):
        register_population("odd", dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the population kind 'psro' is built in already"):
        register_population("psro", POPULATIONS["psro"])
    with pytest.raises(ConfigError, match="expected a word"):
        register_population("my:kind", POPULATIONS["psro"])


# -- meta-solvers --------------------------------------------------------------------------------------------------


def test_a_meta_solver_gives_the_mixture_to_respond_to(module: Write) -> None:
    name = module(
        "own_solver",
        """
        import numpy as np
        import marl

        def last_but_one(payoffs, config):
            assert payoffs.mean.shape[0] == 2 and config.alpha == 3
            sizes = payoffs.mean.shape[1:]
            return [np.eye(size)[-2] for size in sizes]

        marl.register_meta_solver("last_but_one", last_but_one, keys=["alpha"])
        """,
    )
    population = {"kind": "psro", "meta_solver": "last_but_one", "alpha": 3, "round_timesteps": 64, "matches": 2}
    with Trainer("ppo", config={**RPS, "imports": [name], "population": population}) as trainer:
        trainer.train()
        trainer.train()
        assert trainer.population is not None
        assert trainer.population.mixture("player_1.against.player_0").chances.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ConfigError, match=r"unknown meta_solver 'last_but_two'.*Did you mean 'last_but_one'"):
        compose({**RPS, "population": {"kind": "psro", "meta_solver": "last_but_two"}})
    with pytest.raises(
        ConfigError, match="alpha: 3 needs meta_solver: alpha_rank or last_but_one, but meta_solver is nash"
    ):
        compose({**RPS, "population": {"kind": "psro", "alpha": 3}})


# -- families of envs ----------------------------------------------------------------------------------------------


LINES = """
    import functools
    import gymnasium as gym
    import marl
    from marl.errors import ConfigError

    class Line(marl.MultiAgentEnv):
        possible_agents = ("walker",)

        def __init__(self, length, env_config):
            self.length = length
            if env_config.get("map_file"):
                raise AssertionError("followed")

        def observation_space(self, agent):
            return gym.spaces.Discrete(self.length + 1)

        def action_space(self, agent):
            return gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.at = 0
            return {"walker": 0}, {}

        def step(self, actions):
            self.at += 1
            done = {"__all__": self.at == self.length}
            return {"walker": self.at}, {"walker": 1.0}, done, {"__all__": False}, {}

    def line(name):
        if name == "odd":
            return 3
        if not name.isdigit():
            raise ConfigError(f"a line is as long as a number, not {name!r}")
        return functools.partial(Line, int(name))

    marl.register_env_family("line", line, form="LENGTH")
"""
SMALL: dict[str, Any] = {
    "train_batch_size": 32,
    "sgd_minibatch_size": 32,
    "fcnet_hiddens": [4],
    "evaluation": {"interval": 0},
}


def test_a_family_of_envs_builds_what_stands_behind_its_prefix(module: Write) -> None:
    keys = {**SMALL, "imports": [module("own_lines", LINES)], "num_sgd_iter": 1}
    for length in (3, 5):
        with Trainer("ppo", env=f"line:{length}", config=keys) as trainer:
            assert trainer.train()["episode_reward_mean"] == length
    with pytest.raises(ConfigError, match="a line is as long as a number, not 'x'"):
        Trainer("ppo", env="line:x", config=keys)
    with pytest.raises(ConfigError, match="its family gave a int; expected a class or a function"):
        Trainer("ppo", env="line:odd", config=keys)
    with pytest.raises(ConfigError, match=r"Did you mean 'line:3'\?"):
        Trainer("ppo", env="lines:3", config=keys)
    with pytest.raises(UnknownNameError, match=r"pettingzoo:family/name_vN, .*, line:LENGTH, package\.module:Class"):
        Trainer("ppo", env="liner", config=keys)


@pytest.mark.ray
def test_workers_on_ray_know_a_family_that_the_program_registered(module: Write, ray_session: None) -> None:
    path = module("own_lines", LINES)
    exec(compile(Path(f"{path}.py").read_text("utf-8"), "program", "exec"), {"__name__": "__main__"})
    with Trainer("ppo", env="line:4", config={**SMALL, "num_workers": 1, "num_sgd_iter": 1}) as trainer:
        assert trainer.train()["episode_reward_mean"] == 4


def test_a_stranger_s_file_reaches_registered_families_alone_and_no_places_through_them(module: Write) -> None:
    compose({"env": "two_step_game", "imports": [module("own_lines", LINES)]})
    with only_modules(frozenset()):
        assert make_env("line:3", {"colour": "red"}).possible_agents == ("walker",)
        with pytest.raises(ConfigError, match="A place that stands in a file is not followed"):
            make_env("line:3", {"map_file": "/etc/passwd"})
        with pytest.raises(ConfigError, match="would use the module 'own_lines', which was not allowed"):
            make_env("own_lines:Line")


def test_the_five_families_of_marl_are_registered_in_the_same_way_and_stay() -> None:
    assert ENV_FAMILIES.names[:5] == ["pettingzoo", "fast", "vmas", "openspiel", "lbforaging"]
    with pytest.raises(
        UnknownNameError, match=r"there is no env 'fast:simple_spred'.*Did you mean 'fast:simple_spread'"
    ):
        make_env("fast:simple_spred")
    with pytest.raises(ConfigError, match="the env family 'vmas' is built in already"):
        register_env_family("vmas", dict)


# -- rankings ------------------------------------------------------------------------------------------------------


RANKING = """
    import marl
    from marl.gametheory.rank import scored

    def worst_case(payoffs):
        return scored(payoffs, payoffs.mean[0].min(axis=1))

    def broken(payoffs):
        return payoffs.no_such_thing

    marl.register_ranking("worst_case", worst_case, title="Worst case", meaning="what the hardest opponent leaves.", draws=7)
    marl.register_ranking("broken", broken)
"""


def test_a_ranking_stands_in_reports_beside_the_built_in_ones(module: Write, tmp_path: Path) -> None:
    with Trainer("ppo", config=RPS) as trainer:
        saved = trainer.save(tmp_path / "checkpoint")
    module("own_ranking", RANKING)
    words = ["report", "matrix_game", str(saved), "--env-config", json.dumps(RPS["env_config"]), "--episodes", "4"]
    done = CliRunner().invoke(app, [*words, "--import", "own_ranking", "--out", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))
    table = PayoffTensor.load(tmp_path / "report" / "payoffs.json")
    worst = report["ranking"]["methods"]["worst_case"]
    assert [row["score"] for row in worst["strategies"]] == table.mean[0].min(axis=1).tolist()
    assert worst["draws"] == 7
    assert list(report["ranking"]["methods"]) == ["elo", "nash_average", "alpha_rank", "worst_case"]
    assert "Worst case: what the hardest opponent leaves." in done.output
    assert "ranking 'broken' failed: AttributeError" in report["ranking"]["not_ranked"]["broken"]
    assert "Not ranked by broken." in done.output


def test_plain_scores_become_a_ranking_of_the_table_s_strategies() -> None:
    table = PayoffTensor.two_player([[0.0, 1.0], [-1.0, 0.0]], ["ann", "bob"])
    assert bootstrap(table, lambda payoffs: scored(payoffs, payoffs.mean[0].sum(axis=1)), draws=1).table()[0][:2] == (
        "ann",
        1,
    )
    with pytest.raises(
        ConfigError, match=r"scores of shape \(3,\); expected one for each of the 2 strategies \(ann, bob\)"
    ):
        scored(table, [1, 2, 3])
    with pytest.raises(ConfigError, match="the ranking 'elo' is built in already"):
        register_ranking("elo", lambda payoffs: scored(payoffs, [1, 2]))


# -- loggers -------------------------------------------------------------------------------------------------------


LOGGER = """
    import json
    import marl

    class Lines:
        def __init__(self, directory, params):
            self.file = (directory / "lines.txt").open("a")
            print("seed", params["seed"], file=self.file)

        def write(self, result):
            print(json.dumps(result), file=self.file)
            result.clear()

        def close(self):
            print("closed", file=self.file)
            self.file.close()

    class Fragile(Lines):
        def write(self, result):
            if result["training_iteration"] == 2:
                raise RuntimeError("the line is dead")

        def close(self):
            raise RuntimeError("dead still")

    marl.register_logger("lines", Lines)
    marl.register_logger("fragile", Fragile)
    marl.register_logger("no_logger", lambda directory, params: 7)
"""


def test_a_logger_gets_every_result_as_it_is_written_also_after_a_resume(module: Write, tmp_path: Path) -> None:
    keys = {**RPS, "seed": 3, "imports": [module("own_logger", LOGGER)], "loggers": ["lines", "own_logger:Lines"]}
    place = tmp_path / "run"
    with Trainer("ppo", config=keys, directory=place) as trainer:
        trainer.train()
        trainer.save()
    with Trainer("ppo", config={**keys, "loggers": ["Lines"]}, directory=place) as trainer:
        trainer.restore(place)
        trainer.train()
    first, second = (place / "result.json").read_text("utf-8").splitlines()
    expected = ["seed 3", "seed 3", first, first, "closed", "closed", "seed 3", second, "closed"]
    assert sorted((place / "lines.txt").read_text("utf-8").splitlines()) == sorted(expected)
    assert json.loads((place / "params.json").read_text("utf-8"))["loggers"] == ["Lines"]


def test_a_logger_that_fails_is_named_and_the_iteration_is_kept(
    module: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {**RPS, "imports": [module("own_logger", LOGGER)], "loggers": ["fragile"], "checkpoint_freq": 0}
    place = tmp_path / "run"
    with Trainer("ppo", config=keys, directory=place) as trainer:
        trainer.train()
        message = r"logger 'fragile' failed at the result of iteration 2: RuntimeError: the line is dead \(at .*own_logger\.py"
        with pytest.raises(LoggerError, match=message):
            trainer.train()
    assert "logger 'fragile': close() raised RuntimeError: dead still" in caplog.text
    with Trainer("ppo", config={**keys, "loggers": []}) as again:
        again.restore(place)
        assert again.iteration == 2


def test_what_is_no_logger_is_told_before_anything_is_built(module: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown logger 'lines'\. Known: csv, json, mlflow, tensorboard, wandb\."):
        Trainer("ppo", config={**RPS, "loggers": ["lines"]})
    keys = {**RPS, "imports": [module("own_logger", LOGGER)]}
    for loggers, message in (
        (
            ["line"],
            r"unknown logger 'line'\. Known: csv, fragile, json, lines, mlflow, no_logger, tensorboard, wandb\. Did you mean 'lines'\?",
        ),
        (["own_logger:marl"], "is <module"),
        (["no_logger"], r"logger 'no_logger' is a int without write\(\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            Trainer("ppo", config={**keys, "loggers": loggers}, directory=tmp_path / "run").stop()


def test_a_stranger_s_checkpoint_does_not_bring_a_logger_of_its_own(module: Write, tmp_path: Path) -> None:
    module("own_logger", LOGGER)
    with Trainer("ppo", config={**RPS, "loggers": ["own_logger:Lines"]}) as trainer:
        saved = trainer.save(tmp_path / "checkpoint")
    with pytest.raises(ConfigError, match="would use the module 'own_logger', which was not allowed"):
        Trainer.from_checkpoint(saved)
    Trainer.from_checkpoint(saved, allow=["own_logger"]).stop()
    trained = ExploitabilityConfig(method="best_response", best_response_timesteps=64, best_response_episodes=2)
    exploitability_of(saved, trained)  # only looks, so it needs no logger
