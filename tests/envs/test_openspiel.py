"""OpenSpiel games: values, simultaneous moves, chance from the seed, masks, rewards, resuming, training."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms.expected_game_score import policy_value
from open_spiel.python.policy import UniformRandomPolicy

import marl
from marl.envs.adapters.openspiel import OpenSpielEnv
from marl.errors import ConfigError, EnvError, UnknownNameError
from marl.training.trainer import Trainer


def new_env(game: str, **parameters: Any) -> OpenSpielEnv:
    env = marl.make_env(f"openspiel:{game}", parameters)
    assert isinstance(env, OpenSpielEnv)
    return env


def uniform_actions(obs: dict[str, Any], rng: np.random.Generator) -> dict[str, int]:
    return {agent: int(rng.choice(np.flatnonzero(seen["action_mask"]))) for agent, seen in obs.items()}


def episode(env: OpenSpielEnv, seed: int, rng: np.random.Generator) -> list[Any]:
    """Everything that one episode of uniform play shows."""
    obs, _ = env.reset(seed=seed)
    return [obs, *rest_of_episode(env, obs, rng)]


def rest_of_episode(env: OpenSpielEnv, obs: dict[str, Any], rng: np.random.Generator) -> list[Any]:
    shown = []
    while obs:
        result = env.step(uniform_actions(obs, rng))
        shown.append(result)
        obs = {} if result.terminated["__all__"] else result.obs
    return shown


def total(env: OpenSpielEnv, shown: list[Any]) -> list[float]:
    return [sum(result.rewards[agent] for result in shown[1:]) for agent in env.possible_agents]


def uniform_value(env: OpenSpielEnv) -> np.ndarray:
    """Expected rewards of uniform play from where the game stands, by trying every action through ``step``."""
    before = env.get_state()
    player, agent = env._asked()[0]
    actions = np.flatnonzero(env._observe(player)["action_mask"])
    value = np.zeros(len(env.possible_agents))
    for action in actions.tolist():
        env.set_state(before)
        result = env.step({agent: action})
        value += [result.rewards[name] for name in env.possible_agents]
        if not result.terminated["__all__"]:
            value += uniform_value(env)
    return value / len(actions)


def test_uniform_play_in_kuhn_poker_is_worth_what_open_spiel_says_in_every_branch() -> None:
    game = pyspiel.load_game("kuhn_poker")
    exact = policy_value(game.new_initial_state(), [UniformRandomPolicy(game)] * 2)
    assert exact == pytest.approx([0.125, -0.125])
    env = new_env("kuhn_poker")
    deals = [(a, b) for a in range(3) for b in range(3) if a != b]
    values = []
    for first, second in deals:
        env.reset(seed=0)
        env.set_state({**env.get_state(), "game": f"{first}\n{second}\n"})
        values.append(uniform_value(env))
    assert np.mean(values, axis=0) == pytest.approx(exact, abs=1e-12)


def test_uniform_play_in_kuhn_poker_earns_its_value_over_many_seeds() -> None:
    env, rng = new_env("kuhn_poker"), np.random.default_rng(0)
    earned = np.array([total(env, episode(env, seed, rng))[0] for seed in range(2000)])
    error = earned.std() / np.sqrt(len(earned))
    assert abs(earned.mean() - 0.125) < 4 * error
    assert error < 0.05


def test_chance_deals_every_pair_of_cards_equally_often() -> None:
    env = new_env("kuhn_poker")
    deals: dict[tuple[int, ...], int] = {}
    for seed in range(1500):
        env.reset(seed=seed)
        deal = tuple(env._state.history())
        deals[deal] = deals.get(deal, 0) + 1
    assert len(deals) == 6
    expected = 1500 / 6
    assert all(abs(count - expected) < 5 * np.sqrt(expected) for count in deals.values())


@pytest.mark.parametrize("game", ["matrix_rps", "goofspiel", "oshi_zumo"])
def test_simultaneous_games_ask_all_players_at_once(game: str) -> None:
    env = new_env(game)
    obs, _ = env.reset(seed=0)
    assert set(obs) == {"player_0", "player_1"}
    with pytest.raises(EnvError, match="expected those of"):
        env.step({"player_0": 0})


def test_rock_paper_scissors_pays_both_in_the_one_step_there_is() -> None:
    env = new_env("matrix_rps")
    env.reset(seed=0)
    result = env.step({"player_0": 1, "player_1": 0})  # paper wraps rock
    assert result.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert result.terminated == {"__all__": True}
    assert result.truncated == {"__all__": False}
    assert set(result.obs) == {"player_0", "player_1"}


def test_sequential_games_ask_one_player_at_a_time() -> None:
    env = new_env("tic_tac_toe")
    obs, _ = env.reset(seed=0)
    assert set(obs) == {"player_0"}
    assert set(env.step({"player_0": 4}).obs) == {"player_1"}


def test_three_players_come_from_the_config() -> None:
    env = new_env("kuhn_poker", players=3)
    assert env.possible_agents == ("player_0", "player_1", "player_2")
    shown = episode(env, 5, np.random.default_rng(0))
    assert sum(total(env, shown)) == pytest.approx(0.0)


def test_an_illegal_move_is_refused_with_the_legal_ones() -> None:
    env = new_env("tic_tac_toe")
    env.reset(seed=0)
    env.step({"player_0": 4})
    with pytest.raises(EnvError, match=r"player_1 played 4, which is not legal here. Legal: 0 \(o\(0,0\)\), 1"):
        env.step({"player_1": 4})


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "goofspiel"])
def test_players_see_their_information_state_and_their_legal_actions(game: str) -> None:
    env, rng = new_env(game), np.random.default_rng(1)
    obs, _ = env.reset(seed=3)
    while obs:
        for agent, seen in obs.items():
            player = int(agent[-1])
            assert seen["observation"].tolist() == pytest.approx(env._state.information_state_tensor(player))
            assert np.flatnonzero(seen["action_mask"]).tolist() == env._state.legal_actions(player)
        joined = np.concatenate([env._state.information_state_tensor(p) for p in range(2)])
        assert env.state() == pytest.approx(joined.astype(np.float32))
        result = env.step(uniform_actions(obs, rng))
        obs = {} if result.terminated["__all__"] else result.obs


def test_a_game_without_information_states_shows_its_observation() -> None:
    env = new_env("tic_tac_toe")
    obs, _ = env.reset(seed=0)
    assert obs["player_0"]["observation"].tolist() == env._state.observation_tensor(0)
    assert env.observation_space("player_0")["observation"].shape == (27,)


@pytest.mark.parametrize(
    ("game", "parameters"),
    [
        ("coop_box_pushing", {}),
        ("hanabi", {"players": 3}),
        ("2048", {}),
        ("goofspiel", {"num_cards": 4}),
        ("liars_dice", {}),
    ],
)
def test_rewards_arrive_step_by_step_and_add_up_to_the_returns_of_the_game(
    game: str, parameters: dict[str, int]
) -> None:
    env, rng = new_env(game, **parameters), np.random.default_rng(2)
    shown = episode(env, 7, rng)
    assert total(env, shown) == pytest.approx(list(env._state.returns()), abs=1e-5)
    if game == "coop_box_pushing":
        assert all(result.rewards["player_0"] != 0 for result in shown[1:])  # every step costs


def test_equal_seeds_give_equal_episodes_and_others_differ() -> None:
    env = new_env("leduc_poker")
    one, two, other = (repr(episode(env, seed, np.random.default_rng(0))) for seed in (1, 1, 2))
    assert one == two
    assert one != other


@pytest.mark.parametrize(
    ("game", "parameters"), [("leduc_poker", {}), ("goofspiel", {"num_cards": 5}), ("backgammon", {})]
)
def test_a_game_taken_up_in_the_middle_has_the_same_future(game: str, parameters: dict[str, Any]) -> None:
    env = new_env(game, **parameters)
    obs, _ = env.reset(seed=11)
    result = env.step(uniform_actions(obs, np.random.default_rng(0)))
    state = env.get_state()
    future = rest_of_episode(env, result.obs, np.random.default_rng(4))
    again = new_env(game, **parameters)
    again.set_state(state)
    assert repr(rest_of_episode(again, result.obs, np.random.default_rng(4))) == repr(future)


@pytest.mark.parametrize(
    ("game", "says"),
    [
        ("mfg_garnet", "mean-field"),
        ("negotiation", "draws its chance moves inside the game"),
        ("coin_game", "neither information states nor observations"),
    ],
)
def test_games_that_cannot_be_learned_are_refused_with_the_reason(game: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        new_env(game)


def test_wrong_names_and_parameters_are_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'kuhn_poker'"):
        new_env("kuhn_pokr")
    with pytest.raises(ConfigError, match=r"env_config \{'player': 3\}.*Unknown parameter"):
        new_env("kuhn_poker", player=3)


def test_a_missing_package_is_told_with_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ConfigError, match=r"pip install open_spiel"):
        marl.make_env("openspiel:kuhn_poker")


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "tic_tac_toe", "matrix_rps", "goofspiel"])
def test_the_checker_passes_the_games(game: str) -> None:
    assert marl.check_env(f"openspiel:{game}") == []


@pytest.mark.parametrize(("algo", "game"), [("ppo", "leduc_poker"), ("ppo", "goofspiel"), ("dqn", "kuhn_poker")])
def test_training_runs_over_turns_and_simultaneous_moves(algo: str, game: str) -> None:
    keys = {"num_envs_per_worker": 4, "fcnet_hiddens": [16]}
    keys |= {"train_batch_size": 120} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 120}
    with Trainer(algo, env=f"openspiel:{game}", config=keys) as trainer:
        results = [trainer.train() for _ in range(2)]
    assert results[-1]["training_iteration"] == 2
    assert results[-1]["agent_reward_mean"]["player_0"] == pytest.approx(-results[-1]["agent_reward_mean"]["player_1"])
