"""Figures of runs: which runs go together, what is refused, and files that a paper takes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from marl.analysis.plot.figure import make_chart
from marl.analysis.plot.kinds import KINDS, Numbers
from marl.analysis.plot.runs import read_runs
from marl.analysis.plot.style import COLOURS, pen, read_size
from marl.errors import CheckpointError, ConfigError
from tests.command import marl

BASE: dict[str, Any] = {
    "name": "mine", "env": "two_step_game", "env_config": {}, "algo": {"name": "ppo", "lr": 0.1}, "seed": 0,
    "evaluation": {"metric": "episode_reward_mean", "interval": 1},
}  # fmt: skip


def write_run(place: Path, values: Mapping[int, float], **params: Any) -> Path:
    """A run directory with evaluations by env steps."""
    place.mkdir(parents=True)
    (place / "params.json").write_text(json.dumps({**BASE, **params}))
    results = [
        {"timesteps_total": steps, "time_total_s": steps / 10, "evaluation": {"episode_reward_mean": value}}
        for steps, value in values.items()
    ]
    (place / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
    return place


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two algorithms, two envs, three seeds each: dqn ends with seed + 1, ppo with seed + 4; ten times that in the maze."""
    monkeypatch.chdir(tmp_path)
    for factor, env in ((1, "two_step_game"), (10, "pettingzoo:own/maze")):
        for start, algo in ((4, "ppo"), (1, "dqn")):
            for seed in range(3):
                values = {100: 0.0, 200: float(factor * (start + seed))}
                keys = {"env": env, "algo": {"name": algo, "lr": 0.1}, "seed": seed}
                write_run(tmp_path / "results" / algo / f"{env[-4:]}_{seed}", values, **keys)
    return tmp_path / "results"


def test_envs_are_panels_and_algorithms_are_lines(runs: Path) -> None:
    chart = make_chart([str(runs / "ppo"), str(runs / "dqn")])
    assert [panel.title for panel in chart.panels] == ["two_step_game", "maze"]
    assert chart.names == ["ppo", "dqn"]
    assert [series.middle.tolist() for series in chart.panels[1].series] == [[0, 50], [0, 20]]
    assert [series.runs for series in chart.panels[1].series] == [3, 3]
    assert chart.panels[0].x_label == "env steps"
    assert chart.panels[0].y_label == "evaluation return"


def test_settings_of_one_algorithm_are_lines_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number, lr in enumerate((1.0, 0.001, 0.1)):
        for seed in range(2):
            write_run(tmp_path / f"trial_{number}_{seed}", {10: lr}, algo={"name": "ppo", "lr": lr}, seed=seed)
    assert make_chart([str(tmp_path)]).names == ["lr=0.001", "lr=0.1", "lr=1.0"]
    together = make_chart([str(tmp_path)], by=["algo.name"])
    assert together.names == ["ppo"]
    assert together.panels[0].series[0].runs == 6
    assert "runs of different settings are taken together: algo.lr is" in together.notes[0]
    assert len(make_chart([str(tmp_path)], by=["run"]).names) == 6


def test_envs_of_one_name_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    for game in ("climbing", "penalty"):
        write_run(tmp_path / game, {10: 1.0}, env="matrix_game", env_config={"game": game, "repetitions": 25})
    titles = [panel.title for panel in make_chart([str(tmp_path)]).panels]
    assert sorted(titles) == ["matrix_game game=climbing", "matrix_game game=penalty"]
    labelled = make_chart([str(tmp_path)], labels=["matrix_game game=climbing=The climb"])
    assert "The climb" in [panel.title for panel in labelled.panels]


def test_runs_are_found_by_id_name_folder_and_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "all"))
    first = write_run(tmp_path / "all" / "exp" / "PPO_two_step_game_0a1b2_00000_2026-01-01_00-00-00", {10: 1.0})
    write_run(tmp_path / "all" / "exp" / "PPO_two_step_game_0a1b3_00000_2026-01-01_00-00-00", {10: 2.0}, seed=1)
    comparison = tmp_path / "compare"
    comparison.mkdir()
    (comparison / "sources.json").write_text(json.dumps({"sources": [str(first), "gone.yaml"], "metric": None}))
    found = {source: [one.run.name for one in read_runs([source])[0]] for source in ("0a1b2", "exp", str(comparison))}
    assert found["0a1b2"] == found[str(comparison)] == [first.name]
    assert len(found["exp"]) == 2
    with pytest.raises(CheckpointError, match="there is no run '0a1b9'"):
        read_runs(["0a1b9"])


@pytest.mark.parametrize(
    "configs",
    [
        ({"a": {"n": 1}}, {"b": {"n": 1}}),  # called alike at the end of their keys
        ({"game": 1}, {"game": "1"}),
    ],
)
def test_no_two_panels_have_the_same_title(tmp_path: Path, configs: tuple[Any, ...]) -> None:
    for number, config in enumerate(configs):
        write_run(tmp_path / str(number), {10: float(number)}, env_config=config)
    panels = make_chart([str(tmp_path)]).panels
    assert len({panel.title for panel in panels}) == 2
    assert sorted(panel.series[0].middle[0] for panel in panels) == [0.0, 1.0]


def test_envs_whose_keys_say_the_same_are_one_panel(tmp_path: Path) -> None:
    for seed, config in enumerate(({"n": 1}, {"n": 1.0, "game": None})):
        write_run(tmp_path / str(seed), {10: 1.0}, env_config=config, seed=seed)
    (panel,) = make_chart([str(tmp_path)]).panels
    assert panel.series[0].runs == 2


def test_of_runs_in_several_folders_the_newest_counts_too(tmp_path: Path) -> None:
    for age, (name, value) in enumerate({"new": 2.0, "old": 1.0}.items()):
        place = write_run(tmp_path / name, {10: value})
        os.utime(place / "params.json", (1_000 - age, 1_000 - age))
    for sources in (["new", "old"], ["old", "new"]):
        chart = make_chart([str(tmp_path / name) for name in sources])
        assert chart.panels[0].series[0].middle.tolist() == [2.0]


def test_numbers_that_are_none_are_left_out_and_lines_nobody_can_read_are_passed_over(tmp_path: Path) -> None:
    place = write_run(tmp_path / "a", {10: 1.0, 20: float("nan"), 30: float("inf"), 40: 2.0})
    with (place / "result.json").open("a") as file:
        for number in ("9" * 400, "9" * 5_000):  # too large for a float; too long for Python
            file.write(f'{{"timesteps_total": 50, "evaluation": {{"episode_reward_mean": {number}}}}}\n')
            file.write(f'{{"timesteps_total": {number}}}\n')
        file.write("[" * 100_000 + "\n")
    (series,) = make_chart([str(tmp_path)], numbers=Numbers(smooth=2)).panels[0].series
    assert series.x.tolist() == [10, 40]
    assert series.middle.tolist() == [1.0, 1.5]


def test_an_x_axis_that_goes_back_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {10: 1.0, 20: 3.0, 30: 2.0})
    numbers = Numbers(x="evaluation.episode_reward_mean")
    with pytest.raises(ConfigError, match=r"in run a it goes back from 3 to 2\. Choose a field that only grows"):
        make_chart([str(tmp_path)], numbers=numbers)


def test_of_runs_with_the_same_keys_and_seed_the_newest_counts(tmp_path: Path) -> None:
    for age, (name, value) in enumerate({"new": 2.0, "old": 1.0}.items()):
        place = write_run(tmp_path / name, {10: value})
        os.utime(place / "params.json", (1_000 - age, 1_000 - age))
    chart = make_chart([str(tmp_path)])
    assert chart.panels[0].series[0].middle.tolist() == [2.0]
    assert "the newest counts; left out: old" in chart.notes[0]


def test_scores_are_normalised_by_the_worst_and_best_run_or_as_given_and_the_caption_says_so(runs: Path) -> None:
    chart = make_chart([str(runs)], "aggregates", numbers=Numbers(normalise=["maze=0,100"]))
    assert [panel.title for panel in chart.panels] == ["median", "IQM", "mean", "optimality gap"]
    dqn, ppo = (next(s for s in chart.panels[2].series if s.name == name) for name in ("dqn", "ppo"))
    assert dqn.middle[0] == pytest.approx(((1 / 5) + 0.2) / 2)  # 1, 2, 3 of 1 to 6; 10, 20, 30 of 100
    assert ppo.middle[0] == pytest.approx(((4 / 5) + 0.5) / 2)
    assert "in two_step_game 0 is 1 and 1 is 6 (the worst and the best run)" in chart.caption
    assert "in maze 0 is 0 and 1 is 100 (given)" in chart.caption
    gap = chart.panels[3].series[0]
    assert gap.middle[0] == pytest.approx(1 - chart.panels[2].series[0].middle[0])


def test_where_less_is_better_the_smaller_run_scores_one_and_wins(tmp_path: Path) -> None:
    for name, start in (("ppo", 0.1), ("dqn", 1.0)):
        for seed in range(2):
            place = write_run(tmp_path / f"{name}{seed}", {}, algo={"name": name}, seed=seed)
            result = {"timesteps_total": 5, "exploitability": {"nash_conv": start + seed / 10}}
            (place / "result.json").write_text(json.dumps(result) + "\n")
    numbers = Numbers(metrics=["exploitability.nash_conv"])
    means = {s.name: s.middle[0] for s in make_chart([str(tmp_path)], "aggregates", numbers=numbers).panels[2].series}
    assert means == {"ppo": pytest.approx(0.95), "dqn": pytest.approx(0.05)}
    (pair,) = make_chart([str(tmp_path)], "improvement", numbers=numbers).panels[0].series
    assert (pair.name, pair.middle[0]) == ("ppo > dqn", 1.0)


def test_an_improvement_names_the_better_one_first(runs: Path) -> None:
    (pair,) = make_chart([str(runs)], "improvement").panels[0].series
    assert (pair.name, pair.middle[0], pair.low[0], pair.high[0]) == ("ppo > dqn", 1.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_in_every_format_with_its_numbers_beside_it(
    runs: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the clock, as matplotlib reads it
    names = [f"out/{kind}.{ending}" for ending in ("pdf", "svg", "png")]
    outs = [word for name in names for word in ("-o", name)]
    done = marl("plot", runs, "--kind", kind, *outs, "--data", f"{kind}.csv", "--resamples", 200)
    assert done.code == 0, done.err
    assert [line for line in done.out.splitlines() if line.startswith("figure: ")] == [
        f"figure: {name}" for name in names
    ]
    pdf, svg, png = (Path(name).read_bytes() for name in names)
    assert pdf.startswith(b"%PDF")
    assert b"<svg" in svg
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width == 975  # 3.25 inches at 300 dots
    rows = list(csv.DictReader(Path(f"{kind}.csv").read_text().splitlines()))
    assert {"panel", "line", "runs", "x", "middle", "low", "high"} == set(rows[0])
    assert all(float(row["low"]) <= float(row["middle"]) + 1e-12 for row in rows)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    agains = [word for ending in ("pdf", "svg", "png") for word in ("-o", f"again.{ending}")]
    again = marl("plot", runs, "--kind", kind, *agains, "--resamples", 200, "--json")
    for ending, before in (("pdf", pdf), ("svg", svg), ("png", png)):
        assert Path(f"again.{ending}").read_bytes() == before, "the same runs give the same file, at any time"
    assert json.loads(again.out)["panels"][0]["lines"]


def test_fonts_are_embedded_as_truetype_and_the_page_is_as_wide_as_a_column(runs: Path) -> None:
    assert marl("plot", runs, "-o", "a.pdf", "--font", "STIXGeneral").code == 0
    content = Path("a.pdf").read_bytes()
    parts = [content]
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", content, re.S):
        try:
            parts.append(zlib.decompress(stream))
        except zlib.error:
            continue
    text = b"".join(parts)
    assert b"/FontFile2" in text
    assert b"STIX" in text
    assert b"/Type3" not in text.replace(b" ", b"")
    width = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", text)
    assert width is not None
    assert float(width[1]) == pytest.approx(3.25 * 72)


def test_no_two_of_35_lines_look_alike_and_neighbours_differ_without_colour() -> None:
    pens = [pen(number) for number in range(35)]
    assert len({(one.colour, one.dashes) for one in pens}) == 35
    for one, other in pairwise(pens):
        assert one.dashes != other.dashes
        assert one.marker != other.marker
    assert "#F0E442" not in COLOURS  # yellow on white paper


def test_sizes_are_columns_pages_or_inches() -> None:
    assert read_size("column").width == 3.25
    assert read_size("page") == (6.75, None)
    assert read_size("5x3.5") == (5.0, 3.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "a.gif"], "--figure a.gif: expected a name that ends in .pdf, .svg, .png"),
        (["--data", "a.txt"], "--data a.txt: expected a name that ends in .csv, .json"),
        (["--size", "wide"], "--size 'wide': expected column"),
        (["--size", "0x3"], "--size '0x3'"),
        (
            ["--kind", "profile"],
            "--kind 'profile': expected one of curves, profiles, aggregates, improvement. Did you mean",
        ),
        (["--statistic", "max"], "--statistic 'max': expected one of iqm, mean, median"),
        (["--by", "algo.rl"], "--by algo.rl: no run has this key. Did you mean 'algo.lr'?"),
        (["--label", "ppo"], "--label 'ppo': expected NAME=TEXT"),
        (["--label", "pop=PPO"], "--label 'pop=PPO': no line or panel is called 'pop'. Did you mean 'ppo'?"),
        (["--label", "ppo=dqn"], "would both be called 'dqn'"),
        (["--log", "z"], "--log 'z': expected one of x, y, both"),
        (["--log", "y"], "--log y: ppo in two_step_game has the value 0"),
        (["--ylim", "3", "1"], "--ylim 3 1: expected the smaller number first"),
        (["--xlim", "0", "inf"], "--xlim 0 inf: expected two finite numbers"),
        (["--log", "x", "--xlim", "0", "3"], "--xlim 0 3: a logarithmic axis (--log x) begins above 0"),
        (["--font-size", "40", "--size", "1x1"], "1 x 1 inches are too small for letters of 40 points"),
        (["--font-size", "40", "--columns", "2"], "too small for letters of 40 points"),
        (
            ["--at", "100"],
            "--at changes nothing in a figure of --kind curves. Leave it out, or choose --kind profiles or",
        ),
        (["--normalise", "maze=0,1"], "--normalise changes nothing in a figure of --kind curves"),
        (["--kind", "profiles", "--statistic", "mean"], "--statistic changes nothing in a figure of --kind profiles"),
        (["--kind", "aggregates", "--log", "x"], "--log changes nothing in a figure of --kind aggregates"),
        (
            ["--kind", "improvement", "--normalise", "maze=0,1"],
            "--normalise changes nothing in a figure of --kind impr",
        ),
        (["--font", "DejaVu Sanz"], "--font 'DejaVu Sanz': there is no such font here. Did you mean 'DejaVu Sans'?"),
        (["--metric", "evaluation.episode_reward_maen"], "Did you mean 'evaluation.episode_reward_mean'?"),
        (["--x", "steps"], "--x steps: no result of ppo has this number"),
        (["--kind", "profiles", "--normalise", "maze=1"], "--normalise 'maze=1': expected ENV=ZERO,ONE"),
        (["--kind", "profiles", "--normalise", "mace=0,1"], "no env 'mace' here. Did you mean 'maze'?"),
        (["--kind", "profiles", "--normalise", "maze=1,1"], "needs two different finite numbers"),
        (
            ["--kind", "profiles", "--at", "5000"],
            "all runs have a value from 100 to 200 env steps only; asked for 5,000",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(runs: Path, options: list[str], said: str) -> None:
    done = marl("plot", runs / "ppo", runs / "dqn", *options)
    assert done.code == 2
    assert len(done.errors) == 1
    assert said in done.errors[0]
    assert not list(Path().glob("*.pdf"))


def test_a_line_without_runs_of_an_env_has_no_score_over_envs(runs: Path) -> None:
    done = marl("plot", runs / "ppo", runs / "dqn" / "maze_0", "--kind", "aggregates")
    assert done.code == 2
    assert "dqn has no runs of two_step_game, but others have" in done.errors[0]


def test_lines_that_were_evaluated_in_different_ways_are_refused(tmp_path: Path) -> None:
    for seed, explore in enumerate((False, True)):
        exam = {**BASE["evaluation"], "explore": explore}
        write_run(tmp_path / str(seed), {10: 1.0}, seed=seed, evaluation=exam, algo={"name": f"algo_{seed}"})
    for kind in ("curves", "improvement"):
        with pytest.raises(ConfigError, match=r"different evaluations: evaluation.explore is None there and True here"):
            make_chart([str(tmp_path)], kind)


def test_files_and_folders_without_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("env: two_step_game\n")
    with pytest.raises(ConfigError, match=r"a.yaml is a file. marl plot draws runs that were trained"):
        read_runs([str(tmp_path / "a.yaml")])
    with pytest.raises(ConfigError, match="holds no run"):
        read_runs([str(tmp_path)])
    write_run(tmp_path / "begun", {})
    with pytest.raises(ConfigError, match="has a result yet"):
        read_runs([str(tmp_path)])


def test_a_name_that_is_a_formula_is_drawn_as_it_is(tmp_path: Path) -> None:
    for seed, name in enumerate(("$x^{", "b")):
        write_run(tmp_path / str(seed), {10: 1.0, 20: 2.0}, name=name, seed=seed)
    done = marl("plot", tmp_path, "--by", "name", "-o", tmp_path / "a.png", "--title", "100 $", "--single-runs")
    assert done.code == 0, done.err


def test_runs_may_be_drawn_over_time(runs: Path) -> None:
    chart = make_chart([str(runs / "ppo")], numbers=Numbers(x="time_total_s", statistic="median"))
    assert chart.panels[0].series[0].x.tolist() == [10, 20]
    assert chart.panels[0].x_label == "training time (s)"


def test_compare_draws_its_curves_into_the_files_that_are_asked_for(runs: Path) -> None:
    sources = [runs / "only_ppo", runs / "only_dqn"]
    for source, start in zip(sources, (4.0, 1.0), strict=True):
        for seed in range(2):
            write_run(source / str(seed), {100: 0.0, 200: start + seed}, seed=seed)
    done = marl("compare", *sources, "--out", "cmp", "-o", "cmp.pdf", "--size", "page", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["figures"] == ["cmp.pdf"]
    assert Path("cmp.pdf").read_bytes().startswith(b"%PDF")
    assert marl("compare", *sources, "--out", "other", "-o", "cmp.gif").code == 2
    assert not Path("other").exists(), "refused before anything is written"
