"""Matches: who sits where, what players are paid, and that nothing but seatings and seeds decides the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.data.task import Task
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, SpaceMismatchError
from marl.mappers.mapper import Patterns
from marl.policies.build import build_policies, build_policy
from marl.policies.config import ModelConfig, PolicySpec, ScriptedConfig
from marl.populations.matches import Job, batches_of, play, play_all, play_jobs
from marl.populations.members import Member, build
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.rollout.pool import InProcessPool
from tests.small_envs import Scripted, Step

DILEMMA = {"game": "prisoners_dilemma"}
PAIR = {"player_0": ["player_0"], "player_1": ["player_1"]}


def spec_for(env: Any, env_config: dict[str, Any], workers: int = 0, pool: str = "auto") -> RolloutSpec:
    batched_env = make_batched_env(env, 1, env_config)
    policies = {
        f"p{k}": PolicySpec("scripted", k, scripted=ScriptedConfig(name="random"))
        for k in range(len(batched_env.kinds))
    }
    mapper = Patterns(
        {**{agent: f"p{k}" for k, kind in enumerate(batched_env.kinds) for agent in kind.agents}, "*": "p0"}
    )
    config = RolloutConfig(num_workers=workers, pool=pool)  # type: ignore[arg-type]
    return RolloutSpec(env, env_config, Task(batched_env.kinds, batched_env.state_size), policies, mapper, 0, config)


def pool_for(env: Any, env_config: dict[str, Any] | None = None, workers: int = 0) -> InProcessPool:
    spec = spec_for(env, env_config or {}, workers, "in_process")
    return InProcessPool(spec, build_policies(spec.policies, spec.task.kinds))


def seated(**keys: str) -> tuple[tuple[str, str], ...]:
    return tuple(keys.items())


def network(name: str, seed: int) -> Member:
    """A stochastic policy with the weights of its seed."""
    spec = PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8]), seed=seed)
    kinds = make_batched_env("matrix_game", 1, {"game": "rock_paper_scissors"}).kinds
    return Member(name, spec, build_policy(spec, kinds[0]).get_weights())


def test_fixed_members_earn_exactly_their_entry_of_the_table() -> None:
    members = {"c": Member.scripted("fixed", 0, 0), "d": Member.scripted("fixed", 0, 1)}
    jobs = [Job(seated(player_0=a, player_1=b), (7, 8, 9)) for a in "cd" for b in "cd"]
    worker = pool_for("matrix_game", DILEMMA).local_worker()
    found = play_jobs(worker, members, jobs, PAIR)
    assert [returns.tolist() for returns in found] == [[[3, 3]] * 3, [[0, 5]] * 3, [[5, 0]] * 3, [[1, 1]] * 3]


def test_one_batch_holds_many_pairings_and_a_long_job_is_cut() -> None:
    jobs = [Job((("a", "x"),), tuple(range(5))), Job((("a", "y"),), tuple(range(9)))]
    cut = batches_of(jobs, episodes=6)
    assert [[(job.seating[0][1], job.seeds) for job in batch] for batch in cut] == [
        [("x", (0, 1, 2, 3, 4)), ("y", (0,))],
        [("y", (1, 2, 3, 4, 5, 6))],
        [("y", (7, 8))],
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_same_jobs_give_the_same_numbers_with_any_number_of_workers(workers: int) -> None:
    members = {f"m{i}": network(f"m{i}", i) for i in range(3)}
    jobs = [Job(seated(player_0=a, player_1=b), tuple(range(40))) for a in members for b in members]
    game = {"game": "rock_paper_scissors", "repetitions": 3}
    expected = play_all(pool_for("matrix_game", game), members, jobs, PAIR)
    found = play_all(pool_for("matrix_game", game, workers), members, jobs, PAIR)
    np.testing.assert_array_equal(found, expected)
    assert np.std(expected) > 0  # they do draw their actions


def test_a_second_call_repeats_the_first_one() -> None:
    members = {"r": Member.scripted("random", 0)}
    worker = pool_for("matrix_game", {"game": "rock_paper_scissors"}).local_worker()
    jobs = [Job(seated(player_0="r", player_1="r"), tuple(range(100)))]
    first, second = (play_jobs(worker, members, jobs, PAIR)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert set(first[:, 0]) == {-1.0, 0.0, 1.0}


def test_batches_come_back_in_the_order_of_the_jobs() -> None:
    members = {"r": Member.scripted("random", 0)}
    jobs = [Job(seated(player_0="r", player_1="r"), tuple(range(1_600)))]
    batches = list(play(pool_for("matrix_game", DILEMMA, 2), members, jobs, PAIR))
    assert [job.seeds[0] for batch in batches for job, _ in batch] == [0, 512, 1_024, 1_536]
    assert [returns.shape for batch in batches for _, returns in batch] == [(512, 2), (512, 2), (512, 2), (64, 2)]


def test_a_players_payoff_is_the_sum_over_its_agents_also_of_those_who_come_and_go() -> None:
    steps = [
        Step(asked=["red_1", "blue_0"], rewards={"red_0": 1.0, "blue_0": 10.0}, terminated=["red_0"]),
        Step(rewards={"red_1": 2.0, "blue_0": 10.0}, terminated=["red_1", "blue_0", "__all__"]),
    ]
    patterns = {"red_*": 2, "blue_*": 1}
    worker = pool_for(lambda _: Scripted(["red_0", "blue_0"], steps, patterns=patterns)).local_worker()
    members = {"r": Member.scripted("random", 0)}
    players = {"blue": ["blue_*"], "red": ["red_*"]}
    (returns,) = play_jobs(worker, members, [Job((("red_*", "r"), ("blue_*", "r")), (0, 1))], players)
    assert returns.tolist() == [[20.0, 3.0]] * 2


def test_nobody_is_left_without_a_player() -> None:
    worker = pool_for("matrix_game", DILEMMA).local_worker()
    job = Job(seated(player_0="r", player_1="r"), (0,))
    with pytest.raises(ConfigError, match=r"no player has the agent\(s\) player_1"):
        play_jobs(worker, {"r": Member.scripted("random", 0)}, [job], {"one": ["player_0"]})
    with pytest.raises(ConfigError, match="expected a list of agent ids"):
        play_jobs(worker, {"r": Member.scripted("random", 0)}, [job], {"one": "player_*"})


def test_a_key_is_what_a_member_is_and_not_what_it_is_called() -> None:
    one, other, same = network("one", 1), network("other", 2), network("another name", 1)
    assert one.key == same.key
    assert one.key != other.key
    changed = {**one.weights, next(iter(one.weights)): next(iter(one.weights.values())) + 1e-3}
    assert Member("one", one.spec, changed).key != one.key
    assert Member.scripted("fixed", 0, 0).key != Member.scripted("fixed", 0, 1).key
    rules = [Member(name, PolicySpec("scripted", 0, scripted=ScriptedConfig(name=lambda obs: 0))) for name in "ab"]
    assert rules[0].key != rules[1].key  # functions without a name of their own


def test_weights_of_other_spaces_are_refused_with_both_shapes() -> None:
    kinds = make_batched_env("matrix_game", 1, DILEMMA).kinds
    with pytest.raises(SpaceMismatchError, match=r"policy 'three' cannot play 'player_0'.*shape \(3.* expected \(2"):
        build(network("three", 0), kinds)


def test_who_explores_is_each_members_own_matter_unless_it_is_said() -> None:
    """Greedy play of a stochastic policy is one action; values play greedily by themselves."""
    worker = pool_for("matrix_game", {"game": "rock_paper_scissors"}).local_worker()
    members = {"m": network("m", 0), "rock": Member.scripted("fixed", 0, 0)}
    jobs = [Job(seated(player_0="m", player_1="rock"), tuple(range(60)))]
    by_itself, drawn, greedy = (play_jobs(worker, members, jobs, PAIR, explore)[0] for explore in (None, True, False))
    np.testing.assert_array_equal(by_itself, drawn)
    assert len(set(drawn[:, 0])) == 3
    assert len(set(greedy[:, 0])) == 1
    spec = PolicySpec("value", 0, ModelConfig(fcnet_hiddens=[8]))
    assert not Member("dqn", spec).draws_actions
