"""A stored proof is fresh as long as its first iterations come out as they did: whatever was renamed, and only then."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import proofs.freshness
import proofs.runner
from marl.algos.tabular import updates
from proofs.__main__ import ROOT, main
from proofs.apart import apart
from proofs.declaration import Places, Proof, read_proofs
from proofs.freshness import standing_of
from proofs.opening import Opening, opening_of, play_opening
from proofs.results import Results, SeedResult, read_results
from proofs.setting import Setting, setting_of
from proofs.sources import Sources, package_sources

REWARD = "evaluation.episode_reward_mean"
TABLES = {
    "env": "two_step_game",
    "env_config": {"one_hot_state_encoding": False},
    "algo": {"name": "q_learning", "averaging": True, "gamma": 0.99},
    "multiagent": {"policy_mapping_fn": "per_agent"},
    "num_envs_per_worker": 4,
    "timesteps_per_iteration": 64,
    "evaluation": {"interval": 1, "episodes": 2},
    "goal": {REWARD: 7.0},
    "stop": {"timesteps_total": 128},
    "seed": 0,
}
CLAIM = {"claim": "Tables learn.", "scenario": "tables", "seeds": 2, "budget": 192, "reaches": {REWARD: 0.0}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A project with one small proof, whose seeds and replays run in this process."""
    places = Places(tmp_path)
    for folder in ("proofs", "scenarios"):
        (tmp_path / folder).mkdir()
    write(places, "tables", TABLES)
    declare(places)
    for module in (proofs.runner, proofs.freshness):
        monkeypatch.setattr(module, "apart", here)
    return places


def here(work: Callable[..., Any], *given: Any, news: Callable[..., None], name: str) -> Any:
    return work(*given, news)


def write(places: Places, name: str, scenario: dict[str, Any], comment: str = "") -> None:
    (places.root / "scenarios" / f"{name}.yaml").write_text(comment + yaml.safe_dump(scenario))


def declare(places: Places, **keys: Any) -> None:
    places.declarations.write_text(yaml.safe_dump({"tables": {**CLAIM, **keys}}))


def only(places: Places) -> Proof:
    (proof,) = read_proofs(places)
    return proof


def stored(places: Places) -> Results:
    results = read_results(places.results / "tables.json")
    assert results is not None
    return results


def pretend_that_a_file_was_another(places: Places, module: str = "marl.algos.tabular.updates") -> None:
    """As after a comment, a rename or a new rule in that module: only a replay tells which of them it was."""
    path = places.results / "tables.json"
    content = json.loads(path.read_text())
    assert module in content["sources"]
    content["sources"][module] = "0" * 16
    path.write_text(json.dumps(content))


def use_another_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "marl.algos.tabular.learner.backed_up",
        lambda rows, gamma, later: updates.backed_up(rows, 0.5 * gamma, later),
    )


# -- replays -----------------------------------------------------------------------------------------------------------


def test_a_changed_file_is_replayed_and_a_changed_rule_is_stale_and_runs_again(
    project: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], project.root) == 0
    measured = stored(project).seeds
    pretend_that_a_file_was_another(project)
    assert standing_of(stored(project), only(project), project).state == "unchecked"
    assert main(["--check"], project.root) == 0
    assert "tables: fresh\n" in capsys.readouterr().out
    assert standing_of(stored(project), only(project), project).state == "fresh"  # and the files of now are kept
    assert stored(project).seeds == measured

    pretend_that_a_file_was_another(project)
    with monkeypatch.context() as patched:
        use_another_rule(patched)
        assert main(["--check"], project.root) == 1
        assert "tables: stale (seed 0: other weights after" in capsys.readouterr().out
        assert "ok (stale)" in project.report.read_text()
        assert main([], project.root) == 0
        assert "seed 1: ok" in capsys.readouterr().out  # it was run again
        assert "ok (stale)" not in project.report.read_text()
    assert [seed.first for seed in stored(project).seeds.values()] != [seed.first for seed in measured.values()]
    pretend_that_a_file_was_another(project)
    assert main(["--check"], project.root) == 1  # the old rule is the one that differs now


def test_one_seed_tells_and_certifies_nothing_for_the_others(
    project: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], project.root) == 0
    pretend_that_a_file_was_another(project)
    assert main(["--check", "--one-seed"], project.root) == 0
    assert "tables: fresh (by its first seed; not kept)" in capsys.readouterr().out
    assert standing_of(stored(project), only(project), project).state == "unchecked"
    use_another_rule(monkeypatch)
    assert main(["--check", "--one-seed"], project.root) == 1
    assert standing_of(stored(project), only(project), project).state == "stale"


def test_a_comment_another_name_and_another_limit_change_nothing(
    project: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], project.root) == 0
    write(project, "renamed", dict(reversed(TABLES.items())), "# as before\n")
    declare(project, scenario="renamed", claim="Something else.", reaches={REWARD: 99.0})
    assert main([], project.root) == 1
    assert "tables: miss, fresh, skipped" in capsys.readouterr().out


def test_a_key_that_decides_later_makes_it_stale_without_a_replay(project: Places) -> None:
    assert main([], project.root) == 0
    declare(project, set={"algo.lr_schedule": None, "evaluation.episodes": 3})
    assert "evaluation.episodes is 3, was 2" in standing_of(stored(project), only(project), project).why
    declare(project, budget=256)
    assert "budget of its declaration is 256, was 192" in standing_of(stored(project), only(project), project).why


@pytest.mark.slow
def test_a_replay_that_is_killed_breaks_nothing(
    project: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], project.root) == 0
    pretend_that_a_file_was_another(project)
    before = (project.results / "tables.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(proofs.freshness, "apart", apart)
        patched.setattr(proofs.freshness, "replay_seeds", killed)
        assert main(["--check"], project.root) == 1
    assert "tables: unchecked (replay of tables: its process died (exit code -9)" in capsys.readouterr().out
    assert (project.results / "tables.json").read_bytes() == before
    assert main(["--check"], project.root) == 0


def killed(*_: Any) -> None:
    """A replay whose process gets `kill -9` in its middle."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_nothing_begins_when_the_time_is_over_and_the_same_command_goes_on(project: Places) -> None:
    assert main(["--minutes", "0"], project.root) == 1
    assert read_results(project.results / "tables.json") is None
    assert main(["--minutes", "5", "--cheapest"], project.root) == 0


def test_new_seeds_replace_old_ones_when_all_of_them_are_there(
    project: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([], project.root) == 0
    before = (project.results / "tables.json").read_bytes()
    ran: list[int] = []
    run_apart = proofs.runner.run_apart

    def pressed_in_the_second_seed(proof: Proof, places: Places, number: int, *rest: Any) -> SeedResult:
        ran.append(number)
        if ran == [0, 1]:
            raise KeyboardInterrupt
        return run_apart(proof, places, number, *rest)

    monkeypatch.setattr(proofs.runner, "run_apart", pressed_in_the_second_seed)
    assert main(["--force"], project.root) == 130
    assert (project.results / "tables.json").read_bytes() == before
    assert main(["--force"], project.root) == 0
    assert ran == [0, 1, 1]
    assert not project.unfinished(only(project)).exists()
    assert list(stored(project).seeds) == [0, 1]


# -- hashes ------------------------------------------------------------------------------------------------------------


def test_an_opening_is_the_same_again_and_another_with_another_seed(project: Places) -> None:
    proof = only(project)
    first = play_opening(proof, project, 0, None, None, lambda: None)
    again = play_opening(proof, project, 0, None, first.iterations, lambda: None)
    other = play_opening(proof, project, 1, None, first.iterations, lambda: None)
    assert first.iterations == 2
    assert again.differs(first) is None
    assert other.differs(first) == "other weights after 2 iterations"


def test_another_machine_may_round_otherwise_and_cannot_say_more() -> None:
    before = Opening(3, "a", "b", {"reward": 10.0, "weights of p": 2.0}, "one machine")
    rounded = dataclasses.replace(before, weights="c", numbers={"reward": 10.0, "weights of p": 2.0001})
    assert rounded.differs(before) == "other weights after 3 iterations"
    assert dataclasses.replace(rounded, machine="another").differs(before) is None
    other = dataclasses.replace(rounded, machine="another", numbers={"reward": 12.0, "weights of p": 2.0})
    assert other.differs(before) == "reward is 12.0, was 10.0"


def test_names_of_parameters_and_single_numbers_are_not_hashed(project: Places) -> None:
    with_proof = play_opening(only(project), project, 0, None, 1, lambda: None)
    assert with_proof.numbers["timesteps_total"] == 64
    weights = {"p": {"layer": np.arange(6.0).reshape(2, 3), "epsilon": np.array(0.5)}}
    renamed = {"p": {"block.layer": np.arange(6.0).reshape(2, 3), "epsilon": np.array(0.1)}}
    moved = {"p": {"layer": np.arange(6.0).reshape(2, 3) + 1e-9}}
    assert opening_of(1, weights, []).weights == opening_of(1, renamed, []).weights
    assert opening_of(1, weights, []).weights != opening_of(1, moved, []).weights
    assert opening_of(1, weights, [{"reward": 1.0}]).results != opening_of(1, weights, [{"reward": 1.5}]).results


# -- settings ----------------------------------------------------------------------------------------------------------


def test_new_keys_at_their_defaults_and_renamed_keys_are_left_to_the_replay() -> None:
    before = Setting({"budget": 10}, {"algo.lr": 0.1, "env": "e"}, {"algo.gamma": 0.99, "old": 1})
    came = Setting({"budget": 10}, {"algo.lr": 0.1, "env": "e"}, {"algo.gamma": 0.99, "new": 5})
    renamed = Setting({"budget": 10}, {"algo.step_size": 0.1, "env": "e"}, {"algo.gamma": 0.99})
    assert before.difference(came) is None
    assert before.difference(renamed) is None


@pytest.mark.parametrize(
    ("given", "defaults", "told"),
    [
        ({"algo.lr": 0.2, "env": "e"}, {"algo.gamma": 0.99}, "algo.lr is 0.2, was 0.1"),
        ({"algo.lr": 0.1, "env": "e"}, {"algo.gamma": 0.9}, "algo.gamma is 0.9, was 0.99"),
        ({"env": "e"}, {"algo.gamma": 0.99}, "algo.lr is no longer given, was 0.1"),
        ({"algo.lr": 0.1, "env": "e", "x": 3}, {"algo.gamma": 0.99}, "x is 3, was not there"),
    ],
)
def test_other_values_make_a_difference(given: dict[str, Any], defaults: dict[str, Any], told: str) -> None:
    before = Setting({"budget": 10}, {"algo.lr": 0.1, "env": "e"}, {"algo.gamma": 0.99})
    assert before.difference(Setting({"budget": 10}, given, defaults)) == told


def test_settings_of_all_proofs_come_back_from_a_file_as_they_were() -> None:
    places = Places(ROOT)
    for proof in read_proofs(places):
        setting = setting_of(proof, places)
        again = Setting(**json.loads(json.dumps(dataclasses.asdict(setting))))
        assert again.difference(setting) is None
        assert {"env", "algo.name"} <= {*setting.given, *setting.defaults}


def test_a_module_that_changed_between_two_seeds_is_seen_later(project: Places) -> None:
    opening = Opening(1, "a", "b", {}, "here")
    results = Results(setting_of(only(project), project))
    results.add(seed(0, opening, {"marl.trainer": "1"}))
    results.add(seed(1, opening, {"marl.trainer": "2", "marl.qmix": "3"}))
    assert results.sources == {"marl.qmix": "3", "marl.trainer": "1"}
    now = {"marl.trainer": "2", "marl.qmix": "3", "marl.new": "4"}
    assert standing_of(results, only(project), project, now).state == "unchecked"
    assert standing_of(results, only(project), project, {**now, "marl.trainer": "1"}).state == "fresh"
    gone = {"marl.trainer": "1"}
    assert standing_of(results, only(project), project, gone).state == "unchecked"


def seed(number: int, first: Opening, sources: Sources) -> SeedResult:
    return SeedResult(number, [(10, {REWARD: 5.0})], 1.0, first=first, sources=sources)


def test_files_of_the_package_are_found() -> None:
    assert "marl.algos.tabular.updates" in package_sources()
