"""The parts of a report against numbers worked out by hand: facts of known games, bounds, equilibria, rankings, the page."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.analysis.report.bounds import table_bounds
from marl.analysis.report.build import Report, ReportOptions, build_report
from marl.analysis.report.content import Block, Grid, Live, Picture, Section, Words, still
from marl.analysis.report.curves import read_results, run_curves
from marl.analysis.report.equilibria import empirical_equilibria
from marl.analysis.report.figures import draw_intervals, draw_responses
from marl.analysis.report.names import ReportParticipant
from marl.analysis.report.page import as_page
from marl.analysis.report.payoffs import payoffs_section
from marl.analysis.report.ranking import rankings
from marl.analysis.report.strategic import strategic_section, strategic_view
from marl.errors import ConfigError
from marl.gametheory.classics import classic_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import responses
from marl.gametheory.rank.result import Row
from marl.page.assets import script_hash
from marl.runs.curve import drawn
from tests.analysis.runs import RPS, checkpoint, with_fixed

pytestmark = pytest.mark.slow


def game(name: str, **keys: Any) -> dict[str, Any]:
    """What a report without checkpoints says of a classic game."""
    found = build_report("matrix_game", env_config={"game": name, **keys}, wishes=ReportOptions(episodes=60))
    facts: dict[str, Any] = found.numbers["game"]
    return facts


@pytest.fixture(scope="module")
def rps(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Rock, paper and scissors as entrants."""
    path = with_fixed(tmp_path_factory.mktemp("runs") / "rps", RPS, 3)
    return build_report(
        "matrix_game", [f"{path}#fixed_{a}" for a in range(3)], wishes=ReportOptions(episodes=10, with_random=False)
    )


# -- the game ------------------------------------------------------------------------------------------------------


def test_random_play_tells_zero_sum_cooperative_and_other_games_apart() -> None:
    zero_sum, common, neither = game("matching_pennies"), game("penalty"), game("prisoners_dilemma")
    assert (zero_sum["zero_sum"], zero_sum["cooperative"]) == (True, False)
    assert (common["zero_sum"], common["cooperative"]) == (False, True)
    assert (neither["zero_sum"], neither["constant_sum"], neither["cooperative"]) == (False, False, False)
    assert not zero_sum["turn_based"]


def test_a_seat_that_always_earns_one_more_is_not_symmetric_and_the_sum_of_shares_is_constant() -> None:
    shares = np.array([[[0.5, 0.9], [0.9, 0.9]], [[0.5, 0.1], [0.1, 0.1]]])
    found = build_report("matrix_game", env_config={"payoffs": shares.tolist()}, wishes=ReportOptions(episodes=60))
    facts = found.numbers["game"]
    assert (facts["zero_sum"], facts["constant_sum"]) == (False, True)
    assert facts["total"] == pytest.approx(1.0)
    assert facts["seats_differ"]
    assert "Constant-sum: the players' payoffs added up to 1 in every episode (sampled over 60 episodes)." in found.text
    assert "Not symmetric: in random play" in found.text


def test_a_game_with_whole_sets_of_equilibria_is_called_degenerate() -> None:
    """The second row pays the same against the first column as the first row does: a tie that makes a segment of equilibria."""
    tied = np.array([[[1.0, 0.0], [1.0, -1.0]], [[1.0, 0.0], [0.0, 0.0]]])
    found = build_report("matrix_game", env_config={"payoffs": tied.tolist()}, wishes=ReportOptions(episodes=20))
    assert found.numbers["game"]["tree"]["degenerate"]
    assert "The game is degenerate" in found.text
    assert not game("matching_pennies")["tree"]["degenerate"]
    assert "degenerate" not in build_report("matrix_game", env_config={"game": "matching_pennies"}).text


def test_an_env_that_pays_nothing_is_not_called_zero_sum() -> None:
    text = build_report("matrix_game", env_config={"payoffs": np.zeros((2, 2, 2)).tolist()}).text
    assert "nothing can be told about the payoffs" in text
    assert "Zero-sum" not in text


def test_kuhn_poker_without_checkpoints_has_its_exact_value_and_the_nash_conv_of_uniform_play() -> None:
    found = build_report("kuhn_poker", wishes=ReportOptions(episodes=20))
    tree = found.numbers["game"]["tree"]
    assert (tree["nodes"], tree["information_sets"], tree["chance"]) == (55, 12, "exact")
    assert tree["values"]["player_0"] == pytest.approx(-1 / 18)
    assert tree["uniform_nash_conv"] == pytest.approx(11 / 12)
    assert found.numbers["game"]["turn_based"]
    assert [section.key for section in found.sections] == ["game"]
    assert found.payoffs is None


def test_a_tree_above_the_limit_is_estimated_and_not_built() -> None:
    """Two moves of three actions each: 1 + 3 + 9 nodes, which every random walk finds exactly."""
    facts = build_report("matrix_game", env_config=RPS["env_config"], wishes=ReportOptions(episodes=2, max_nodes=12))
    assert facts.numbers["game"]["tree"] is None
    assert "the tree has about 13 nodes, estimated from random play, more than max_nodes (12)" in " ".join(
        facts.text.split()
    )
    exact = build_report("matrix_game", env_config=RPS["env_config"], wishes=ReportOptions(episodes=2, max_nodes=30))
    assert exact.numbers["game"]["tree"]["nodes"] == 13


# -- rock, paper, scissors -----------------------------------------------------------------------------------------


def test_rock_paper_scissors_gives_the_cycle_spelled_out_and_elos_warning(rps: Report) -> None:
    (cycle,) = rps.numbers["ranking"]["cycles"]
    order = cycle["text"].replace("fixed_", "").split(" > ")
    assert len(order) == 4
    assert all(
        (int(winner) - int(loser)) % 3 == 1 for winner, loser in pairwise(order)
    )  # paper 1 beats rock 0, and so on
    assert cycle["in_sink"]
    assert f"Cycle: {cycle['text']}" in " ".join(rps.text.split())
    assert "Do not trust Elo here: play is cyclic" in rps.text


def test_the_gamescape_of_rock_paper_scissors_is_all_cycle_and_its_field_is_drawn(rps: Report) -> None:
    view = rps.numbers["strategic"]
    assert view["gamescape"]["cyclic_share"] == pytest.approx(1.0)
    assert [field["space"] for field in view["fields"]] == ["triangle", "triangle"]
    replicator, best_response = view["basins"]
    assert replicator["unsettled"] == 1.0
    assert best_response["basins"][0]["area"] == 1.0
    text = " ".join(rps.text.split())
    assert "A rating explains 0% of who beats whom by how much; 100% is cyclic." in text
    assert "play does not come to rest 100%" in text


def test_a_table_of_two_seats_has_no_gamescape_but_a_field_and_of_three_players_nothing() -> None:
    pennies = strategic_view(PayoffTensor.exact(classic_game("matching_pennies")))
    assert pennies is not None
    assert pennies.scape is None
    assert [field.space for field in pennies.fields] == ["square", "square"]
    three = MatrixGame(np.zeros((3, 2, 2, 2)))
    assert strategic_view(PayoffTensor.exact(three)) is None
    large = strategic_view(PayoffTensor.exact(bimatrix(np.zeros((5, 5)), np.zeros((5, 5)))))
    assert large is not None
    assert large.fields == ()
    assert not [
        block for block in strategic_section(large).blocks if isinstance(block, Picture)
    ]  # nobody beats anybody


def test_in_rock_paper_scissors_nobody_is_called_best(rps: Report) -> None:
    opening = " ".join(rps.text.split("The game")[0].split())
    assert "Nobody is best: fixed_" in opening
    assert "is a cycle, in 100% of redrawn tables." in opening
    assert rps.numbers["best"]["cycles"]


def test_rock_paper_scissors_is_ranked_alike_mixed_evenly_and_exploited_fully(rps: Report) -> None:
    alpha = rps.numbers["ranking"]["methods"]["alpha_rank"]["strategies"]
    assert [row["score"] for row in alpha] == pytest.approx([1 / 3] * 3)
    (one,) = rps.numbers["equilibria"]["equilibria"]
    assert list(one["profile"]["player_0"].values()) == pytest.approx([1 / 3] * 3)
    assert one["nash_conv"] == pytest.approx(0.0, abs=1e-12)
    bounds = rps.numbers["exploitability"]
    assert [bound["bound"] for bound in bounds] == ["exact"] * 3
    assert [bound["nash_conv"] for bound in bounds] == pytest.approx([2.0] * 3)  # each of both players gains 1


# -- tables --------------------------------------------------------------------------------------------------------


def test_the_best_entrant_against_oneself_is_a_lower_bound_of_nash_conv() -> None:
    """b loses 0.4 to a, so both players gain 0.4 by playing a instead; nobody gains against a."""
    errors = [[0.0, 0.1], [0.1, 0.0]]
    a, b = table_bounds(PayoffTensor.two_player([[0.0, 0.4], [-0.4, 0.0]], ["a", "b"], errors, [[10, 10], [10, 10]]))
    assert (a.nash_conv, a.stderr) == (0.0, 0.0)
    assert b.nash_conv == pytest.approx(0.8)
    assert b.stderr == pytest.approx(0.2)  # both gains are the same number, so their errors add up
    assert b.bound == "lower bound"
    assert b.how == "best of the 2 entrants: a"
    assert "nobody" in a.how


def test_an_equilibrium_within_one_standard_error_is_lost_in_a_sixth_of_the_draws() -> None:
    """The sign of 0.1 +- 0.1 is right with probability 0.84."""
    payoffs = PayoffTensor.two_player([[0, 0.1], [-0.1, 0]], ["a", "b"], [[0, 0.1], [0.1, 0]], [[10, 10], [10, 10]])
    (one,) = empirical_equilibria(payoffs, draws=400).equilibria
    assert one.found.profile[0].tolist() == [1.0, 0.0]
    assert one.support_kept == pytest.approx(0.84, abs=0.06)
    assert one.nash_conv_drawn > 0.05  # in one draw of twenty b is better by 0.065 for both players
    exact = empirical_equilibria(PayoffTensor.two_player([[0, 0.1], [-0.1, 0]], ["a", "b"]))
    assert exact.equilibria[0].support_kept == 1.0
    assert exact.equilibria[0].nash_conv_drawn == 0.0


def test_later_checkpoints_above_earlier_ones_are_counted_in_pairs() -> None:
    run = Path("run") / "checkpoints"
    who = [ReportParticipant(f"c{i}", f"c{i}", f"c{i}", run / f"checkpoint_{i:06d}") for i in (2, 10, 30)]
    order = {order.method: order for order in rankings(_ladder(["c2", "c30", "c10"]), who).orders}
    assert (order["elo"].right, order["elo"].pairs) == (2, 3)  # 10 is above 2, 30 is above 2, 30 is not above 10
    assert set(order) == {"elo", "nash_average"}


def _ladder(names: list[str]) -> PayoffTensor:
    """The later in the list beats the earlier."""
    table = np.sign(np.arange(3)[:, None] - np.arange(3)) * 0.5
    return PayoffTensor.two_player(table, names, np.full((3, 3), 0.01), np.full((3, 3), 100))


def test_methods_that_a_game_does_not_allow_are_named_with_the_reason() -> None:
    mean = np.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
    names = (("c", "d"), ("c", "d"))
    dilemma = PayoffTensor(mean, np.zeros_like(mean), np.full((2, 2), 4), names, ("x", "y"))
    found = rankings(dilemma, [])
    assert set(found.scores) == {"alpha_rank"}
    assert set(found.refused) == {"elo", "nash_average"}
    assert found.responses.sinks == ((("d", "d"),),)


def test_three_players_are_listed_line_by_line() -> None:
    names = (("x",), ("x", "y"), ("x",))
    three = PayoffTensor(
        np.arange(6.0).reshape(3, 1, 2, 1), np.zeros((3, 1, 2, 1)), np.full((1, 2, 1), 5), names, ("p", "q", "r")
    )
    who = [ReportParticipant(n, n, n, Path(f"/runs/{n}")) for n in "xy"]
    grids = [block for block in still(payoffs_section(three, who).blocks) if isinstance(block, Grid)]
    assert grids[-1].rows[1] == ["2", "x", "y", "x", "1 ± 0", "3 ± 0", "5 ± 0"]
    with pytest.raises(ConfigError):
        responses(three, significance=-1)


# -- page and drawings ---------------------------------------------------------------------------------------------

EVIL = '<script>alert("x")</script>'


def test_what_comes_from_files_is_escaped_everywhere_on_the_page() -> None:
    grid = Grid(EVIL, [EVIL, "1"], [[EVIL, EVIL]], [[0.5]])
    blocks: list[Block] = [Words(EVIL), Words(EVIL, "meaning"), grid, Live("rank", [Words(EVIL)], EVIL)]
    page = as_page(EVIL, EVIL, [Section("key", EVIL, blocks)], {"payoffs": {"names": [[EVIL]]}})
    assert EVIL not in page
    assert page.count("&lt;script&gt;") >= 10
    # The scripts of the page itself: names of modules, the numbers, and the first line.
    assert re.findall("<script[^>]*>", page) == [
        '<script type="importmap">', '<script type="application/json" id="data">', '<script type="module">',
    ]  # fmt: skip


def test_the_policy_of_the_page_allows_its_own_scripts_alone() -> None:
    page = as_page("x", "y", [])
    policy = re.findall('http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert len(policy) == 1
    assert policy[0].startswith("default-src &#x27;none&#x27;; script-src data: &#x27;sha256-")
    assert "unsafe" not in unescape(policy[0]).split("style-src")[0]
    for kind in ("importmap", "module"):
        inside = page.split(f'<script type="{kind}">')[1].split("</script>")[0]
        assert script_hash(inside) in unescape(policy[0])


def test_the_page_is_one_file_with_contents_alt_texts_and_an_explanation_in_every_section(rps: Report) -> None:
    page = rps.page
    sources = re.findall(r'(?:src|href)="([^"]{0,30})', page)
    assert all(source.startswith(("#", "data:image/svg+xml;base64,")) for source in sources)
    assert "@import" not in page
    assert "url(" not in page
    keys = [section.key for section in rps.sections]
    assert keys == ["best", "game", "payoffs", "ranking", "strategic", "exploitability", "equilibria", "curves"]
    for key in keys:
        part = page.split(f'<section id="{key}"')[1].split("</section>")[0]
        assert "What this means." in part
        assert f'href="#{key}"' in page
    assert page.count("<img ") == page.count('<img alt="') == 7  # rankings, responses, gamescape, fields
    assert 'alt=""' not in page


def test_drawings_repeat_to_the_letter_and_dollars_are_no_formulas() -> None:
    rows = [Row("a$b$", 1.0, 0.5, 1.5), Row("c_{d}", 0.0, 0.0, 0.0)]
    assert draw_intervals(rows, "x") == draw_intervals(rows, "x")
    found = responses(_ladder(["a$x^$", "b", "c"]))
    assert draw_responses(found) == draw_responses(found)
    assert drawn("$a$") == r"\$a\$"


# -- curves --------------------------------------------------------------------------------------------------------


def test_curves_are_read_from_result_json_and_what_is_no_result_is_passed_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    lines = [
        '{"training_iteration": 1, "timesteps_total": 100, "episode_reward_mean": NaN}',
        '{"training_iteration": 2, "timesteps_total": 200, "episode_reward_mean": 2.5, "evaluation": null,'
        ' "exploitability": {"nash_conv": 0.5, "bound": "exact"}}',
        "[1, 2]",
        '{"training_iteration": 3, "timesteps_to',
    ]
    (run / "result.json").write_text("\n".join(lines))
    who = [
        ReportParticipant("c", "c", "iteration 2", run / "checkpoints" / "checkpoint_000002"),
        ReportParticipant("s", "s", "saved", tmp_path / "saved"),
        ReportParticipant("random", "random", "random"),
    ]
    (curves,), notes = run_curves(who)
    assert curves.rewards == {"reward in training": [(200.0, 2.5)]}
    assert (curves.nash_conv, curves.bound, curves.checkpoints) == ([(200.0, 0.5)], "exact", [200.0])
    assert notes == ["saved does not lie in a run directory, so its training is not known."]
    assert read_results(tmp_path / "nothing.json") == []


def test_a_game_whose_tree_is_too_large_gets_exact_numbers_by_merged_positions(tmp_path: Path) -> None:
    """Uniform play of classical dark hex 2x2 is 1.25 from equilibrium."""
    env = {"env": "dark_hex", "env_config": {"rows": 2, "columns": 2}}
    run = checkpoint(tmp_path / "run", env)
    made = build_report("dark_hex", [run], env["env_config"], wishes=ReportOptions(episodes=4, max_nodes=50))
    bounds = {bound["name"]: bound for bound in made.numbers["exploitability"]}
    assert {bound["bound"] for bound in bounds.values()} == {"exact"}
    assert bounds["random"]["nash_conv"] == pytest.approx(1.25, abs=1e-9)
    assert "merged positions" in bounds["random"]["how"]
