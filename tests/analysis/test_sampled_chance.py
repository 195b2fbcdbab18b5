"""NashConv of a user's own card game, as commands, reports, result files, the display and goals tell it.

Both players play 1/2 everywhere, so that all figures are known as fractions (``tests/gametheory/card_games.py``).
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from marl import Trainer
from marl.analysis.exploit import sampled_in_words
from marl.cli.app import app
from marl.errors import ChanceError, ConfigError
from marl.gametheory.tree.tree import ChanceSample
from marl.populations.exploit_config import ExploitabilityConfig
from marl.runs.result import reached
from marl.training.display import plain_line, table_cells
from marl.training.examination.places import InTheRun
from marl.training.examiner import Examiner
from tests.analysis.runs import TINY
from tests.gametheory.card_games import CARDS, true_gains, true_value

GAMES = "tests.gametheory.card_games"
HALF = [Fraction(1, 2)] * CARDS
NASH_CONV = float(sum(true_gains(HALF, HALF)))
KEYS: dict[str, Any] = {**TINY["ppo"], "policy_mapping_fn": "per_agent"}


def saved(folder: Path, env: str) -> Path:
    """A checkpoint of two players whose networks are all zeros: both play 1/2."""
    with Trainer("ppo", config={**KEYS, "env": f"{GAMES}:{env}"}) as trainer:
        weights = trainer.get_weights()
        for arrays in weights.values():
            for array in arrays.values():
                array[...] = 0.0
        trainer.set_weights(weights)
        return Path(trainer.save(folder / env))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {env: saved(folder, env) for env in ("ListedCardGame", "CardGame")}


def told(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments), "--allow", "tests"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_exploit_is_exact_where_chance_is_listed(runs: dict[str, Path]) -> None:
    found = json.loads(told("exploit", runs["ListedCardGame"], "--json"))
    assert (found["bound"], found["exact"], found["chance"]) == ("exact", True, {"mode": "exact"})
    assert found["nash_conv"] == pytest.approx(NASH_CONV, abs=1e-9)
    assert (found["stderr"], found["exploitability_stderr"]) == (0.0, 0.0)
    assert told("exploit", runs["ListedCardGame"]).startswith("NashConv = 0.625 (exact)")


def test_exploit_gives_sampled_chance_with_its_error(runs: dict[str, Path]) -> None:
    found = json.loads(told("exploit", runs["CardGame"], "--json", "--chance-samples", 150))
    assert (found["bound"], found["exact"]) == ("sampled chance", False)
    assert (found["chance"]["mode"], found["chance"]["seeds"], found["chance"]["starts"]) == ("sampled", 150, 12)
    assert 0 < found["chance"]["unseen"] < 0.02
    assert found["stderr"] > 0
    assert found["exploitability_stderr"] == pytest.approx(found["stderr"] / 2)
    assert all(error > 0 for error in found["errors"].values())
    assert found["nash_conv"] == pytest.approx(NASH_CONV, abs=2 * found["stderr"])
    lines = told("exploit", runs["CardGame"], "--chance-samples", 150)
    assert lines.startswith("NashConv ~ 0.")
    assert "+-" in lines.splitlines()[0]
    assert "chance was sampled: 12 different starts in 150 reset seeds" in lines
    assert "NashConv of a sample tends to err upwards" in lines


def test_a_report_gives_values_and_errors_of_both_kinds(runs: dict[str, Path], tmp_path: Path) -> None:
    def report(env: str, *more: object) -> tuple[Any, str]:
        made = told("report", f"{GAMES}:{env}", *more, "--episodes", 2, "--json", "--out", tmp_path / env)
        return json.loads(made), (tmp_path / env / "report.txt").read_text()

    tree = report("ListedCardGame")[0]["game"]["tree"]
    assert (tree["chance"], tree["exact"], tree["sample"]) == ("exact", True, None)
    assert tree["values"]["first"] == pytest.approx(true_value(), abs=1e-9)
    assert tree["value_stderrs"] == {"first": 0.0, "second": 0.0}
    assert tree["uniform_nash_conv"] == pytest.approx(NASH_CONV, abs=1e-9)
    assert tree["uniform_nash_conv_stderr"] == 0.0

    sampled, page = report("CardGame", runs["CardGame"], "--no-random", "--chance-samples", 150)
    tree, (bound,) = sampled["game"]["tree"], sampled["exploitability"]
    assert (tree["chance"], tree["exact"], tree["sample"]["seeds"]) == ("sampled", False, 150)
    assert tree["value_stderrs"]["first"] > 0
    assert tree["values"]["first"] == pytest.approx(true_value(), abs=2 * tree["value_stderrs"]["first"])
    assert tree["uniform_nash_conv_stderr"] == bound["stderr"] > 0
    assert (bound["bound"], bound["nash_conv"]) == ("sampled chance", tree["uniform_nash_conv"])
    assert bound["nash_conv"] == pytest.approx(NASH_CONV, abs=2 * bound["stderr"])
    assert bound["errors"]["first"] > 0
    assert f"~ {bound['nash_conv']:.3g} ± " in page
    assert "The whole game (sampled chance)" in page
    note = page.split("Note: ")[1].split("\n\n")[0]
    assert "different starts" in note
    assert "upwards" not in note  # values of a sample do not lean


def test_seeds_that_play_alike_are_told_as_such_with_what_would_make_it_exact() -> None:
    told_so = sampled_in_words(ChanceSample(np.array([370])).as_json())
    assert told_so.startswith("all 370 reset seeds in the tree play alike, about 0.54% unseen")
    assert "chance_outcomes() that gives {None: 1.0}" in told_so


def test_results_the_display_and_goals_know_that_a_figure_is_sampled(tmp_path: Path) -> None:
    exam = {"interval": 1, "chance_samples": 60}
    with Trainer("ppo", config={**KEYS, "env": f"{GAMES}:CardGame", "exploitability": exam}) as trainer:
        trainer.store.open(tmp_path)
        result = trainer.train()
    found = json.loads((tmp_path / "result.json").read_text())["exploitability"]
    assert (found["bound"], found["exact"], found["chance"]["seeds"]) == ("sampled chance", False, 60)
    figure, error = found["nash_conv"], found["stderr"]
    assert error > 0
    assert f"nash_conv ~{figure:.4f}" in plain_line(result)
    assert table_cells(result)["nash conv"] == f"~{figure:.4f}"
    assert not reached(result, {"exploitability.nash_conv": figure + 1.9 * error})
    assert reached(result, {"exploitability.nash_conv": figure + 2.1 * error})
    assert not reached(result, {"exploitability.exploitability": (figure + 1.9 * error) / 2})
    assert reached(result, {"exploitability.exploitability": (figure + 2.1 * error) / 2})


@pytest.mark.slow
def test_a_run_does_not_take_a_lucky_figure_for_its_goal(tmp_path: Path) -> None:
    """Two actions of at most 2 apart: any strategy is within 2 of NashConv, and a sample of 60 seeds errs by far less."""
    scenario = tmp_path / "cards.yaml"
    scenario.write_text(
        f"""
env: {GAMES}:CardGame
algo: {{name: ppo, train_batch_size: 32, sgd_minibatch_size: 32, num_sgd_iter: 1}}
model: {{fcnet_hiddens: [4]}}
multiagent: {{policy_mapping_fn: per_agent}}
evaluation: {{interval: 0}}
exploitability: {{interval: 1, chance_samples: 60}}
goal: {{exploitability.nash_conv: 0.7}}
stop: {{training_iteration: 1, goal: true}}
"""
    )
    done = CliRunner().invoke(app, ["run", str(scenario), "--as-test", "--local-dir", str(tmp_path / "results")])
    (file,) = (tmp_path / "results").rglob("result.json")
    found = json.loads(file.read_text().splitlines()[-1])["exploitability"]
    assert found["nash_conv"] < 0.7 < found["nash_conv"] + 2 * found["stderr"]
    assert done.exit_code == 1
    assert "goal missed: exploitability.nash_conv 0.7" in done.output
    assert f"it counts by {found['nash_conv']:.4g} + 2 x {found['stderr']:.2g} = " in done.output.replace("\n", " ")


def test_an_env_that_lists_its_chance_wrongly_is_refused_before_training_whatever_the_method() -> None:
    with pytest.raises(ChanceError, match="does not look at options"):
        Trainer(
            "ppo", config={**KEYS, "env": "tests.gametheory.test_tree_chance:Deaf", "exploitability": {"interval": 1}}
        )


def test_an_env_that_never_repeats_is_measured_by_best_responses_which_is_said() -> None:
    keys = {**KEYS, "env": "tests.gametheory.test_tree_chance:Dice", "exploitability": {"interval": 1}}
    with Trainer("ppo", config=keys) as trainer:
        place = trainer.exploitability.place
        assert isinstance(place, InTheRun)
        assert place.examiner.tree is None
        assert "200 reset seeds gave 200 different starts" in place.examiner.choice.why
        assert place.examiner.choice.why in trainer.notes[0]
        with pytest.raises(ConfigError, match="different starts"):
            Examiner(trainer.setup, ExploitabilityConfig(method="exact"))
    with pytest.raises(ValueError, match=r"chance_samples: 5 needs method: .*, but method is trained"):
        ExploitabilityConfig(method="best_response", chance_samples=5)
