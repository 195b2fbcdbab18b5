"""Deep CFR and ESCHER: regrets of walks are those of the game's tree, memories and averages do what the papers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import marl
from marl.algos.deep_cfr.learner import DeepCfrLearner
from marl.algos.deep_cfr.losses import average_loss, matched, regret_loss, value_loss
from marl.algos.deep_cfr.networks import RegretPart
from marl.data.task import AgentType, Array
from marl.errors import ConfigError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.env_walker import Sight
from marl.gametheory.tree.response import expected_values
from marl.gametheory.tree.tree import Tree
from marl.training.walks.cast import drawn
from marl.training.walks.paths import Histories
from marl.training.walks.source import WalkSource

PER_AGENT = {"multiagent": {"policy_mapping_fn": "per_agent"}}
QUICK: dict[str, Any] = {
    **PER_AGENT, "fcnet_hiddens": [16], "timesteps_per_iteration": 1, "evaluation": {"interval": 0},
    "algo": {"traversals": 8, "regret_updates": 2, "average_updates": 2, "take_turns": False},
}  # fmt: skip
MANY = 6_000


def toss(agent: str, episode: Any, **_: Any) -> str:
    return "a" if episode.rng.random() < 0.5 else "b"


def kuhn(name: str, **keys: Any) -> marl.Trainer:
    given = {**QUICK["algo"], **keys.pop("algo", {})}
    return marl.Trainer(name, env="kuhn_poker", config={**QUICK, **keys, "algo": given})


def walked(trainer: marl.Trainer, player: str) -> dict[str, Array]:
    """Rows of regrets of one iteration's games, without learning from them."""
    assert isinstance(trainer.source, WalkSource)
    trainer.source.collect(0)
    (learner,) = [one for one in trainer.learners if player in one.policies]
    assert isinstance(learner, DeepCfrLearner)
    return dict(learner.told[player].regrets)


def test_agents_learn_in_turn_from_regrets_and_from_what_they_play_while_others_look() -> None:
    with kuhn("deep_cfr", algo={"take_turns": True}) as trainer:
        parts: dict[str, RegretPart] = {}
        for learner in trainer.learners:
            assert isinstance(learner, DeepCfrLearner)
            parts |= learner.parts

        def known(name: str) -> tuple[int, int, list[Any]]:
            part = parts[name]
            weights = [p.detach().clone() for p in part.network.body.parameters()]
            return len(part.regrets), len(part.strategies), weights

        for looking, other in (("player_0", "player_1"), ("player_1", "player_0"), ("player_0", "player_1")):
            before = {name: known(name) for name in parts}
            trainer.train()
            after = {name: known(name) for name in parts}
            assert after[looking][0] > before[looking][0]
            assert after[looking][1] == before[looking][1]
            assert any(not torch.equal(a, b) for a, b in zip(before[looking][2], after[looking][2], strict=True))
            assert after[other][0] == before[other][0]
            assert after[other][1] > before[other][1]
            assert all(torch.equal(a, b) for a, b in zip(before[other][2], after[other][2], strict=True))


# -- regret matching and losses --------------------------------------------------------------------------------------


def test_regret_matching_plays_positive_regrets_in_proportion_and_else_the_highest() -> None:
    regrets = np.array([[3.0, 1.0, -5.0], [-2.0, -1.0, -3.0], [0.0, 0.0, 0.0], [9.0, 1.0, 1.0]], np.float32)
    legal = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1], [0, 1, 1]], bool)
    expected = [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]
    assert matched(regrets, legal) == pytest.approx(np.array(expected))


def test_the_slopes_of_all_three_losses_are_their_derivatives() -> None:
    torch.manual_seed(0)
    out, target = torch.randn(5, 3, requires_grad=True), torch.rand(5, 3)
    target, weight = target / target.sum(1, keepdim=True), torch.rand(5)
    legal, actions = torch.rand(5, 3) > 0.3, torch.randint(3, (5,))
    found = {
        "regrets": regret_loss(out, target, legal, weight),
        "average": average_loss(out, target, weight),
        "values": value_loss(out, actions, torch.rand(5)),
    }
    for name, (loss, slope) in found.items():
        (expected,) = torch.autograd.grad(loss, out)
        assert torch.allclose(slope, expected, atol=1e-6), name


def test_rows_count_by_their_iteration() -> None:
    """Two rows that show the same: the best answer is the mean by weights."""
    target, legal = torch.tensor([[0.0], [4.0]]), torch.ones(2, 1, dtype=torch.bool)
    _, slope = regret_loss(torch.full((2, 1), 3.0), target, legal, torch.tensor([1.0, 3.0]))
    assert slope.sum().item() == pytest.approx(0.0)


def test_actions_are_drawn_as_often_as_their_chances_say() -> None:
    chances = np.tile([0.0, 0.2, 0.8, 0.0], (20_000, 1))
    counts = np.bincount(drawn(chances, np.random.default_rng(0)), minlength=4) / 20_000
    assert counts == pytest.approx([0.0, 0.2, 0.8, 0.0], abs=0.01)


# -- walks -----------------------------------------------------------------------------------------------------------


def counterfactual(rows: dict[str, Array], games: int) -> dict[bytes, Array]:
    """Sums of regrets per information set, divided by the number of games: counterfactual regrets."""
    found: dict[bytes, Array] = {}
    for obs, target in zip(rows["obs"], rows["target"], strict=True):
        found[obs.tobytes()] = found.get(obs.tobytes(), 0.0) + target / games
    return found


@pytest.mark.parametrize("player", [0, 1])
def test_traversals_find_the_counterfactual_regrets_of_the_tree(player: int) -> None:
    """Of uniform play in Kuhn poker: means over many games against sums over the tree's histories."""
    tree = build_tree("kuhn_poker")
    with kuhn("deep_cfr", algo={"traversals": MANY}, seed=3) as trainer:
        rows = walked(trainer, f"player_{player}")
    found = counterfactual(rows, MANY)
    expected = regrets_of_tree(tree, player)
    assert set(found) == set(expected)
    for obs, regret in expected.items():
        assert found[obs] == pytest.approx(regret, abs=0.02)


def regrets_of_tree(tree: Tree, player: int) -> dict[bytes, Array]:
    """``sum_h P_others(h) (v(h, a) - v(h))`` of uniform play, per information set, by going through single histories."""
    uniform = tree.uniform()
    sets = tree.sets
    found: dict[bytes, Array] = {}
    for number in range(tree.infosets(player).start, tree.infosets(player).stop):
        first, count = int(sets.first_choice[number]), int(sets.num_actions[number])
        values = []
        for action in range(count):
            strategy = np.array(uniform)
            strategy[first : first + count] = np.eye(count)[action]
            # Reaching the set for certain by oneself: every own choice before it is made.
            at = int(sets.parent_choice[number])
            while at >= 0:
                owner = int(sets.owner[at])
                begin, size = int(sets.first_choice[owner]), int(sets.num_actions[owner])
                strategy[begin : begin + size] = 0.0
                strategy[at] = 1.0
                at = int(sets.parent_choice[owner])
            values.append(expected_values(tree, strategy)[player])
        # Histories that miss the set pay the same whatever is done there, so they leave the differences.
        found[np.asarray(sets.obs[number], np.float32).tobytes()] = np.array(values) - np.mean(values)
    return found


def test_escher_regrets_of_exact_values_are_those_of_traversals() -> None:
    """With the learned values of one policy after many updates, regrets of the same views agree with traversals."""
    with kuhn("deep_cfr", algo={"traversals": MANY}, seed=3) as trainer:
        exact = by_view(walked(trainer, "player_1"))
    algo = {"traversals": MANY, "value_updates": 1_500, "lr": 0.003, "train_batch_size": 512}
    with kuhn("escher", algo=algo, seed=4, fcnet_hiddens=[64]) as trainer:
        rows = walked(trainer, "player_1")
        (learner,) = [one for one in trainer.learners if "player_1" in one.policies]
        assert isinstance(learner, DeepCfrLearner)
        rows["target"], metrics = learner.parts["player_1"].estimate.regrets(
            learner.told["player_1"].regrets, 0.003, learner.rng
        )
    assert metrics["vf_loss"] < 1.5  # single cards that are still hidden from nobody: what is left is the others' draw
    found = by_view(rows)
    assert set(found) == set(exact)
    for obs, regret in exact.items():
        assert found[obs] == pytest.approx(regret, abs=0.12)


def by_view(rows: dict[str, Array]) -> dict[bytes, Array]:
    """Mean regrets of all decisions with the same view."""
    found: dict[bytes, list[Array]] = {}
    for obs, target in zip(rows["obs"], rows["target"], strict=True):
        found.setdefault(obs.tobytes(), []).append(target)
    return {obs: np.mean(targets, axis=0) for obs, targets in found.items()}


def test_strategies_are_kept_only_where_another_agent_looks_for_regrets() -> None:
    with kuhn("deep_cfr") as trainer:
        assert isinstance(trainer.source, WalkSource)
        jobs = trainer.source._jobs()
        games = trainer.source._walk(jobs)
        assert [job.seat for job in jobs] == [0, 1]
        assert [list(one.strategies) for one in games] == [["player_1"], ["player_0"]]
        chances = games[0].strategies["player_1"][0]["target"]
        assert chances == pytest.approx(np.full_like(chances, 0.5))  # nothing is known yet


def test_a_dict_env_keeps_the_last_view_of_agents_that_are_not_asked() -> None:
    kind = AgentType("a", ("x", "y"), spaces.Discrete(3), spaces.Discrete(2))
    histories = Histories([kind], keep_last=True)

    def shown(first: int, second: int, present: list[bool]) -> Array:
        obs = np.array([[[first], [second]]])
        asked = np.array([present])
        return histories.seen(Sight([obs], [np.zeros((1, 2, 0), bool)], asked, np.zeros((1, 2)), np.zeros(1, bool)))

    assert shown(1, 2, [True, True]).tolist() == [[0, 1, 0, 0, 0, 1]]
    assert shown(2, 0, [True, False]).tolist() == [[0, 0, 1, 0, 0, 1]]


class Strict(marl.MultiAgentEnv):
    """One to four decisions; an illegal one is an error, as in OpenSpiel. What is legal differs from decision to decision."""

    possible_agents = ("x", "y")

    def __init__(self, config: Any = None) -> None:
        mask = spaces.MultiBinary(3)
        self.observation_space = spaces.Dict({"observation": spaces.Discrete(2), "action_mask": mask})
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.turn = 0
        return self._shown(), {}

    def _shown(self) -> dict[str, Any]:
        mask = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1]][self.turn], np.int8)
        return {"xyxy"[self.turn]: {"observation": self.turn // 2, "action_mask": mask}}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        ((agent, action),) = actions.items()
        assert self._shown()[agent]["action_mask"][action], f"{agent} played {action}"
        over = self.turn == 3 or action < 2
        paid = {"x": 1.0, "y": -1.0} if over else {}
        self.turn += 1
        return ({} if over else self._shown()), paid, {"__all__": over}, {"__all__": False}, {}


@pytest.mark.parametrize("scripted", [False, True])
def test_games_that_are_over_before_others_are_told_legal_actions_alone(scripted: bool) -> None:
    """Escher plays its games side by side; with one learner there are games besides in which nobody looks for regrets."""
    keys: dict[str, Any] = {**QUICK, "env": Strict, "algo": {**QUICK["algo"], "value_updates": 2}}
    if scripted:
        policies = {"learner": {}, "coin": {"scripted": "random"}}
        keys["multiagent"] = {"policies": policies, "policy_mapping_fn": {"x": "learner", "y": "coin"}}
    with marl.Trainer("escher", config=keys) as trainer:
        assert trainer.train()["timesteps_total"] > 16


@pytest.mark.parametrize("algo", ["deep_cfr", "escher"])
def test_two_workers_walk_as_one_does(algo: str) -> None:
    weights = []
    for workers in (0, 2):
        with kuhn(algo, num_workers=workers, pool="in_process" if workers else "auto") as trainer:
            trainer.train()
            trainer.train()
            weights.append(trainer.get_weights())
    for name, arrays in weights[0].items():
        for key, array in arrays.items():
            assert np.array_equal(array, weights[1][name][key])


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["deep_cfr", "escher"])
def test_a_resumed_run_is_the_run_that_was_not_stopped(algo: str, tmp_path: Path) -> None:
    with kuhn(algo) as straight:
        for _ in range(3):
            straight.train()
        expected = straight.learners[0].state_dict(), straight.get_weights()["player_0"]
    with kuhn(algo) as first:
        first.train()
        first.save(tmp_path / "one")
    with kuhn(algo) as second:
        second.restore(tmp_path / "one")
        second.train()
        second.train()
        assert second.learners[0].state_dict()["rng"] == expected[0]["rng"]
        for key, array in second.get_weights()["player_0"].items():
            assert np.array_equal(array, expected[1][key])


def test_scripted_players_may_sit_at_the_table() -> None:
    keys = {"policies": {"learner": {}, "coin": {"scripted": "random"}}}
    keys["policy_mapping_fn"] = {"player_0": "learner", "player_1": "coin"}  # type: ignore[assignment]
    with kuhn("escher", multiagent=keys) as trainer:
        trainer.train()
        assert set(trainer.last_metrics) <= {"learner"}
        assert trainer.last_metrics["learner"]["regret_rows"] > 0
        assert trainer.last_metrics["learner"]["reservoir_rows"] > 0  # of games in which nobody looks for regrets


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"env": "CartPole-v1"}, r"max_branches \(10,000\) positions. Use escher"),
        ({"env": "Pendulum-v1"}, "compare single choices"),
        ({"use_lstm": True}, "has a memory"),
        ({"multiagent": {"policies": {"a": {}, "b": {"algo": "ppo"}}, "policy_mapping_fn": {"player_0": "a", "player_1": "b"}}},
         "Walks leave no rows"),
        ({"multiagent": {"policies": {"a": {}, "b": {}}, "policy_mapping_fn": toss}}, "every agent has one policy"),
        ({"callbacks": {"on_sample_end": lambda samples: None}}, "on_sample_end would never be called, because regrets"),
    ],
    ids=["deep", "coordinates", "memory", "mixed", "mapping", "callbacks"],
)  # fmt: skip
def test_what_regrets_cannot_be_learned_from_is_refused_before_the_start(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        marl.Trainer("deep_cfr", config={"env": "kuhn_poker", "evaluation": {"interval": 0}, **keys})
