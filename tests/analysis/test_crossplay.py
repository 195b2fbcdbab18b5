"""Cross-play between checkpoints: known tables, seats, groups, going on after a stop, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.analysis.crossplay import Effort, cross_play, decided
from marl.analysis.participants import short_labels
from marl.envs.games.matrix import classic
from marl.errors import CheckpointError, ConfigError, DataError, SpaceMismatchError
from marl.play.exported_run import open_playable
from tests.analysis.runs import DILEMMA, RPS, checkpoint, with_fixed


@pytest.fixture(scope="module")
def dilemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_fixed(tmp_path_factory.mktemp("runs") / "dilemma", DILEMMA, 2)


@pytest.fixture(scope="module")
def rps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two policies that play both seats."""
    folder = tmp_path_factory.mktemp("runs")
    return [checkpoint(folder / f"seed_{seed}", RPS, seed=seed) for seed in range(2)]


def fixed(path: Path, actions: int) -> list[str]:
    return [f"{path}#fixed_{a}" for a in range(actions)]


def test_fixed_policies_of_a_checkpoint_give_back_the_game(dilemma: Path) -> None:
    expected, _ = classic("prisoners_dilemma")
    one = cross_play(fixed(dilemma, 2), episodes=4)
    assert one.symmetric  # both play both seats, and the game is symmetric: nothing changes by averaging
    by_seat = cross_play(fixed(dilemma, 2), episodes=4, symmetric=False)
    assert not by_seat.symmetric
    for tensor in (one, by_seat):
        np.testing.assert_array_equal(tensor.mean, expected)
        assert not tensor.stderr.any()
        assert tensor.names == (("dilemma#fixed_0", "dilemma#fixed_1"),) * 2
        assert tensor.count.tolist() == [[4, 4], [4, 4]]


def test_seats_are_averaged_only_where_one_population_plays_them_all(tmp_path: Path) -> None:
    """Matching pennies: the first player wants equal sides, so a coin for the seats makes every pairing worth 0."""
    path = with_fixed(tmp_path / "pennies", {"env": "matrix_game", "env_config": {"game": "matching_pennies"}}, 2)
    expected, _ = classic("matching_pennies")
    np.testing.assert_array_equal(cross_play(fixed(path, 2), episodes=2, symmetric=False).mean, expected)
    averaged = cross_play(fixed(path, 2), episodes=2)
    assert averaged.symmetric
    assert not averaged.mean.any()


def test_a_trained_policys_payoffs_are_those_of_its_chances(rps: list[Path]) -> None:
    tensor = cross_play([*rps, "random"], episodes=2_000)
    chances = [*map(chances_of, rps), np.full(3, 1 / 3)]
    table = classic("rock_paper_scissors")[0][0]
    expected = np.array([[p @ table @ q for q in chances] for p in chances])
    assert tensor.names[0] == ("seed_0", "seed_1", "random")
    assert (np.abs(tensor.mean[0] - expected) <= 4 * tensor.stderr[0] + 1e-6).all()
    off = ~np.eye(3, dtype=bool)
    assert (tensor.stderr[0][off] > 0).all()
    assert tensor.count[off].tolist() == [2_000] * 6  # both seatings of a pairing together


def chances_of(path: Path) -> Any:
    runner = open_playable(path, frozenset()).runner()
    runner.begin(np.array([0]), np.array([0]))
    (policy,) = runner.policies
    from marl.policies.stochastic import StochasticPolicy

    assert isinstance(policy, StochasticPolicy)
    obs, index, legal = policy.tensors(_inputs(runner), policy.device)
    logits = policy(obs, index, legal)[0].detach().numpy()[0].astype(np.float64)
    return np.exp(logits) / np.exp(logits).sum()


def _inputs(runner: Any) -> Any:
    from marl.policies.policy import Inputs

    return Inputs(runner.view.obs[0][0], runner.view.legal[0][0], np.arange(2))


def test_a_policy_per_player_gives_each_player_strategies_of_its_own(tmp_path: Path, rps: list[Path]) -> None:
    pair = checkpoint(tmp_path / "pair", RPS, multiagent={"policy_mapping_fn": "per_agent"})
    tensor = cross_play([pair, rps[0]], episodes=2)
    assert not tensor.symmetric
    assert tensor.names == (("pair", "seed_0"),) * 2
    with pytest.raises(ConfigError, match="not one population"):
        cross_play([pair, rps[0]], episodes=2, symmetric=True)
    named = cross_play([f"{pair}#player_0", f"{pair}#player_1", "random"], episodes=2)
    assert named.symmetric  # equal spaces: each can play both seats
    assert named.names[0] == ("pair#player_0", "pair#player_1", "random")


def test_groups_are_players_and_earn_the_sum_of_their_members(tmp_path: Path) -> None:
    """Four players with two actions: everybody is paid 1, 10, 100 or 1000 times the sum of all actions."""
    total = np.indices((2, 2, 2, 2)).sum(axis=0)
    env = {"env": "matrix_game", "env_config": {"payoffs": [(total * 10**i).tolist() for i in range(4)]}}
    path = with_fixed(tmp_path / "four", env, 2)
    teams = {"outer": ["player_0", "player_3"], "inner": ["player_1", "player_2"]}
    tensor = cross_play(fixed(path, 2), players=teams, episodes=2, symmetric=False)
    assert tensor.players == ("outer", "inner")
    assert tensor.mean[0].tolist() == [[0.0, 2 * 1001], [2 * 1001, 4 * 1001]]
    assert tensor.mean[1].tolist() == [[0.0, 2 * 110], [2 * 110, 4 * 110]]
    grouped = with_fixed(tmp_path / "grouped", env, 2, groups=teams)
    assert cross_play(fixed(grouped, 2), episodes=2, symmetric=False).players == ("outer", "inner")


def test_a_stopped_cross_play_goes_on_and_ends_like_one_that_was_not_stopped(tmp_path: Path, rps: list[Path]) -> None:
    whole = cross_play([*rps, "random"], episodes=800, directory=tmp_path / "whole")
    seen: list[int] = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_play([*rps, "random"], episodes=800, directory=tmp_path / "parts", progress=stop)
    log = tmp_path / "parts" / "crossplay.jsonl"
    assert len(log.read_text().splitlines()) == 3
    log.write_text(log.read_text()[:-20])  # the machine went down in the middle of the third line
    again = cross_play([*rps, "random"], episodes=800, directory=tmp_path / "parts")
    assert again.as_json() == whole.as_json()
    assert log.read_text() == (tmp_path / "whole" / "crossplay.jsonl").read_text()


def test_what_is_in_the_log_is_not_played_again_and_more_entrants_only_add(tmp_path: Path, rps: list[Path]) -> None:
    first = cross_play([rps[0], "random"], episodes=10, directory=tmp_path)
    size = (tmp_path / "crossplay.jsonl").stat().st_size
    played: list[int] = []
    again = cross_play(
        ["random", rps[0]], episodes=10, directory=tmp_path, progress=lambda done, _: played.append(done)
    )
    assert played == []
    assert (tmp_path / "crossplay.jsonl").stat().st_size == size
    assert again.mean[0].tolist() == first.mean[0][::-1, ::-1].tolist()
    more = cross_play([*rps, "random"], episodes=10, directory=tmp_path)
    assert more.mean[0][[0, 2]][:, [0, 2]].tolist() == first.mean[0].tolist()
    new = [json.loads(line) for line in (tmp_path / "crossplay.jsonl").read_text()[size:].splitlines()]
    assert sum(len(match["seeds"]) for line in new for match in line["matches"]) == 10 + 4 * 5
    cross_play(
        [rps[0], "random"], episodes=10, directory=tmp_path, explore=False, progress=lambda n, _: played.append(n)
    )
    assert played == [30]  # greedy play is another cross-play


def test_open_pairings_get_more_episodes_and_decided_ones_do_not(rps: list[Path], dilemma: Path) -> None:
    assert cross_play(fixed(dilemma, 2), episodes=4, until_decided=True).count.max() == 4
    drawn = cross_play(["random", rps[0]], episodes=10, until_decided=True, max_episodes=40, symmetric=False)
    assert drawn.count.max() == 40
    undecided = np.abs(drawn.mean[0]) <= drawn.stderr[0] * 2
    assert (drawn.count[undecided] == 40).all()
    assert undecided.any()
    close = cross_play(["random"], **RPS, episodes=10, target_stderr=0.03, max_episodes=5_000, symmetric=False)
    assert close.stderr.max() <= 0.03
    assert close.count.max() >= 640  # 0.03 = sqrt(2/3) / sqrt(n) for n = 740


def test_a_sign_is_decided_beyond_two_standard_errors_or_without_any() -> None:
    assert decided(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [2.0, 0.0]]))  # 2.0 +- 0.41
    assert not decided(np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]))
    assert decided(np.zeros((3, 2)))
    assert not decided(np.array([[0.0, 5.0, 1.0], [0.0, 5.0, -1.0]]))  # of three players two are not apart


def test_a_masked_board_game_is_played_by_networks_and_by_random(tmp_path: Path) -> None:
    env = {"env": "pettingzoo:classic/tictactoe_v3"}
    path = checkpoint(tmp_path / "tictactoe", env)
    tensor = cross_play([path, "random"], episodes=40)
    assert tensor.players == ("player_1", "player_2")
    assert tensor.symmetric
    np.testing.assert_array_equal(tensor.mean.sum(axis=0), 0)
    seats = cross_play(["random"], env=env["env"], episodes=200, symmetric=False)
    assert seats.mean[0, 0, 0] > 2 * seats.stderr[0, 0, 0]  # the first move is worth something


def test_who_else_is_in_the_batch_does_not_matter_to_greedy_play(tmp_path: Path) -> None:
    """Policies with and without memory and of different algorithms, stepped together or pair by pair."""
    env = {"env": "matrix_game", "env_config": {"game": "rock_paper_scissors", "repetitions": 6, "observe": "last"}}
    paths = [
        checkpoint(tmp_path / "plain", env),
        checkpoint(tmp_path / "memory", env, use_lstm=True, lstm_cell_size=8),
        checkpoint(tmp_path / "values", env, "dqn"),
    ]
    together = cross_play(paths, episodes=2, explore=False, symmetric=False)
    assert not together.stderr.any()  # nothing is left to chance
    for row, first in enumerate(paths):
        for column, second in enumerate(paths[:row]):
            pair = cross_play([first, second], episodes=2, explore=False, symmetric=False)
            np.testing.assert_array_equal(pair.mean[:, 0, 1], together.mean[:, row, column])
            np.testing.assert_array_equal(pair.mean[:, 1, 0], together.mean[:, column, row])


def test_policies_of_different_envs_meet_only_where_the_user_says(
    rps: list[Path], dilemma: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"not trained on the same env: env_config is .*prisoners_dilemma.*--env"):
        cross_play([rps[0], dilemma])
    repeated = checkpoint(tmp_path / "repeated", {**RPS, "env_config": {**RPS["env_config"], "repetitions": 2}})
    tensor = cross_play([rps[0], repeated], **RPS, episodes=2)
    assert tensor.names[0] == ("seed_0", "repeated")
    with pytest.raises(SpaceMismatchError, match=r"was trained on .*Discrete\(3\).* has .*Discrete\(2\)"):
        cross_play([rps[0]], **DILEMMA)


@pytest.mark.parametrize(
    ("arguments", "keys", "error", "message"),
    [
        ([], {}, ConfigError, "needs somebody who plays"),
        (["randm"], {}, CheckpointError, "Did you mean 'random'"),
        (["random"], {}, ConfigError, "there is no env"),
        (["random", "random"], RPS, ConfigError, "given twice"),
        (["random"], {**RPS, "episodes": 1}, ConfigError, "needs 2 or more"),
        (["random"], {**RPS, "max_episodes": 200}, ConfigError, "means nothing without until_decided"),
        (["random"], {**RPS, "until_decided": True, "max_episodes": 20}, ConfigError, "less than episodes"),
        (["random"], {"env_config": {}}, ConfigError, "env_config was given without env"),
        (["random"], {**RPS, "players": {"a": ["player_0"]}}, ConfigError, "nobody would act"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(
    arguments: list[str], keys: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cross_play(arguments, **keys)


def test_a_policy_that_is_not_there_and_one_that_is_not_named_are_told(dilemma: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no policy 'fixed_7'\. It has learner, fixed_0, fixed_1"):
        cross_play([f"{dilemma}#fixed_7"])
    with pytest.raises(ConfigError, match=r"'player_1' is played by one of fixed_0, fixed_1.*dilemma#fixed_0"):
        cross_play([dilemma])
    (tmp_path / "crossplay.jsonl").write_text('{"format": 1}\n')
    with pytest.raises(DataError, match="line 1 is not a line of a cross-play"):
        cross_play(["random"], **RPS, directory=tmp_path)


def test_a_checkpoint_may_only_use_modules_that_are_allowed(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "own", {"env": "tests.analysis.own_env:Coins"})
    with pytest.raises(ConfigError, match="was not allowed"):
        cross_play([path], episodes=2)
    assert cross_play([path], episodes=2, allow=["tests"]).players == ("a_0", "a_1")


def test_labels_are_the_shortest_ends_that_differ() -> None:
    assert short_labels(["/x/run_a/checkpoints/checkpoint_000001", "/x/run_a/checkpoints/best"]) == [
        "checkpoint_000001",
        "best",
    ]
    assert short_labels(["/x/a/checkpoints/best", "/x/b/checkpoints/best"]) == ["a/best", "b/best"]


def test_effort_grows_to_ten_times_the_episodes_by_default() -> None:
    assert Effort(50, until_decided=True).most == 500


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_two_ray_workers_give_the_same_table_as_this_process(rps: list[Path]) -> None:
    here = cross_play([*rps, "random"], episodes=150)
    there = cross_play([*rps, "random"], episodes=150, num_workers=2)
    assert here.as_json() == there.as_json()
