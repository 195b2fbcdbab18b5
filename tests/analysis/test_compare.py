"""Who is better, and when nobody can tell: on curves written by hand, and on runs that are trained for it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marl.analysis.compare.compare import Entrant, Run, compare
from marl.analysis.compare.directory import choose_place
from marl.analysis.compare.keys import differences, told
from marl.analysis.compare.runs import check_plan, gather, plan_comparison, read_entrant
from marl.cli.app import app
from marl.cli.options import count_or_seeds
from marl.errors import ConfigError

PARAMS: dict[str, Any] = {
    "env": "two_step_game", "env_config": {}, "evaluation": {"metric": "episode_reward_mean", "env": None}, "seed": 0,
    "algo": {"name": "qmix"},
}  # fmt: skip
SCENARIO = """
env: two_step_game
algo: {name: ppo, train_batch_size: 64, sgd_minibatch_size: 64, num_sgd_iter: 1, lr: LR}
model: {fcnet_hiddens: [8]}
evaluation: {interval: 1, episodes: 2}
goal: {evaluation.episode_reward_mean: 0.0}
stop: {timesteps_total: 256, goal: true}
"""


def run(points: Mapping[int, float], field: str = "evaluation", **params: Any) -> Run:
    """A run with these values of its evaluations, or of training, by env steps."""
    values = [(steps, {"episode_reward_mean": value}) for steps, value in points.items()]
    results = [{"timesteps_total": s, **({"evaluation": v} if field == "evaluation" else v)} for s, v in values]
    return Run("run", {**PARAMS, **params}, results)


def entrant(name: str, finals: Sequence[float], **params: Any) -> Entrant:
    return Entrant(name, [run({100: 0.0, 200: final}, **params) for final in finals])


def test_five_runs_that_are_all_better_are_better() -> None:
    found = compare([entrant("good", [8, 8.5, 9, 9.5, 10]), entrant("bad", [1, 2, 3, 4, 5])])
    (pair,) = found.pairs
    assert (pair.probability, pair.better) == (1.0, "good")
    assert pair.p_value == pytest.approx(2 / 252)
    assert [curve.middle.tolist() for curve in found.curves] == [[0.0, 9.0], [0.0, 3.0]]
    assert found.curves[0].low[-1] >= 8
    assert found.curves[0].high[-1] <= 10
    assert found.metric == "evaluation.episode_reward_mean"


def test_three_runs_can_never_tell_and_the_verdict_says_how_many_would() -> None:
    (pair,) = compare([entrant("good", [8, 9, 10]), entrant("bad", [1, 2, 3])]).pairs
    assert pair.probability == 1.0
    assert pair.better is None
    assert "not distinguishable" in pair.why
    assert "take at least 4 seeds each" in pair.why


def test_runs_that_overlap_are_not_distinguishable() -> None:
    (pair,) = compare([entrant("a", [1, 2, 3, 4, 5]), entrant("b", [1.5, 2.5, 2.8, 4.2, 4.6])]).pairs
    assert pair.better is None
    assert pair.why.startswith("not distinguishable")
    assert pair.low < 0.5 < pair.high


def test_pairs_of_three_are_judged_more_strictly_than_one_pair() -> None:
    good, bad = entrant("good", [8, 9, 10, 11]), entrant("bad", [1, 2, 3, 4])
    assert compare([good, bad]).pairs[0].better == "good"
    found = compare([good, bad, entrant("middle", [5, 6, 7, 7.5])])
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        ("good", "bad"),
        ("good", "middle"),
        ("bad", "middle"),
    ]
    assert [pair.better for pair in found.pairs] == [None] * 3  # 3 * 2/70 > 0.05
    assert "take at least 5 seeds each" in found.pairs[0].why


def test_where_smaller_is_better_the_smaller_wins() -> None:
    def far(name: str, values: Sequence[float]) -> Entrant:
        results = [[{"timesteps_total": 10, "exploitability": {"nash_conv": value}}] for value in values]
        return Entrant(name, [Run("run", PARAMS, result) for result in results])

    (pair,) = compare([far("near", [0.1, 0.2, 0.3, 0.4]), far("far", [1, 2, 3, 4])], "exploitability.nash_conv").pairs
    assert (pair.better, pair.probability) == ("near", 1.0)


def test_curves_are_aligned_by_env_steps_and_never_look_ahead() -> None:
    often = Entrant("often", [run({10: 1.0, 20: 2.0, 30: 3.0, 40: 4.0})])
    seldom = Entrant("seldom", [run({15: 10.0, 35: 20.0})])
    found = compare([often, seldom])
    assert found.steps.tolist() == [15, 20, 30, 35]
    assert [curve.middle.tolist() for curve in found.curves] == [[1, 2, 3, 3], [10, 10, 10, 20]]
    assert found.notes[0].startswith("compared at 35 env steps, where a run of seldom ends")
    early = compare([often, seldom], at=20)
    assert [curve.middle[-1] for curve in early.curves] == [2, 10]
    with pytest.raises(ConfigError, match="--at 50: all runs have a value from 15 to 35"):
        compare([often, seldom], at=50)


def test_runs_without_evaluations_are_compared_by_their_rewards_in_training() -> None:
    runs = [Entrant(name, [run({10: 1.0}, field="training")]) for name in "ab"]
    assert compare(runs).metric == "episode_reward_mean"


def test_different_envs_evaluations_and_metrics_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"different envs: env_config.size is None there and 9 here"):
        compare([entrant("a", [1]), entrant("b", [1], env_config={"size": 9})])
    hard = {"metric": "episode_reward_mean", "env": "harder"}
    with pytest.raises(ConfigError, match=r"different evaluations: evaluation.env is None there and 'harder' here"):
        compare([entrant("a", [1]), entrant("b", [1], evaluation=hard)])
    other = {"metric": "policy_reward_mean.p"}
    with pytest.raises(ConfigError, match=r"by different fields .* --metric"):
        compare([entrant("a", [1]), entrant("b", [1], evaluation=other)])
    with pytest.raises(ConfigError, match=r"no result has a number 'evaluation.episode_reward_meen'. Did you mean"):
        compare([entrant("a", [1]), entrant("b", [1])], "evaluation.episode_reward_meen")
    with pytest.raises(ConfigError, match="at least two"):
        compare([entrant("a", [1])])


def written(folder: Path, seed: int, value: float, **params: Any) -> None:
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps({**PARAMS, "seed": seed, **params}))
    (folder / "result.json").write_text(
        json.dumps({"timesteps_total": 10, "evaluation": {"episode_reward_mean": value}})
    )


def test_a_folder_of_runs_is_one_entrant_with_its_seeds(tmp_path: Path) -> None:
    for seed in range(3):
        written(tmp_path / "exp" / f"run_{seed}", seed, float(seed))
    found = read_entrant("exp", tmp_path / "exp")
    assert [run.points("evaluation.episode_reward_mean") for run in found.runs] == [
        [(10, 0.0)],
        [(10, 1.0)],
        [(10, 2.0)],
    ]
    assert len(read_entrant("one", tmp_path / "exp" / "run_1").runs) == 1
    written(tmp_path / "exp" / "stranger", 7, 1.0, algo={"name": "vdn"})
    with pytest.raises(ConfigError, match=r"different scenarios: .*algo.name is 'qmix' and 'vdn'.*Give"):
        read_entrant("exp", tmp_path / "exp")
    with pytest.raises(ConfigError, match="neither a scenario file"):
        read_entrant("exp", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no run with results"):
        read_entrant("exp", tmp_path / "empty")


def test_of_several_runs_with_one_seed_the_newest_counts_and_a_note_says_so(tmp_path: Path) -> None:
    for age, value in enumerate((1.0, 2.0, 3.0)):
        written(tmp_path / "exp" / f"run_{age}", 0, value)
        os.utime(tmp_path / "exp" / f"run_{age}" / "params.json", (1_000.0 + age, 1_000.0 + age))
    found = read_entrant("exp", tmp_path / "exp")
    assert [run.name for run in found.runs] == ["run_2"]
    note = "exp: of several runs with one seed the newest counts; left out: run_0, run_1"
    assert compare([found, read_entrant("one", tmp_path / "exp" / "run_1")]).notes == [note]


def test_differences_are_told_by_single_keys_and_at_most_five_of_them() -> None:
    one = {"algo": {"name": "ppo", "lr": 0.1, "gamma": 0.9}, "env": "x", "wrappers": []}
    other = {"algo": {"name": "ppo", "lr": 0.5, "gamma": 0.9}, "env": "x", "wrappers": [], "env_config": {}}
    assert told(differences(one, other), "there", "now") == "algo.lr is 0.1 there and 0.5 now"
    assert told(differences({"env": "x"}, {"env": "y"})) == "env is 'x' and 'y'"
    many = differences({"a": {str(i): i for i in range(7)}}, {})
    assert told(many).endswith("a.4 is 4 and None; and 2 more keys")
    assert "a.5" not in told(many)
    assert len(told(differences({"a": "x" * 1000}, {"a": 1}))) < 100


# --- what is refused before anything is trained ---------------------------------------------------------------


def refused(sources: Sequence[str], place: Path, *options: str) -> str:
    """What the command says; nothing may have been trained or written."""
    done = CliRunner().invoke(app, ["compare", *sources, "--out", str(place), "--seeds", "2", *options])
    assert done.exit_code != 0
    assert not place.exists()
    assert isinstance(done.exception, ConfigError), done.output
    return str(done.exception)


def test_what_cannot_be_compared_is_refused_before_anything_is_trained(scenarios: list[str], tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other.yaml"
    text = SCENARIO.replace("LR", "0.1")
    assert "at least two" in refused(scenarios[:1], out)
    for old, new, message in (
        ("env: two_step_game", "env: two_step_game\nenv_config: {risky_payoff: 9}", "different envs: env_config"),
        ("episodes: 2", "episodes: 2, explore: true", "different evaluations: evaluation.explore is None there and True"),
        ("episodes: 2", "episodes: 2, metric: episode_len_mean", "judge themselves by different fields"),
        ("lr: 0.1", "lr: 0.1, mixer: sum", "ppo has no key 'mixer'"),
        ("goal: {evaluation.", "goal: {evaluation.x", "no result has a field"),
    ):  # fmt: skip
        other.write_text(text.replace(old, new))
        assert message in refused([scenarios[0], str(other)], out)
    for metric, message in (
        ("nonsense", "no result has a field 'nonsense'"),
        ("evaluation.training_iteration", "no result has a field 'evaluation.training_iteration'"),
        ("policy_reward_mean.pol9", "no result has a field 'policy_reward_mean.pol9'"),
        (
            "exploitability.nash_conv",
            "slow will never have it, because it needs exploitability.interval above 0, but exploitability.interval is 0",
        ),
        ("population.round", "needs population, but population is not given. Set population"),
    ):
        assert message in refused(scenarios, out, "--metric", metric)
    silent = ("--set", "evaluation.interval=0", "--set", "goal={}", "--metric", "evaluation.episode_reward_mean")
    assert "it needs evaluation.interval above 0, but evaluation.interval is 0. Set evaluation.interval" in refused(
        scenarios, out, *silent
    )
    for metric in ("episode_reward_mean", "evaluation.episodes", "timers.sample_time_ms", "agent_reward_mean.agent_0"):
        check_plan(plan_comparison(scenarios, [0]), out, metric)


def test_a_run_that_lacks_the_metric_or_the_step_is_refused_before_scenarios_are_trained(
    scenarios: list[str], tmp_path: Path
) -> None:
    written(tmp_path / "old", 0, 1.0)
    sources = [str(tmp_path / "old"), scenarios[0]]
    message = refused(sources, tmp_path / "out", "--metric", "policy_reward_mean.default_policy")
    assert "run old: no result has a number 'policy_reward_mean.default_policy'" in message
    assert "--at 11: all runs have a value from 10 to 10" in refused(sources, tmp_path / "out", "--at", "11")


def test_callbacks_may_add_fields_that_nobody_knows_before(scenarios: list[str], tmp_path: Path) -> None:
    plan = plan_comparison(scenarios, [0], ["callbacks=marl:Callbacks"])
    check_plan(plan, tmp_path, "my_own_number")


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("1,1,1,1", "has seed 1 more than once"),
        ("0", "at least 1 seed"),
        ("3..1", "expected a range"),
        ("-1", "expected"),
    ],
)
def test_seeds_that_mean_nothing_or_count_twice_are_refused(
    scenarios: list[str], tmp_path: Path, seeds: str, message: str
) -> None:
    assert message in refused(scenarios, tmp_path / "out", f"--seeds={seeds}")


def test_seeds_are_a_number_of_them_or_a_list() -> None:
    assert [count_or_seeds(text) for text in ("3", "0,3", "2..3")] == [[0, 1, 2], [0, 3], [2, 3]]


# --- where comparisons are kept -----------------------------------------------------------------------------------


def test_another_comparison_gets_a_folder_of_its_own_and_the_same_one_finds_its_own_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "results"))
    base = tmp_path / "results" / "compare"
    here, there = (["x/p2.yaml", "x/p3.yaml"], ["y/p2.yaml", "y/p3.yaml"])
    asked = [
        (here, None),
        (there, None),
        (here, "episode_len_mean"),
        (here, None),
        (here, "episode_len_mean"),
        (there, None),
    ]
    found = []
    for sources, metric in asked:
        place = choose_place(sources, metric)
        place.claim()
        found.append((place.folder.relative_to(base).name, place.runs.relative_to(base).name))
    first, second = ("p2_vs_p3", "p2_vs_p3"), ("p2_vs_p3_2", "p2_vs_p3_2")
    third = ("p2_vs_p3_3", "p2_vs_p3")  # another field of the same runs: nothing is trained again
    assert found == [first, second, third, first, third, second]


def test_a_place_that_holds_another_comparison_is_refused(tmp_path: Path) -> None:
    choose_place(["a.yaml", "b.yaml"], None, tmp_path).claim()
    assert choose_place(["a.yaml", "b.yaml"], None, tmp_path).folder == tmp_path
    with pytest.raises(
        ConfigError, match=r"another comparison: of .*/b.yaml; this one is of .*/c.yaml. Choose another"
    ):
        choose_place(["a.yaml", "c.yaml"], None, tmp_path)
    with pytest.raises(
        ConfigError, match=r"by what evaluations are judged by; this one is by x. .* need not be trained"
    ):
        choose_place(["a.yaml", "b.yaml"], "x", tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "compare.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds another comparison"):
        choose_place(["a.yaml", "b.yaml"], None, tmp_path / "old")


# --- runs that are trained for it ---------------------------------------------------------------------------


@pytest.fixture
def scenarios(tmp_path: Path) -> list[str]:
    files = [tmp_path / "slow.yaml", tmp_path / "fast.yaml"]
    for file, lr in zip(files, ("0.0001", "0.01"), strict=True):
        file.write_text(SCENARIO.replace("LR", lr))
    return [str(file) for file in files]


@pytest.mark.slow
def test_scenarios_are_trained_once_per_seed_with_equal_budgets_and_not_again(
    scenarios: list[str], tmp_path: Path
) -> None:
    out, said = tmp_path / "out", []
    plan = plan_comparison(scenarios, [0, 1])
    found = gather(plan, out, report=lambda share, what: said.append((share, what)))
    assert [entrant.name for entrant in found] == ["slow", "fast"]
    for one in found:  # the goal was met at once, but nobody stopped for it
        assert [run.results[-1]["timesteps_total"] for run in one.runs] == [256, 256]
        assert [run.results[-1]["seed"] for run in one.runs] == [0, 1]
    assert said[0] == (0.0, "slow, seed 0 (1 of 4)")
    assert said[-1] == (1.0, "fast, seed 1 (4 of 4)")
    before = {file: file.stat().st_mtime_ns for file in out.rglob("result.json")}
    again = gather(plan, out)
    assert {file: file.stat().st_mtime_ns for file in out.rglob("result.json")} == before
    assert compare(again).as_json() == compare(found).as_json()
    longer = gather(plan_comparison(scenarios, [0], ["stop.timesteps_total=384"]), out)
    assert longer[0].runs[0].results[:4] == found[0].runs[0].results
    with pytest.raises(ConfigError, match=r"another scenario: algo.lr is 0.01 there and 0.0001 now. Choose another"):
        check_plan(plan_comparison(scenarios[::-1], [0], ["algo.lr=0.0001"]), out)


def test_after_ctrl_c_the_same_call_goes_on_and_gives_the_same_numbers(scenarios: list[str], tmp_path: Path) -> None:
    def press(share: float, what: str) -> None:
        if "seed 1" in what and share > 0.5:
            signal.raise_signal(signal.SIGINT)

    plan = plan_comparison(scenarios[:1], [0, 1])
    with pytest.raises(KeyboardInterrupt):
        gather(plan, tmp_path / "stopped", report=press)
    half = (tmp_path / "stopped" / "slow" / "seed_1" / "result.json").read_text().splitlines()
    assert 0 < len(half) < 4
    went_on = gather(plan, tmp_path / "stopped")
    whole = gather(plan, tmp_path / "whole")
    for a, b in zip(went_on[0].runs, whole[0].runs, strict=True):
        assert a.points("episode_reward_mean") == b.points("episode_reward_mean")


def test_a_scenario_without_a_budget_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    file = tmp_path / "endless.yaml"
    file.write_text(SCENARIO.replace("LR", "0.1").replace("timesteps_total: 256, ", ""))
    with pytest.raises(ConfigError, match=r"needs a budget. .*--set stop.timesteps_total"):
        plan_comparison([str(file)], [0])


def test_the_command_prints_table_verdict_and_picture(scenarios: list[str], tmp_path: Path) -> None:
    arguments = [
        "compare",
        *scenarios,
        "--seeds",
        "2",
        "--set",
        "stop.timesteps_total=128",
        "--out",
        str(tmp_path / "out"),
    ]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "slow against fast: a run is better with probability" in told.stdout
    assert "not distinguishable: 2 and 2 runs can never show a difference" in told.stdout
    assert told.stdout.splitlines()[-1] == f"results: {tmp_path / 'out'}"
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    as_json = CliRunner().invoke(app, [*arguments, "--json"])
    found = json.loads(as_json.stdout.splitlines()[-1])
    assert [one["name"] for one in found["entrants"]] == ["slow", "fast"]
    assert found["pairs"][0]["better"] is None
    kept = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert kept == {key: value for key, value in found.items() if key != "picture"}
    other = CliRunner().invoke(app, [*arguments, "--metric", "episode_len_mean"])
    assert "holds another comparison: by what evaluations are judged by" in str(other.exception)
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == kept


def test_runs_before_and_after_a_module_was_moved_are_runs_of_one_scenario(tmp_path: Path) -> None:
    for seed, env in enumerate(["marl.training.signs:Signs", "marl.testing.sign_env:Signs"]):
        directory = tmp_path / f"run_{seed}"
        directory.mkdir()
        (directory / "params.json").write_text(json.dumps({**PARAMS, "env": env, "seed": seed}))
        (directory / "result.json").write_text(json.dumps({"training_iteration": 1, "timesteps_total": 8}) + "\n")
    assert [found.params["env"] for found in read_entrant("both", tmp_path).runs] == ["marl.testing.sign_env:Signs"] * 2
