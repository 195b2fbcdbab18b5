"""A branch is the episode with one thing changed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.data.task import AgentID
from marl.errors import EnvError
from marl.play.branch import trace_branch
from marl.play.episode import Tape, Which, play_episode
from marl.play.playable import Playable
from marl.play.takeover import OTHER, Instead
from marl.play.trace import Trace, traced
from tests.play.runs import LSTM, constant, opened, trained

ENVS = "tests.play.runs"
SURE = 9.0


def done(tape: Tape, agent: AgentID, step: int) -> Any:
    """What an agent did, as it is stored."""
    seat = tape.seat_of(agent, step)
    assert seat is not None
    k = tape.batch.task.kind_of(seat)
    return tape.batch.actions[k][step, 0, seat - tape.batch.task.kinds[k].first_seat]


def same_again(playable: Playable, which: Which, steps: int | None = None) -> Trace:
    """Branches in which everybody does what it did, from every step; returns the episode, which all of them equal."""
    tape = play_episode(playable, which)
    whole = traced(playable, tape)
    told = whole.to_json()
    for step in range(len(tape))[:steps]:
        for agent in tape.agents:
            if tape.seat_of(agent, step) is not None:
                again = trace_branch(playable, tape, Instead(step, agent, done(tape, agent, step)))
                assert again.to_json() == told, (agent, step)
    return whole


NATIVE = [("two_step_game", "ppo", {}), ("traffic", "ppo", {"horizon": 12}), ("leduc_poker", "ppo", {})]
DICTS = [(f"{ENVS}:Digits", "ppo", {"model": LSTM}), (f"{ENVS}:StoredDigits", "ppo", {"model": LSTM})]
GROUPS = [("two_step_game", "qmix", {"multiagent": {"groups": {"team": ["agent_0", "agent_1"]}}})]


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize(("env", "algo", "keys"), [*NATIVE, *DICTS, *GROUPS])
def test_with_the_action_that_was_taken_a_branch_is_the_episode(
    tmp_path: Path, env: str, algo: str, keys: dict[str, Any], explore: bool
) -> None:
    playable = opened(trained(tmp_path / "run", env, algo, loud=True, **keys))
    # Number 2: where policies draw, the episodes before it have drawn from the same generator.
    same_again(playable, Which(2, 5, explore), steps=4)


def test_a_recorded_episode_goes_on_with_the_numbers_that_its_policies_drew(tmp_path: Path) -> None:
    playable = opened(trained(tmp_path / "run", f"{ENVS}:Digits", loud=True, model=LSTM))
    played = play_episode(playable, Which(2, 5, explore=True))
    assert len({*played.batch.actions[0][:, 0, 0].tolist()}) > 1
    actions, seen = [played.batch.actions[0][:, 0]], [played.batch.obs[0][:, 0]]
    tape = play_episode(playable, Which(2, 5, True, actions, seen))
    for step in (0, 2):
        branch = trace_branch(playable, tape, Instead(step, "two", done(tape, "two", step)))
        assert branch.returns == played.returns  # which tell every action
    actions[0][0] = (actions[0][0] + 1) % 3  # what no policy would have done
    tape = play_episode(playable, Which(2, 5, True, actions, seen))
    branch = trace_branch(playable, tape, Instead(1, "two", done(tape, "two", 1)))
    assert np.array_equal(branch.tape.batch.actions[0][:2], tape.batch.actions[0][:2])


def test_the_other_action_is_done_once_and_the_steps_before_are_as_they_were(tmp_path: Path) -> None:
    # Digits pay action * 4^t, so a return tells every action. These policies do 2 whatever they see.
    path = constant(tmp_path / "run", f"{ENVS}:Digits", {"one": [0.0, 0.0, SURE], "two": [0.0, 0.0, SURE]})
    playable = opened(path)
    tape = play_episode(playable, Which(3))
    branch = trace_branch(playable, tape, Instead(2, "one", np.array(0)))
    found = [[step[agent].action for step in branch.steps] for agent in ("one", "two")]
    assert found == [[2, 2, 0, 2, 2, 2], [2] * 6]
    assert branch.returns["one"] == tape.returns["one"] - 2 * 4**2
    assert branch.returns["two"] == tape.returns["two"]
    # What is seen and thought in it belongs to the branch: the rewards that came, and the values of what was done.
    assert branch.steps[2]["one"].reward == 0.0


def test_a_memory_knows_what_was_done_in_the_branch(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:Digits", loud=True, model=LSTM)
    playable = opened(path)
    tape = play_episode(playable, Which(1))
    other = np.array((int(done(tape, "one", 1)) + 1) % 3)
    branch = trace_branch(playable, tape, Instead(1, "one", other))
    before, after = tape.batch.carry[0], branch.tape.batch.carry[0]
    assert np.array_equal(before[:2], after[:2])  # up to the step
    assert not np.array_equal(before[2, 0, 0], after[2, 0, 0])
    assert np.array_equal(before[:, :, 1], after[:, :, 1])  # the other agent remembers its own life


def test_the_branch_goes_where_the_other_action_leads(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", "two_step_game", {"agent_0": [SURE, 0.0], "agent_1": [0.0, SURE]})
    playable = opened(path)
    tape = play_episode(playable, Which())
    branch = trace_branch(playable, tape, Instead(0, "agent_0", np.array(1)), scenes=True)
    assert len(branch.tape.scenes) == 3  # before the first step, and after each
    assert sum(tape.returns.values()) == 7.0
    assert sum(branch.returns.values()) == 1.0  # risky, and (0, 1) there
    bold = constant(tmp_path / "bold", "two_step_game", {"agent_0": [0.0, SURE], "agent_1": [0.0, SURE]})
    other = trace_branch(playable, tape, Instead(0, "agent_0", policy=str(bold)))
    assert sum(other.returns.values()) == 8.0
    assert [step["agent_0"].policy for step in other.steps] == [OTHER, OTHER]
    later = trace_branch(playable, tape, Instead(1, "agent_0", policy=str(bold)))
    assert [step["agent_0"].policy for step in later.steps] == ["agent_0", OTHER]
    assert [step["agent_0"].action for step in later.steps] == [0, 1]


def test_the_same_policy_instead_changes_nothing(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:StoredDigits", loud=True, model=LSTM)
    playable = opened(path)
    for number in range(3):
        tape = play_episode(playable, Which(number))
        for step in (0, 2, 4):
            branch = trace_branch(playable, tape, Instead(step, "two", policy=str(path)))
            assert branch.returns == tape.returns


def test_an_env_that_does_not_repeat_itself_has_no_branches(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", f"{ENVS}:Forgetful", {"gambler": [SURE, 0.0]})
    playable = opened(path)
    tape = play_episode(playable, Which())
    with pytest.raises(EnvError, match="does not repeat itself"):
        trace_branch(playable, tape, Instead(1, "gambler", np.array(1)))
