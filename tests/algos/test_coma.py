"""COMA: what its critic sees and learns by plain loops, baselines by hand, draws for moments that nobody has played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.central_critic.action_critic import ActionCritic
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.next_actions import with_next_actions
from marl.algos.joint_view import team_rewards
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array
from marl.errors import ConfigError
from marl.policies.networks import Features, action_width
from marl.training.trainer import Trainer
from tests.algos.updates import assert_stack_equals_alone
from tests.algos.zoo import Zoo

GAMMA, LAMBDA = 0.9, 0.7
SMALL: dict[str, Any] = {
    "fcnet_hiddens": [8], "num_envs_per_worker": 3, "train_batch_size": 30, "gamma": GAMMA, "gae_lambda": LAMBDA, "lr": 0.02,
    "evaluation": {"interval": 0}, "seed": 4,
}  # fmt: skip
HOLES = {"env": "tests.algos.witnessed:Witnessed", "env_config": {"agents": 4, "masked": True}}
COIN = {"policies": {"me": {}, "coin": {"scripted": "random"}}}
CASES: dict[str, dict[str, Any]] = {
    "agents that come and go, groups of two widths": {
        **HOLES, "groups": {"many": ["agent_0", "agent_2", "agent_3"], "one": ["agent_1"]},
    },
    "a policy per agent": {**HOLES, "policy_mapping_fn": "per_agent", "critic_sees": "all"},
    "time limits inside of the grid": {**HOLES, "horizon": 3},
    "time limits between rows that look the same": {
        "env": "matrix_game", "env_config": {"game": "climbing", "repetitions": 25}, "horizon": 4,
    },
    "scripted members": {
        **HOLES, **COIN, "policy_mapping_fn": {"agent_1": "me", "agent_2": "me", "*": "coin"}, "critic_sees": "all",
    },
    "turns": {"env": "kuhn_poker", "policy_mapping_fn": "per_agent", "critic_sees": "all"},
    "other spaces and clocks": {
        "env": Zoo, "policies": {"sheep": {}, "wolf": {"scripted": "random"}, "mixed": {"scripted": "random"}},
        "policy_mapping_fn": {"sheep": "sheep", "wolf": "wolf", "mixed": "mixed"}, "critic_sees": "all",
    },
}  # fmt: skip


def coma(**keys: Any) -> Trainer:
    return Trainer("coma", config={**SMALL, **keys})


def learner_of(trainer: Trainer) -> CentralCriticLearner:
    (learner,) = trainer.learners
    assert isinstance(learner, CentralCriticLearner)
    return learner


def collected(trainer: Trainer, iterations: int = 2) -> tuple[CentralCriticLearner, MultiAgentBatch]:
    """A grid that ends in the middle of episodes, after some updates, and with what follows its steps."""
    for _ in range(iterations):
        trainer.train()
    learner = learner_of(trainer)
    return learner, with_next_actions(learner, trainer.workers.collect(23).batch)


# -- the slow way ------------------------------------------------------------------------------------------------------


class Slow:
    """Inputs and values of one policy's critic, agent by agent."""

    def __init__(self, learner: CentralCriticLearner, name: str, batch: MultiAgentBatch) -> None:
        self.learner, self.batch, self.task = learner, batch, batch.task
        self.actor, self.config = learner.actors[name], learner.configs[name]
        self.critic = learner.critics[name]
        self.features = [Features(kind, agent_id=False) for kind in self.task.kinds]

    def around(self, own: int) -> list[int]:
        if self.config.critic_sees == "all":
            return list(range(self.task.num_seats))
        group = self.task.group_of(own)
        return [own] if group is None else sorted(self.task.groups[group])

    def shown(self, when: str, t: int, e: int, own: int, did: Mapping[int, Array]) -> list[float]:
        """What the critic is shown of row ``t`` (``when`` is ``new_``: after it); ``did`` is what others do, by seat."""
        numbers: list[float] = []
        for seat in self.around(own):
            k = self.task.kind_of(seat)
            kind, column = self.task.kinds[k], seat - self.task.kinds[k].first_seat
            features, action = [0.0] * self.features[k].size, [0.0] * action_width(kind.columns)
            if getattr(self.batch, f"{when}alive")[t, e, seat]:
                obs = torch.from_numpy(getattr(self.batch, f"{when}obs")[k][t, e, column])[None]
                features = self.features[k](obs, torch.zeros(1, dtype=torch.long))[0].tolist()
                if seat in did and seat != own:
                    self.encode(action, did[seat], kind.columns.sizes)
            numbers += features + action
        numbers += [0.0] * (self.critic.view.size - self.critic.view.kind.size - len(numbers))
        one_hot = [0.0] * self.critic.view.kind.size
        one_hot[own - self.critic.view.kind.first_seat] = 1.0
        return numbers + one_hot

    @staticmethod
    def encode(action: list[float], stored: Array, sizes: tuple[int, ...]) -> None:
        at = 0
        for value, size in zip(stored.reshape(-1).tolist(), sizes, strict=True):
            if size:
                action[at + int(value)] = 1.0
                at += size
        for value, size in zip(stored.reshape(-1).tolist(), sizes, strict=True):
            if not size:
                action[at] = value
                at += 1

    def done(self, t: int, e: int) -> dict[int, Array]:
        """What everybody who decides does in this row."""
        found = {}
        for seat in range(self.task.num_seats):
            if self.batch.present[t, e, seat]:
                k = self.task.kind_of(seat)
                found[seat] = self.batch.actions[k][t, e, seat - self.task.kinds[k].first_seat]
        return found

    def goes_on(self, t: int, e: int) -> bool:
        """Whether the next row begins with what this one led to, in all that there is to be seen."""
        batch = self.batch
        if t + 1 == len(batch.t) or batch.eps_id[t + 1, e] != batch.eps_id[t, e] or batch.truncateds[t, e].any():
            return False
        return bool((batch.new_alive[t, e] == batch.alive[t + 1, e]).all())

    def next_done(self, t: int, e: int) -> dict[int, Array]:
        """The same after this row; the learner's draws where nobody has played on."""
        drawn = self.batch.next_actions
        assert drawn is not None
        assert drawn.known[t, e] == self.goes_on(t, e)
        if drawn.known[t, e]:
            return self.done(t + 1, e)
        found = {}
        for seat in range(self.task.num_seats):
            asked = self.batch.new_present[t, e, seat]
            cut = self.batch.truncateds[t, e, seat] and self.batch.new_alive[t, e, seat]
            if asked or cut:
                k = self.task.kind_of(seat)
                found[seat] = drawn.actions[k][t, e, seat - self.task.kinds[k].first_seat]
        return found

    def values(self, when: str, t: int, e: int, own: int, did: Mapping[int, Array]) -> tuple[Array, Array]:
        """Of all own actions, and their chances."""
        k, column = self.critic.view.k, own - self.critic.view.kind.first_seat
        obs = torch.from_numpy(getattr(self.batch, f"{when}obs")[k][t, e, column])[None]
        legal = torch.from_numpy(getattr(self.batch, f"{when}legal")[k][t, e, column])[None]
        seat = torch.tensor([column])
        with torch.no_grad():
            values = self.critic(obs, seat, torch.tensor([self.shown(when, t, e, own, did)]))
            assert self.critic.value_scale is not None
            values = self.critic.value_scale.in_reward_units(values)
            chances = self.actor(obs, seat, legal)[0].softmax(-1)
        return values[0].numpy(), chances[0].numpy()


def slow_targets(slow: Slow, name: str) -> Iterator[tuple[tuple[int, int, int], float, float]]:
    """Cell, value of what was done and TD(lambda) target of every decision of the policy."""
    batch, k = slow.batch, slow.critic.view.k
    rewards = team_rewards(batch)
    mine = batch.active & (batch.policy_index == batch.policy_ids.index(name))
    for e in range(batch.t.shape[1]):
        for own in range(batch.task.num_seats):
            later: tuple[int, float, float] | None = None  # row, value and target of the agent's next decision
            for t in np.flatnonzero(mine[:, e, own])[::-1].tolist():
                done = t + int(batch.elapsed[t, e, own]) - 1
                target = sum(GAMMA**i * float(rewards[t + i, e, own]) for i in range(done - t + 1))
                if not batch.terminateds[done, e, own]:
                    ahead, chances = slow.values("new_", done, e, own, slow.next_done(done, e))
                    target += GAMMA ** (done + 1 - t) * float((chances * ahead).sum())
                    if later is not None and not batch.truncateds[done, e, own]:
                        target += GAMMA ** (done + 1 - t) * LAMBDA * (later[2] - later[1])
                values, _ = slow.values("", t, e, own, slow.done(t, e))
                taken = float(values[int(batch.actions[k][t, e, own - batch.task.kinds[k].first_seat])])
                later = t, taken, target
                yield (t, e, own), taken, target


@pytest.mark.parametrize("case", CASES)
def test_values_and_targets_are_those_of_plain_loops_over_agents(case: str) -> None:
    with coma(**CASES[case]) as trainer:
        learner, batch = collected(trainer)
        assert batch.present.all() == ("matrix_game" in CASES[case].values())
        for name in learner.policies:
            rows = batch.for_policy(name, kind=learner.critics[name].view.k)
            found = learner._with_advantages(name, batch)
            cells = list(zip(rows["row"].tolist(), rows["lane"].tolist(), rows["seat"].tolist(), strict=True))
            at = {cell: i for i, cell in enumerate(cells)}
            expected = list(slow_targets(Slow(learner, name, batch), name))
            assert len(expected) == len(found) > 20
            for cell, taken, target in expected:
                assert found["values"][at[cell]] == pytest.approx(taken, abs=1e-4)
                assert found["value_targets"][at[cell]] == pytest.approx(target, abs=1e-4)


# -- what is seen ------------------------------------------------------------------------------------------------------


def test_the_critic_is_shown_what_others_do_now_and_not_what_its_agent_does() -> None:
    with coma(**HOLES, critic_sees="all") as trainer:
        learner, batch = collected(trainer, 0)
        (name,) = learner.policies
        critic, rows = learner.critics[name], batch.for_policy(name)
        before = critic.seen(batch, rows)
        t, e = next((t, e) for t, e in np.argwhere(batch.present[:, :, :2].all(axis=2)) if t > 2)
        batch.actions[0][t, e, 1] = (batch.actions[0][t, e, 1] + 1) % 4
        changed = (critic.seen(batch, rows) != before).any(axis=1)
        beside = (rows["row"] == t) & (rows["lane"] == e)
        assert (changed == (beside & (rows["seat"] != 1))).all()
        assert changed.sum() == batch.present[t, e].sum() - 1


# -- a game that is known by hand --------------------------------------------------------------------------------------


def test_one_round_of_penalty_is_learned_as_it_pays_and_judged_given_what_the_other_did() -> None:
    """Both are paid together; held at uniform play by entropy, ``A(a | b) = paid(a, b) - mean over a' of paid(a', b)``."""
    keys = {
        "env_config": {"game": "penalty", "penalty": -6, "repetitions": 1}, "entropy_coeff": 100.0, "num_envs_per_worker": 40,
        "fcnet_hiddens": [32], "train_batch_size": 80,
    }  # fmt: skip
    with coma(env="matrix_game", **keys) as run:
        for _ in range(250):
            run.train()
        learner = learner_of(run)
        (name,) = learner.policies
        batch = with_next_actions(learner, run.workers.collect(20).batch)
        critic, rows = learner.critics[name], batch.for_policy(name)
        assert isinstance(critic, ActionCritic)
        shown = [
            torch.from_numpy(x) for x in (rows["obs"], rows["agent_index"], rows["legal"], critic.seen(batch, rows))
        ]
        with torch.no_grad():
            values, chances = critic._judged(learner.actors[name], *shown)
    np.testing.assert_allclose(chances, 1 / 3, atol=0.03)
    paid = np.array([[-6.0, 0.0, 10.0], [0.0, 2.0, 0.0], [10.0, 0.0, -6.0]])
    other = batch.actions[0][rows["row"], rows["lane"], 1 - rows["seat"]]
    np.testing.assert_allclose(values, paid[:, other].T, atol=0.7)
    advantages = values.numpy() - (chances * values).sum(1, keepdim=True).numpy()
    np.testing.assert_allclose(advantages, (paid - paid.mean(0))[:, other].T, atol=0.7)


# -- moments that nobody has played ------------------------------------------------------------------------------------


def test_what_nobody_has_played_is_drawn_from_the_policies_that_play_there() -> None:
    fixed = {
        "policies": {"me": {}, "two": {"scripted": {"name": "fixed", "action": 2}}, "coin": {"scripted": "random"}}
    }
    mapping = {"agent_0": "me", "agent_1": "two", "*": "coin"}
    env = {"env": HOLES["env"], "env_config": {"agents": 4}}
    with coma(**env, **fixed, policy_mapping_fn=mapping, critic_sees="all", num_envs_per_worker=60) as trainer:
        learner, batch = collected(trainer, 0)
        drawn = batch.next_actions
        assert drawn is not None
        free = drawn.acting & ~drawn.known[:, :, None]
        assert free[-1].any()
        assert free[:-1].any()
        assert (drawn.actions[0][free[:, :, 1], 1] == 2).all()
        counts = np.bincount(drawn.actions[0][free[:, :, 2], 2], minlength=4)
        assert counts.min() > 0.15 * counts.sum() > 10
        assert not drawn.acting[batch.over & batch.terminateds.any(axis=2) & ~batch.truncateds.any(axis=2)].any()
        again = with_next_actions(learner, trainer_batch(batch)).next_actions
        assert again is not None
        np.testing.assert_array_equal(again.actions[0], drawn.actions[0])  # asking for values changes nothing


def trainer_batch(batch: MultiAgentBatch) -> MultiAgentBatch:
    """As it came from the workers."""
    batch.next_actions = None
    return batch


def test_what_was_played_on_is_taken_from_the_next_row() -> None:
    with coma(**HOLES, critic_sees="all") as trainer:
        _, batch = collected(trainer, 0)
        following = batch.next_actions
        assert following is not None
        for t, e in np.argwhere(following.known):
            np.testing.assert_array_equal(following.acting[t, e], batch.present[t + 1, e])
            np.testing.assert_array_equal(following.actions[0][t, e], batch.actions[0][t + 1, e])


def test_draws_do_not_depend_on_the_order_of_copies_and_change_from_round_to_round() -> None:
    with coma(**HOLES, critic_sees="all", num_envs_per_worker=20) as trainer:
        learner, batch = collected(trainer, 0)
        order = np.random.default_rng(0).permutation(20)
        assert batch.next_actions is not None
        first, acting = batch.next_actions.actions[0], batch.next_actions.acting
        columns: dict[str, Any] = {}
        for name, column in vars(trainer_batch(batch)).items():
            if isinstance(column, np.ndarray):
                columns[name] = column[:, order]
            elif isinstance(column, list):
                columns[name] = [part[:, order] for part in column]
            else:
                columns[name] = column
        mixed = with_next_actions(learner, MultiAgentBatch(**columns)).next_actions
        assert mixed is not None
        where = acting[:, order]
        np.testing.assert_array_equal(mixed.acting, where)
        np.testing.assert_array_equal(mixed.actions[0][where], first[:, order][where])
        learner.timesteps = dict.fromkeys(learner.timesteps, 1)
        later = with_next_actions(learner, trainer_batch(batch)).next_actions
        assert later is not None
        assert (later.actions[0][acting] != first[acting]).any()


@pytest.mark.parametrize("case", ["scripted members", "a policy per agent"])
def test_a_run_that_went_on_from_a_checkpoint_is_the_run_that_was_not_stopped(case: str, tmp_path: Path) -> None:
    with coma(**CASES[case]) as whole:
        for _ in range(4):
            whole.train()
        expected, critics = whole.get_weights(), learner_of(whole).state_dict()["critics"]
    with coma(**CASES[case]) as first:
        first.train()
        first.train()
        saved = first.save(tmp_path / "half")
    with coma(**CASES[case]) as second:
        second.restore(saved)
        second.train()
        second.train()
        found, found_critics = second.get_weights(), learner_of(second).state_dict()["critics"]
    for mine, theirs in ((expected, found), (critics, found_critics)):
        for name, arrays in mine.items():
            for key, array in arrays.items():
                np.testing.assert_array_equal(theirs[name][key], array)


def test_seeds_learn_in_a_stack_as_alone() -> None:
    assert_stack_equals_alone(lambda **keys: coma(**CASES["a policy per agent"], **keys))


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "env", "keys", "message"),
    [
        ("coma", "two_step_game", {"critic_sees": "own"}, "critic_sees_actions: true needs critic_sees: group or all"),
        (
            "coma",
            "two_step_game",
            {"critic_sees": "state"},
            "critic_sees_actions: true needs critic_sees: group or all",
        ),
        (
            "mappo",
            "two_step_game",
            {"critic_sees_actions": True},
            "critic_sees_actions: true needs critic_values: actions",
        ),
        ("coma", "two_step_game", {"critic_values": "state"}, "coma has critic_values 'actions'"),
        ("coma", "Pendulum-v1", {}, "compares single choices"),
        ("coma", "two_step_game", {"use_lstm": True}, "single decisions"),
    ],
)
def test_what_coma_cannot_do_is_refused(algo: str, env: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer(algo, env=env, config=keys)
