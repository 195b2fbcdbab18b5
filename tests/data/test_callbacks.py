"""What ``callbacks`` may be, what hooks are called with, and what remains of their notes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marl.callbacks.callbacks import Callbacks, Hooks, make_hooks
from marl.callbacks.running_episode import RunningEpisode, restored, storable
from marl.data.episode import EpisodeStats, Remarks
from marl.data.tree import pack, unpack
from marl.errors import CallbackError, ConfigError

SEEN: list[str] = []


class Notes(Callbacks):
    """Writes down which checkpoint it was told of."""

    def __init__(self, word: str = "class") -> None:
        self.word = word

    def on_checkpoint(self, *, path: Any, **_: Any) -> None:
        SEEN.append(f"{self.word} {path}")

    def get_state(self) -> Any:
        return {"word": self.word}

    def set_state(self, state: Any) -> None:
        self.word = state["word"]


def note(path: str) -> None:
    SEEN.append(f"function {path}")


def note_info(info: Any) -> None:
    SEEN.append(f"info {info['path']} {sorted(info)}")


HERE = "tests.data.test_callbacks"
FORMS: list[tuple[Any, str]] = [
    (Notes, "class a"),
    (Notes("object"), "object a"),
    (f"{HERE}:Notes", "class a"),
    ({"on_checkpoint": note}, "function a"),
    ({"on_checkpoint": f"{HERE}:note"}, "function a"),
    ({"on_checkpoint": note_info}, "info a ['path', 'trainer']"),
]


@pytest.mark.parametrize(("given", "expected"), FORMS, ids=["class", "object", "name", "dict", "names", "info"])
def test_every_form_of_callbacks_is_called_with_what_it_asks_for(given: Any, expected: str) -> None:
    SEEN.clear()
    hooks = make_hooks(given)
    hooks("on_checkpoint", trainer=None, path="a")
    hooks("on_train_result", trainer=None, result={})  # nobody wrote this one
    assert [expected] == SEEN
    assert "on_checkpoint" in hooks
    assert "on_train_result" not in hooks
    assert not hooks.watches_episodes


def test_without_callbacks_no_hook_is_there() -> None:
    assert [hook for hook in ("on_episode_step", "on_sample_end") if hook in make_hooks(None)] == []


class Misspelled(Callbacks):
    def on_postprocess_traj(self, **_: Any) -> None: ...


class Greedy(Callbacks):
    def on_train_result(self, *, trainer: Any, results: Any) -> None: ...  # type: ignore[override]


class Fussy(Callbacks):
    def __init__(self, needed: int) -> None: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Misspelled, "no hook 'on_postprocess_traj'. Did you mean 'on_postprocess_trajectory'"),
        ({"on_episode_stop": note}, "no hook 'on_episode_stop'. Did you mean 'on_episode_st"),
        ({"on_checkpoint": 3}, "expected a function"),
        (Greedy, "asks for 'results', which it cannot be given. Did you mean 'result'"),
        ({"on_checkpoint": lambda a, b: None}, "asks for 'a'"),
        (Fussy, "could not be built"),
        (7, "expected a class derived from marl.Callbacks"),
        (SimpleNamespace, "expected a class derived from marl.Callbacks"),
        (f"{HERE}:Nobody", "has no 'Nobody'"),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_is_played(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_hooks(given)
    assert message in str(caught.value)


def test_the_trainer_uses_the_given_object_and_workers_a_copy() -> None:
    mine = Notes("mine")
    assert make_hooks(mine, own=False).owner is mine
    assert make_hooks(mine).owner is not mine


def _failing(hooks: dict[str, Callable[..., Any]], hook: str, **info: Any) -> str:
    with pytest.raises(CallbackError) as caught:
        Hooks("Mine", hooks)(hook, **info)
    return str(caught.value)


def test_a_failing_hook_names_itself_its_episode_its_worker_and_its_line() -> None:
    episode = RunningEpisode(17, 0, 3, 1, final_length=5)
    message = _failing(
        {"on_episode_end": lambda episode, **_: 1 / 0},
        "on_episode_end",
        episode=episode,
        worker=SimpleNamespace(index=3),
    )
    assert "Mine.on_episode_end failed (episode 17, step 5, copy 1, worker 3): ZeroDivisionError" in message
    assert "test_callbacks.py:" in message


def test_a_failing_hook_of_the_trainer_names_the_iteration() -> None:
    message = _failing(
        {"on_checkpoint": lambda path, **_: path.x}, "on_checkpoint", trainer=SimpleNamespace(iteration=4), path=1
    )
    assert "(iteration 4): AttributeError" in message


def test_state_of_an_object_comes_back_and_that_of_another_class_does_not() -> None:
    saved = make_hooks(Notes("kept")).state_dict()
    again, other = make_hooks(Notes), make_hooks({"on_checkpoint": note})
    again.load_state_dict(saved)
    other.load_state_dict(saved)
    assert again.owner is not None
    assert again.owner.get_state() == {"word": "kept"}


def test_notes_come_back_from_a_checkpoint_with_the_types_of_their_numbers() -> None:
    notes = {
        "angles": [np.float32(0.1), np.float32(0.2)],
        "one": np.float32(0.3),
        "mixed": [np.float32(1), 2.5, None],
        "pair": (1, [True, "x"]),
        3: {"deep": np.arange(3, dtype=np.int16)},
        "empty": [],
    }
    back = restored(unpack(*pack(storable(notes, "notes"))))
    assert {type(a) for a in back["angles"]} == {np.float32}
    assert float(np.mean(back["angles"])) == float(np.mean(notes["angles"]))
    assert type(back["one"]) is np.float32
    assert back["mixed"] == [1.0, 2.5, None]
    assert back["pair"] == (1, [True, "x"])
    assert back[3]["deep"].dtype == np.int16
    assert back["empty"] == []


def test_notes_that_no_checkpoint_can_hold_are_refused_by_name() -> None:
    episode = RunningEpisode(0, 0)
    episode.user_data["deep"] = [1, {"lock": object()}]
    with pytest.raises(CallbackError, match=r"episode.user_data\['deep'\]\[1\]\['lock'\] is a object"):
        episode.state_dict()


@pytest.mark.parametrize(
    ("where", "name", "value", "expected"),
    [
        ("custom_metrics", "m", "high", "expected a number"),
        ("hist_data", "h", ["a"], "expected a list of numbers"),
        ("hist_data", "episode_reward", [1], "results have a histogram of that name"),
        ("hist_data", "policy_red_reward", [1], "results have a histogram of that name"),
        ("media", "p", [3], "expected an array"),
    ],
)
def test_notes_that_no_result_can_show_are_refused_by_name(where: str, name: str, value: Any, expected: str) -> None:
    episode = RunningEpisode(0, 0)
    getattr(episode, where)[name] = value
    with pytest.raises(CallbackError, match=expected):
        episode.remarks()


def test_remarks_stay_with_their_episodes() -> None:
    def stats(*numbers: float) -> EpisodeStats:
        n = len(numbers)
        return EpisodeStats(
            np.array(numbers, np.float32), np.ones(n, np.int64), ["a"], np.zeros(n, np.int64), np.arange(n), np.zeros(n, np.int64),
            np.array(numbers, np.float32),
        )  # fmt: skip

    def noted(*numbers: float) -> EpisodeStats:
        one = stats(*numbers)
        one.remarks = [Remarks(custom_metrics={"m": number}) for number in numbers]
        return one

    joined = EpisodeStats.concat([noted(1, 2), stats(3), noted(4)])
    assert [r.get("custom_metrics", {}).get("m") for r in joined.remarks] == [1, 2, None, 4]
    assert [r.get("custom_metrics", {}).get("m") for r in joined.last(3).remarks] == [2, None, 4]
    assert [r["custom_metrics"]["m"] for r in joined.chosen(np.array([1, 3])).remarks] == [2, 4]
    assert EpisodeStats.concat([stats(1), stats(2)]).remarks == []
