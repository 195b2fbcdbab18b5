"""``marl show`` prints the code that runs, and no other: what an update really calls is looked at while it happens."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar

import pytest

from marl.algos.optimiser import FlatOptimiser
from marl.algos.presets import ALGOS
from marl.algos.reading import Function, passage_of, with_relatives
from marl.data.returns import gae
from tests.algos.own_learners import Cautious
from tests.algos.updates import small_run
from tests.command import marl

ROOT = Path(__file__).parents[2]
EVERYBODYS = {Path(inspect.getfile(gae)), Path(inspect.getfile(FlatOptimiser))}
SHORT = 3  # lines; what is shorter explains itself where it is called
GROUP = {"multiagent": {"groups": {"team": ["agent_0", "agent_1", "agent_2"]}}}
DISCRETE: dict[str, Any] = {"env_config": {"agents": 3, "masked": True}, **GROUP}
BOX: dict[str, Any] = {"env_config": {"agents": 2, "box": True}}
# Values of sac differ by the kind of actions.
ENVS: dict[str, list[dict[str, Any]]] = {"sac": [DISCRETE, BOX], "masac": [DISCRETE, BOX]}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{algo: (algo, {}) for algo in ALGOS},
    "dqn with atoms": ("dqn", {"num_atoms": 5}),
    "ppo with sgd": ("ppo", {"optimizer": {"type": "sgd"}}),
    "sac that sees all": ("sac", {"critic_sees": "all"}),
    "mmd that judges actions": ("mmd", {"critic_values": "actions"}),
    "a2c that judges actions": ("a2c", {"critic_values": "actions"}),
    "deep_cfr that remembers views": ("deep_cfr", {"memory_of": "views"}),
}


def code_of(function: Function) -> CodeType:
    found: CodeType = inspect.unwrap(function).__code__  # type: ignore[attr-defined]
    return found


def ran_in_updates(algo: str, keys: dict[str, Any], env: dict[str, Any]) -> set[CodeType]:
    """Every function of the package that one call of ``learn`` with an update came through."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT / "marl")):
            ran.add(frame.f_code)

    with small_run(algo, env="tests.algos.witnessed:Witnessed", **env, **keys) as trainer:
        (learner,) = trainer.learners
        learn = learner.learn

        def noted(batch: Any) -> Any:
            sys.setprofile(note)
            try:
                return learn(batch)
            finally:
                sys.setprofile(None)

        learner.learn = noted  # type: ignore[method-assign]
        trainer.train()
        assert learner.counters["num_updates"] > 0
    return ran


def own_code(ran: set[CodeType], folder: Path) -> Iterator[CodeType]:
    """Functions of an algorithm's folder, returns and steps of optimisers, as far as they are long enough to need a reader."""
    for code in ran:
        file = Path(code.co_filename)
        nested = "<" in code.co_qualname  # comprehensions and local functions are part of what they stand in
        own = file.parent == folder or file in EVERYBODYS
        if own and not nested and len(inspect.getsource(code).splitlines()) > SHORT:
            yield code


@pytest.mark.parametrize("case", CASES)
def test_a_reading_has_what_runs_in_an_update_and_nothing_that_does_not(case: str) -> None:
    algo, keys = CASES[case]
    learner = ALGOS[algo].family.learner_class()
    reading = learner.reading(ALGOS[algo].configure(**keys))
    shown = {code_of(function): function for function in reading.shown}
    left_out = {code_of(function) for function in reading.left_out}
    ran: set[CodeType] = set()
    for env in ENVS.get(algo, [DISCRETE]):
        ran |= ran_in_updates(algo, keys, env)
    assert [function.__qualname__ for code, function in shown.items() if code not in ran] == []
    folder = Path(inspect.getfile(learner)).parent
    unsaid = [code.co_qualname for code in own_code(ran, folder) if code not in shown.keys() | left_out]
    assert unsaid == [], "neither shown nor left out for a reason"
    assert not shown.keys() & left_out


def test_a_reading_begins_with_learn_and_comes_to_losses_returns_and_the_optimisers_step() -> None:
    names = [passage.name for passage in ALGOS["mappo"].reading()]
    assert names[0] == "CentralCriticLearner.learn"
    assert names.index("gae") < names.index("CentralCriticLearner._loss") < names.index("clipped_loss")
    assert names[-2:] == ["FlatOptimiser.step", "_adam"]
    assert "policy_gradient_loss" not in names
    assert "CriticView._joint" in names
    assert "CriticView._joint" not in [passage.name for passage in ALGOS["ppo"].reading()]


@pytest.mark.parametrize(
    ("algo", "learner", "loss", "slow"),
    [
        ("dqn", "QmixLearner", "td_loss", "QmixLearner.copy_to_targets"),
        ("qmix", "QmixLearner", "td_loss", "QmixLearner.copy_to_targets"),
        ("maddpg", "MaddpgLearner", "actor_loss", "TargetNetwork.move"),
        ("sac", "SacLearner", "temperature_loss", "TargetNetwork.move"),
    ],
)
def test_a_reading_with_a_replay_goes_from_the_common_loop_over_one_update_to_the_slow_copies(
    algo: str, learner: str, loss: str, slow: str
) -> None:
    names = [passage.name for passage in ALGOS[algo].reading()]
    order = [names.index(name) for name in (f"{learner}._train", "Replay.draw", loss, "FlatOptimiser.step", slow)]
    assert names[0] == "OffPolicyLearner.learn"
    assert order == sorted(order)
    assert names[-1] == slow


@pytest.mark.parametrize("algo", ["marwil", "bc", "nfsp", "es", "deep_cfr", "escher"])
def test_every_other_reading_goes_from_learn_to_train_to_the_optimisers_step(algo: str) -> None:
    names = [passage.name for passage in ALGOS[algo].reading()]
    learner = ALGOS[algo].family.learner_class().__name__
    assert names.index(f"{learner}.learn") < names.index(f"{learner}._train") < names.index("FlatOptimiser.step")


# -- algorithms of a user's own ----------------------------------------------------------------------------------------


class Anxious(Cautious):
    """Cautious with a page of its own."""

    def _check_finite(self, name: str, loss: Any) -> None:
        self._worry(name)
        super()._check_finite(name, loss)

    def _worry(self, name: str) -> None:
        """Only here."""


def test_an_override_is_shown_with_what_it_calls_above_and_new_methods_follow() -> None:
    shown = with_relatives(Anxious, Anxious.reading(ALGOS["ppo"].configure()).shown)
    names = [function.__qualname__ for function in shown]
    assert names[:2] == ["Cautious.learn", "CentralCriticLearner.learn"]
    assert names[-2:] == ["Anxious._check_finite", "Anxious._worry"]
    assert len(names) == len(set(names))


def test_show_prints_a_learner_of_the_users_own_from_his_file() -> None:
    done = marl("show", "tests.algos.own_learners:Cautious", "--json")
    first = json.loads(done.out)["code"][0]
    assert (done.code, first["name"], first["file"]) == (0, "Cautious.learn", "tests/algos/own_learners.py")


class Impossible(Cautious):
    """Its own default is refused by its keys."""

    defaults: ClassVar[dict[str, object]] = {"lr": -1.0}


def test_show_refuses_defaults_that_their_keys_refuse() -> None:
    done = marl("show", f"{__name__}:Impossible")
    assert done.code == 2
    assert "lr = -1.0" in done.errors[0]


def test_show_finds_what_an_imported_module_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shy.py").write_text(
        "import marl\nfrom marl.algos.marwil.learner import MarwilLearner\n\n\nclass Shy(MarwilLearner):\n"
        '    """bc for a test."""\n\n    like = "bc"\n\n    def learn(self, batch):\n        return super().learn(batch)\n\n\n'
        'marl.register_algorithm("shy", Shy)\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ALGOS, "_items", dict(ALGOS._items))
    done = marl("show", "shy", "--import", "shy")
    assert done.code == 0, done.err
    assert "# shy.py:10  Shy.learn\ndef learn(self, batch):\n    return super().learn(batch)\n" in done.out
    assert "MarwilLearner.learn" in done.out


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_show_prints_each_function_as_it_stands_at_the_line_it_names(algo: str) -> None:
    done = marl("show", algo)
    assert done.code == 0
    assert "\x1b" not in done.out
    for passage in ALGOS[algo].reading():
        assert f"# {passage.file}:{passage.line}  {passage.name}\n{passage.code}\n" in done.out
        lines = (ROOT / passage.file).read_text("utf-8").splitlines()[passage.line - 1 :]
        code = passage.code.splitlines()
        assert [line.strip() for line in lines[: len(code)]] == [line.strip() for line in code]


def test_show_is_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = marl("show", "es")
    assert "\x1b[" in done.out
    assert "centred_ranks" in done.out


def test_show_names_the_nearest_algorithm_where_there_is_none_of_that_name() -> None:
    done = marl("show", "pppo")
    assert done.code == 2
    assert "ppo" in done.errors[0]
    assert marl("show", "ppo", "--import", "nowhere_at_all").code == 2


def test_a_function_without_a_file_is_refused_with_its_name() -> None:
    made: dict[str, Any] = {}
    exec("def learn(self, batch): ...", made)
    with pytest.raises(Exception, match="the code of learn cannot be shown"):
        passage_of(made["learn"])
