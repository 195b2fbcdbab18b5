"""How sure a response graph is."""

import json

import numpy as np
import pytest

from marl.analysis.report.ranking import ranking_section, rankings
from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import bootstrap, cycles, elo, elo_from_results, responses
from marl.gametheory.rank.shares import ResponseShares

CYCLE = np.array([[0.0, 0.3, -0.3], [-0.3, 0.0, 0.3], [0.3, -0.3, 0.0]])


def measured(stderr: float) -> PayoffTensor:
    return PayoffTensor.two_player(CYCLE, ["a", "b", "c"], np.full((3, 3), stderr), np.full((3, 3), 100))


def test_an_arrow_at_three_standard_errors_is_clear_again_in_84_percent_of_the_tables() -> None:
    found = bootstrap(measured(0.1), responses, draws=400)
    assert isinstance(found, ResponseShares)
    assert [share for _, _, share in found.edges] == pytest.approx([0.841] * 3, abs=0.06)  # P(N(3, 1) > 2)
    ((cycle, share),) = found.cycles
    assert str(cycle) == "a > b > c > a"
    assert share == pytest.approx(0.841**3, abs=0.08)  # the three errors are independent
    ((sink, again),) = found.sinks
    assert sink == ("a", "b", "c")
    assert again == share  # without one arrow the rest has a first and a last


def test_clear_graphs_are_always_there_again_and_exact_ones_need_one_table() -> None:
    clear = bootstrap(measured(0.01), responses, draws=20)
    assert [clear.sinks[0][1], clear.cycles[0][1], clear.edges[0][2], clear.draws] == [1, 1, 1, 20]
    exact = bootstrap(PayoffTensor.two_player(CYCLE, ["a", "b", "c"]), responses)
    assert (exact.draws, exact.sinks[0][1]) == (1, 1.0)


def test_cycles_alone_have_the_shares_of_the_graph() -> None:
    whole, alone = (bootstrap(measured(0.1), method, draws=30) for method in (responses, cycles))
    assert [share for _, share in alone.cycles] == [share for _, share in whole.cycles]
    assert json.loads(json.dumps(alone.as_json())) == whole.as_json()
    assert whole.table()[0].name == "{a, b, c}"


def test_the_report_tells_how_often_sinks_and_cycles_come_back() -> None:
    found = rankings(measured(0.1), [])
    share = found.shares.sinks[0][1]
    phrase = f"in {100 * share:.0f} % of redrawn tables"
    words = [block.text for block in ranking_section(found).blocks if hasattr(block, "text")]
    assert any(text.startswith("Cycle: a > b > c > a, " + phrase) for text in words)
    assert any(f"{{a, b, c}} ({phrase})" in text for text in words)
    assert found.as_json()["response_shares"]["sinks"] == [{"sink": ["a", "b", "c"], "share": share}]


def test_elo_without_differences_is_exactly_zero() -> None:
    table = np.array([[0, 0.5, -0.5], [-0.5, 0, 0.5], [0.5, -0.5, 0]])
    assert elo(PayoffTensor.two_player(table, ["a", "b", "c"])).scores.tolist() == [0, 0, 0]


def test_results_that_are_no_counts_are_refused() -> None:
    for wins, draws in (([[0, np.nan], [1, 0]], np.zeros((2, 2))), (np.ones((2, 2)), [[0, np.inf], [np.inf, 0]])):
        with pytest.raises(ConfigError, match="tables of counts"):
            elo_from_results(wins, draws, ["a", "b"])
