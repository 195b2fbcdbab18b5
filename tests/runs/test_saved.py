"""A run on the disk: opened once, in one place, and followed only as far as it is safe."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.analysis.exploit import exploitability_of
from marl.errors import CheckpointError, ConfigError
from marl.policies.policy import Policy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.runs.checkpoint import find_checkpoint, read_part, strip
from marl.runs.resume import TO_RESUME
from marl.runs.saved import SavedRun
from marl.trust import Trust, current
from tests.forgeries import forge, real_run

OWN_ENV = "tests.trust.allowed:Game"
PACKAGE = Path(marl.__file__).parent


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_run(tmp_path_factory.mktemp("saved") / "run", multiagent={"policy_mapping_fn": "per_agent"})


def test_a_run_is_opened_at_its_newest_checkpoint(run: Path) -> None:
    saved = SavedRun.open(run)
    assert saved.folder == run / "checkpoints" / "checkpoint_000001"
    assert saved.directory == run
    assert saved.scenario["env"] == "matrix_game"
    assert saved.can_be_replayed


def test_a_checkpoint_outside_of_a_run_directory_belongs_to_none(run: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(find_checkpoint(run), tmp_path / "alone"))
    assert SavedRun.open(alone).directory is None


def test_weights_and_policies_are_those_that_were_saved(run: Path) -> None:
    saved = SavedRun.open(run)
    stored = read_part(saved.folder, "policies")
    assert set(saved.weights) == set(stored) == {"player_0", "player_1"}
    for name in stored:
        policy = saved.policy(name)
        assert isinstance(policy, Policy)
        for key, array in policy.get_weights().items():
            assert np.array_equal(array, stored[name][key]), (name, key)


def test_an_unknown_policy_is_refused_with_the_names_that_there_are(run: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no policy 'player_2'\. It has player_0, player_1\. Did you mean"):
        SavedRun.open(run).policy("player_2")


def test_policies_that_a_changed_env_asks_for_are_refused_where_the_run_has_none(run: Path) -> None:
    saved = SavedRun.open(run)
    game = {"game": "rock_paper_scissors"}
    other = saved.resolve({"multiagent": {"policies": {"stranger": {}}, "policy_mapping_fn": "shared"}})
    with pytest.raises(CheckpointError, match=r"has no policy 'stranger'; it has player_0, player_1\. Take stranger"):
        saved.policies(other, remedy="Take {name} from elsewhere.")
    with pytest.raises(CheckpointError, match="does not fit"):  # three moves instead of two
        saved.policies(saved.resolve({"env_config": game}))


def test_exploitability_in_an_env_of_other_policies_names_the_one_that_is_missing(run: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no policy 'agent_0'; it has player_0, player_1\.$"):
        exploitability_of(run, ExploitabilityConfig(), changes={"env": "two_step_game", "env_config": {}})


def test_a_setup_to_play_has_no_workers_no_places_and_no_env_of_evaluations(run: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "num_workers": 3, "pool": "ray", "address": "203.0.113.9:6379", "output": str(tmp_path / "out"),
        "input": str(tmp_path / "none"), "load": {"player_0": str(tmp_path / "none")}, "evaluation.env": "trap:Env",
    }  # fmt: skip
    saved = SavedRun.open(forge(run, tmp_path / "forged", **changes))
    assert saved.scenario["num_workers"] == 3  # as stored
    scenario = saved.setup.scenario
    assert (scenario.num_workers, scenario.pool, scenario.evaluation.env) == (0, "auto", None)
    assert (scenario.address, scenario.input, scenario.output, scenario.load) == (None, None, None, {})
    assert not (tmp_path / "out").exists()


def test_changes_leave_what_is_stored_as_it_is(run: Path) -> None:
    saved = SavedRun.open(run)
    before = repr(saved.scenario)
    assert saved.resolve({"horizon": 7}).rollout.config.horizon == 7
    assert saved.setup.rollout.config.horizon != 7
    assert repr(saved.scenario) == before


def test_modules_in_the_file_are_used_only_if_they_are_allowed(run: Path, tmp_path: Path) -> None:
    path = forge(run, tmp_path / "forged", env=OWN_ENV)
    with pytest.raises(ConfigError, match="--allow tests"):
        SavedRun.open(path).resolve()
    assert SavedRun.open(path, allow=["tests"]).resolve().policies
    assert SavedRun.open(path, words=[OWN_ENV]).resolve().policies  # the user typed it himself
    assert current() is None  # and nothing of it lasts


def test_what_the_file_allows_is_a_matter_of_the_user_alone(run: Path, tmp_path: Path) -> None:
    path = forge(run, tmp_path / "forged", env=OWN_ENV, imports=["tests.trust.allowed"])
    saved = SavedRun.open(path)
    with saved.trusted():
        assert current() == Trust()
    with pytest.raises(ConfigError, match="--allow tests"):
        saved.resolve({"env": saved.scenario["env"]})  # a change is no word of the user's by itself


def test_a_run_of_python_objects_is_refused_with_what_helps(run: Path, tmp_path: Path) -> None:
    path = forge(run, tmp_path / "forged", env="<python object> make_env")
    told = "comes from a run that was given Python objects which cannot be found by name. Say it again.$"
    saved = SavedRun.open(path, remedy="Say it again.")
    assert not saved.can_be_replayed
    with pytest.raises(CheckpointError, match=told):
        saved.resolve()
    assert saved.resolve({"env": "matrix_game"}).policies  # given again


def test_to_resume_asks_for_all_that_training_needs(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    strip(find_checkpoint(copy), ["run", "policies"])
    assert SavedRun.open(copy).weights
    with pytest.raises(CheckpointError, match="holds only what is needed to play"):
        SavedRun.open(copy, need=TO_RESUME)


def test_a_run_without_a_scenario_is_damaged(run: Path, tmp_path: Path) -> None:
    saved = SavedRun.open(forge(run, tmp_path / "forged", env=3))
    with pytest.raises(CheckpointError, match="its part 'run' holds no scenario"):
        saved.resolve()


def test_the_scenario_of_a_run_is_read_nowhere_else() -> None:
    """Who needs it takes ``SavedRun.scenario``, and with it the checks and the trust."""
    readers = [path for path in PACKAGE.rglob("*.py") if "stored_scenario(" in path.read_text(encoding="utf-8")]
    assert readers == [PACKAGE / "runs" / "saved.py"]


def test_a_run_whose_workers_did_not_wait_plays_in_this_process(run: Path, tmp_path: Path) -> None:
    forged = forge(run, tmp_path / "eager", collection="async", num_workers=2)
    setup = SavedRun.open(forged).setup
    assert (setup.asynchronous, setup.scenario.num_workers) == (False, 0)
