"""The declarations fit the scenarios, and the runner skips, goes on and judges as it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import proofs.runner
from marl.errors import ConfigError
from marl.runs.files import RunFiles
from marl.scenario.load import load_scenario
from marl.scenario.resolve import resolve
from marl.tune.objective import Objective
from marl.tune.outcome import TrialOutcome, Tuning
from proofs.__main__ import ROOT, main
from proofs.declaration import Places, Proof, choose, read_proofs
from proofs.freshness import standing_of
from proofs.results import Results, SeedResult, read_results
from proofs.searches import medians
from proofs.sources import changed, package_sources

PLACES = Places(ROOT)
SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))
PROOFS = {proof.name: proof for proof in read_proofs(PLACES)}
REWARD = "evaluation.episode_reward_mean"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_can_be_set_up_and_has_a_goal_a_seed_and_a_budget(path: Path) -> None:
    scenario = load_scenario(path)
    resolve(scenario)
    assert scenario.goal
    assert scenario.stop["timesteps_total"] > 0
    assert scenario.name == path.stem
    assert "seed" in scenario.model_fields_set


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: proof.name)
def test_every_proof_runs_an_existing_scenario_with_twenty_greedy_episodes(proof: Proof) -> None:
    scenario = PLACES.load(proof, seed=3)
    resolve(scenario)
    assert scenario.seed == 3
    assert scenario.stop == {"timesteps_total": proof.budget}
    if any(field.startswith("exploitability.") for field in proof.fields):  # measured exactly, without episodes
        assert scenario.exploitability.interval > 0
        return
    assert scenario.evaluation.interval > 0
    assert scenario.evaluation.episodes >= 20
    assert not scenario.evaluation.explore


def test_every_shipped_scenario_has_a_proof_with_its_results() -> None:
    proved = {proof.scenario for name, proof in PROOFS.items() if (PLACES.results / f"{name}.json").exists()}
    assert {path.stem for path in SCENARIOS} - proved == set()


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.yaml")), ids=lambda path: path.stem)
def test_scenarios_of_benchmarks_can_be_set_up(path: Path) -> None:
    resolve(load_scenario(path))


@pytest.mark.parametrize("path", sorted(PLACES.results.glob("*.json")), ids=lambda path: path.stem)
def test_cached_results_parse_and_belong_to_a_proof(path: Path) -> None:
    results = read_results(path)
    assert path.stem in PROOFS
    assert results is not None
    assert all(result.evaluations for result in results.seeds.values())


def test_the_published_claims_are_declared() -> None:
    assert PROOFS["two_step_uniform_qmix"].ends_at == {REWARD: 8.0}
    assert PROOFS["two_step_uniform_vdn"].ends_at == {REWARD: 7.0}
    assert PROOFS["two_step_tables_vdn"].tables["risky"] == [[-1.5, 2.5], [2.5, 6.5]]
    assert (PROOFS["two_step_mappo"].needed, len(PROOFS["two_step_mappo"].all_seeds)) == (9, 10)


# -- the judgement -----------------------------------------------------------------------------------------------------


def proof(**keys: object) -> Proof:
    return Proof.model_validate({"name": "p", "claim": "c", "scenario": "s", "seeds": 2, "budget": 100, **keys})


def curve(*points: tuple[int, float], seed: int = 0) -> SeedResult:
    return SeedResult(seed, [(steps, {REWARD: value}) for steps, value in points], 1.0)


def test_smaller_is_better_for_nash_conv() -> None:
    field = "exploitability.nash_conv"
    result = SeedResult(0, [(10, {field: 0.3}), (20, {field: 0.05}), (30, {field: 0.2})], 1.0)
    assert result.holds(proof(reaches={field: 0.1}))
    assert not result.holds(proof(reaches={field: 0.04}))
    assert result.best(field) == 0.05


def test_medians_are_judged_over_the_seeds_at_every_mark() -> None:
    field = "exploitability.exploitability"
    results = Results()
    for seed, (early, late) in enumerate([(0.5, 0.1), (0.3, 0.4), (0.9, 0.2)]):
        results.add(SeedResult(seed, [(10, {field: early}), (20, {field: late})], 1.0))
    keys = {"seeds": 3, "median_of": field}
    assert results.judge(proof(**keys, medians={15: 0.5, 20: 0.2})) == "ok"
    assert results.judge(proof(**keys, medians={15: 0.49, 20: 0.2})) == "miss"
    assert results.judge(proof(**keys, medians={15: 0.5, 20: 0.19})) == "miss"


def test_a_goal_reached_after_the_budget_does_not_count() -> None:
    claim = proof(reaches={REWARD: 5.0})
    assert curve((50, 1.0), (100, 5.0), (150, 2.0)).holds(claim)
    assert not curve((50, 1.0), (100, 4.9), (150, 9.0)).holds(claim)


def test_stays_below_looks_at_every_evaluation() -> None:
    claim = proof(stays_below={REWARD: 5.0})
    assert curve((50, 4.9), (100, 1.0)).holds(claim)
    assert not curve((50, 5.0), (100, 1.0)).holds(claim)


def test_what_a_proof_prepares_is_what_its_run_reads(tmp_path: Path) -> None:
    claim = PROOFS["cartpole_marwil"]
    assert PLACES.load(claim, 0, tmp_path).input == str(tmp_path)
    assert "def record(" in PLACES.recipe(claim)
    assert PLACES.recipe(PROOFS["two_step_uniform_qmix"]) == ""


def test_of_a_search_the_median_over_all_trials_counts(tmp_path: Path) -> None:
    trials = []
    for index, rewards in enumerate([[1.0, 9.0], [2.0, 3.0], [8.0]]):
        files = RunFiles(tmp_path / str(index))
        files.directory.mkdir()
        for number, reward in enumerate(rewards, start=1):
            row = {"timesteps_total": 100 * number, "training_iteration": number}
            files.append({**row, "evaluation": {"episode_reward_mean": reward}})
        files.close()
        trials.append(TrialOutcome(index, "t", files.directory, {}, {}, "TERMINATED", "", Objective(REWARD)))
    found = Tuning(tmp_path, Objective(REWARD), trials, interrupted=False)
    assert medians(found, [REWARD]) == [(100, {REWARD: 2.0})]  # one trial was not evaluated at 200
    with pytest.raises(ValueError, match="search and tune belong together"):
        proof(reaches={REWARD: 1.0}, tune={"scheduler": "pbt"})


@pytest.mark.slow
def test_a_proof_about_a_search_trains_its_trials(project: Places) -> None:
    # dqn and its relatives do not stack, so that this scenario learns by ppo.
    tiny = {"env": "two_step_game", "algo": {"name": "ppo", "train_batch_size": 64}, "evaluation": TINY["evaluation"]}
    (project.root / "scenarios" / "tiny.yaml").write_text(yaml.safe_dump({**tiny, "goal": {REWARD: 7.0}, "seed": 0}))
    search = {"algo.lr": {"grid_search": [0.01, 0.001]}}
    claim = {**CLAIM, "seeds": 1, "budget": 256, "search": search, "tune": {"stacked": True}}
    project.declarations.write_text(yaml.safe_dump({"both": claim}))
    assert main(["--only", "both"], project.root) == 0
    results = read_results(project.results / "both.json")
    assert results is not None
    assert [steps for steps, _ in results.seeds[0].evaluations] == [128, 256]
    assert "marl.tune.sweep" in results.sources


def test_ends_at_looks_at_the_last_evaluation_alone_and_in_both_directions() -> None:
    claim = proof(ends_at={REWARD: 7.0}, tolerance=0.1)
    assert curve((50, 1.0), (100, 7.05)).holds(claim)
    assert not curve((50, 7.0), (100, 8.0)).holds(claim)


def test_tables_are_compared_entry_by_entry() -> None:
    claim = proof(kind="joint_values", tables={"risky": [[0, 1], [1, 8]]}, tolerance=0.2)
    seed = curve((100, 8.0))
    seed.tables = {"risky": [[0.1, 0.9], [1.0, 7.85]]}
    assert seed.table_error(claim.tables) == pytest.approx(0.15)
    assert seed.holds(claim)
    seed.tables["risky"][1][1] = 7.7
    assert not seed.holds(claim)


def test_a_proof_holds_when_at_least_so_many_seeds_hold_and_none_is_missing() -> None:
    claim = proof(reaches={REWARD: 5.0}, seeds=3, at_least=2)
    results = Results(seeds={0: curve((10, 5.0), seed=0), 1: curve((10, 4.0), seed=1)})
    assert results.judge(claim) == "unfinished"
    results.seeds[2] = curve((10, 6.0), seed=2)
    assert results.judge(claim) == "ok"
    assert results.judge(proof(reaches={REWARD: 5.0}, seeds=3)) == "miss"


def test_modules_are_named_and_hashed_one_by_one(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "room").mkdir(parents=True)
    for name in ("__init__.py", "room/__init__.py", "room/lamp.py"):
        (package / name).write_text(f"# {name}\n")
    before = package_sources(package)
    assert list(before) == ["house", "house.room", "house.room.lamp"]
    (package / "room" / "lamp.py").write_text("# another lamp\n")
    assert changed(before, package_sources(package)) == ["house.room.lamp"]


def test_mistakes_in_a_declaration_are_named() -> None:
    with pytest.raises(ValueError, match="needs reaches, ends_at, stays_below, medians, tables or matches"):
        proof()
    with pytest.raises(ValueError, match="only 2 seeds"):
        proof(reaches={REWARD: 1.0}, at_least=3)
    with pytest.raises(ConfigError, match="Did you mean 'cartpole_ppo'"):
        choose(list(PROOFS.values()), ["cartpole_pp"])


# -- the runner, end to end --------------------------------------------------------------------------------------------

TINY = {
    "env": "two_step_game",
    "algo": {"name": "vdn", "learning_starts": 100},
    "multiagent": {"groups": {"team": ["agent_0", "agent_1"]}, "policies": ["team"], "policy_mapping_fn": "by_group"},
    "model": {"fcnet_hiddens": [16]},
    "num_envs_per_worker": 8,
    "timesteps_per_iteration": 256,
    "evaluation": {"interval": 2, "episodes": 20},
    "goal": {REWARD: 7.0},
    "stop": {"timesteps_total": 1024},
    "seed": 0,
}
CLAIM = {"claim": "VDN pays something.", "scenario": "tiny", "seeds": 2, "budget": 1024, "reaches": {REWARD: 0.0}}


@pytest.fixture
def project(tmp_path: Path) -> Places:
    places = Places(tmp_path)
    for folder in ("proofs", "scenarios"):
        (tmp_path / folder).mkdir()
    (tmp_path / "scenarios" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    tables = {"kind": "joint_values", "tables": {"safe": [[7, 7], [7, 7]]}, "tolerance": 100.0}
    places.declarations.write_text(
        yaml.safe_dump({"easy": {**CLAIM, **tables}, "hard": {**CLAIM, "reaches": {REWARD: 99}}})
    )
    return places


@pytest.mark.slow
def test_a_proof_runs_once_in_processes_of_its_own_and_is_skipped_afterwards(
    project: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--only", "easy"], project.root) == 0
    first = (project.results / "easy.json").read_bytes()
    assert main(["--only", "easy"], project.root) == 0
    assert "easy: ok, fresh, skipped" in capsys.readouterr().out
    assert (project.results / "easy.json").read_bytes() == first
    loaded = read_bytes(project, first).sources
    assert {"marl", "marl.training.trainer", "marl.algos.qmix.learner", "marl.envs.games.two_step"} <= loaded.keys()
    assert not {"marl.cli", "marl.run", "marl.envs.check.examine", "marl.envs.adapters.vmas"} & loaded.keys()
    assert changed(loaded, package_sources()) == []

    report = project.report.read_text()
    assert "| easy |" in report
    assert "2/2 (needs 2)" in report
    assert "not run" in report  # `hard`
    assert (project.pictures / "easy.png").stat().st_size > 1000


def read_bytes(project: Places, content: bytes) -> Results:
    path = project.root / "copy.json"
    path.write_bytes(content)
    results = read_results(path)
    assert results is not None
    return results


@pytest.mark.slow
def test_an_interrupted_proof_goes_on_with_the_seeds_that_are_missing(
    project: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []
    run_apart = proofs.runner.run_apart

    def pressed_in_the_second_seed(proof: Proof, places: Places, seed: int, *rest: object) -> SeedResult:
        ran.append(seed)
        if ran == [0, 1]:
            raise KeyboardInterrupt
        return run_apart(proof, places, seed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(proofs.runner, "run_apart", pressed_in_the_second_seed)
    assert main(["--only", "hard"], project.root) == 130
    claim = choose(read_proofs(project), ["hard"])[0]
    assert isinstance(claim, Proof)
    kept = read_results(project.unfinished(claim))  # seeds gather there until all have come
    assert kept is not None
    assert list(kept.seeds) == [0]
    assert kept.judge(claim) == "unfinished"
    assert standing_of(kept, claim, project).state == "fresh"

    assert main(["--only", "hard"], project.root) == 1  # finished, and missed: nobody earns 99
    assert ran == [0, 1, 1]
    assert "never reached" in capsys.readouterr().out


def test_results_from_before_first_iterations_were_kept_are_read_and_stale(project: Places) -> None:
    claim = choose(read_proofs(project), ["hard"])[0]
    seed = {"seed": 0, "evaluations": [[1024, {REWARD: 7.0}]], "wall_time_s": 1.0, "tables": {}}
    project.results.mkdir()
    (project.results / "hard.json").write_text(json.dumps({"fingerprint": "of the whole package", "seeds": [seed]}))
    results = read_results(project.results / "hard.json")
    assert results is not None
    assert results.seeds[0].last(REWARD) == 7.0
    assert str(standing_of(results, claim, project)) == "stale (measured before first iterations were kept)"


@pytest.mark.slow
def test_an_error_of_a_seed_is_told_like_any_other(project: Places, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = project.root / "scenarios" / "tiny.yaml"
    scenario.write_text(yaml.safe_dump({**TINY, "env": "two_step_gam"}))
    assert main(["--only", "hard"], project.root) == 2
    assert "Did you mean 'two_step_game'" in capsys.readouterr().err


def test_a_damaged_cache_is_named_instead_of_trusted(project: Places, capsys: pytest.CaptureFixture[str]) -> None:
    project.results.mkdir()
    (project.results / "easy.json").write_text('{"seeds": 3}')
    assert main(["--list"], project.root) == 2
    assert "easy.json is no result of a proof" in capsys.readouterr().err
