"""Games with people over the API: rules, hidden things, guests, crashes, limits and recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from marl.watch.play.scores import Scores
from marl.watch.server import WatchServer
from tests.play.runs import trained
from tests.watch.browser import watched
from tests.watch.playing import TICTACTOE, Player, first_legal

ENVS = "tests.watch.play_envs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    root = tmp_path_factory.mktemp("results")
    with watched(root, allow=frozenset({"tests"})) as found:
        yield found


@pytest.fixture
def owner(server: WatchServer) -> Iterator[Player]:
    player = Player(server.url, server.desk.secret)
    yield player
    if player.game:
        player.closes()


def solo(owner: Player, env: str = TICTACTOE, **keys: Any) -> dict[str, str]:
    return owner.opens(env=env, seats={"player_1": "human", "player_2": "first"}, **keys)


# -- rules -------------------------------------------------------------------------------------------------------------


def test_a_game_against_a_script_to_its_end(owner: Player) -> None:
    solo(owner)
    seen = owner.see()
    assert seen["mine"] == ["player_1"]
    assert seen["views"]["player_1"]["legal"] == [[True] * 9]
    seen = owner.move(4)  # the other one takes 0
    assert seen["turn"] == 2
    assert not seen["views"]["player_1"]["legal"][0][0]
    owner.move(2)  # and 1
    seen = owner.move(6)
    assert seen["over"]
    assert seen["revealed"]["returns"] == {"player_1": 1.0, "player_2": -1.0}
    assert [step["action"] for step in seen["revealed"]["history"]] == [4, 0, 2, 1, 6]
    scores = {row["agent"]: (row["wins"], row["losses"], row["games"]) for row in seen["scores"]["rows"]}
    assert seen["scores"]["competitive"]
    assert scores == {"player_1": (1, 0, 1), "player_2": (0, 1, 1)}


def test_illegal_moves_are_refused_and_change_nothing(owner: Player) -> None:
    solo(owner)
    before = owner.move(4)
    for action in (4, 0, 9, -1, 1.5, "4", None, True, [1, 2], {}):
        error = owner.refused(f"{owner.here}/move", {"action": action, "turn": 2})
        assert error["code"] == "illegal_move", action
        assert "'player_1' cannot do that" in error["message"]
    assert (
        "legal are '[1, 2, 3, 5, 6, 7, 8]'" in owner.refused(f"{owner.here}/move", {"action": 4, "turn": 2})["message"]
    )
    assert owner.refused(f"{owner.here}/move", {"action": 8, "turn": 0})["code"] == "out_of_order"
    assert owner.refused(f"{owner.here}/move", {"action": 8, "turn": 2, "agent": "player_2"})["code"] == "not_your_seat"
    assert owner.see()["views"] == before["views"]


def test_playing_again_with_seats_swapped_counts_by_seat_and_player(owner: Player) -> None:
    solo(owner)
    for action in (4, 2, 6):
        owner.move(action)
    assert owner.refused(f"{owner.here}/move", {"action": 8, "turn": 5})["code"] == "over"
    seen = owner.post(f"{owner.here}/again", {"swap": True})
    assert seen["mine"] == ["player_2"]
    assert seen["turn"] == 1  # the other one began
    assert owner.refused(f"{owner.here}/again")["code"] == "not_over"
    for action in (4, 3, 8):  # 0, 1 and 2 are the other's: it wins
        seen = owner.move(action)
        if seen["over"]:
            break
    rows = {(row["agent"], row["who"]): row["games"] for row in seen["scores"]["rows"]}
    assert rows[("player_2", "you")] == rows[("player_1", "you")] == 1


def test_all_people_choose_before_a_simultaneous_step(owner: Player) -> None:
    rps = {"game": "rock_paper_scissors"}
    invite = owner.opens(env="matrix_game", env_config=rps, seats={"player_0": "human", "player_1": "guest"})
    guest = owner.guest(invite["guest 1"])
    guest.see()
    seen = owner.move(0)
    assert seen["turn"] == 0
    assert [seat["asked"] for seat in seen["seats"]] == [False, True]
    assert [seat["here"] for seat in seen["seats"]] == [True, True]
    # What was chosen is nobody else's to know.
    waiting = guest.see()
    assert "chosen" not in json.dumps(waiting["seats"])
    assert waiting["views"] == {"player_1": waiting["views"]["player_1"]}
    assert waiting["views"]["player_1"]["chosen"] is None
    owner.undo()  # taken back while the other one thinks
    owner.move(2)
    seen = guest.move(1)
    assert seen["turn"] >= 1
    rewards = [first["views"][agent]["return"] for first, agent in ((owner.see(), "player_0"), (seen, "player_1"))]
    assert rewards == [1.0, -1.0]  # scissors cut paper


def test_who_has_won_is_only_said_where_one_gains_what_others_lose() -> None:
    two = {"a": "you", "b": "random"}
    games: list[tuple[list[dict[str, float]], bool]] = [
        ([{"a": 1.0, "b": -1.0}], True),
        ([{"a": 0.0, "b": 0.0}], True),  # a draw
        ([{"a": 3.0, "b": 3.0}], False),
        ([{"a": 5.0, "b": 0.0}], False),  # perhaps: one game does not tell
        ([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}], True),
        ([{"a": 3.0, "b": 3.0}, {"a": 3.0, "b": 3.0}], False),  # a team
        ([{"a": 5.0, "b": 0.0}, {"a": 1.0, "b": 1.0}], False),
        ([{"a": 1.0}], False),
    ]
    for returns, expected in games:
        scores = Scores()
        for one in returns:
            scores.add(two, one)
        assert scores.competitive == expected, returns
    scores.add(two, {"a": 1.0, "car_7": 2.0})
    assert {row["agent"] for row in scores.to_json()["rows"]} == {"a"}


def test_agents_that_come_and_go_are_those_that_really_come(owner: Player) -> None:
    found = owner.post("/api/play/look", {"env": "traffic"})
    agents = [seat["agent"] for seat in found["seats"]]
    assert not [agent for agent in agents if "*" in agent]
    begins = [seat["agent"] for seat in found["seats"] if seat["begins"]]
    owner.opens(env="traffic", seats={begins[0]: "human"}, seed=4)
    seen = owner.see()
    assert seen["views"][begins[0]]["asked"]
    assert owner.move(1)["turn"] > seen["turn"]


# -- undo --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lstm(server: WatchServer) -> str:
    """A run whose policies remember, in an env with chance."""
    keys = {"use_lstm": True, "lstm_cell_size": 6, "lstm_use_prev_action": True, "lstm_use_prev_reward": True}
    trained(server.desk.root / "lstm", f"{ENVS}:Bets", loud=True, **keys)
    return "lstm"


def test_undo_and_the_same_move_lead_to_the_same_game(owner: Player, lstm: str) -> None:
    owner.opens(run=lstm, seats={"left": "human", "right": "policy"}, explore=True, seed=5)
    path = [owner.see()]
    for action in (1, 2, 0):
        path.append(owner.move(action))
    hint = owner.post(f"{owner.here}/hint")
    for expected in (path[2], path[1], path[0]):
        assert owner.undo()["views"]["left"]["observation"] == expected["views"]["left"]["observation"]
    for action, expected in zip((1, 2, 0), path[1:], strict=True):
        again = owner.move(action)
        for key in ("observation", "return", "legal"):
            assert again["views"]["left"][key] == expected["views"]["left"][key]
    # The policy's memory is part of what it thinks.
    assert owner.post(f"{owner.here}/hint") == hint
    seen = owner.see()
    assert (seen["undos"], seen["hints"]) == (3, 2)


def test_an_env_that_does_not_repeat_itself_plays_on_without_undo(owner: Player) -> None:
    owner.opens(env=f"{ENVS}:Moody", seats={"left": "human", "right": "first"})
    owner.move(1)
    error = owner.refused(f"{owner.here}/undo")
    assert error["code"] == "cannot_undo"
    assert "does not repeat itself" in error["message"]
    assert owner.move(1)["turn"] == 2


def test_nobody_takes_back_what_another_person_has_answered(owner: Player) -> None:
    invite = owner.opens(env=TICTACTOE, seats={"player_1": "human", "player_2": "guest"})
    guest = owner.guest(invite["guest 1"])
    assert "not decided anything" in owner.refused(f"{owner.here}/undo")["message"]
    owner.move(0)
    owner.undo()
    owner.move(4)
    assert guest.refused(f"{guest.here}/undo")["code"] == "cannot_undo"
    guest.move(0)
    assert "somebody else has decided" in owner.refused(f"{owner.here}/undo")["message"]
    assert not owner.see()["undo"]
    assert guest.see()["undo"]


# -- what is hidden ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["kuhn_poker", "leduc_poker"])
def test_a_seat_is_told_nothing_of_the_other_cards(owner: Player, env: str) -> None:
    """Deals that differ in hidden cards alone look the same from the seat, to the last letter."""
    told: dict[str, set[str]] = {}
    for seed in range(14):
        invite = owner.opens(env=env, seats={"player_0": "human", "player_1": "guest"}, seed=seed)
        guest = owner.guest(invite["guest 1"])
        for begun in (False, True):
            if begun:
                owner.move(first_legal(owner.see(), "player_0"))
            seen = guest.see()
            own = json.dumps(seen["views"]["player_1"]["observation"] or seen["views"]["player_1"]["frames"])
            text = json.dumps({**seen, "game": ""}, sort_keys=True)
            assert "revealed" not in seen
            assert owner.game == seen["game"]
            told.setdefault(own, set()).add(text)
        owner.closes()
    assert 2 <= len(told) < 14  # the own card is told
    assert all(len(texts) == 1 for texts in told.values())


def test_all_cards_are_shown_when_the_game_is_over(owner: Player) -> None:
    owner.opens(env="kuhn_poker", seats={"player_0": "human", "player_1": "first"}, seed=3)
    seen = owner.see()
    while not seen["over"]:
        assert "revealed" not in seen
        seen = owner.move(first_legal(seen, "player_0"))
    assert seen["revealed"]["seed"] == 3
    assert set(seen["revealed"]["returns"]) == {"player_0", "player_1"}


def test_pictures_that_show_everything_are_only_shown_where_they_are_allowed(owner: Player) -> None:
    seats = {"left": "human", "right": "first"}
    owner.opens(env=f"{ENVS}:Bets", seats=seats, seed=1)
    assert owner.see()["views"]["left"]["frames"] == [None]
    owner.closes()
    owner.opens(env=f"{ENVS}:Bets", seats=seats, seed=1, open_picture=True)
    assert "secret" in owner.see()["views"]["left"]["frames"][0]["text"]


# -- guests ------------------------------------------------------------------------------------------------------------


def test_a_guest_opens_one_game_and_nothing_else(server: WatchServer, owner: Player) -> None:
    from marl.watch.app import build_app

    other = Player(server.url, server.desk.secret)
    solo(other)
    invite = owner.opens(env=TICTACTOE, seats={"player_1": "human", "player_2": "guest"})
    guest = owner.guest(invite["guest 1"])
    app: Any = build_app(server.desk)
    while not hasattr(app, "openapi"):  # inside of what keeps strangers out
        app = app.app
    opened = []
    for route, methods in app.openapi()["paths"].items():
        for method, game in product(methods, (owner.game, other.game)):
            path = re.sub(r"{\w+}", "1", route.replace("{game}", game))
            status = guest.ask(method.upper(), path, {}).status_code
            if route.startswith("/api") and status != 401:
                opened.append((method.upper(), route, game))
    own = "/api/play/games/{game}"
    found = {(method, path) for method, path, _ in opened}
    assert found == {("GET", own), *(("POST", f"{own}/{word}") for word in ("move", "undo", "hint", "again"))}
    assert {game for _, _, game in opened} == {owner.game}
    told = json.dumps(guest.see())
    assert invite["guest 1"] not in told
    assert server.desk.secret not in told
    assert str(server.desk.root) not in told
    other.closes()


def test_strangers_see_no_game(server: WatchServer, owner: Player) -> None:
    solo(owner)
    for token in ("x", "guest 1", "None"):
        stranger = Player(server.url, token, owner.game)
        assert stranger.ask("GET", stranger.here).status_code == 401
    del stranger.client.headers["authorization"]
    assert stranger.ask("GET", stranger.here).status_code == 401


# -- crashes and limits ------------------------------------------------------------------------------------------------


def test_an_env_that_ends_its_process_ends_its_game_alone(server: WatchServer, owner: Player) -> None:
    other = Player(server.url, server.desk.secret)
    solo(other)
    before = other.move(4)
    owner.opens(env=f"{ENVS}:Fatal", seats={"left": "human", "right": "first"})
    owner.move(0)
    error = owner.refused(f"{owner.here}/move", {"action": 2, "turn": 1})
    assert "The game has ended: the process that did this has ended" in error["message"]
    assert owner.see()["ended"] == error["message"]
    assert owner.refused(f"{owner.here}/undo")["code"] == "ended"
    # The other game goes on, in another process.
    assert other.see()["views"] == before["views"]
    assert other.move(2)["turn"] == 4
    assert owner.post(f"{owner.here}/again")["turn"] == 0
    other.closes()


def test_an_env_that_raises_ends_its_game_with_the_sentence(owner: Player) -> None:
    owner.opens(env=f"{ENVS}:Fatal", seats={"left": "human", "right": "first"})
    error = owner.refused(f"{owner.here}/move", {"action": 1, "turn": 0})
    assert "the dice are lost" in error["message"]
    assert owner.see()["ended"]


def test_an_env_that_hangs_ends_its_game(server: WatchServer, owner: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.opens(env=f"{ENVS}:Fatal", seats={"left": "human", "right": "first"})
    monkeypatch.setattr(server.desk.rooms, "step_s", 1.0)
    error = owner.refused(f"{owner.here}/move", {"action": 3, "turn": 0})
    assert "did not answer within 1 seconds" in error["message"]


def test_there_are_only_so_many_games_and_those_that_nobody_looks_at_are_closed(
    server: WatchServer, owner: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marl.watch.play import rooms

    monkeypatch.setattr(rooms, "MOST_ROOMS", len(server.desk.rooms.rooms) + 2)
    solo(owner)
    first = owner.game
    solo(owner)
    body = {"env": TICTACTOE, "seats": {"player_1": "human", "player_2": "first"}}
    assert owner.refused("/api/play/games", body)["code"] == "too_many"
    monkeypatch.setattr(rooms, "IDLE_S", -1.0)
    solo(owner)
    assert set(server.desk.rooms.rooms) == {owner.game}
    assert owner.ask("GET", f"/api/play/games/{first}").status_code == 404


# -- who plays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "sentence"),
    [
        ({"seats": {"player_1": "random", "player_2": "first"}}, "nobody plays this game"),
        ({"seats": {"player_1": "human", "player_2": "nobody_here"}}, "nobody is called 'nobody_here'"),
        ({"seats": {"player_1": "human", "player_2": "../outside"}}, "nobody is called"),
        ({"seats": {"player_1": "human", "player_2": "member:main/0"}}, "has no member"),
        ({"seats": {}}, "seats: "),
        ({"seats": {"player_1": "human", "player_2": "path:/tmp"}}, "nobody is called 'path:/tmp'"),
        ({"seats": {"player_1": "human", "player_2": "first"}, "what": 1}, "what: "),
        ({"seats": {"player_1": "human", "player_2": "first"}, "seed": -1}, "seed: "),
        ({"seats": {"player_1": "human", "player_2": "first"}, "explore": 1}, "explore: "),
        ({"run": "nowhere", "env": None, "seats": {"player_1": "human"}}, "there is no 'nowhere'"),
        ({"env": "os:system", "seats": {"player_1": "human"}}, "os"),
    ],
)
def test_a_mistake_is_told_before_there_is_a_game(owner: Player, game: dict[str, Any], sentence: str) -> None:
    error = owner.refused("/api/play/games", {"env": TICTACTOE, **game})
    assert sentence in error["message"]
    assert owner.ask("GET", "/api/play/games").json()["games"] == []


def test_the_seats_of_a_run_are_told_before_a_game_is_opened(owner: Player, lstm: str) -> None:
    found = owner.post("/api/play/look", {"run": lstm})
    assert [seat["agent"] for seat in found["seats"]] == ["left", "right"]
    assert found["seats"][0]["action"][0]["names"] == ["fold", "call", "raise"]
    assert all(seat["begins"] for seat in found["seats"])


def test_a_hint_is_what_the_policy_thinks(owner: Player, lstm: str) -> None:
    owner.opens(run=lstm, seats={"left": "human", "right": "policy"})
    hint = owner.post(f"{owner.here}/hint")
    (chances,) = hint["probabilities"]
    assert sum(chances) == pytest.approx(1)
    assert hint["action"] == [chances.index(max(chances))]
    assert hint["action_name"] == ["fold", "call", "raise"][hint["action"][0]]
    assert isinstance(hint["value"], float)
    owner.closes()
    solo(owner)
    assert owner.refused(f"{owner.here}/hint")["code"] == "no_hint"


def test_numbers_of_a_box_are_played_as_the_env_counts(owner: Player) -> None:
    owner.opens(env="Pendulum-v1", seats={"agent_0": "human"}, seed=1)
    (column,) = owner.see()["views"]["agent_0"]["action"]
    assert (column["type"], column["low"], column["high"]) == ("number", -2.0, 2.0)
    assert owner.refused(f"{owner.here}/move", {"action": [2.5], "turn": 0})["code"] == "illegal_move"
    pushed = owner.move([2.0])["views"]["agent_0"]["observation"]
    owner.undo()
    assert owner.move([-2.0])["views"]["agent_0"]["observation"] != pushed
    owner.undo()
    assert owner.move([2.0])["views"]["agent_0"]["observation"] == pushed


# -- recordings --------------------------------------------------------------------------------------------------------


def test_a_finished_game_is_a_recording_that_can_be_learned_from_and_looked_at(
    server: WatchServer, owner: Player, tmp_path: Path
) -> None:
    from marl import Trainer
    from marl.offline.view import open_recording
    from marl.play.trace import recorded_episode, trace_episode
    from tests.play.runs import opened

    run = trained(server.desk.root / "learned", TICTACTOE)
    owner.opens(run="learned", seats={"player_1": "human", "player_2": "first"}, seed=7)
    for number in range(3):
        for action in (4, 2, 6):
            seen = owner.move(action)
        assert seen["over"]
        if number < 2:
            owner.post(f"{owner.here}/again")
    folder = server.desk.root / seen["revealed"]["recording"]
    assert folder.is_relative_to(server.desk.root / "plays")
    assert not list(folder.parent.glob(".*"))
    recording = open_recording(folder)
    rows = recording.episodes[0].rows
    human = recording.policies.index("human")
    assert (rows["policy"][:, 0] == human).all()
    assert not (rows["policy"][:, 1] == human).any()
    about = json.loads((folder / "play.json").read_text())
    assert about["people"] == ["player_1"]
    assert about["seats"]["player_2"] == "first legal move"
    # The episodes view: a recording and its run.
    which = recorded_episode(folder, 0, about["seed"])
    trace = trace_episode(opened(run), which)
    assert [step[agent].action for step in trace.steps for agent in step if step[agent].asked] == [4, 0, 2, 1, 6]
    # Behaviour cloning on what the person alone did: it opens in the middle.
    config = {"input": f"{folder.parent}/*/people", "fcnet_hiddens": [16], "lr": 0.02, "train_batch_size": 9}
    config |= {"evaluation": {"interval": 0}, "timesteps_per_iteration": 90}
    with Trainer("bc", env=TICTACTOE, config=config) as trainer:
        for _ in range(12):
            trainer.train()
        trainer.save(tmp_path / "cloned")
    cloned = trace_episode(opened(tmp_path / "cloned"), which).steps[0]["player_1"].opinion
    assert cloned is not None
    assert cloned.probabilities is not None
    assert cloned.probabilities[0][4] > 0.5


def test_members_of_a_population_and_policies_of_other_runs_sit_down(server: WatchServer, owner: Player) -> None:
    rps = {"game": "rock_paper_scissors"}
    keys: dict[str, Any] = {"population": {"kind": "fictitious", "oracle": "ppo"}, "env_config": rps}
    trained(server.desk.root / "league", "matrix_game", **keys)
    trained(server.desk.root / "other", "matrix_game", env_config=rps)
    found = owner.post("/api/play/look", {"run": "league"})
    (mixture, *_), chances = found["populations"], next(iter(found["populations"].values()))
    assert sum(chances) == pytest.approx(1)
    for opponent in ("policy", f"member:{mixture}/0", "other", "random"):
        owner.opens(run="league", seats={"player_0": "human", "player_1": opponent}, explore=True)
        assert owner.move(0)["turn"] == 1
        assert str(server.desk.root) not in json.dumps(owner.see())
        owner.closes()
    error = owner.refused(
        "/api/play/games", {"run": "league", "seats": {"player_0": "human", "player_1": "member:x/9"}}
    )
    assert mixture in error["message"]
