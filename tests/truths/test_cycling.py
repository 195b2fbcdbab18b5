"""Plain self-play on rock-paper-scissors runs in circles: the favourite changes to what beats the other's favourite."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import pytest

from marl import Trainer, load_scenario

SCENARIO = Path(__file__).parents[2] / "scenarios" / "rps_self_play.yaml"
ROCK, PAPER, SCISSORS = range(3)
BEATEN_BY = {ROCK: PAPER, PAPER: SCISSORS, SCISSORS: ROCK}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_favourites_of_self_play_go_round_from_rock_to_paper_to_scissors(seed: int) -> None:
    scenario = load_scenario(SCENARIO, changes={"seed": seed})
    with Trainer(scenario=scenario) as trainer:
        obs = trainer.workers.local_worker().collect(1).batch.obs[0][0, 0, 0]
        favourites = []
        for _ in range(150):
            trainer.train()
            favourites.append(trainer.compute_action(obs, policy_id="player_0", explore=False))
    turns = [favourite for favourite, _ in groupby(favourites)]
    assert {*turns} == {ROCK, PAPER, SCISSORS}
    forwards = sum(BEATEN_BY[before] == after for before, after in pairwise(turns))
    assert len(turns) > 4
    assert forwards >= 0.8 * (len(turns) - 1), turns
