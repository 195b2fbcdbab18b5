"""What the page gets of an episode: the same as ``marl.play`` says, whatever is asked for, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from marl.errors import ConfigError, DataError
from marl.play.changes import Changes
from marl.play.episode import Which
from marl.play.playable import Playable
from marl.play.playback import RolloutOptions, play
from marl.play.trace import Trace, trace_episode
from marl.serve.refused import Refused
from marl.watch.episode_list import checkpoints_of, shown_things
from marl.watch.episode_request import EpisodeRequest
from marl.watch.replies import as_json
from marl.watch.tasks import episode_answer, opened
from marl.watch.tasks.episodes import about, part, recorded, trace
from tests.play.runs import LSTM, trained
from tests.watch.episode_runs import described, long_run, two_step_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    two_step_run(folder)
    long_run(folder)
    return folder


def asked(root: Path, run: str = "two_step", **keys: Any) -> dict[str, Any]:
    return {"request": {"run": run, **keys}, "root": str(root), "allow": []}


def answer(root: Path, run: str = "two_step", **keys: Any) -> Any:
    return json.loads(trace(asked(root, run, **keys), lambda *_: None))


def same(told: Any, truth: Trace) -> None:
    """The answer holds what the trace says, to seven digits."""
    wanted = truth.to_json()
    assert told.pop("checkpoint") in wanted.pop("checkpoint")
    _close(told, wanted)


def _close(one: Any, other: Any) -> None:
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key, value in other.items():
            _close(one[key], value)
    elif isinstance(other, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            _close(left, right)
    elif isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-6)
    else:
        assert one == other


@pytest.mark.parametrize("run", ["two_step", "long"])
def test_the_page_gets_the_numbers_of_the_trace(root: Path, run: str) -> None:
    told = answer(root, run, episode=2, seed=3, explore=True)
    truth = trace_episode(Playable.open(root / run, frozenset()), Which(2, 3, True))
    assert told["left_out"] == []
    worst = told["trace"]["most_wrong"]
    assert len(worst) == min(200, len(truth.most_wrong()))
    told["trace"]["most_wrong"] = worst + truth.to_json()["most_wrong"][len(worst) :]
    same(told["trace"], truth)
    assert set(told["spaces"]) == set(truth.tape.policies)


def test_a_checkpoint_others_and_replaced_policies_are_those_that_were_asked_for(root: Path) -> None:
    told = answer(root, checkpoint="checkpoint_000001", other="two_step/checkpoints/checkpoint_000002")
    first = told["trace"]["steps"][0]["agents"][0]
    assert (first["action"], first["opinion"]["q_values"]) == (0, [2.0, 1.0])
    assert (first["other_action"], first["other"]["q_values"]) == (1, [1.0, 6.0])
    assert told["trace"]["checkpoint"] == "two_step/checkpoints/checkpoint_000001"
    same(told["trace"], trace_episode(
        Playable.open(root / "two_step/checkpoints/checkpoint_000001", frozenset()),
        Which(),
        other=str(root / "two_step/checkpoints/checkpoint_000002"),
    ))  # fmt: skip
    mixed = answer(root, policies={"agent_1": "two_step/checkpoints/checkpoint_000001"})
    truth = Playable.open(root / "two_step", frozenset(), Changes(policies={"agent_1": str(
        root / "two_step/checkpoints/checkpoint_000001")}))  # fmt: skip
    same(mixed["trace"], trace_episode(truth, Which()))
    assert [one["action"] for one in mixed["trace"]["steps"][0]["agents"]] == [1, 0]


def test_a_recorded_episode_is_done_again_and_another_seed_is_refused(root: Path) -> None:
    play(root / "long", RolloutOptions(episodes=2, explore=(True,), seed=5, save=root / "kept"), say=lambda _: None)
    brief = recorded({"root": str(root), "recording": "kept"}, lambda *_: None)
    assert [one["episode"] for one in brief["episodes"]] == [0, 1]
    told = answer(root, "long", recording="kept", episode=1, seed=5, explore=True)
    assert told["trace"]["length"] == brief["episodes"][1]["length"]
    # By seats there, by agents here.
    paid = sum(brief["episodes"][1]["returns"].values())
    assert sum(told["trace"]["returns"].values()) == pytest.approx(paid, rel=1e-4)
    with pytest.raises(DataError, match="is not the one of seed 8"):
        answer(root, "long", recording="kept", episode=1, seed=7, explore=True)


@pytest.mark.parametrize("model", [{}, {"model": LSTM}])
def test_without_its_seed_a_recording_is_shown_as_it_is(tmp_path: Path, model: dict[str, Any]) -> None:
    env = "two_step_game"
    described(tmp_path / "run", env, "ppo")
    trained(tmp_path / "run/checkpoints/checkpoint_000001", env, loud=True, **model)
    play(tmp_path / "run", RolloutOptions(episodes=3, explore=(True,), save=tmp_path / "kept"), say=lambda _: None)
    known = answer(tmp_path, "run", recording="kept", episode=2, seed=0)["trace"]
    told = answer(tmp_path, "run", recording="kept", episode=2, seed=None)
    # No env was played, yet everything is there that the env or the policies said: memories are built up again.
    assert told["scenes"] == []
    assert told["trace"].pop("seed") is None
    assert known.pop("seed") == 2
    _close(told["trace"], known)
    with pytest.raises(DataError, match="has no episode 3"):
        answer(tmp_path, "run", recording="kept", episode=3, seed=None)
    with pytest.raises(ConfigError, match="the seed of this episode is not known"):
        opened.which({"run": "run", "recording": "kept", "seed": None}, tmp_path)


def test_agents_that_come_and_go_are_shown_by_their_seats_without_a_seed(root: Path) -> None:
    play(root / "long", RolloutOptions(episodes=1, save=root / "seats"), say=lambda _: None)
    told = answer(root, "long", recording="seats", seed=None)
    known = answer(root, "long", recording="seats")
    assert told["trace"]["length"] == known["trace"]["length"]
    assert "car_*[0]" in told["trace"]["returns"]
    assert told["trace"]["action_names"]["car_*[0]"] == ["wait", "go"]
    paid = [sum(one["reward"] for one in step["agents"]) for step in told["trace"]["steps"]]
    assert paid == pytest.approx([sum(one["reward"] for one in step["agents"]) for step in known["trace"]["steps"]])


def test_what_can_be_shown_is_listed_with_its_env(root: Path, tmp_path: Path) -> None:
    two_step_run(tmp_path, "experiment/a<b>")
    described(tmp_path / "no_checkpoint", "traffic", "ppo")
    trained(tmp_path / "alone", "two_step_game")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/trajectories.json").write_text("{")
    (tmp_path / "plays/people").mkdir(parents=True)
    for folder in (tmp_path / "plays", tmp_path / "plays/people"):
        (folder / "trajectories.json").write_text('{"env": "kuhn"}')
    (tmp_path / "plays/play.json").write_text('{"run": "alone", "seed": 7}')
    things = shown_things(tmp_path)
    found = {one["run"]: (one["kind"], one["env"], one["algo"]) for one in things["runs"]}
    assert found == {
        "experiment/a<b>": ("run", "two_step_game", "dqn"),
        "alone": ("checkpoint", None, None),
    }
    recordings = {one["recording"]: (one["env"], one["run"], one["seed"]) for one in things["recordings"]}
    assert recordings == {"damaged": (None, None, None), "plays": ("kuhn", "alone", 7)}
    assert checkpoints_of(tmp_path / "experiment/a<b>") == ["checkpoint_000001", "checkpoint_000002"]


def test_who_is_in_a_run_is_told(root: Path) -> None:
    told = about(asked(root, checkpoint="checkpoint_000001"), lambda *_: None)
    assert told["policies"] == [
        {"policy": "agent_0", "agents": ["agent_0"]},
        {"policy": "agent_1", "agents": ["agent_1"]},
    ]
    assert (told["env"], told["checkpoint"]) == ("two_step_game", "checkpoint_000001")


def test_what_is_too_large_is_left_out_and_can_be_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer(root, "long")
    monkeypatch.setattr(episode_answer, "MOST_NUMBERS", 10)
    monkeypatch.setattr(episode_answer, "MOST_PART_BYTES", 1_500)
    cut = answer(root, "long")
    assert "observations" in cut["left_out"]
    assert all(one["observation"] is None for step in cut["trace"]["steps"] for one in step["agents"])
    found: dict[int, Any] = {}
    step = 0
    while step < cut["trace"]["length"]:
        steps = json.loads(part({**asked(root, "long"), "first": step, "last": step + 19}, lambda *_: None))["steps"]
        assert 1 <= len(steps) < 20
        found.update({one["step"]: one["observations"] for one in steps})
        step += len(steps)
    for there in whole["trace"]["steps"]:
        wanted = {one["agent"]: one["observation"] for one in there["agents"] if one["asked"]}
        assert found[there["step"]] == wanted


def test_a_new_checkpoint_is_seen_and_few_runs_stay_open(tmp_path: Path) -> None:
    run = two_step_run(tmp_path)
    (run / "checkpoints/checkpoint_000002").rename(tmp_path / "later")
    assert answer(tmp_path)["trace"]["steps"][0]["agents"][0]["action"] == 0
    before = opened.open_request({"run": "two_step"}, tmp_path, ())
    assert opened.open_request({"run": "two_step"}, tmp_path, ()) is before
    (tmp_path / "later").rename(run / "checkpoints/checkpoint_000002")
    os.utime(run / "checkpoints", (2e9, 2e9))
    assert answer(tmp_path)["trace"]["steps"][0]["agents"][0]["action"] == 1
    cache: opened.Cache[int] = opened.Cache(2)
    for number in range(5):
        cache.get(number, lambda number=number: number)
    assert len(cache) == 2


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"run": ""}, "run: String should have at least 1"),
        ({"run": "../elsewhere"}, "is not in the results folder"),
        ({"run": "two_step", "checkpoint": "../../../x"}, "is not in the results folder"),
        ({"run": "gone"}, "there is no 'gone' in the results folder"),
        ({"run": "two_step", "policies": {"agent_0": "/etc"}}, "is not in the results folder"),
        ({"run": "two_step", "other": "../.."}, "is not in the results folder"),
        ({"run": "two_step", "recording": "/etc"}, "is not in the results folder"),
        ({"run": "two_step", "episode": -1}, "episode: Input should be greater than or equal to 0; got -1"),
        ({"run": "two_step", "seed": True}, "seed: Input should be a valid integer; got True"),
        ({"run": "two_step", "policies": {"agent_0": 3}}, "policies.agent_0: Input should be a valid string; got 3"),
        ({"episode": 1}, "run: Field required"),
        ({"run": "a\0b"}, "run: String should match"),
        ({"run": "two_step", "steps": 3}, "steps: Extra inputs"),
    ],
)
def test_requests_that_make_no_sense_are_refused(root: Path, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        trace({"request": keys, "root": str(root), "allow": []}, lambda *_: None)


def test_mistakes_are_told_as_on_the_command_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no policy and no agent of this name"):
        answer(root, policies={"nobody": "random"})
    described(tmp_path / "foreign", "traffic", "ppo")
    trained(tmp_path / "foreign/checkpoints/checkpoint_000001", "tests.play.runs:Digits")
    with pytest.raises(ConfigError, match="--allow"):
        answer(tmp_path, "foreign")


def test_json_of_a_process_goes_into_the_answer_as_it_is() -> None:
    told = as_json({"state": "done", "text": 'a "result":null b', "result": b'{"x":1}'})
    assert json.loads(told) == {"state": "done", "text": 'a "result":null b', "result": {"x": 1}}


def test_a_request_survives_the_way_to_the_process() -> None:
    request = {"run": "a", "policies": {"b": "random"}, "other": "c", "seed": 4}
    once = EpisodeRequest.read(request)
    assert EpisodeRequest.read(once.to_json()) == once
