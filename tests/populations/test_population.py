"""Populations inside a run: who meets whom, what joins, what begins anew, and that nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from marl.algos.qmix.learner import QmixLearner
from marl.data.episode import Episode
from marl.errors import ConfigError, SpaceMismatchError
from marl.gametheory.payoffs import PayoffTensor
from marl.mappers.matchmaking import Matchmaking
from marl.play.playback import RolloutOptions, play
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.populations.config import PopulationConfig
from marl.populations.members import Member
from marl.populations.payoffs import PayoffTable
from marl.populations.solvers import facing, meta_strategy, priorities, shares
from marl.runs.result import without_wall_clock
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from tests.training.trees import differences

RPS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
ENV = {"env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}}
SMALL = {
    "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2, "lr": 0.01, "fcnet_hiddens": [8],
    "num_envs_per_worker": 16, "evaluation": {"interval": 2, "episodes": 4}, "seed": 5,
}  # fmt: skip


def run(kind: str, more: dict[str, Any] | None = None, **population: Any) -> Trainer:
    keys = {**ENV, **SMALL, **(more or {}), "population": {"kind": kind, "round_timesteps": 64, **population}}
    if PopulationConfig(**keys["population"]).needs_payoffs:
        keys["population"].setdefault("matches", 8)
    return Trainer("ppo", config=keys)


# -- who meets whom ------------------------------------------------------------------------------------------------


def test_in_every_episode_one_player_learns_and_the_others_are_met_from_their_populations() -> None:
    players = {"a": ["a_*"], "b": ["b"], "c": ["c"]}
    opponents = {x: {y: f"{y} of {x}" for y in players if y != x} for x in players}
    mapper = Matchmaking(players, {p: [p] for p in players}, opponents)
    stars = []
    for seed in range(3_000):
        seated = {agent: mapper(agent, Episode(0, seed)) for agent in ("a_0", "a_1", "b", "c")}
        learning = {policy for policy in seated.values() if policy in players}
        assert len(learning) == 1
        assert seated["a_0"] == seated["a_1"]
        (star,) = learning
        assert all(policy in (star, f"{agent[0]} of {star}") for agent, policy in seated.items())
        stars.append(star)
    assert min(stars.count(p) for p in players) > 900


def test_self_share_lets_the_learners_meet_each_other() -> None:
    mapper = Matchmaking({"a": ["a"], "b": ["b"]}, {"a": ["a"], "b": ["b"]}, {"a": {"b": "y"}, "b": {"a": "x"}}, 0.25)
    both = sum(mapper("a", Episode(0, s)) == "a" and mapper("b", Episode(0, s)) == "b" for s in range(4_000))
    assert 850 < both < 1_150


def test_payoffs_of_known_strategies_are_the_games_own() -> None:
    with run("psro") as trainer:
        assert trainer.population is not None
        layout = trainer.population.layout
        fixed = [
            Member(f"m{a}", PolicySpec("scripted", 0, scripted=ScriptedConfig(name="fixed", action=a)))
            for a in range(3)
        ]
        table = PayoffTable(layout, 4, 0)
        members = {side.name: fixed for side in layout.sides}
        assert table.grow(trainer.workers, members) == 9 * 4
        assert table.grow(trainer.workers, members) == 0  # nobody meets twice
        tensor = table.tensor({side.name: ["r", "p", "s"] for side in layout.sides})
    assert tensor.mean[0].tolist() == RPS
    assert (tensor.mean[0] == -tensor.mean[1]).all()
    assert not tensor.stderr.any()


def test_the_errors_of_a_symmetric_table_know_that_seats_share_their_episodes() -> None:
    with run("psro", symmetric=True, matches=50) as trainer:
        assert trainer.population is not None
        drawn = Member("random", PolicySpec("scripted", 0, scripted=ScriptedConfig(name="random")))
        table = trainer.population.table
        table.grow(trainer.workers, {"main": [drawn, drawn]})
        tensor = table.tensor({"main": ["a", "b"]})
    assert not tensor.mean[0].diagonal().any()  # zero-sum against oneself
    assert not tensor.stderr[0].diagonal().any()
    assert tensor.count.tolist() == [[50, 100], [100, 50]]
    assert 0.05 < tensor.stderr[0][0, 1] < 0.12  # sqrt(2/3) / sqrt(2 * 50) = 0.08


def test_meta_solvers_mix_rock_paper_scissors_evenly() -> None:
    tensor = PayoffTensor.two_player(RPS, ["r", "p", "s"])
    for solver in ("uniform", "nash", "projected_replicator", "alpha_rank"):
        for strategy in meta_strategy(PopulationConfig(kind="psro", meta_solver=solver), tensor):
            assert np.allclose(strategy, 1 / 3, atol=0.01), solver


def test_prioritised_play_looks_for_those_that_are_not_beaten() -> None:
    tensor = PayoffTensor.two_player([[0, 1, -1], [-1, 0, 0], [1, 0, 0]], ["a", "b", "c"])
    share = shares(tensor, 0, facing(tensor, 0, 0, 1))
    assert share.tolist() == [0.5, 1.0, 0.0]
    hard = priorities(PopulationConfig(kind="prioritised", power=1), share)
    assert np.allclose(hard, [1 / 3, 0, 2 / 3])
    assert np.allclose(priorities(PopulationConfig(kind="prioritised", weighting="even"), share), [1, 0, 0])


# -- rounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["self_play", "fictitious", "prioritised", "psro", "league"])
def test_snapshots_join_after_every_round(kind: str) -> None:
    with run(kind) as trainer:
        learned = trainer.get_policy("player_0").get_weights()
        results = [trainer.train() for _ in range(3)]
        population = trainer.population
        assert population is not None
        assert [r["population"]["round"] for r in results] == [1, 2, 3]
        mixture = population.mixture("player_0.answer")
        assert len(mixture) >= 4
        assert abs(float(mixture.chances.sum()) - 1) < 1e-9
        assert differences(learned, mixture.weights_of_member(0)) == []  # the first member are the first weights
        newest = trainer.get_policy("player_0").get_weights()
        kept = [differences(newest, mixture.weights_of_member(i)) == [] for i in range(len(mixture))]
        assert any(kept) == (kind != "psro")  # psro's learners begin anew, the others go on from their snapshot
        assert nx.is_directed_acyclic_graph(population.lineage)
        assert population.lineage.number_of_nodes() == sum(population.numbers["members"].values())


def test_whom_a_learner_meets_is_what_its_kind_says() -> None:
    wanted = {
        "self_play": [0.0, 0.0, 1.0],
        "fictitious": [1 / 3, 1 / 3, 1 / 3],
    }
    for kind, chances in wanted.items():
        with run(kind) as trainer:
            trainer.train(), trainer.train()
            assert trainer.population is not None
            assert np.allclose(trainer.population.mixture("player_1.against.player_0").chances.numpy(), chances)
    with run("psro") as trainer:
        trainer.train(), trainer.train()
        assert trainer.population is not None
        crowd = trainer.population.mixture("player_1.against.player_0").chances.numpy()
        assert np.allclose(crowd, trainer.population.numbers["meta_strategy"]["player_1"])


def test_an_exploiter_joins_late_and_begins_anew() -> None:
    with run("league", exploiter_rounds=2, win_share=1.0) as trainer:
        assert trainer.population is not None
        for _ in range(3):
            trainer.train()
        makers = [one.learner for one in trainer.population.members["player_0"]]
        assert makers.count("player_0") == 3
        assert makers.count("player_0.main_exploiter") == 1
        assert trainer.population.parents["player_0.main_exploiter"] is None
        newest = [i for i, maker in enumerate(makers) if maker == "player_0"][-1]
        faced = trainer.population.mixture("player_0.against.player_1.main_exploiter").chances.numpy()
        assert faced[newest] == 1.0


def test_one_population_can_play_all_seats() -> None:
    with run("psro", symmetric=True) as trainer:
        trainer.train(), trainer.train()
        assert set(trainer.policies) == {"main", "main.against.main", "main.answer"}
        assert trainer.population is not None
        tensor = trainer.population.tensor()
        assert tensor.symmetric
        assert np.allclose(tensor.mean[0], tensor.mean[1].T)


def test_a_learner_that_begins_anew_forgets_everything_but_its_counts() -> None:
    with run("psro") as trainer:
        first = trainer.get_policy("player_0").get_weights()
        updates = [trainer.train()["info"]["num_updates"] for _ in range(2)]
        assert 0 < updates[0] < updates[1]
        again = trainer.get_policy("player_0").get_weights()
        assert differences(first, again)  # other first weights than in the round before
        assert not any(map(np.any, _arrays(trainer.learners[0].state_dict()["optimisers"])))  # no step was made since
        assert trainer.learners[0].timesteps["player_0"] == 0
    with run("fictitious") as trainer:  # whose learners go on
        trainer.train()
        assert any(map(np.any, _arrays(trainer.learners[0].state_dict()["optimisers"])))


def _arrays(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [a for value in tree.values() for a in _arrays(value)]
    if isinstance(tree, list | tuple):
        return [a for value in tree for a in _arrays(value)]
    return [tree] if isinstance(tree, np.ndarray) else []


@pytest.mark.parametrize("kind", ["psro", "league"])
def test_a_population_survives_stop_and_resume(kind: str, tmp_path: Path) -> None:
    with run(kind) as straight:
        lines = [without_wall_clock(straight.train()) for _ in range(5)]
    with run(kind) as first:
        for _ in range(2):
            first.train()
        first.save(tmp_path / "half")
    with run(kind) as second:
        second.restore(tmp_path / "half")
        again = [without_wall_clock(second.train()) for _ in range(3)]
    assert differences(again, lines[2:]) == []


@pytest.mark.ray
def test_ray_workers_play_the_same_population(ray_session: None) -> None:
    del ray_session
    found = []
    for pool in ("in_process", "ray"):
        with run("psro", {"num_workers": 2, "pool": pool}) as trainer:
            found.append([without_wall_clock(trainer.train()) for _ in range(2)])
    for lines in found:
        for line in lines:
            line.pop("config"), line["info"].pop("policy_lag_mean", None)
    assert differences(*found) == []


def test_the_run_directory_tells_members_lineage_and_payoffs(tmp_path: Path) -> None:
    with run("psro") as trainer:
        trainer.store.open(tmp_path)
        trainer.train()
    told = json.loads((tmp_path / "population.json").read_text())
    assert told["kind"] == "psro"
    assert told["members"] == {"player_0": 2, "player_1": 2}
    assert PayoffTensor.from_json(told["payoffs"]).is_complete
    assert {node["id"] for node in told["lineage"]["nodes"]} >= {"player_0_0", "player_0_1"}


def test_a_rollout_plays_the_answers(tmp_path: Path) -> None:
    with run("fictitious") as trainer:
        trainer.train(), trainer.train()
        trainer.save(tmp_path / "run")
    lines: list[str] = []
    play(tmp_path / "run", RolloutOptions(episodes=3), say=lines.append)
    assert "player_0.answer" in lines[0]
    assert "player_1.answer" in lines[0]
    assert "against" not in lines[0]


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("population", "message"),
    [
        ({"kind": "psro", "window": 3}, "window: 3 needs kind: self_play, but kind is psro.*drop window"),
        (
            {"kind": "self_play", "meta_solver": "uniform"},
            "meta_solver: uniform needs kind: .*, but kind is self_play.*drop meta_solver",
        ),
        ({"kind": "fictitious", "matches": 5}, "needs no payoff table"),
        ({"kind": "psro", "matches": 1}, "greater than or equal to 2"),
        ({"kind": "psro", "self_share": 0.5}, "drop self_share"),
        ({"kind": "psro", "alpha": 3.0}, "alpha: 3 needs meta_solver: alpha_rank, but meta_solver is nash"),
        ({"kind": "psro", "oracle": "dqn"}, "population.oracle is dqn, but algo is ppo"),
        ({"kind": "psro", "players": {"x": ["nobody"]}}, "does not have"),
        ({"kind": "psro", "players": {"x": ["player_0"]}}, "belongs to no player"),
        ({"kind": "psro", "players": {"x": ["player_*"]}}, "two players or more"),
    ],
)
def test_keys_that_mean_nothing_are_refused(population: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer("ppo", config={**ENV, **SMALL, "population": population})


def test_a_population_decides_who_plays() -> None:
    with pytest.raises(
        ConfigError, match=r"needs no multiagent.policy_mapping_fn, but .* is per_agent .*decides who plays"
    ):
        Trainer("ppo", config={**ENV, "population": {"kind": "psro"}, "policy_mapping_fn": "per_agent"})
    with pytest.raises(ConfigError, match="learners of this population are player_0, player_1"):
        Trainer("ppo", config={**ENV, "population": {"kind": "psro"}, "policies": ["player_2"]})
    with pytest.raises(ConfigError, match="cannot be an oracle"):
        Trainer("es", config={**ENV, "population": {"kind": "psro"}})
    with pytest.raises(SpaceMismatchError, match="symmetric"):
        Trainer("ppo", config={"env": "fast:simple_tag", "population": {"kind": "psro", "symmetric": True}})


def test_the_oracle_is_the_algorithm() -> None:
    found = compose({**ENV, "population": {"kind": "psro", "meta_solver": "nash", "oracle": "dqn"}})
    assert found.preset.name == "dqn"


@pytest.mark.parametrize("oracle", ["dqn", "qmix", "mappo", "a2c"])
def test_any_algorithm_of_teams_can_be_an_oracle(oracle: str) -> None:
    keys: dict[str, Any] = {
        "env": "fast:simple_tag", "num_envs_per_worker": 4, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "horizon": 5,
        "groups": {"predators": ["adversary_*"], "prey": ["agent_*"]},
        "population": {"kind": "psro", "round_timesteps": 40, "matches": 4}, "timesteps_per_iteration": 40,
        "train_batch_size": 32,
    }  # fmt: skip
    if oracle in ("dqn", "qmix"):
        keys |= {"learning_starts": 16}
    if oracle == "mappo":
        keys |= {"sgd_minibatch_size": 16}
    with Trainer(oracle, config=keys) as trainer:
        result = [trainer.train() for _ in range(2)][-1]
        assert result["population"]["members"] == {"predators": 3, "prey": 3}
        groups = {name: len(seats) for name, seats in trainer.setup.task.groups.items()}
        assert groups == {"predators": 3, "prey": 1}
        assert result["info"]["num_updates"] > 0


def test_without_groups_a_critic_looks_at_the_agents_of_one_player() -> None:
    with Trainer("mappo", config={**ENV, **SMALL, "population": {"kind": "psro", "matches": 4}}) as trainer:
        assert trainer.setup.task.groups == {"player_0": (0,), "player_1": (1,)}
        assert [plan.policies for plan in trainer.setup.plans] == [("player_0",), ("player_1",)]


def test_a_teams_replay_holds_what_its_learner_played_alone() -> None:
    keys: dict[str, Any] = {
        "env": "fast:simple_tag", "num_envs_per_worker": 8, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "horizon": 5,
        "groups": {"predators": ["adversary_*"], "prey": ["agent_*"]}, "learning_starts": 10_000,
        "population": {"kind": "self_play", "round_timesteps": 10_000}, "timesteps_per_iteration": 200,
    }  # fmt: skip
    with Trainer("qmix", config=keys) as trainer:
        batch = trainer.workers.collect(50).batch
        for learner in trainer.learners:
            assert isinstance(learner, QmixLearner)
            (name,) = learner.policies
            (team,) = learner.teams
            team.remember(batch, learner.task, learner.config, learner.policies)
            played = len(batch.for_policy(name)) // len(team.seats)
            assert 0 < len(team.replay) == played < batch.env_steps


def test_league_learners_do_not_share_a_learner() -> None:
    keys = {"env": "fast:simple_tag", "groups": {"predators": ["adversary_*"], "prey": ["agent_*"]}}
    with pytest.raises(ConfigError, match="exploiters begin anew"):
        Trainer("qmix", config={**keys, "population": {"kind": "league"}})


def test_learners_of_a_population_learn() -> None:
    with pytest.raises(ConfigError, match="is scripted, but the learners"):
        Trainer("ppo", config={**ENV, "population": {"kind": "psro"}, "policies": {"player_0": {"scripted": "random"}}})


def test_maddpg_can_be_an_oracle() -> None:
    keys: dict[str, Any] = {
        "env": "fast:simple_tag", "num_envs_per_worker": 4, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "horizon": 5,
        "groups": {"predators": ["adversary_*"], "prey": ["agent_*"]}, "learning_starts": 16, "train_batch_size": 16,
        "population": {"kind": "psro", "round_timesteps": 40, "matches": 4}, "timesteps_per_iteration": 40,
    }  # fmt: skip
    with Trainer("maddpg", config=keys) as trainer:
        assert [trainer.train() for _ in range(2)][-1]["info"]["num_updates"] > 0


def test_members_of_one_population_are_built_alike() -> None:
    keys = {**ENV, **SMALL, "population": {"kind": "league"}}
    with pytest.raises(ConfigError, match="built differently"):
        Trainer("ppo", config={**keys, "policies": {"player_0.main_exploiter": {"fcnet_hiddens": [4]}}})
