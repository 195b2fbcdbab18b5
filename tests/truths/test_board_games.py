"""Board games learned by self-play, measured on PettingZoo's own envs: every move is legal, and play beats random play."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo.classic import connect_four_v3, tictactoe_v3
from pettingzoo.utils import BaseWrapper

from marl.envs.registry import register_pettingzoo
from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer
from proofs.declaration import Places, Proof
from proofs.matches import MatchGoal, Tally, make_env, play_games, play_matches
from proofs.report import write_report
from proofs.results import Results, SeedResult, read_results, write_results

SCENARIOS = Path(__file__).parents[2] / "scenarios"
TICTACTOE = "pettingzoo:classic/tictactoe_v3"
GAMES = {"tictactoe": tictactoe_v3.env, "connect_four": connect_four_v3.env}
SMALL: dict[str, Any] = {"num_envs_per_worker": 8, "fcnet_hiddens": [32], "evaluation": {"interval": 1, "episodes": 20}}
ALGOS: dict[str, dict[str, Any]] = {
    "ppo": {"train_batch_size": 512, "sgd_minibatch_size": 128, "num_sgd_iter": 2},
    "dqn": {"learning_starts": 100, "timesteps_per_iteration": 512},
}


def uniform(rng: np.random.Generator) -> Any:
    return lambda obs, agent: int(rng.choice(np.flatnonzero(obs["action_mask"])))


def test_random_play_loses_as_often_as_the_rules_of_tictactoe_say() -> None:
    # Over all 9! orders of moves the first player wins 58.5 %, the second 28.8 %, and 12.7 % are drawn.
    env, rng = make_env(TICTACTOE), np.random.default_rng(0)
    first = play_games(env, "player_1", uniform(rng), 1_000, rng)
    second = play_games(env, "player_2", uniform(rng), 1_000, rng)
    sigma = (0.585 * 0.415 / 1_000) ** 0.5
    assert first.won / 1_000 == pytest.approx(0.585, abs=4 * sigma)
    assert first.lost / 1_000 == pytest.approx(0.288, abs=4 * sigma)
    assert second.won / 1_000 == pytest.approx(0.288, abs=4 * sigma)
    assert second.lost / 1_000 == pytest.approx(0.585, abs=4 * sigma)
    assert first.games == second.games == 1_000
    assert first.illegal == second.illegal == 0


def test_an_illegal_move_in_a_match_is_counted_and_fails_the_goal() -> None:
    env, rng = make_env(TICTACTOE), np.random.default_rng(0)
    stubborn = play_games(env, "player_1", lambda obs, agent: 4, 20, rng)
    assert stubborn.illegal == stubborn.lost == 20  # the middle is taken when it moves there again
    goal = MatchGoal(policy="p", games=20, lost_at_most=1.0)
    assert not goal.met([stubborn])
    assert goal.met([Tally("player_1", "greedy", lost=20)])


def test_a_goal_of_matches_looks_at_greedy_play_in_each_seat() -> None:
    good, bad = Tally("a", "greedy", won=95, lost=5), Tally("b", "greedy", won=80, drawn=17, lost=3)
    sampled = Tally("a", "sampled", lost=100)
    assert MatchGoal(policy="p", lost_at_most=0.05).met([good, bad, sampled])
    assert not MatchGoal(policy="p", lost_at_most=0.04).met([good, bad])
    assert not MatchGoal(policy="p", won_at_least=0.9).met([good, bad])
    assert not MatchGoal(policy="p", won_at_least=0.0).met([sampled])  # nothing was played greedily


def test_matches_survive_the_cache_and_are_shown_in_the_report(tmp_path: Path) -> None:
    places = Places(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "s.yaml").write_text("env: e\n")
    keys = {"name": "duel", "claim": "c", "scenario": "s", "seeds": 1, "budget": 10}
    proof = Proof.model_validate({**keys, "matches": {"policy": "p", "games": 100, "lost_at_most": 0.01}})
    tallies = [Tally("player_1", "greedy", 99, 0, 1, 400), Tally("player_2", "greedy", 97, 2, 1, 410)]
    results = Results(seeds={0: SeedResult(0, [(10, {proof.fields[0]: 0.5})], 1.0, matches=tallies)})
    write_results(places.results / "duel.json", proof, results)
    assert read_results(places.results / "duel.json") == results
    assert results.judge(proof) == "ok"
    report = write_report([proof], places).read_text()
    assert "at most 1% lost of 100 games in each seat" in report
    assert "| 0 | player_2 | greedy | 97 | 2 | 1 | 0 of 410 |" in report
    tallies[1].lost = 2
    assert results.judge(proof) == "miss"


SENT: Counter[bool] = Counter()  # legal or not


class Referee(BaseWrapper):  # type: ignore[misc]
    """Holds every move against the mask that the env itself shows, whoever sends it."""

    def step(self, action: Any) -> None:
        agent = self.env.agent_selection
        if action is not None:
            SENT[bool(self.env.observe(agent)["action_mask"][action])] += 1
        super().step(action)


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("game", GAMES)
def test_no_illegal_move_is_sent_while_training_and_evaluating(game: str, algo: str) -> None:
    register_pettingzoo("refereed", lambda: Referee(GAMES[game]()))
    SENT.clear()
    with Trainer(algo, env="refereed", config={**SMALL, **ALGOS[algo]}) as trainer:
        for _ in range(3):
            result = trainer.train()
    assert SENT[False] == 0
    assert SENT[True] > result["timesteps_total"] >= 3 * 512


@pytest.mark.slow
def test_tictactoe_by_self_play_soon_loses_far_less_than_random_play() -> None:
    budget = 61_440  # a fifth of the proof's
    scenario = load_scenario(SCENARIOS / "tictactoe.yaml", changes={"stop": {"timesteps_total": budget}, "seed": 11})
    with Trainer(scenario=scenario) as trainer:
        while not trainer.train()["done"]:
            pass
        tallies = play_matches(trainer, MatchGoal(policy="shared", games=300, lost_at_most=0.02))
    assert sum(t.illegal for t in tallies) == 0
    assert [t.games for t in tallies] == [300] * 4
    for tally in tallies:
        random_loses = 0.288 if tally.seat == "player_1" else 0.585
        share = 0.5 if tally.play == "greedy" else 0.75
        assert tally.lost < share * random_loses * tally.games, tally
