"""Intrinsic rewards: what they pay, where they are added, who hears of them, and that nothing of them is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marl
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.config import LearnerConfig
from marl.algos.intrinsic.bonuses import Bonuses
from marl.algos.intrinsic.config import IntrinsicConfig
from marl.algos.intrinsic.count import VisitCount
from marl.algos.intrinsic.kind import INTRINSIC, IntrinsicSpec, register_intrinsic
from marl.algos.intrinsic.rnd import RandomNetworkDistillation
from marl.algos.intrinsic.scale import ReturnScale
from marl.algos.learner import LearnerSpec
from marl.algos.presets import ALGOS
from marl.algos.team_rows import single_rows, team_rows
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import AgentType, Array
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.result import without_wall_clock
from tests.data.test_returns import ACT, OBS, grid
from tests.training.test_exact_resume import CARTPOLE, OFF_POLICY, ON_POLICY, SMALL, TWO_STEP, everything
from tests.training.trees import differences

RND: dict[str, Any] = {"kind": "rnd", "coeff": 0.5, "hiddens": [8], "embedding": 4}
AGENTS = AgentType("agent", ("a_0",), OBS, ACT)


class Ones(marl.IntrinsicReward):
    """Everything pays 1."""

    description = "everything"

    def bonus(self, rows: SampleBatch) -> Array:
        return np.ones(len(rows), np.float32)


class Shown(marl.IntrinsicReward):
    """The first number of what was seen, on no scale of its own; notes in which order it was asked."""

    description = "what is shown"
    rescaled = True

    def __init__(self, spec: IntrinsicSpec) -> None:
        super().__init__(spec)
        self.asked: list[tuple[str, int]] = []

    def observe(self, rows: SampleBatch) -> None:
        self.asked.append(("observe", len(rows)))

    def bonus(self, rows: SampleBatch) -> Array:
        self.asked.append(("bonus", len(rows)))
        return np.asarray(rows["new_obs"])[:, 0]

    def learn(self, rows: SampleBatch) -> dict[str, float]:
        self.asked.append(("learn", len(rows)))
        return {}


class Strange(marl.IntrinsicReward):
    """Does what its config says."""

    description = "mistakes"

    def bonus(self, rows: SampleBatch) -> Array:
        if self.config.kind_config["does"] == "raise":
            raise ZeroDivisionError("of my own")
        return np.full(len(rows), np.nan)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of a user's own, forgotten after each test."""
    monkeypatch.setattr(INTRINSIC, "_items", dict(INTRINSIC._items))
    monkeypatch.setattr(INTRINSIC, "_added", set(INTRINSIC._added))
    register_intrinsic("ones", Ones)
    register_intrinsic("shown", Shown)
    register_intrinsic("strange", Strange)
    return


def made(kind: str, **keys: Any) -> Any:
    config = IntrinsicConfig(kind=kind, **keys)
    return INTRINSIC[kind](IntrinsicSpec(config, AGENTS, ModelConfig(), torch.device("cpu"), seed=1))


def outcomes(*observations: list[float]) -> SampleBatch:
    return SampleBatch(
        {"new_obs": np.array(observations, np.float32), "agent_index": np.zeros(len(observations), np.int64)}
    )


def keys(algo: str, intrinsic: dict[str, Any], **more: Any) -> dict[str, Any]:
    env, small = (CARTPOLE, ON_POLICY) if algo == "ppo" else (TWO_STEP, OFF_POLICY)
    return {**env, **small, **SMALL, "algo": {"intrinsic": intrinsic}, **more}


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_counting_pays_one_over_the_root_of_the_visits() -> None:
    count = made("count", decimals=1)
    rows = outcomes([0.0, 1.0], [0.0, 1.04], [0.0, 2.0], [-0.0, 1.0])
    count.observe(rows)
    assert count.bonus(rows) == pytest.approx([3**-0.5, 3**-0.5, 1.0, 3**-0.5])


def test_counts_come_back_from_their_state() -> None:
    count, other = made("count"), made("count")
    count.observe(outcomes([0.0, 1.0], [0.0, 1.0], [3.0, 1.0]))
    other.load_state_dict(count.state_dict())
    assert isinstance(other, VisitCount)
    assert other.visits == count.visits
    assert sorted(other.visits.values()) == [1, 2]


def test_what_rnd_has_seen_often_pays_less_than_what_it_has_never_seen() -> None:
    rnd = made("rnd", hiddens=[32], embedding=16)
    known, new = outcomes(*[[1.0, -1.0], [1.0, 1.0]] * 64), outcomes([-1.0, 1.0])
    rnd.observe(outcomes([1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]))
    first = float(rnd.bonus(known).mean())
    for _ in range(100):
        rnd.learn(known)
    assert rnd.bonus(known).max() < 0.1 * first
    assert rnd.bonus(new)[0] > 5 * rnd.bonus(known).max()


def test_the_bonus_of_rnd_is_the_mean_squared_error_of_its_predictor() -> None:
    rnd = made("rnd", hiddens=[8], embedding=4)
    rows = outcomes([1.0, 2.0], [3.0, -1.0])
    seen = torch.from_numpy(rows["new_obs"]), torch.from_numpy(rows["agent_index"])
    with torch.no_grad():
        expected = torch.nn.functional.mse_loss(rnd.predictor(*seen), rnd.fixed(*seen), reduction="none").mean(1)
    assert rnd.bonus(rows) == pytest.approx(expected.numpy())


def test_the_predictor_steps_down_the_gradient_that_autograd_finds() -> None:
    rnd = made("rnd", hiddens=[8], embedding=4, minibatch_size=100)
    rows = outcomes([1.0, 2.0], [3.0, -1.0], [0.5, 0.5])
    seen = torch.from_numpy(rows["new_obs"]), torch.from_numpy(rows["agent_index"])
    loss = (rnd.predictor(*seen) - rnd.fixed(*seen).detach()).square().mean()
    wanted = torch.autograd.grad(loss, list(rnd.predictor.parameters()))
    told = rnd.learn(rows)
    found = [parameter.grad for parameter in rnd.predictor.parameters()]
    assert told["intrinsic_loss"] == pytest.approx(loss.item())
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_rnd_finds_the_same_new_in_whatever_units_observations_come() -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(50, 2))
    found = []
    for factor, shift in ((1.0, 0.0), (100.0, 7.0)):
        rnd = made("rnd", hiddens=[8], embedding=4)
        rows = outcomes(*(factor * seen + shift).tolist())
        rnd.observe(rows)
        found.append(rnd.bonus(rows))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_rnd_learns_as_fast_as_its_step_size_says() -> None:
    rows = outcomes([1.0, 2.0], [3.0, -1.0])
    left = []
    for lr in (1e-5, 1e-2):
        rnd = made("rnd", hiddens=[8], embedding=4, lr=lr)
        before = rnd.bonus(rows).mean()
        for _ in range(20):
            rnd.learn(rows)
        left.append(rnd.bonus(rows).mean() / before)
    assert left[0] > 0.95
    assert left[1] < 0.7


def test_the_networks_of_rnd_differ_from_each_other_and_from_those_of_another_seed() -> None:
    one, other = made("rnd", hiddens=[8], embedding=4), made("rnd", hiddens=[8], embedding=4)
    again = RandomNetworkDistillation(IntrinsicSpec(one.config, AGENTS, ModelConfig(), torch.device("cpu"), seed=2))
    assert not torch.equal(next(one.fixed.parameters()), next(one.predictor.parameters()))
    assert torch.equal(next(one.fixed.parameters()), next(other.fixed.parameters()))
    assert not torch.equal(next(one.fixed.parameters()), next(again.fixed.parameters()))


def test_the_fixed_network_of_rnd_never_changes() -> None:
    rnd = made("rnd", hiddens=[8], embedding=4)
    before = [parameter.clone() for parameter in rnd.fixed.parameters()]
    rnd.learn(outcomes([1.0, 2.0], [3.0, -1.0]))
    for one, other in zip(rnd.fixed.parameters(), before, strict=True):
        assert torch.equal(one, other)


def test_an_update_share_is_the_share_of_rows_that_rnd_learns_from() -> None:
    rnd = made("rnd", hiddens=[8], embedding=4, update_share=0.25, minibatch_size=10)
    assert isinstance(rnd, RandomNetworkDistillation)
    assert [len(part) for part in rnd._minibatches(80)] == [10, 10]
    assert [len(part) for part in rnd._minibatches(1)] == [1]
    learned = np.concatenate([*rnd._minibatches(80)])
    assert len(set(learned.tolist())) == 20
    assert learned.max() >= 40  # drawn from all of them, not the first


def test_the_scale_is_the_deviation_of_discounted_sums_however_they_are_cut_into_rounds() -> None:
    bonuses = np.random.default_rng(0).random((12, 3, 2)).astype(np.float32)
    everywhere = np.ones(bonuses.shape, bool)
    sums, running = [], np.zeros((3, 2))
    for row in bonuses:
        running = 0.9 * running + row
        sums.append(running)
    whole, in_parts = ReturnScale(0.9, 2), ReturnScale(0.9, 2)
    whole.observe(bonuses, everywhere, 0)
    for rows in (slice(0, 5), slice(5, 12)):  # and two workers
        in_parts.observe(bonuses[rows, :2], everywhere[rows, :2], 0)
        in_parts.observe(bonuses[rows, 2:], everywhere[rows, 2:], 2)
    assert whole.deviation == pytest.approx(np.std(sums))
    assert in_parts.deviation == pytest.approx(np.std(sums))


# -- where bonuses go --------------------------------------------------------------------------------------------------


class Acting:
    """As much of a policy as bonuses look at."""

    def __init__(self, kind: AgentType) -> None:
        self.kind, self.device = kind, torch.device("cpu")


def bonuses_for(batch: MultiAgentBatch, **intrinsic: Any) -> Bonuses:
    policies: Any = {"p": Acting(batch.task.kinds[0])}
    config = LearnerConfig(gamma=0.5, intrinsic=IntrinsicConfig(**intrinsic))
    spec = LearnerSpec(policies, policies, {"p": config}, {"p": ModelConfig()}, {"p": frozenset({0})}, batch.task, 0)
    return Bonuses.of(spec)


def added(bonuses: Bonuses, batch: MultiAgentBatch, timesteps: int = 0) -> MultiAgentBatch:
    return bonuses.add_to(batch, {"p"}, {"p": timesteps})


def test_a_bonus_stands_in_the_row_in_which_the_outcome_of_its_decision_was_seen() -> None:
    batch = grid(reward=[1.0, 0.0, 0.0, 2.0], active=[1, 0, 0, 1], elapsed=[3, 0, 0, 1], terminated=[0, 0, 0, 1])
    learned = added(bonuses_for(batch, kind="ones", coeff=0.5), batch)
    assert learned.rewards.ravel().tolist() == [1.0, 0.0, 0.5, 2.5]
    assert batch.rewards.ravel().tolist() == [1.0, 0.0, 0.0, 2.0]  # what recorders and others were given
    assert learned.paid.ravel().tolist() == [1.0, 0.0, 0.0, 2.0]
    assert learned.for_policy("p", gamma=0.5)["rewards"].tolist() == [1.0 + 0.25 * 0.5, 2.5]


def showing(*values: float) -> MultiAgentBatch:
    """A decision in every row, whose outcome shows this number."""
    count = len(values)
    batch = grid(reward=[0.0] * count, active=[1] * count, elapsed=[1] * count)
    batch.new_obs[0][:, 0, 0, 0] = values
    return batch


def test_bonuses_without_a_scale_are_divided_by_the_deviation_of_all_discounted_sums_so_far() -> None:
    bonuses = bonuses_for(showing(1.0), kind="shown", coeff=0.5)
    first = added(bonuses, showing(1.0, 3.0)).rewards.ravel()
    later = showing(3.0, 8.0)
    later.active[0], later.context = False, 1  # seen before: counts in no sum again
    second = added(bonuses, later).rewards.ravel()
    sums = [1.0, 3.5, 9.75]  # gamma is 0.5
    assert first == pytest.approx(0.5 * np.array([1.0, 3.0]) / np.std(sums[:2]))
    assert second == pytest.approx(0.5 * np.array([3.0, 8.0]) / np.std(sums))


def test_errors_of_rnd_have_no_scale_of_their_own() -> None:
    batch = showing(1.0, 3.0, 8.0)
    twin = bonuses_for(batch, **{**RND, "coeff": 1.0}).curious["p"].kind
    rows = batch.decisions(batch.active, 0)
    twin.observe(rows)
    errors = twin.bonus(rows)
    second = 0.5 * errors[0] + errors[1]
    sums = [errors[0], second, 0.5 * second + errors[2]]
    found = added(bonuses_for(batch, **{**RND, "coeff": 1.0}), batch).rewards.ravel()
    assert found == pytest.approx(errors / np.std(sums), rel=1e-4)


def test_a_kind_observes_a_round_then_values_it_and_learns_last() -> None:
    batch = showing(1.0, 2.0, 4.0)
    batch.active[0], batch.context = False, 1
    bonuses = bonuses_for(batch, kind="shown")
    added(bonuses, batch)
    kind = bonuses.curious["p"].kind
    assert isinstance(kind, Shown)
    assert kind.asked == [("observe", 2), ("bonus", 3), ("learn", 2)]


def test_a_schedule_moves_the_coefficient() -> None:
    batch = grid(reward=[0.0], active=[1], elapsed=[1], terminated=[1])
    bonuses = bonuses_for(batch, kind="ones", coeff_schedule=[(0, 1.0), (100, 0.0)])
    assert [float(added(bonuses, batch, at).rewards[0, 0, 0]) for at in (0, 50, 200)] == [1.0, 0.5, 0.0]


def test_the_mean_of_the_bonuses_since_the_last_update_is_told_once() -> None:
    batch = grid(reward=[0.0, 0.0], active=[1, 1], elapsed=[1, 1], terminated=[0, 1])
    bonuses = bonuses_for(batch, kind="ones", coeff=0.5)
    metrics: dict[str, dict[str, float]] = {"p": {}}
    added(bonuses, batch)
    bonuses.add_stats({})  # no update yet
    added(bonuses, batch)
    bonuses.add_stats(metrics)
    assert metrics == {"p": {"intrinsic_reward_mean": 0.5}}
    assert bonuses.curious["p"].count == 0


def test_a_decision_of_the_context_is_valued_again_but_not_learned_from_twice() -> None:
    batch = grid(reward=[0.0, 0.0], active=[1, 1], elapsed=[1, 1], terminated=[0, 1])
    batch.active[0], batch.context = False, 1
    bonuses = bonuses_for(batch, kind="count", coeff=1.0)
    kind = bonuses.curious["p"].kind
    assert isinstance(kind, VisitCount)
    assert added(bonuses, batch).rewards.ravel().tolist() == [1.0, 1.0]
    assert list(kind.visits.values()) == [1]


def collected(algo: str, intrinsic: dict[str, Any], **more: Any) -> tuple[MultiAgentBatch, MultiAgentBatch]:
    """A round as it was played, and as the first learner learns from it."""
    with marl.Trainer(algo, config=keys(algo, intrinsic, **more)) as trainer:
        batch = trainer.source.collect(4).batch
        return batch, trainer.learners[0].with_bonuses(batch)


def test_a_team_is_paid_the_sum_of_its_members_bonuses() -> None:
    batch, learned = collected("qmix", {"kind": "ones", "coeff": 0.25})
    seats = range(batch.task.num_seats)
    plain, curious = team_rows(batch, list(seats), 1.0), team_rows(learned, list(seats), 1.0)
    assert len(plain) > 0
    assert curious["rewards"] - plain["rewards"] == pytest.approx(np.full(len(plain), 0.25 * len(seats)))


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_memories_are_shown_what_the_env_paid_without_the_bonus(algo: str) -> None:
    memory = {"model": {"use_gru": True, "lstm_use_prev_reward": True, "lstm_cell_size": 4}}
    batch, learned = collected(algo, {"kind": "ones", "coeff": 7.0}, **memory)
    name, env_rewards = batch.policy_ids[0], batch.for_policy(batch.policy_ids[0])["rewards"]
    assert learned.for_policy(name)["rewards"] == pytest.approx(env_rewards + 7.0)
    if algo == "dqn":
        shown = single_rows(learned, name, 0, 0.9)["member_rewards"][:, 0]
    else:
        with marl.Trainer(algo, config=keys(algo, {"kind": "ones"}, **memory)) as trainer:
            shown = trainer.learners[0]._with_advantages(name, learned)["rewards"]  # type: ignore[attr-defined]
    assert shown == pytest.approx(env_rewards)


# -- whole runs --------------------------------------------------------------------------------------------------------


def test_results_report_what_the_env_paid_and_the_bonus_apart() -> None:
    with marl.Trainer("qmix", config=keys("qmix", {"kind": "ones", "coeff": 100.0})) as trainer:
        result = trainer.train()
    assert result["episode_reward_max"] <= 8.0
    assert result["evaluation"]["episode_reward_mean"] <= 8.0 if "evaluation" in result else True
    assert result["info"]["learner"]["default_policy"]["learner_stats"]["intrinsic_reward_mean"] == 100.0


def test_one_policy_may_be_curious_while_another_is_not() -> None:
    multiagent = {
        "policies": {"a": {"algo": {"intrinsic": RND}}, "b": {}},
        "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"},
    }
    config = {**TWO_STEP, **OFF_POLICY, **SMALL, "multiagent": multiagent}
    with marl.Trainer("dqn", config=config) as trainer:
        learned = trainer.train()["info"]["learner"]
    assert "intrinsic_reward_mean" in learned["a"]["learner_stats"]
    assert "intrinsic_reward_mean" not in learned["b"]["learner_stats"]


def test_a_frozen_policy_learns_nothing_about_what_is_new() -> None:
    with marl.Trainer("dqn", config=keys("dqn", RND)) as trainer:
        trainer.train()
        before = trainer.learners[0].bonuses.state_dict()
        trainer.set_policies_to_train([])
        trainer.train()
        assert differences(trainer.learners[0].bonuses.state_dict(), before) == []


@pytest.mark.parametrize("algo", ["ppo", "dqn", "qmix", "maddpg", "sac", "nfsp"])
def test_a_curious_run_goes_on_exactly_where_it_was_stopped(algo: str, tmp_path: Path) -> None:
    kind = {"kind": "count"} if algo == "sac" else RND
    off_policy = {"maddpg", "sac", "nfsp"}
    config = keys("dqn" if algo in off_policy else algo, kind)
    if algo in ("maddpg", "sac"):
        config.pop("target_update_every")
    with marl.Trainer(algo, config=config) as straight:
        lines = [without_wall_clock(straight.train()) for _ in range(4)]
        expected = everything(straight)
    with marl.Trainer(algo, config=config) as first:
        first.train()
        first.train()
        saved = first.save(tmp_path / "half")
    assert any("intrinsic" in state for state in read_part(find_checkpoint(saved), "learners"))
    with marl.Trainer(algo, config=config) as second:
        second.restore(saved)
        after = [without_wall_clock(second.train()) for _ in range(2)]
        assert differences(everything(second), expected) == []
    assert differences(after, lines[2:]) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_ray_workers_and_several_learners_change_nothing_about_bonuses() -> None:
    found = []
    for more in ({"num_workers": 2, "pool": "in_process"}, {"num_workers": 2, "pool": "ray"}):
        with marl.Trainer("dqn", config=keys("dqn", RND, **more)) as trainer:
            trainer.train()
            found.append((trainer.get_weights(), trainer.learners[0].bonuses.state_dict()))
    assert differences(found[0], found[1]) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_kinds_that_were_registered_here_are_known_to_other_learners() -> None:
    stats = []
    for learners in (1, 2):
        config = keys("ppo", {"kind": "ones"}, num_learners=learners)
        with marl.Trainer("ppo", config=config) as trainer:
            stats.append(trainer.train()["info"]["learner"]["default_policy"]["learner_stats"])
    assert stats[0]["intrinsic_reward_mean"] == stats[1]["intrinsic_reward_mean"] == pytest.approx(0.1)
    assert stats[0]["vf_loss"] == pytest.approx(stats[1]["vf_loss"], rel=1e-4)


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "intrinsic", "told"),
    [
        ("ppo", {"kind": "rdn"}, "unknown intrinsic reward 'rdn'.*Did you mean 'rnd'"),
        ("ppo", {"kind": "count", "lr": 0.1}, "lr: 0.1 needs kind: rnd"),
        ("ppo", {"kind": "rnd", "decimals": 1}, "decimals: 1 needs kind: count"),
        ("ppo", {"kind": "rnd", "kind_config": {"a": 1}}, "kind_config: .* needs a kind of your own"),
        ("es", {"kind": "rnd"}, "intrinsic: .* means nothing here"),
        ("bc", {"kind": "rnd"}, "intrinsic: .* means nothing here"),
        (
            "ppo",
            {"kind": "strange", "kind_config": {"does": "raise"}},
            "'strange'.* failed in bonus: ZeroDivisionError",
        ),
        ("ppo", {"kind": "strange", "kind_config": {"does": "nan"}}, "'strange'.* expected one finite number"),
    ],
)
def test_a_mistake_about_intrinsic_rewards_is_told_by_its_name(algo: str, intrinsic: Any, told: str) -> None:
    batch = {"train_batch_size": 64, "sgd_minibatch_size": 32} if algo == "ppo" else {}
    config = {"env": "two_step_game", "algo": {"intrinsic": intrinsic, **batch}, "evaluation": {"interval": 0}}
    with pytest.raises(ConfigError, match=told), marl.Trainer(algo, config=config) as trainer:
        trainer.train()


def test_only_classes_of_intrinsic_rewards_are_registered_and_none_that_is_built_in() -> None:
    with pytest.raises(ConfigError, match=r"expected a class derived from marl\.IntrinsicReward"):
        register_intrinsic("odd", dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="built in already"):
        register_intrinsic("rnd", Ones)


def test_an_algorithm_that_would_lose_what_is_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ALGOS, "_items", dict(ALGOS._items))  # forgotten after the test
    monkeypatch.setattr(ALGOS, "_added", set(ALGOS._added))

    class Forgetful(CentralCriticLearner):
        like = "ppo"

        def state_dict(self) -> dict[str, Any]:
            return {}

    config = {"env": "two_step_game", "algo": {"intrinsic": {"kind": "rnd"}}}
    marl.register_algorithm("forgetful", Forgetful)
    with pytest.raises(ConfigError, match="forgetful keeps no state of intrinsic rewards"):
        marl.Trainer("forgetful", config=config)
