"""The two-step game: payoffs, observations and randomness as the documents give them."""

import numpy as np
import pytest

from marl.envs.batched import StepOutput
from marl.envs.games.two_step import TwoStepGames

ALL_MOVES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def started(num_envs: int = 4, seed: int = 0, **env_config: object) -> tuple[TwoStepGames, StepOutput]:
    games = TwoStepGames(num_envs, env_config)
    return games, games.reset(np.arange(num_envs), np.arange(num_envs) + seed)


def branch(chosen_by_first: int, **env_config: object) -> tuple[TwoStepGames, StepOutput]:
    """Four games after their first step; the second agent's first action differs and must not matter."""
    games, _ = started(**env_config)
    return games, games.step([np.array([[chosen_by_first, second] for second in (0, 1, 0, 1)])])


@pytest.mark.parametrize("chosen_by_first", [0, 1])
def test_the_first_step_pays_nothing_and_ends_nothing(chosen_by_first: int) -> None:
    _, frame = branch(chosen_by_first)
    assert not frame.rewards.any()
    assert frame.present.all()
    assert not (frame.terminated | frame.truncated).any()
    assert not frame.over.any()


def test_the_first_agent_alone_picks_the_branch() -> None:
    safe, risky = branch(0)[0], branch(1)[0]
    assert safe.where.tolist() == [1, 1, 1, 1]
    assert risky.where.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(("chosen", "team_rewards"), [(0, [7, 7, 7, 7]), (1, [0, 1, 1, 8])])
def test_the_second_step_pays_the_table_of_its_branch_in_halves(chosen: int, team_rewards: list[float]) -> None:
    games, _ = branch(chosen)
    frame = games.step([np.array(ALL_MOVES)])
    assert frame.rewards.sum(axis=1).tolist() == team_rewards
    assert frame.rewards.tolist() == [[reward / 2, reward / 2] for reward in team_rewards]
    assert frame.terminated.all()
    assert frame.over.all()
    assert not frame.truncated.any()
    assert not frame.present.any()


def test_other_payoffs_come_from_the_config() -> None:
    safe, risky = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
    for chosen, table in enumerate((safe, risky)):
        games, _ = branch(chosen, safe_payoff=safe, risky_payoff=risky)
        paid = games.step([np.array(ALL_MOVES)]).rewards.sum(axis=1)
        assert paid.tolist() == np.ravel(table).tolist()


def test_observations_are_the_one_hot_state_and_the_number_of_the_agent() -> None:
    _, frame = started()
    assert frame.obs[0][0].tolist() == [[1, 0, 0, 1], [1, 0, 0, 2]]
    assert branch(0)[1].obs[0][0].tolist() == [[0, 1, 0, 1], [0, 1, 0, 2]]
    assert branch(1)[1].obs[0][0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 2]]


def test_index_observations_are_shifted_by_three_for_the_second_agent() -> None:
    games, frame = started(one_hot_state_encoding=False)
    assert frame.obs[0][0].tolist() == [[0], [3]]
    assert branch(0, one_hot_state_encoding=False)[1].obs[0][0].tolist() == [[1], [4]]
    assert branch(1, one_hot_state_encoding=False)[1].obs[0][0].tolist() == [[2], [5]]
    assert games.kinds[0].observation_space.n == 6


@pytest.mark.parametrize("one_hot", [True, False])
def test_observations_lie_in_their_space(one_hot: bool) -> None:
    space = started(one_hot_state_encoding=one_hot)[0].kinds[0].observation_space
    for frame in (started(one_hot_state_encoding=one_hot)[1], branch(1, one_hot_state_encoding=one_hot)[1]):
        for seen in frame.obs[0][0]:
            assert space.contains(seen if one_hot else seen[0])


def test_the_global_state_is_the_one_hot_state() -> None:
    assert started()[1].state[0].tolist() == [1, 0, 0]
    assert branch(0)[1].state[0].tolist() == [0, 1, 0]
    assert branch(1)[1].state[0].tolist() == [0, 0, 1]


def share_of_second_action(logits: tuple[float, float], num_envs: int = 20_000) -> float:
    games, _ = started(num_envs, actions_are_logits=True)
    games.step([np.broadcast_to(np.array(logits, np.float32), (num_envs, 2, 2))])
    return float((games.where == 2).mean())


@pytest.mark.slow
def test_logits_draw_the_move_by_softmax() -> None:
    assert share_of_second_action((0.0, 0.0)) == pytest.approx(0.5, abs=0.02)
    assert share_of_second_action((0.0, float(np.log(3)))) == pytest.approx(0.75, abs=0.02)
    assert share_of_second_action((0.0, -1e9)) == 0.0
    assert share_of_second_action((0.0, 1e9)) == 1.0


def test_moves_drawn_from_logits_depend_on_the_seed_only() -> None:
    def played(env_ids: int, seed: int) -> tuple[int, float]:
        games = TwoStepGames(env_ids, {"actions_are_logits": True})
        games.reset(np.arange(env_ids), np.array([*range(1000, 1000 + env_ids - 1), seed]))
        even = np.zeros((env_ids, 2, 2), np.float32)
        games.step([even])
        return int(games.where[-1]), float(games.step([even]).rewards[-1].sum())

    assert [played(1, seed) for seed in range(30)] == [played(5, seed) for seed in range(30)]
    assert len({played(1, seed) for seed in range(30)}) > 1


def test_a_game_goes_on_bit_for_bit_from_its_saved_state() -> None:
    games, _ = started(64, actions_are_logits=True)
    logits = np.random.default_rng(0).normal(size=(2, 64, 2, 2)).astype(np.float32)
    shown = games.step([logits[0]])
    saved = games.get_state()
    expected = games.step([logits[1]])
    other = TwoStepGames(64, {"actions_are_logits": True})
    again = other.set_state(saved)
    assert (again.obs[0] == shown.obs[0]).all()
    assert not again.rewards.any()
    frame = other.step([logits[1]])
    assert (frame.rewards == expected.rewards).all()
    assert (frame.obs[0] == expected.obs[0]).all()


def test_a_reset_touches_its_own_lanes_only() -> None:
    games, _ = branch(1)
    frame = games.reset(np.array([2]), np.array([7]))
    assert frame.state.argmax(axis=1).tolist() == [2, 2, 0, 2]


def test_the_picture_shows_the_table_of_the_branch() -> None:
    games, _ = branch(1)
    assert "risky branch" in games.render(0)
    assert "8" in games.render(0)
