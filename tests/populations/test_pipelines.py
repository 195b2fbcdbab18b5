"""P2SRO and anytime PSRO: whom learners meet, and what stands for them while they learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.data.task import Array
from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.populations.config import PopulationConfig
from marl.populations.kinds import RoundEnd
from marl.populations.layout import Population, PopulationLayout
from marl.populations.lineage import Lineage
from marl.populations.pipelines import Anytime
from marl.populations.solvers import among

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
SMALL: dict[str, Any] = {
    "env": "kuhn_poker", "fcnet_hiddens": [8], "train_batch_size": 64, "sgd_minibatch_size": 64, "num_sgd_iter": 1,
    "num_envs_per_worker": 8, "evaluation": {"interval": 0},
}  # fmt: skip


def population_run(kind: str, **keys: Any) -> marl.Trainer:
    population = {"kind": kind, "round_timesteps": 64, "matches": 8, "member_rounds": 2, **keys}
    return marl.Trainer("ppo", config={**SMALL, "population": population})


def two_players(config: PopulationConfig) -> PopulationLayout:
    sides = tuple(Population(name, (name,), 0, (name,)) for name in ("row", "column"))
    return PopulationLayout(config, {"row": ("row",), "column": ("column",)}, sides, (0, 1))


def round_end(config: PopulationConfig, table: Array, standing: Mapping[str, int], settled: bool = False) -> RoundEnd:
    """Two players with as many members each as the table has rows and columns."""
    members = {}
    for name, size in zip(("row", "column"), table.shape, strict=True):
        members[name] = [Lineage(f"{name}_{i}", name, name, 0, 0) for i in range(size)]
    names = tuple(tuple(one.name for one in own) for own in members.values())
    payoffs = PayoffTensor(
        np.stack([table, -table]),
        np.zeros((2, *table.shape)),
        np.zeros(table.shape, np.int64),
        names,
        ("row", "column"),
    )
    return RoundEnd(
        config, two_players(config), members, payoffs, standing, frozenset(standing) if settled else frozenset()
    )


# -- anytime PSRO --------------------------------------------------------------------------------------------------------


def with_best_responses(row: Array, column: Array) -> Array:
    """Rock, paper, scissors and, as the last member of each, the best response to the other's mixture."""
    to_column = ROCK_PAPER_SCISSORS[int((ROCK_PAPER_SCISSORS @ column).argmax())]
    to_row = ROCK_PAPER_SCISSORS[:, int((-row @ ROCK_PAPER_SCISSORS).argmax())]
    table = np.zeros((4, 4))
    table[:3, :3], table[3, :3], table[:3, 3] = ROCK_PAPER_SCISSORS, to_column, to_row
    return table


def test_against_best_responses_mixtures_of_fixed_members_become_the_least_exploitable_ones() -> None:
    config = PopulationConfig(kind="anytime_psro")
    kind, standing = Anytime(config), {"row": 3, "column": 3}
    kind.regrets = {"row": np.array([1.0, 0.0, 0.0]), "column": np.array([0.0, 0.0, 1.0])}
    exploitability = []
    for number in range(2_000):
        row, column = kind.mixture("row"), kind.mixture("column")
        now = round_end(config, with_best_responses(row, column), standing)
        kind.advance(now)
        if number in (3, 1_999):
            first, second = kind.answer(now)
            assert first[3] == second[3] == 0.0  # nobody meets members that stand for learners
            exploitability.append((ROCK_PAPER_SCISSORS @ second[:3]).max() + (-first[:3] @ ROCK_PAPER_SCISSORS).max())
    assert exploitability[0] > 0.3
    assert exploitability[1] < 0.05


def test_a_phase_begins_where_the_last_one_ended_and_the_new_member_has_to_earn_its_place() -> None:
    config = PopulationConfig(kind="anytime_psro")
    kind, table = Anytime(config), np.array([[0.0, 0.0], [1.0, 0.0]])
    kind.advance(round_end(config, table, {"row": 1, "column": 1}, settled=True))
    later = round_end(config, np.pad(table, (0, 1)), {"row": 2, "column": 2})
    assert kind.mixture("row").tolist() == [1.0, 0.0]
    assert [strategy.tolist() for strategy in kind.answer(later)] == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    kind.advance(round_end(config, np.array([[0.0, 0, -1], [1, 0, 1], [0, 0, 0]]), {"row": 2, "column": 2}))
    assert kind.mixture("row")[1] > 0.5  # against the column's learner the new member earns 2 more


# -- P2SRO ---------------------------------------------------------------------------------------------------------------


def test_a_learner_meets_fixed_members_and_learners_below_it_alone() -> None:
    config = PopulationConfig(kind="p2sro")
    kind = config.make_kind()
    table = np.array([[0.0, -1.0, 5.0], [1.0, 0.0, 5.0], [-5.0, -5.0, 0.0]])  # member 1 beats 0, member 2 loses to both
    standing = {"row": 1, "row.second": 2}
    now = round_end(config, table, standing)
    foe = now.layout.side_of("column")
    assert kind.opponents(now, "row", foe, ()).tolist() == [1.0, 0.0, 0.0]  # below level 1 is member 0 alone
    assert kind.opponents(now, "row.second", foe, ()).tolist() == [0.0, 1.0, 0.0]
    last = kind.opponents(now, "another", foe, ())  # without a level it comes above everybody
    assert last == pytest.approx([0.0, 1.0, 0.0])


def test_the_first_members_of_a_table_are_a_table() -> None:
    config = PopulationConfig(kind="p2sro")
    whole = round_end(config, np.arange(6.0).reshape(2, 3), {}).payoffs
    assert whole is not None
    part = among(whole, (1, 2))
    assert part.mean[0].tolist() == [[0.0, 1.0]]
    assert part.names == (("row_0",), ("column_0", "column_1"))


# -- runs ----------------------------------------------------------------------------------------------------------------


def members_after(kind: str, rounds: int) -> list[tuple[list[str], dict[str, int]]]:
    """Names of the learners behind player_0's members, and who stands, after each round."""
    found = []
    with population_run(kind) as trainer:
        for _ in range(rounds):
            trainer.train()
            population = trainer.population
            assert population is not None
            learners = [one.learner for one in population.members["player_0"]]
            standing = {name: number for name, number in population.standing.items() if name.startswith("player_0")}
            found.append((learners, standing))
    return found


def test_a_learners_member_follows_it_and_becomes_fixed_after_its_rounds() -> None:
    one, two, three = members_after("anytime_psro", 3)
    assert one == (["first weights", "player_0"], {"player_0": 1})
    assert two == (["first weights", "player_0"], {})  # fixed: the learner begins anew
    assert three == (["first weights", "player_0", "player_0"], {"player_0": 2})


def test_of_two_levels_the_lower_one_is_fixed_first() -> None:
    _, two, three = members_after("p2sro", 3)
    assert two == (["first weights", "player_0", "player_0.second"], {"player_0.second": 2})
    assert three[0] == ["first weights", "player_0", "player_0.second", "player_0"]
    assert three[1] == {"player_0": 3}  # the upper level became the lowest, and had had its rounds


def test_the_payoffs_of_a_member_that_changed_are_played_anew() -> None:
    with population_run("anytime_psro", member_rounds=9) as trainer:
        trainer.train()
        population = trainer.population
        assert population is not None
        before = dict(population.table.played)
        trainer.train()
        after = population.table.played
        assert set(before) == set(after) == {(0, 0), (0, 1), (1, 0), (1, 1)}
        assert after[0, 0] is before[0, 0]
        assert all(after[pairing] is not before[pairing] for pairing in ((0, 1), (1, 0), (1, 1)))
        weights = trainer.policies["player_0"].get_weights()
        stood = population.mixture(population.layout.sides[0].answer).weights_of_member(1)
        assert all(np.array_equal(weights[name], stood[name]) for name in weights)


@pytest.mark.parametrize("kind", ["p2sro", "anytime_psro"])
def test_a_resumed_population_is_the_one_that_was_not_stopped(kind: str, tmp_path: Path) -> None:
    with population_run(kind) as straight:
        for _ in range(4):
            straight.train()
        assert straight.population is not None
        expected = straight.population.as_json()
    with population_run(kind) as first:
        for _ in range(3):
            first.train()
        first.save(tmp_path / "here")
    with population_run(kind) as second:
        second.restore(tmp_path / "here")
        second.train()
        assert second.population is not None
        assert second.population.as_json() == expected


@pytest.mark.parametrize("kind", ["p2sro", "anytime_psro"])
def test_learners_that_answer_to_mixtures_do_not_play_themselves(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} responds to mixtures alone; drop self_share"):
        population_run(kind, self_share=0.5)
