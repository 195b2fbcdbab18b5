"""Episodes step by step: what is noted is what happened, and what policies thought then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl import Trainer
from marl.errors import DataError, UserError
from marl.offline.view import open_recording
from marl.play.episode import Which, play_episode
from marl.play.exported_run import open_playable
from marl.play.playback import RolloutOptions, play
from marl.play.trace import Trace, recorded_episode, trace_episode
from tests.play.runs import LSTM, PPO, constant, opened, trained

ENVS = "tests.play.runs"


def traced(path: Path, number: int = 0, explore: bool = False, **keys: Any) -> Trace:
    return trace_episode(opened(path), Which(number, explore=explore), **keys)


def test_values_are_held_against_the_discounted_return_and_sorted_by_how_wrong_they_are(tmp_path: Path) -> None:
    values = {"agent_0": [2.0, 1.0], "agent_1": [3.0, -4.0]}
    path = constant(tmp_path / "run", "two_step_game", values, algo="dqn", gamma=0.5)
    trace = traced(path)
    # Both play 0, into the safe branch: 3.5 each in the second step, and half of that seen from the first.
    errors = [(step, one.agent, one.expected, one.came, one.error) for step, one in trace.most_wrong()]
    assert errors == [
        (1, "agent_0", 2.0, 3.5, -1.5),
        (0, "agent_1", 3.0, 1.75, 1.25),
        (1, "agent_1", 3.0, 3.5, -0.5),
        (0, "agent_0", 2.0, 1.75, 0.25),
    ]
    assert trace.gammas == {"agent_0": 0.5, "agent_1": 0.5}
    opinion = trace.steps[0]["agent_1"].opinion
    assert opinion is not None
    assert (opinion.q_values, opinion.probabilities) == ((3.0, -4.0), None)


def test_the_value_is_that_of_the_action_that_was_taken(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", "matrix_game", {"player_0": [2.0, 1.0], "player_1": [2.0, 1.0]}, algo="dqn")
    seen = set()
    for number in range(6):
        for one in traced(path, number, explore=True).steps[0].values():
            seen.add((one.action, one.action_name, one.expected))
    assert seen == {(0, "cooperate", 2.0), (1, "defect", 1.0)}


def test_rewards_are_counted_as_the_learner_counts_them(tmp_path: Path) -> None:
    values = {"agent_0": [2.0, 1.0], "agent_1": [2.0, 1.0]}
    path = constant(
        tmp_path / "run", "two_step_game", values, algo="dqn", gamma=1.0, reward_scale=0.5, reward_shift=1.0
    )
    assert [step["agent_0"].came for step in traced(path).steps] == [2.75, 2.25]  # (0 + 1) / 2 and (3.5 + 1) / 2


def test_values_of_a_critic_are_those_of_the_trainer(tmp_path: Path) -> None:
    with Trainer("ppo", env="windy_maze", config={**PPO, "env_config": {"limit": 12}}) as trainer:
        trainer.train()
        path = Path(trainer.save(tmp_path / "run"))
        trace = traced(path)
        seen = np.array([step["walker_0"].observation for step in trace.steps], np.float32)
        truth = trainer.value_function("default_policy", {"obs": seen})
    told = [step["walker_0"].expected for step in trace.steps]
    assert told == pytest.approx(truth.tolist(), abs=1e-5)
    assert np.ptp(truth) > 0


@pytest.mark.parametrize("algo", ["mappo", "sac", "maddpg"])
def test_critics_that_see_more_or_actions_say_something_of_every_decision(tmp_path: Path, algo: str) -> None:
    path = trained(tmp_path / "run", "fast:simple_spread", algo, env_config={"max_cycles": 4})
    trace = traced(path)
    values = [one.expected for step in trace.steps for one in step.values()]
    assert len(values) == 3 * len(trace)
    assert None not in values
    assert len(set(values)) > 1


def test_an_export_is_played_in_the_env_that_it_names(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config=PPO) as trainer:
        path = Path(trainer.save(tmp_path / "run"))
        trainer.export_model(tmp_path / "exported")
    alone = trace_episode(open_playable(tmp_path / "exported", frozenset()), Which(0))
    run = traced(path)
    assert alone.returns == run.returns
    assert alone.steps[0]["agent_0"].opinion.probabilities == run.steps[0]["agent_0"].opinion.probabilities  # type: ignore[union-attr]
    assert alone.steps[0]["agent_0"].expected is None
    assert "no critics are kept" in alone.missing_values


def test_the_env_that_an_export_names_is_followed_only_where_it_is_allowed(tmp_path: Path) -> None:
    with Trainer("ppo", env=f"{ENVS}:Digits", config=PPO) as trainer:
        trainer.export_model(tmp_path / "exported")
    with pytest.raises(UserError, match="--allow"):
        open_playable(tmp_path / "exported", frozenset())
    assert open_playable(tmp_path / "exported", frozenset({"tests"})).setup.policies.keys() == {"default_policy"}


# -- which episode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explore", [False, True])
def test_episode_i_is_the_ith_of_a_rollout(tmp_path: Path, explore: bool) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:Digits", loud=not explore)
    saved = tmp_path / "saved"
    options = RolloutOptions(episodes=4, explore=(explore,), seed=7, save=saved)
    play(path, options, frozenset({"tests"}), say=lambda _: None)
    recording = open_recording(saved)
    for number in (0, 3):
        tape = play_episode(opened(path), Which(number, 7, explore))
        rows = recording.episodes[number].rows
        assert np.array_equal(tape.batch.obs[0][:, 0], rows["obs.0"])
        assert np.array_equal(tape.batch.actions[0][:, 0], rows["actions.0"])


def test_what_was_recorded_is_done_again(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:Digits", model=LSTM)
    saved = tmp_path / "saved"
    play(path, RolloutOptions(episodes=3, explore=(True,), save=saved), frozenset({"tests"}), say=lambda _: None)
    again = trace_episode(opened(path), recorded_episode(saved, 2, 0))
    truth = traced(path, 2, explore=True)
    assert [step["two"].action for step in again.steps] == [step["two"].action for step in truth.steps]
    # Memories are those of who did what was recorded.
    for here, there in zip(again.steps, truth.steps, strict=True):
        assert here["two"].opinion == there["two"].opinion
    with pytest.raises(
        DataError, match="recorded episode 2 is not the one of seed 3: agents see something else in step 0"
    ):
        play_episode(opened(path), recorded_episode(saved, 2, 1))
    with pytest.raises(DataError, match="has no episode 3: it has the episodes 0 to 2"):
        recorded_episode(saved, 3, 0)


# -- thoughts ----------------------------------------------------------------------------------------------------------


def test_probabilities_are_those_that_a_recurrent_policy_drew_from(tmp_path: Path) -> None:
    trace = traced(trained(tmp_path / "run", f"{ENVS}:Digits", loud=True, model=LSTM), 1, explore=True)
    batch = trace.tape.batch
    for step, agents in enumerate(trace.steps):
        for seat, one in enumerate(agents.values()):
            assert one.opinion is not None
            assert one.opinion.probabilities is not None
            chance = one.opinion.probabilities[0][int(batch.actions[0][step, 0, seat])]
            assert np.log(chance) == pytest.approx(float(batch.action_logp[step, 0, seat]), abs=1e-4)


def test_a_second_checkpoint_is_asked_in_the_same_states_with_the_memory_of_what_was_done(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:Digits", loud=True, model=LSTM)
    stranger = trained(tmp_path / "other", f"{ENVS}:Digits", loud=True, seed=3, model=LSTM)
    same = traced(path, 1, explore=True, other=str(path))
    for step in same.steps:
        for one in step.values():
            assert one.other is not None
            assert one.opinion is not None
            assert one.other.probabilities[0] == pytest.approx(one.opinion.probabilities[0])
    seen = traced(path, 1, explore=True, other=str(stranger))
    for before, after in zip(same.steps, seen.steps, strict=True):
        assert before["one"].action == after["one"].action
        assert before["one"].opinion == after["one"].opinion
    differences = [step["one"].other != step["one"].opinion for step in seen.steps]
    assert all(differences)
    assert any(step["one"].other_action != step["one"].action for step in seen.steps)


def test_coordinates_are_told_as_the_env_takes_them(tmp_path: Path) -> None:
    config = {"actions_are_logits": True}
    trace = traced(trained(tmp_path / "run", "two_step_game", env_config=config, loud=True))
    one = trace.steps[0]["agent_0"]
    assert one.opinion is not None
    assert one.opinion.mean == pytest.approx(np.asarray(one.action).tolist())
    assert one.opinion.std is not None
    assert min(one.opinion.std) > 0


# -- agents that come and go, and the JSON form ------------------------------------------------------------------------


def test_what_agents_are_paid_step_by_step_adds_up_to_their_returns(tmp_path: Path) -> None:
    trace = traced(trained(tmp_path / "run", "traffic"), 1, explore=True)
    paid: dict[str, float] = {}
    lives: dict[str, int] = {}
    for step in trace.steps:
        for agent, one in step.items():
            paid[agent] = paid.get(agent, 0.0) + one.reward
            lives[agent] = lives.get(agent, 0) + (one.terminated or one.truncated)
            assert one.asked == (one.action is not None)
    assert {agent: total for agent, total in paid.items() if total} == pytest.approx(
        {agent: total for agent, total in trace.returns.items() if total}, abs=1e-4
    )
    assert max(lives.values()) > 1  # somebody came back
    lights = [step["traffic_light_0"].asked for step in trace.steps[:5]]
    assert lights == [True, False, False, False, False]


def test_the_json_form_has_its_documented_names(tmp_path: Path) -> None:
    told = json.loads(json.dumps(traced(trained(tmp_path / "run", "kuhn_poker")).to_json()))
    page = Path("docs/why.md").read_text()
    for key in (*told, *told["steps"][0], *told["steps"][0]["agents"][0], *told["steps"][0]["agents"][0]["opinion"]):
        assert f"`{key}`" in page
    assert (told["format"], told["version"]) == ("marl-trace", 1)
    assert told["action_names"] == {"player_0": ["pass", "bet"], "player_1": ["pass", "bet"]}
    assert len(told["steps"][0]["agents"]) == 1


def test_a_long_episode_is_cut_and_says_so(tmp_path: Path) -> None:
    trace = traced(trained(tmp_path / "run", f"{ENVS}:Digits"), longest=3)
    assert (len(trace), trace.cut, trace.returns) == (3, True, {})


def test_frames_are_kept_from_before_the_first_step_on(tmp_path: Path) -> None:
    trace = traced(trained(tmp_path / "run", "two_step_game"), frames=True)
    assert [str(frame).split(";")[0] for frame in trace.tape.frames][:2] == [
        "two-step game, first state", f"two-step game, {'safe' if trace.steps[0]['agent_0'].action == 0 else 'risky'} branch",
    ]  # fmt: skip
    assert len(trace.tape.frames) == len(trace) + 1
