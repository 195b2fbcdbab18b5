"""Games of the results folder: found, read, ranked, and matched with the policies that played. Numbers are worked out by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from marl.analysis.report.build import ReportOptions, build_report
from marl.data.episode import Episode
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank, bootstrap, elo, nash_average, responses
from marl.play.changes import Changes
from marl.play.episode import Which, play_episode
from marl.play.playable import Playable
from marl.runs.saved import SavedRun
from marl.serve.refused import Refused
from marl.watch.games.found import games_in
from marl.watch.games.matches import key_of, sources_of
from marl.watch.games.reading import at_round, game_of, members_at
from marl.watch.tasks.games import rank, seats
from tests.analysis.runs import RPS, checkpoint, with_fixed
from tests.watch.browser import watched
from tests.watch.games import crossplay, population_run, rps_table


def tell_nobody(done: float, total: float | None, text: str) -> None:
    pass


def asked(folder: Path, part: str, kind: str = "crossplay", **more: Any) -> dict[str, Any]:
    return rank({"folder": str(folder), "kind": kind, "part": part, **more}, tell_nobody)


# -- rankings ------------------------------------------------------------------------------------------------------


def test_rock_paper_scissors_is_a_cycle_of_three_in_which_nobody_ranks_above_anybody(tmp_path: Path) -> None:
    folder = crossplay(tmp_path / "rps", rps_table())
    found = asked(folder, "graph")
    names = [node["name"] for node in found["graph"]["nodes"]]
    assert names == ["rock", "paper", "scissors"]
    arrows = {(names[edge["from"]], names[edge["to"]]): edge for edge in found["graph"]["edges"]}
    assert set(arrows) == {("rock", "paper"), ("paper", "scissors"), ("scissors", "rock")}
    assert [edge["gain"] for edge in arrows.values()] == [1.0] * 3
    assert [edge["share"] for edge in arrows.values()] == [1.0] * 3  # 20 standard errors: in every redrawn table
    (cycle,) = found["graph"]["cycles"]
    assert sorted(cycle["nodes"]) == [0, 1, 2]
    for winner, loser in zip(cycle["nodes"], [*cycle["nodes"][1:], cycle["nodes"][0]], strict=True):
        assert (names[loser], names[winner]) in arrows
    assert [sorted(sink["nodes"]) for sink in found["graph"]["sinks"]] == [[0, 1, 2]]
    assert found["zero_sum"]
    assert [row["score"] for row in asked(folder, "alpha_rank")["rows"]] == pytest.approx([1 / 3] * 3)
    assert [row["score"] for row in asked(folder, "nash_average")["rows"]] == pytest.approx([0.0] * 3, abs=1e-9)
    rated = asked(folder, "elo")
    assert [row["score"] for row in rated["rows"]] == pytest.approx([0.0] * 3, abs=1e-9)
    assert "cyclic" in rated["warning"]


@pytest.mark.parametrize("method", ["elo", "nash_average", "alpha_rank"])
def test_scores_and_intervals_are_those_of_the_library(tmp_path: Path, method: str) -> None:
    table = np.array([[0.0, 0.5, 0.8], [-0.5, 0.0, 0.3], [-0.8, -0.3, 0.0]])
    ladder = PayoffTensor.two_player(table, ["a", "b", "c"], np.full((3, 3), 0.1), np.full((3, 3), 50))
    found = asked(crossplay(tmp_path / "ladder", ladder), method)
    ranking = {"elo": elo, "nash_average": nash_average, "alpha_rank": alpha_rank}[method]
    expected = bootstrap(ladder, ranking, found["draws"], seed=0)
    for key in ("score", "low", "high", "first"):
        values = {"score": expected.scores, "low": expected.low, "high": expected.high, "first": expected.first}[key]
        assert [row[key] for row in found["rows"]] == values.tolist()


def test_on_a_ladder_better_replies_end_at_the_top(tmp_path: Path) -> None:
    table = np.array([[0.0, 0.5, 0.8], [-0.5, 0.0, 0.3], [-0.8, -0.3, 0.0]])
    found = asked(crossplay(tmp_path / "ladder", PayoffTensor.two_player(table, ["a", "b", "c"])), "graph")["graph"]
    assert found["sinks"] == [{"nodes": [0], "share": 1.0}]
    assert found["cycles"] == []
    assert found["draws"] == 1  # it is exact


def test_where_seats_count_nodes_are_profiles_with_their_cells(tmp_path: Path) -> None:
    mean = np.array([[[1.0, -1.0], [-1.0, 1.0]], [[-1.0, 1.0], [1.0, -1.0]]])  # matching pennies
    pennies = PayoffTensor(mean, np.zeros_like(mean), np.zeros((2, 2)), (("h", "t"), ("H", "T")), ("even", "odd"))
    found = asked(crossplay(tmp_path / "pennies", pennies), "graph")["graph"]
    assert [node["cell"] for node in found["nodes"]] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert {(edge["from"], edge["to"]) for edge in found["edges"]} == {(0, 1), (1, 3), (3, 2), (2, 0)}
    assert found["edges"][0]["gain"] == 2.0


def test_a_ranking_that_does_not_fit_says_why_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    gap = rps_table()
    gap.mean[:, 0, 1] = np.nan
    folder = crossplay(tmp_path / "gap", gap)
    assert "pairings have no payoff yet" in asked(folder, "alpha_rank")["refused"]
    with pytest.raises(Refused, match="there is no ranking 'payoff'"):
        asked(folder, "payoff")


# -- what is there -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return population_run(tmp_path_factory.mktemp("results") / "<b>psro</b>")


def test_all_kinds_of_games_are_found_and_nothing_inside_of_checkpoints(tmp_path: Path) -> None:
    crossplay(tmp_path / "deep" / "cross", rps_table())
    crossplay(tmp_path / "run" / "checkpoints", rps_table())
    report = tmp_path / "report"
    crossplay(report, rps_table())
    (report / "report.json").write_text("{}")
    for name in ("pop", "measured", "silent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("")
    (tmp_path / "pop" / "population.json").write_text("{}")
    (tmp_path / "measured" / "params.json").write_text('{"exploitability": {"interval": 5}}')
    (tmp_path / "silent" / "params.json").write_text('{"exploitability": {"interval": 0}}')
    found = {(game["kind"], game["path"]) for game in games_in(tmp_path)}
    assert found == {
        ("crossplay", "deep/cross"), ("report", "report"), ("population", "pop"), ("run", "measured"),
    }  # fmt: skip


def test_files_that_are_no_games_are_refused_by_name_or_passed_over(tmp_path: Path) -> None:
    (tmp_path / "payoffs.json").write_text('{"format": 1, "mean": "x"}')
    with pytest.raises(Refused, match=r"payoffs\.json is not a payoff tensor"):
        game_of(tmp_path, "crossplay")
    (tmp_path / "payoffs.json").write_text("[1")
    with pytest.raises(Refused, match=r"payoffs\.json cannot be read"):
        game_of(tmp_path, "crossplay")
    (tmp_path / "report.json").write_text('{"exploitability": [{"nash_conv": "much"}, 3], "entrants": 7}')
    assert game_of(tmp_path, "report")["bounds"] == []
    assert "no checkpoint of this report" in sources_of(tmp_path, tmp_path, "report", frozenset())["why"]
    (tmp_path / "population.json").write_text(
        '{"lineage": {"nodes": [{"id": 3}, {"id": "a", "round": 0}], "edges": [{}]}}'
    )
    (tmp_path / "result.json").write_text('{"population": {"round": "x"}, "timesteps_total": 1}\n{"exploitability": {')
    found = game_of(tmp_path, "population")
    assert found["lineage"] == {"nodes": [{"id": "a", "round": 0}], "edges": []}
    assert found["rounds"] == found["nash_conv"] == []


def test_a_population_tells_its_rounds_its_lineage_and_its_nash_conv_with_what_it_is(run: Path) -> None:
    found = game_of(run, "population")
    assert [one["round"] for one in found["rounds"]] == [1, 2]
    assert [one["members"] for one in found["rounds"]] == [{"player_0": n, "player_1": n} for n in (2, 3)]
    assert [len(one["meta_strategy"]["player_0"]) for one in found["rounds"]] == [2, 3]
    assert {node["id"] for node in found["lineage"]["nodes"]} == {f"player_{p}_{n}" for p in range(2) for n in range(3)}
    for measured in found["nash_conv"]:
        assert measured["bound"] == "exact"
        assert measured["nash_conv"] == pytest.approx(sum(measured["gains"].values()))
    assert len(found["nash_conv"]) == 2


def test_the_table_of_a_round_is_that_of_the_members_who_were_there(run: Path) -> None:
    payoffs = PayoffTensor.from_json(game_of(run, "population")["payoffs"])
    joined = {node["id"]: node["round"] for node in game_of(run, "population")["lineage"]["nodes"]}
    places = members_at(joined, payoffs, 1)
    assert places == [[0, 1], [0, 1]]
    then = at_round(payoffs, places)
    assert then.mean.tolist() == payoffs.mean[:, :2, :2].tolist()
    assert then.names == (("player_0_0", "player_0_1"), ("player_1_0", "player_1_1"))
    found = asked(run, "graph", "population", round=1)
    assert len(found["graph"]["nodes"]) == 4
    assert len(found["graph"]["edges"]) == responses(then).graph.number_of_edges()
    assert len(asked(run, "graph", "population")["graph"]["nodes"]) == 9


# -- matches -------------------------------------------------------------------------------------------------------


def test_a_member_of_a_population_plays_in_an_episode_by_the_source_of_its_cell(run: Path) -> None:
    root = run.parent
    found = seats({"root": str(root), "folder": str(run), "kind": "population", "allow": []}, tell_nobody)
    # The agent player_1 is played by the answer; the policy player_1 is the learner, which plays nobody here.
    assert found["sources"]["player_1"]["player_1_1"] == {"player_1.answer": f"{run.name}#player_1.answer/1"}
    assert (found["run"], found["explore"]) == (run.name, True)
    expected = _weights_of_member(run, "player_1.answer", 1)
    _check_plays(root, found, {"player_0": "player_0_2", "player_1": "player_1_1"}, "player_1", expected)


def test_where_one_population_plays_all_seats_each_seat_gets_its_own_member(tmp_path: Path) -> None:
    run = population_run(tmp_path / "league", symmetric=True)
    found = seats({"root": str(tmp_path), "folder": str(run), "kind": "population", "allow": []}, tell_nobody)
    assert found["sources"]["player_1"]["main_1"] == {"player_1": "league#main.answer/1"}
    for agent, member in (("player_0", 2), ("player_1", 1)):
        expected = _weights_of_member(run, "main.answer", member)
        _check_plays(tmp_path, found, {"player_0": "main_2", "player_1": "main_1"}, agent, expected)


def test_an_agent_whose_name_is_a_policy_that_plays_somebody_else_is_named_by_a_pattern(tmp_path: Path) -> None:
    policies = {"policies": {"player_0": {}}, "policy_mapping_fn": {"*": "player_0"}}
    run = SavedRun.open(checkpoint(tmp_path / "shared", RPS, multiagent=policies))
    assert key_of("player_0", run.setup) == "[p]layer_0"
    assert key_of("player_1", run.setup) == "player_1"
    playable = Playable.open(run.folder, frozenset(), Changes(policies={"[p]layer_0": "random"}))
    assert playable.cast.mapper("player_0", Episode(0, 0)) == "[p]layer_0"
    assert playable.cast.mapper("player_1", Episode(0, 0)) == "player_0"


def _weights_of_member(run: Path, mixture: str, number: int) -> dict[str, Any]:
    """As they lie in the checkpoint."""
    weights = SavedRun.open(run).weights[mixture]
    start = f"members.{number}."
    return {name.removeprefix(start): array for name, array in weights.items() if name.startswith(start)}


def _check_plays(root: Path, found: dict[str, Any], cell: dict[str, str], agent: str, expected: dict[str, Any]) -> None:
    """Whether in the match of a cell the agent is played by a policy with these weights."""
    policies: dict[str, str] = {}
    for player, name in cell.items():
        policies |= {key: f"{root}/{source}" for key, source in found["sources"][player][name].items()}
    playable = Playable.open(root / found["run"], frozenset(), Changes(policies=policies))
    playing = playable.cast.policies[playable.cast.mapper(agent, Episode(0, 0))].get_weights()
    assert expected
    assert list(playing) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(playing[name], array)
    assert len(play_episode(playable, Which(0, 0, True))) == 1


@pytest.mark.slow
def test_entrants_of_a_report_are_found_again_by_their_checkpoints(tmp_path: Path) -> None:
    path = with_fixed(tmp_path / "rps", RPS, 3)
    entrants = [f"{path}#fixed_{a}" for a in range(2)]
    report = build_report("matrix_game", entrants, wishes=ReportOptions(episodes=4, seed=3))
    report.write(tmp_path / "report")
    found = sources_of(tmp_path, tmp_path / "report", "report", frozenset())
    assert found["run"] == "rps"
    assert found["sources"]["player_0"] == {
        "fixed_0": {"player_0": "rps#fixed_0"}, "fixed_1": {"player_0": "rps#fixed_1"}, "random": {"player_0": "random"},
    }  # fmt: skip
    # Its numbers are those of the report, with the seed of the report.
    rows = {row["name"]: row for row in asked(tmp_path / "report", "elo", "report")["rows"]}
    for told in report.numbers["ranking"]["methods"]["elo"]["strategies"]:
        for key in ("score", "low", "high", "first"):
            assert rows[told["name"]][key] == told[key]
    assert rows["random"]["low"] < rows["random"]["high"]


def test_a_report_about_checkpoints_elsewhere_shows_no_matches(tmp_path: Path) -> None:
    inside = tmp_path / "results"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    entrants = [{"name": "a", "given": str(tmp_path / "outside")}, {"name": "b", "given": "../outside"}]
    (inside / "report.json").write_text(json.dumps({"entrants": entrants}))
    assert sources_of(inside, inside, "report", frozenset())["run"] is None


# -- the server ----------------------------------------------------------------------------------------------------


@pytest.mark.slow  # it starts a process
def test_the_server_gives_lists_tables_and_rankings_and_refuses_what_is_outside(tmp_path: Path) -> None:
    crossplay(tmp_path / "a b", rps_table())
    with watched(tmp_path) as server:
        right = {"authorization": f"Bearer {server.desk.secret}"}
        with httpx.Client(base_url=server.url, headers=right, timeout=60) as client:
            assert [game["path"] for game in client.get("/api/games").json()["games"]] == ["a b"]
            table = client.get(f"/api/games/one?path={quote('a b')}&kind=crossplay").json()["payoffs"]
            assert table == rps_table().as_json()
            assert client.get("/api/games/one?path=..&kind=crossplay").status_code == 404
            assert client.get(f"/api/games/one?path={quote('a b')}&kind=x").status_code == 400
            body = {"path": "a b", "kind": "crossplay", "part": "graph"}
            assert client.post("/api/games/ranks", json={**body, "round": "1"}).status_code == 400
            assert client.post("/api/games/ranks", json={**body, "path": "/etc"}).status_code == 404
            assert client.post("/api/games/ranks", json={**body, "part": 3}).status_code == 400
            assert client.get("/api/games", headers={"authorization": "Bearer x"}).status_code == 401
            assert len(_result(client, body)["graph"]["cycles"]) == 1


def _result(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    number = client.post("/api/games/ranks", json=body).json()["job"]
    while True:
        told = client.get(f"/api/jobs/{number}").json()
        if told["state"] in ("done", "failed"):
            found: dict[str, Any] = told["result"]
            return found
        time.sleep(0.1)
