"""An env that goes wrong ends the run with one clear error, and the run goes on from its last checkpoint once it is mended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.cli import main
from marl.errors import EnvError
from marl.training.trainer import Trainer
from tests.envs import bad_array_envs as arrays
from tests.training import fragile

SMALL = {
    "train_batch_size": 20,
    "sgd_minibatch_size": 20,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}
SCENARIO = f"""
env: {fragile.__name__}:Fragile
algo: {{name: ppo, train_batch_size: 20, sgd_minibatch_size: 20, num_sgd_iter: 1}}
model: {{fcnet_hiddens: [8]}}
evaluation: {{interval: 0}}
checkpoint_freq: 2
stop: {{training_iteration: 6}}
"""
HERE = f"env '{fragile.__name__}:Fragile', worker 0, copy 0, step 37: "
FAULTS = {
    "shape": "the observation of agent 'a_1' has shape (3,), its space says Box(-100.0, 100.0, (2,), float32).",
    "type": "the observation of agent 'a_1' has the type <U5, which does not fit its space",
    "bounds": "the observation of agent 'a_1' is not in its space Box(-100.0, 100.0, (2,), float32): it holds 101 at place 1. Expected -100 to 100.",
    "nan": "the observation of agent 'a_1' holds nan at place 1. Return finite numbers.",
    "infinite": "the observation of agent 'a_1' holds inf at place 1. Return finite numbers.",
    "nan reward": "the reward of agent 'a_1' is nan. Return finite numbers.",
    "text reward": "the reward of agent 'a_1' is 'much'. Return a number.",
    "crash": "step raised RuntimeError: the dice fell off the table (at ",
    "four values": "step returned 4 values; expected five dicts",
    "no dict": "step returned a list as rewards; expected five dicts",
    "stranger seen": "agent 'a_9' is not in possible_agents (a_0, a_1). Did you mean",
    "stranger paid": "agent 'a_9' is not in possible_agents (a_0, a_1). Did you mean",
    "stranger ended": "agent 'a_9' is not in possible_agents (a_0, a_1). Did you mean",
}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """``marl run ...`` in this process: exit code, what it printed, what it said on stderr."""
    scenario = tmp_path / "fragile.yaml"
    scenario.write_text(SCENARIO)
    monkeypatch.setattr(fragile, "FAULT", {})

    def run(*arguments: str, fault: str | None = None, name: str = "runs") -> tuple[int, str, str]:
        fragile.FAULT.clear()
        fragile.FAULT.update({"kind": fault} if fault else {})
        given = arguments or (str(scenario), "--local-dir", str(tmp_path / name))
        monkeypatch.setattr(sys, "argv", ["marl", "run", *given])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capfd.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    return run


def directory_in(out: str) -> Path:
    return Path(out.strip().splitlines()[-1].removeprefix("results: "))


def results(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "result.json").read_text().splitlines()]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_step_37_ends_the_run_with_one_message_after_the_last_checkpoint(command: Any, fault: str) -> None:
    code, out, err = command(fault=fault)
    assert code == 2
    assert err.startswith(f"error: {HERE}{FAULTS[fault]}"), err
    assert "Traceback" not in err
    directory = directory_in(out)
    # 50 steps of a whole episode and 36 of the next one: four iterations of twenty steps were finished.
    assert "last checkpoint:" in out
    assert (directory / "checkpoints" / "checkpoint_000004" / "manifest.json").is_file()
    assert [line["training_iteration"] for line in results(directory)] == list(range(1, 5))
    assert not [path for path in directory.rglob("*") if ".tmp" in path.name or path.name.startswith(".")]


@pytest.mark.parametrize("fault", ["crash", "bounds"])
def test_the_run_goes_on_from_its_last_checkpoint_as_if_nothing_had_happened(command: Any, fault: str) -> None:
    _, out, _ = command(fault=fault)
    broken = directory_in(out)
    code, out, err = command("--resume", str(broken), "--allow", fragile.__name__.split(".")[0])
    assert code == 0, err
    _, straight, _ = command(name="straight")
    ours, theirs = results(broken), results(directory_in(straight))
    assert [line["training_iteration"] for line in ours] == list(range(1, 7))
    assert [line["info"] for line in ours] == [line["info"] for line in theirs]
    assert ours[-1]["hist_stats"] == theirs[-1]["hist_stats"]


def test_a_crash_names_the_line_of_the_users_code(command: Any) -> None:
    _, _, err = command(fault="crash")
    assert "fragile.py:" in err
    assert 'in break_it: raise RuntimeError("the dice fell off the table")' in err


def test_an_env_that_shows_an_absent_agent_something_fails_when_it_gets_its_action(command: Any) -> None:
    _, _, err = command(fault="absent agent")
    assert err.startswith(f"error: {HERE.replace('37', '38')}step raised KeyError: 'there is no a_1 to act for'")


def test_bounds_can_be_left_unchecked() -> None:
    keys = {**SMALL, "env_config": {"fault": "bounds"}, "check_bounds": False}
    with Trainer("ppo", env=fragile.Fragile, config=keys) as trainer:
        assert [trainer.train() for _ in range(5)][-1]["timesteps_total"] == 100


def test_an_error_in_one_of_several_copies_names_the_copy() -> None:
    class Second(fragile.Fragile):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.fault = "nan" if config.vector_index == 1 else None

    with Trainer("ppo", env=Second, config={**SMALL, "num_envs_per_worker": 3}) as trainer:
        with pytest.raises(EnvError, match=r"env 'Second', worker 0, copy 1, step 37: the observation of agent 'a_1'"):
            for _ in range(50):
                trainer.train()


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (arrays.NaNArrays, r"worker 0, copy 0, step 3: the observation of agent 'a_1' holds nan at place 0"),
        (arrays.NaNRewards, r"worker 0, copy 0, step 3: the reward of agent 'a_1' is inf"),
        (arrays.Narrow, r"worker 0, copy 0, step 1: frame.rewards has shape \(2, 1\), expected \(2, 2\)"),
        (arrays.WholeNumbers, r"worker 0, copy 0, step 1: frame.obs\[0\] has the type int64, expected float32"),
        (arrays.NoObservations, r"worker 0, copy 0, step 1: frame.obs is a NoneType, expected a list of arrays"),
        (arrays.NoFrame, r"worker 0, copy 0, step 1: the env returned a tuple; expected a marl.StepOutput"),
        (arrays.Outside, r"worker 0, copy 0, step 3: the observation of agent 'a_1' is not in its space"),
        (arrays.TooManyChoices, r"step 5: the observation of agent 'a_0' is not in its space: it holds 5 at place 0"),
        (arrays.CrashArrays, r"worker 0, 2 copies in step 3 to 3: step raised ZeroDivisionError.*in spoil: "),
    ],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_a_native_env_that_goes_wrong_is_named_with_copy_and_step(env: Any, text: str) -> None:
    with Trainer("ppo", env=env, config={**SMALL, "num_envs_per_worker": 2}) as trainer:
        with pytest.raises(EnvError, match=f"env 'sound', .*{text}"):
            trainer.train()


def test_a_state_that_is_not_finite_or_changes_its_size_is_named() -> None:
    class State(fragile.Fragile):
        end = np.array([1.0, np.nan])

        def state(self) -> Any:
            return np.zeros(2) if self.t < 37 else self.end

    class Growing(State):
        end = np.zeros(3)

    keys = {**SMALL, "train_batch_size": 50, "critic_sees": "state"}
    for env, text in (
        (State, "entry 1 of the global state is nan"),
        (Growing, "the global state has 3 numbers, expected 2"),
    ):
        with Trainer("mappo", env=env, config=keys) as trainer:
            with pytest.raises(EnvError, match=f"worker 0, copy 0, step 37: {text}"):
                trainer.train()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("fault", ["crash", "nan"])
def test_the_error_of_a_ray_worker_names_the_worker(fault: str) -> None:
    keys = {**SMALL, "num_workers": 2, "train_batch_size": 40, "env_config": {"fault": fault, "broken_worker": 2}}
    with Trainer("ppo", env=f"{fragile.__name__}:Fragile", config=keys) as trainer:
        with pytest.raises(EnvError) as caught:
            for _ in range(20):
                trainer.train()
        assert trainer.iteration == 4
    assert str(caught.value).startswith(f"{HERE.replace('worker 0', 'worker 2')}{FAULTS[fault]}")
