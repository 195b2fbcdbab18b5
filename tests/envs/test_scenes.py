"""Scenes say what an env looks like: answers worked out by hand for the games that come with marl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.envs.games.matrix import MatrixGames
from marl.envs.games.networks.congestion import CongestionGames
from marl.envs.games.networks.graphical import GraphicalGames
from marl.envs.games.particles.reference import ReferenceGames
from marl.envs.games.particles.speaker_listener import SpeakerListenerGames
from marl.envs.games.particles.tag import TagGames
from marl.envs.games.particles.world_comm import WorldCommGames
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.registry import make_batched_env
from marl.envs.scenes import remembering, scene_of
from marl.envs.wrappers import read_wrappers

FIRST = np.array([0])


def begun(name: str, seed: int = 1, **env_config: Any) -> BatchedEnv:
    env = make_batched_env(name, 1, env_config, render_mode="rgb_array")
    env.reset(FIRST, np.array([seed]))
    return env


def play(env: BatchedEnv, *joint: Any) -> StepOutput:
    """One step of an env with one kind of agents: an action per seat."""
    return env.step([np.array([joint], env.kinds[0].action_dtype)])


def turn(env: Any, action: int) -> None:
    """One move of a game in which players take turns: the actions of those who wait mean nothing."""
    env.step([np.full((1, kind.size, *kind.action_shape), action, kind.action_dtype) for kind in env.kinds])


def seen(env: BatchedEnv, viewer: str | None = None) -> dict[str, Any]:
    scene = scene_of(env, 0, viewer)
    assert scene is not None
    assert scene["text"].endswith(".")
    return scene


def cards_of(scene: Mapping[str, Any]) -> list[Any]:
    return [player["cards"] or player["dice"] for player in scene["players"]]


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_matrix_game_shows_its_table_and_what_was_played() -> None:
    env = MatrixGames(1, {"game": "prisoners_dilemma"})
    env.reset(FIRST, FIRST)
    before = seen(env, "player_1")
    assert (before["payoffs"], before["played"]) == ([[[3, 0], [5, 1]], [[3, 5], [0, 1]]], None)
    assert before["actions"] == {"0": 0, "1": 1}
    play(env, 0, 1)
    after = seen(env)
    assert (after["moves"], after["played"]) == ([["cooperate", "defect"]] * 2, [0, 1])
    assert "player_0 played cooperate, player_1 played defect" in after["text"]
    assert after["actions"] == {}


def test_who_is_not_shown_the_last_round_sees_its_own_action_until_the_end() -> None:
    env = MatrixGames(1, {"game": "rock_paper_scissors", "repetitions": 2})
    env.reset(FIRST, FIRST)
    play(env, 2, 1)
    assert seen(env, "player_0")["played"] == [2, None]
    assert seen(env, "player_1")["played"] == [None, 1]
    assert seen(env)["played"] == [2, 1]
    assert "player_1" not in seen(env, "player_0")["text"]
    play(env, 0, 1)
    assert seen(env, "player_0")["played"] == [0, 1]
    open_game = MatrixGames(1, {"game": "rock_paper_scissors", "repetitions": 2, "observe": "last"})
    open_game.reset(FIRST, FIRST)
    play(open_game, 2, 1)
    assert seen(open_game, "player_0")["played"] == [2, 1]


def test_the_rounds_of_a_repeated_game_are_remembered() -> None:
    env = MatrixGames(1, {"repetitions": 3})
    env.reset(FIRST, FIRST)
    scene = remembering(None, scene_of(env, 0))
    for joint in ((0, 0), (0, 1), (1, 1)):
        play(env, *joint)
        scene = remembering(scene, scene_of(env, 0))
    assert scene is not None
    assert scene["history"] == [[0, 0], [0, 1], [1, 1]]


def test_the_two_step_game_is_three_states() -> None:
    env = TwoStepGames(1, {})
    env.reset(FIRST, FIRST)
    first = seen(env)
    assert first["now"] == [0]
    assert [state.get("payoffs") for state in first["states"]] == [None, [[7, 7], [7, 7]], [[0, 1], [1, 8]]]
    play(env, 1, 0)
    assert seen(env, "agent_1")["now"] == [2]


def test_agents_that_do_not_see_the_branch_may_be_in_either() -> None:
    env = TwoStepGames(1, {"hide_branch": True})
    env.reset(FIRST, FIRST)
    assert seen(env, "agent_0")["now"] == [0]
    play(env, 0, 1)
    assert (seen(env)["now"], seen(env, "agent_0")["now"]) == ([1], [1, 2])
    assert "safe branch or the risky branch" in seen(env, "agent_0")["text"]


# -- cards -------------------------------------------------------------------------------------------------------------


def kuhn(*moves: int) -> KuhnGames:
    """Of six deals the last one gives the king to player_0 and the queen to player_1."""
    env = KuhnGames(1, {})
    env.reset_to(FIRST, np.array([5]))
    for move in moves:
        turn(env, move)
    return env


def test_cards_of_others_are_hidden() -> None:
    env = kuhn()
    assert cards_of(seen(env)) == [["K"], ["Q"]]
    assert cards_of(seen(env, "player_0")) == [["K"], [None]]
    assert cards_of(seen(env, "player_1")) == [[None], ["Q"]]
    assert cards_of(seen(env, "nobody")) == [[None], [None]]
    assert "K" not in seen(env, "player_1")["text"].replace("Kuhn", "")


def test_bets_and_the_pot() -> None:
    scene = seen(kuhn(0, 1))
    assert [player["paid"] for player in scene["players"]] == [1, 2]
    assert [player["turn"] for player in scene["players"]] == [True, False]
    assert scene["pot"] == 3
    assert [(move["player"], move["text"]) for move in scene["course"]] == [("player_0", "pass"), ("player_1", "bet")]


def test_who_gives_up_does_not_show_its_card() -> None:
    scene = seen(kuhn(1, 0), "player_0")
    assert cards_of(scene) == [["K"], [None]]
    assert [player["folded"] for player in scene["players"]] == [False, True]
    assert [player["won"] for player in scene["players"]] == [1, -1]


def test_cards_are_shown_at_a_showdown() -> None:
    for moves, won in (((1, 1), [2, -2]), ((0, 0), [1, -1])):
        scene = seen(kuhn(*moves), "player_1")
        assert cards_of(scene) == [["K"], ["Q"]]
        assert [player["won"] for player in scene["players"]] == won


def leduc(*moves: int) -> LeducGames:
    """In the first deal both hold a jack and a queen lies face down."""
    env = LeducGames(1, {})
    env.reset_to(FIRST, np.array([0]))
    for move in moves:
        turn(env, move)
    return env


def test_the_card_on_the_table_of_leduc_is_turned_up_after_the_first_round() -> None:
    begin = seen(leduc(2))
    assert (cards_of(begin), begin["table"], begin["pot"]) == ([["J♠"], ["J♥"]], [None], 4)
    later = seen(leduc(2, 1), "player_0")
    assert (cards_of(later), later["table"], later["pot"]) == ([["J♠"], [None]], ["Q♠"], 6)
    assert [player["turn"] for player in later["players"]] == [True, False]
    folded = seen(leduc(2, 0), "player_0")
    assert (cards_of(folded), folded["table"]) == ([["J♠"], [None]], [None])
    assert [player["won"] for player in folded["players"]] == [1, -1]
    shown = seen(leduc(1, 1, 1, 1), "player_1")
    assert cards_of(shown) == [["J♠"], ["J♥"]]
    assert [player["won"] for player in shown["players"]] == [0, 0]


def test_dice_are_hidden_until_somebody_is_called_a_liar() -> None:
    env = LiarsDiceGames(1, {"dice": 1, "sides": 6})
    env.reset_to(FIRST, np.array([2 * 6 + 4]))  # a three against a five
    turn(env, 4)  # one five
    assert cards_of(seen(env, "player_0")) == [[3], [None]]
    assert cards_of(seen(env)) == [[3], [5]]
    assert seen(env)["players"][0]["said"] == "1 × 5"
    turn(env, 12)
    over = seen(env, "player_0")
    assert cards_of(over) == [[3], [5]]
    assert [player["won"] for player in over["players"]] == [1, -1]  # there is a five: the bid was true
    assert env.action_names("player_0")[4] == "1 x 5"


# -- places ------------------------------------------------------------------------------------------------------------


def test_cars_and_lights_stand_where_the_map_says() -> None:
    env = TrafficGames(1, {"lights": 2, "block_length": 3, "arrival_rate": 0.0, "failure_rate": 0.0})
    env.reset(FIRST, FIRST)
    env.status[0, :2], env.name_at[0, :2] = 1, (7, 12)
    env.road[0, :2], env.place[0, :2] = (0, 2), (4, 1)
    env.moved[0, :2] = (True, False)
    env.street_green[0] = (False, True)
    env.dark[0] = (2, 0)
    scene = seen(env)
    assert (scene["columns"], scene["rows"]) == (9, 6)
    assert scene["roads"][2] == {"name": "street 1", "start": [6, 0], "end": [6, 5]}
    assert scene["cars"] == [
        {"name": "car_7", "moved": True, "x": 4, "y": 3, "heading": "right"},
        {"name": "car_12", "moved": False, "x": 6, "y": 1, "heading": "down"},
    ]
    assert [(light["x"], light["y"], light["green"], light["dark"]) for light in scene["lights"]] == [
        (3, 3, "right", True),
        (6, 3, "down", False),
    ]


def test_a_maze_shows_walls_the_walker_the_exit_and_the_wind() -> None:
    env = begun("windy_maze", map=["####", "#SE#", "####"], wind=0.0, turn=0.0)
    scene = seen(env, "walker_0")
    assert scene["lines"] == ["####", "#SE#", "####"]
    places = {thing["name"]: (thing["row"], thing["column"]) for thing in scene["things"]}
    assert places == {"exit": (1, 2), "walker_0": (1, 1)}
    assert scene["wind"] in ("up", "right", "down", "left")
    assert scene["actions"] == {"stay": 0, "up": 1, "right": 2, "down": 3, "left": 4}
    play(env, scene["actions"]["right"])
    assert {thing["name"]: thing["column"] for thing in seen(env)["things"]} == {"exit": 2, "walker_0": 2}


def test_goals_of_a_hierarchy_are_drawn_where_they_are() -> None:
    levels = [{"name": "boss", "horizon": 5, "goals": {"changes": [[0.2, 0.0], [0.0, 0.3]]}}, {"name": "worker"}]
    wrappers = read_wrappers([{"hierarchy": {"features": [0, 1], "levels": levels}}])
    env = make_batched_env("windy_maze", 1, {"wind": 0.0}, wrappers=wrappers)
    env.reset(FIRST, FIRST)
    start = next(thing for thing in seen(env)["things"] if thing["sort"] == "walker")
    assert seen(env, "boss_0")["actions"] == {}  # it sets goals: the walker's moves are not its own
    turn(env, 1)
    scene = seen(env, "worker_0")
    goal = next(thing for thing in scene["things"] if thing["sort"] == "goal")
    assert (goal["row"], goal["column"]) == (start["row"], start["column"] + 3)
    assert scene["actions"]["right"] == 2
    assert "worker_0 was given goal 1." in scene["text"]


def test_bodies_are_where_they_were_placed() -> None:
    env = TagGames(1, {"num_adversaries": 1, "num_good": 1, "num_obstacles": 1})
    env.reset(FIRST, FIRST)
    env.place(0, [[0.5, -0.25], [-0.5, 2.0]], [[0.0, 0.75]])
    scene = seen(env, "agent_0")
    assert [(body["name"], body["role"], body["x"], body["y"]) for body in scene["bodies"]] == [
        ("adversary_0", "adversary", 0.5, -0.25),
        ("agent_0", "agent", -0.5, 2.0),
        ("obstacle 0", "obstacle", 0.0, 0.75),
    ]
    assert [body["radius"] for body in scene["bodies"]] == [0.075, 0.05, 0.2]
    assert scene["reach"] == 2.3  # 2 and some margin
    right = np.array([[scene["actions"]["right"]]])
    env.step([np.array([[0]]), right])
    assert seen(env)["bodies"][1]["vx"] == pytest.approx(0.4)  # acceleration 4, a tenth of a second
    assert env.action_names("agent_0") == ("nothing", "left", "right", "down", "up")


def test_the_goal_is_hidden_from_the_listener() -> None:
    env = SpeakerListenerGames(1, {})
    env.reset(FIRST, FIRST)
    env.place(0, [[0, 0], [0.5, 0.5]], [[0.1, 0], [0.2, 0], [0.3, 0]], goal=2)
    marked = [body.get("marked", False) for body in seen(env, "speaker_0")["bodies"]]
    assert marked == [False, False, False, False, True]
    listener = seen(env, "listener_0")
    assert not any(body.get("marked", False) for body in listener["bodies"])
    assert "goal" not in listener["text"]
    assert seen(env, "speaker_0")["actions"] == {}  # it speaks and does not move
    env.step([np.array([[1]]), np.array([[0]])])
    assert seen(env, "listener_0")["said"] == [{"name": "speaker_0", "text": "word 1"}]


@pytest.mark.parametrize("name", ["fast:simple_adversary", "fast:simple_push"])
def test_the_goal_is_hidden_from_the_adversary(name: str) -> None:
    env = begun(name)
    for viewer, knows in (("adversary_0", False), ("agent_0", True), (None, True)):
        scene = seen(env, viewer)
        assert any(body.get("marked", False) for body in scene["bodies"]) == knows
        assert ("goal" in scene["text"]) == knows


def test_eve_hears_alice_but_knows_neither_the_goal_nor_the_key_nor_bobs_guess() -> None:
    env = begun("fast:simple_crypto")
    env.step([np.array([[3]]), np.array([[1]]), np.array([[2]])])
    alice = {"name": "alice_0", "text": "word 2"}
    eve, bob = seen(env, "eve_0"), seen(env, "bob_0")
    assert eve["said"] == [{"name": "eve_0", "text": "word 3"}, alice]
    assert bob["said"] == [{"name": "bob_0", "text": "word 1"}, alice]
    assert "goal" not in eve["text"] + bob["text"]
    assert "key" not in eve["text"]
    assert "key" in bob["text"]
    assert "goal" in seen(env, "alice_0")["text"]
    assert len(seen(env)["said"]) == 3
    assert env.action_names("bob_0") == ("say 0", "say 1", "say 2", "say 3")


def test_an_agent_of_reference_sees_the_others_goal_and_its_arrows_keep_its_word() -> None:
    env = ReferenceGames(1, {})
    env.reset(FIRST, FIRST)
    env.place(0, [[0, 0], [0.5, 0.5]], [[0.1, 0], [0.2, 0], [0.3, 0]], goals=[2, 0])
    scene = seen(env, "agent_0")
    assert [body.get("marked", False) for body in scene["bodies"]] == [False, False, False, False, True]
    assert "agent_1 should go to landmark 2" in scene["text"]
    assert "agent_0 should" not in scene["text"]
    play(env, 5 * 6, 5 * 3)
    scene = seen(env, "agent_0")
    assert scene["said"] == [{"name": "agent_0", "text": "word 6"}, {"name": "agent_1", "text": "word 3"}]
    assert env.action_names("agent_0")[scene["actions"]["left"]] == "left, say 6"


def test_who_is_in_a_forest_is_not_in_the_scene_of_those_outside() -> None:
    env = WorldCommGames(1, {"num_adversaries": 2, "num_good": 1, "num_obstacles": 1, "num_food": 1, "num_forests": 1})
    env.reset(FIRST, FIRST)
    env.place(0, [[0.0, 0.9], [0.8, 0.8], [-0.5, 0.0]], [[0.0, -0.8], [0, 0], [-0.5, 0.1]])
    there = {
        viewer: {body["name"] for body in seen(env, viewer)["bodies"]}
        for viewer in ("leadadversary_0", "adversary_0", "agent_0")
    }
    still = {"obstacle 0", "food 0", "forest 0"}
    assert there["leadadversary_0"] == {"leadadversary_0", "adversary_0", "agent_0"} | still
    assert there["adversary_0"] == {"leadadversary_0", "adversary_0"} | still
    assert there["agent_0"] == {"agent_0"} | still
    assert "agent_0" not in seen(env, "adversary_0")["text"]
    env.step([np.array([[5 * 3]]), np.array([[0]]), np.array([[0]])])
    assert seen(env, "adversary_0")["said"] == [{"name": "leadadversary_0", "text": "word 3"}]
    assert "said" not in seen(env, "agent_0")
    assert env.action_names("leadadversary_0")[seen(env, "leadadversary_0")["actions"]["up"]] == "up, say 3"
    assert env.action_names("adversary_0") == ("nothing", "left", "right", "down", "up")


def test_loads_of_a_network_are_those_of_the_paths_that_were_taken() -> None:
    env = CongestionGames(1, {"network": "braess", "repetitions": 2})
    env.reset(FIRST, FIRST)
    names = env.action_names("driver_0")
    assert names == ("s > a > t", "s > b > t", "s > a > b > t")
    play(env, 0, 1, 2, 2)
    scene = seen(env)
    texts = {}
    for edge in scene["edges"]:
        way = f"{scene['nodes'][edge['start']]['name']}{scene['nodes'][edge['end']]['name']}"
        texts[way] = edge["text"]
    assert texts == {
        "sa": "load 0.75, delay 0.75",
        "sb": "load 0.25, delay 1",
        "at": "load 0.25, delay 1",
        "bt": "load 0.75, delay 0.75",
        "ab": "load 0.5, delay 0",
    }
    assert [choice["count"] for choice in scene["choices"]] == [1, 1, 2]
    # (0.75 + 1) + (1 + 0.75) + 2 * (0.75 + 0 + 0.75), of four
    assert "took 1.62 on average" in scene["text"]


def test_a_driver_sees_its_own_way_and_no_loads_until_the_end() -> None:
    env = CongestionGames(1, {"network": "braess", "repetitions": 2})
    env.reset(FIRST, FIRST)
    play(env, 0, 1, 2, 2)
    scene = seen(env, "driver_1")
    assert not any(edge.get("text") for edge in scene["edges"])
    assert [choice["taken"] for choice in scene["choices"]] == [False, True, False]
    assert scene["actions"] == {"path 0": 0, "path 1": 1, "path 2": 2}
    marked = [edge["marked"] for edge in scene["edges"]]
    assert marked == [False, True, False, True, False]  # s to b, b to t
    play(env, 0, 1, 2, 2)
    assert all(edge["text"] for edge in seen(env, "driver_1")["edges"])


def test_actions_of_drivers_count_the_paths_of_their_own_trip() -> None:
    edges = [
        {"from": "a", "to": "b", "delay": 1},
        {"from": "b", "to": "c", "delay": 1},
        {"from": "a", "to": "c", "delay": 1},
    ]
    demands = [{"from": "a", "to": "b", "agents": 1}, {"from": "a", "to": "c", "agents": 1}]
    env = CongestionGames(1, {"network": edges, "demands": demands})
    env.reset(FIRST, FIRST)
    scene = seen(env, "driver_1")
    assert [choice["text"] for choice in scene["choices"]] == ["a > c", "a > b > c"]
    assert list(scene["actions"].values()) == [0, 1]


def test_nodes_of_a_graphical_game_tell_what_they_played_to_those_who_may_know() -> None:
    env = GraphicalGames(1, {"graph": {"generator": "path_graph", "n": 3}, "repetitions": 2, "observe": "last"})
    env.reset(FIRST, FIRST)
    play(env, 0, 0, 1)
    # Stag hunt: both stag 4 each, a hare against a stag 3 and 1.
    assert [node["text"] for node in seen(env)["nodes"]] == ["plays 0, earns 4", "plays 0, earns 5", "plays 1, earns 3"]
    assert [bool(node.get("text")) for node in seen(env, "node_0")["nodes"]] == [True, True, False]
    assert [(edge["start"], edge["end"]) for edge in seen(env)["edges"]] == [(0, 1), (1, 2)]


# -- boards ------------------------------------------------------------------------------------------------------------


def test_clicks_on_tic_tac_toe_are_the_actions_of_the_env() -> None:
    env = begun("pettingzoo:classic/tictactoe_v3")
    board = seen(env, "player_1")
    assert (board["turn"], board["piece"], len(board["actions"])) == ("player_1", "X", 9)
    for row, column in ((0, 1), (2, 0), (1, 1), (2, 2), (2, 1)):
        before = board
        turn(env, board["actions"][f"{row},{column}"])
        board = seen(env)
        assert board["cells"][row][column] == before["piece"]
    assert board["cells"] == [[None, "X", None], [None, "X", None], ["O", "X", "O"]]
    assert board["line"] == [[0, 1], [1, 1], [2, 1]]
    assert (board["turn"], board["actions"]) == (None, {})
    assert remembering(before, board)["last"] == [[2, 1]]


def test_discs_of_connect_four_fall() -> None:
    env = begun("pettingzoo:classic/connect_four_v3")
    for column in (3, 3, 2):
        places = seen(env)["actions"]
        (key,) = [key for key, action in places.items() if action == column]
        turn(env, column)
        row, found = map(int, key.split(","))
        assert found == column
        assert seen(env)["cells"][row][column] is not None
    board = seen(env)
    assert (board["cells"][5][3], board["cells"][4][3], board["cells"][5][2]) == ("X", "O", "X")
    assert board["actions"]["3,3"] == 3


def test_stones_and_chess_pieces_go_where_they_are_told() -> None:
    env = begun("pettingzoo:classic/go_v5", board_size=5)
    turn(env, seen(env)["actions"]["1,3"])
    assert seen(env)["cells"][1][3] == "X"
    assert seen(env)["last"] == [[1, 3]]
    env = begun("pettingzoo:classic/chess_v6")
    for way, piece in (("6,4>4,4", "♙"), ("1,3>3,3", "♟"), ("7,3>3,7", "♕")):
        turn(env, seen(env)["actions"][way])
        row, column = map(int, way.split(">")[1].split(","))
        assert seen(env)["cells"][row][column] == piece


@pytest.mark.parametrize("name", ["openspiel:tic_tac_toe", "openspiel:connect_four", "openspiel:othello"])
def test_clicks_on_boards_of_openspiel_are_its_actions(name: str) -> None:
    pytest.importorskip("pyspiel")
    env = begun(name)
    for _ in range(6):
        board = seen(env)
        key, action = list(board["actions"].items())[-1]
        turn(env, action)
        row, column = map(int, key.split(","))
        assert seen(env)["cells"][row][column] == board["piece"]


def test_hidden_cards_of_openspiel_stay_hidden() -> None:
    pytest.importorskip("pyspiel")
    for name in ("openspiel:kuhn_poker", "openspiel:leduc_poker"):
        env = begun(name)
        everything, own = seen(env), seen(env, "player_1")
        assert None not in cards_of(everything)[0]
        assert cards_of(own) == [[None], cards_of(everything)[1]]
        turn(env, 1)
        assert seen(env)["players"][0]["said"] in ("bet", "call")
    env = begun("openspiel:liars_dice")
    assert seen_text(env, None) != seen_text(env, "player_0")
    assert seen_text(env, "stranger") == "The state of the game is hidden."


def seen_text(env: BatchedEnv, viewer: str | None) -> str:
    scene = scene_of(env, 0, viewer)
    assert scene is not None
    return str(scene["text"])


def test_hands_of_pettingzoo_are_not_in_a_picture_that_all_see() -> None:
    pytest.importorskip("rlcard")
    env = begun("pettingzoo:classic/leduc_holdem_v4")
    hands = cards_of(seen(env))
    assert cards_of(seen(env, "player_0")) == [hands[0], [None]]
    assert seen(begun("pettingzoo:classic/rps_v2"), "player_0")["kind"] == "text"


def test_foragers_see_as_far_as_their_sight_goes() -> None:
    pytest.importorskip("lbforaging")
    env = begun("lbforaging:Foraging-8x8-2p-2f-v3", sight=1)
    bare = env.envs[0].env  # type: ignore[attr-defined]
    bare.field[:] = 0
    bare.field[0, 1], bare.field[5, 5] = 2, 3
    bare.players[0].position, bare.players[1].position = (0, 0), (6, 6)
    whole = {thing["name"]: (thing["row"], thing["column"]) for thing in seen(env)["things"]}
    assert whole == {"food of level 2": (0, 1), "food of level 3": (5, 5), "agent_0": (0, 0), "agent_1": (6, 6)}
    assert [thing["name"] for thing in seen(env, "agent_0")["things"]] == ["food of level 2", "agent_0"]
