"""What another action or policy leads to, in games that were worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import EnvError
from marl.play.episode import Tape, Which, play_episode
from marl.play.playable import Playable
from marl.play.takeover import Instead
from marl.play.what_if import Answer, Effect, what_if
from marl.rollout.paired import SeatGenerator
from tests.play import runs
from tests.play.runs import LSTM, constant, opened, trained

ENVS = "tests.play.runs"
SURE, EVEN = 9.0, [0.0, 0.0]


def means(effect: Effect) -> list[float]:
    return [effect.as_it_was.mean, effect.instead.mean, effect.difference.mean]


def asked(path: Path, question: Instead, continuations: int = 100, **which: Any) -> Answer:
    playable = opened(path)
    return what_if(playable, play_episode(playable, Which(**which)), question, continuations)


def test_the_risky_branch_of_the_two_step_game_instead_of_the_safe_one(tmp_path: Path) -> None:
    # agent_0 always plays 0 and agent_1 always 1: safe pays 7, risky pays 1 to (0, 1).
    path = constant(tmp_path / "run", "two_step_game", {"agent_0": [SURE, 0.0], "agent_1": [0.0, SURE]})
    answer = asked(path, Instead(0, "agent_0", np.array(1)))
    assert answer.exact
    assert means(answer.effects["agent_0"]) == means(answer.effects["agent_1"]) == [3.5, 0.5, -3.0]
    assert means(answer.together) == [7.0, 1.0, -6.0]
    assert answer.together.difference.margin == 0
    # In the second state of the safe branch nothing can be changed any more.
    assert means(asked(path, Instead(1, "agent_0", np.array(1))).together) == [7.0, 7.0, 0.0]


def test_another_policy_from_the_first_step_on(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", "two_step_game", {"agent_0": [SURE, 0.0], "agent_1": [0.0, SURE]})
    bold = constant(tmp_path / "bold", "two_step_game", {"agent_0": [0.0, SURE], "agent_1": [0.0, SURE]})
    # It goes into the risky branch and plays 1 there: 8 to (1, 1).
    answer = asked(path, Instead(0, "agent_0", policy=str(bold)))
    assert answer.exact
    assert means(answer.together) == [7.0, 8.0, 1.0]
    # The risky branch by its own hand, and the other policy from there on: the same.
    assert means(asked(path, Instead(0, "agent_0", np.array(1), str(bold))).together) == [7.0, 8.0, 1.0]
    # By the name of a policy of the run: agent_1's always plays 1.
    assert means(asked(path, Instead(0, "agent_0", policy="agent_1")).together) == [7.0, 8.0, 1.0]


def test_defecting_in_the_prisoners_dilemma(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", "matrix_game", {"player_0": [SURE, 0.0], "player_1": [SURE, 0.0]})
    answer = asked(path, Instead(0, "player_0", np.array(1)))
    assert means(answer.effects["player_0"]) == [3.0, 5.0, 2.0]
    assert means(answer.effects["player_1"]) == [3.0, 0.0, -3.0]


def test_betting_on_a_king_in_kuhn_poker_against_even_play(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", "kuhn_poker", {"player_0": EVEN, "player_1": EVEN})
    playable = opened(path)
    tape = next(_with_king(playable))
    taken = int(tape.batch.actions[0][0, 0, 0])
    answer = what_if(playable, tape, Instead(0, "player_0", np.array(1 - taken)), 4_000)
    # Passing: half of the time a pass wins 1; else a bet, to which half of the answers win 2 and half lose 1: 0.75.
    # Betting: half of the time a fold wins 1, else a call wins 2: 1.5.
    by_action = {0: 0.75, 1: 1.5}
    effect = answer.effects["player_0"]
    assert not answer.exact
    assert answer.continuations == 4_000
    for found, truth in (
        (effect.as_it_was, by_action[taken]),
        (effect.instead, by_action[1 - taken]),
        (effect.difference, by_action[1 - taken] - by_action[taken]),
    ):
        assert found.margin is not None
        assert 0 < found.margin < 0.1
        assert found.mean == pytest.approx(truth, abs=1.5 * found.margin)
    assert answer.together.difference.mean == 0.0  # zero-sum, whatever happens


def _with_king(playable: Playable) -> Any:
    for seed in range(20):
        tape = play_episode(playable, Which(0, seed, explore=True))
        if tape.batch.obs[0][0, 0, 0, 4] == 1 or tape.batch.obs[0][0, 0, 0, 2:5].argmax() == 2:
            yield tape


# -- the exact state ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["Digits", "StoredDigits"])
def test_a_recurrent_policy_goes_on_as_it_went_from_every_step(tmp_path: Path, env: str) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:{env}", loud=True, model=LSTM)
    playable = opened(path)
    tape = play_episode(playable, Which(5))
    assert len({*tape.batch.actions[0][:, 0].reshape(-1).tolist()}) > 1
    for step in range(6):
        answer = what_if(playable, tape, Instead(step, "two", tape.batch.actions[0][step, 0, 1]))
        assert answer.exact
        for agent in ("one", "two"):
            # A return tells every action, so this is the same episode to its end.
            assert means(answer.effects[agent]) == [tape.returns[agent]] * 2 + [0.0]


def test_the_other_action_is_what_a_recurrent_policy_remembers(tmp_path: Path) -> None:
    path = trained(
        tmp_path / "run", f"{ENVS}:Digits", loud=True, model=LSTM, multiagent={"policy_mapping_fn": "per_agent"}
    )
    playable = opened(path)
    tape = play_episode(playable, Which(1))
    done = tape.batch.actions[0][:, 0, 0].copy()
    other = (done[2] + 1) % 3
    answer = what_if(playable, tape, Instead(2, "one", np.array(other)))
    # By hand: the policy alone, told what was done, over the same observations.
    policy = playable.cast.policies["one"]
    from marl.policies.policy import Inputs

    carry, total = np.zeros((1, policy.carry_size), np.float32), 0.0
    for t in range(6):
        given = Inputs(tape.batch.obs[0][t][:, 0], np.ones((1, 0), bool), np.zeros(1, np.int64))
        found = policy.act(given, carry, np.random.default_rng(0), explore=False)
        action = np.array([other]) if t == 2 else found.actions
        carry = policy.recarried(given, carry, found.carry, action).copy()
        paid = float(action[0] * 4**t)
        carry[:, -1] += paid  # lstm_use_prev_reward
        total += paid
    assert answer.effects["one"].instead.mean == total
    assert answer.effects["two"].difference.mean == 0.0


def test_a_policy_that_takes_over_remembers_what_the_agent_has_lived_through(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", f"{ENVS}:StoredDigits", loud=True, model=LSTM)
    playable = opened(path)
    for number in range(4):
        tape = play_episode(playable, Which(number))
        for step in range(1, 6):
            answer = what_if(playable, tape, Instead(step, "two", policy=str(path)))
            assert answer.exact
            assert [effect.difference.mean for effect in answer.effects.values()] == [0.0, 0.0]
    stranger = trained(tmp_path / "other", f"{ENVS}:StoredDigits", loud=True, seed=4, model=LSTM)
    changed = asked(path, Instead(1, "two", policy=str(stranger)), number=3)
    assert changed.effects["two"].difference.mean != 0.0
    assert changed.effects["one"].difference.mean == 0.0


def test_an_env_with_and_without_a_state_of_its_own_gives_the_same_answer(tmp_path: Path) -> None:
    answers = []
    for env in ("Digits", "StoredDigits"):
        path = trained(tmp_path / env, f"{ENVS}:{env}", loud=True, model=LSTM)
        answers.append(asked(path, Instead(2, "one", np.array(1)), 40, number=1, explore=True))
    assert not answers[0].exact
    for agent in ("one", "two"):
        for way in ("as_it_was", "instead"):
            assert np.array_equal(answers[0].returns[way][agent], answers[1].returns[way][agent])


def test_members_of_a_mixture_stay_who_they_are(tmp_path: Path) -> None:
    population = {"kind": "self_play", "round_timesteps": 64}
    from marl import Trainer

    keys = {"env_config": {"game": "rock_paper_scissors", "repetitions": 3}, "population": population, **runs.PPO}
    with Trainer("ppo", env="matrix_game", config=keys) as trainer:
        for _ in range(3):
            trainer.train()
        path = Path(trainer.save(tmp_path / "run"))
    playable = opened(path)
    tape = play_episode(playable, Which(1))
    answer = what_if(playable, tape, Instead(1, "player_0", tape.batch.actions[0][1, 0, 0]), 64)
    assert np.array_equal(answer.returns["as_it_was"]["player_0"], answer.returns["instead"]["player_0"])


# -- chance ------------------------------------------------------------------------------------------------------------


def test_the_same_action_makes_no_difference_in_any_continuation(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", "traffic", env_config={"episode_length": 30})
    playable = opened(path)
    tape = play_episode(playable, Which(2, explore=True))
    agent = next(a for a in tape.agents if a.startswith("car") and 12 in tape.steps_of(a))
    seat = tape.seat_of(agent, 12)
    answer = what_if(playable, tape, Instead(12, agent, tape.batch.actions[0][12, 0, seat]), 300)
    spread = 0.0
    for name, effect in answer.effects.items():
        assert (effect.difference.mean, effect.difference.margin) == (0.0, 0.0)
        assert np.array_equal(answer.returns["as_it_was"][name], answer.returns["instead"][name])
        spread = max(spread, answer.returns["as_it_was"][name].std())
    assert spread > 0.1  # luck and exploration differ from continuation to continuation


def test_going_instead_of_waiting_in_the_last_step_of_traffic(tmp_path: Path) -> None:
    path = constant(
        tmp_path / "run", "traffic", {"cars": [0.0, SURE], "lights": EVEN},
        env_config={"episode_length": 12, "arrival_rate": 0.15},
        multiagent={"policies": {"cars": {}, "lights": {}}, "policy_mapping_fn": {"car_*": "cars", "traffic_light_*": "lights"}},
    )  # fmt: skip
    playable = opened(path)
    tape = play_episode(playable, Which(1))
    agent = _went_freely(tape, 11)
    answer = what_if(playable, tape, Instead(11, agent, np.array(0)), 50)
    # Going pays 0.1 and waiting -0.02. No car is behind it; a light may count one more that waits.
    effect = answer.effects[agent]
    assert effect.difference.mean == pytest.approx(-0.12, abs=1e-6)
    assert effect.difference.margin == pytest.approx(0.0, abs=1e-6)
    assert effect.as_it_was.mean == pytest.approx(tape.returns[agent], abs=1e-5)
    others = [e.difference.mean for name, e in answer.effects.items() if name.startswith("car") and name != agent]
    assert others == pytest.approx([0.0] * len(others))


def _went_freely(tape: Tape, step: int) -> str:
    """A car that was paid for going alone in this step."""
    for seat, name in enumerate(tape.asked[step]):
        if tape.batch.present[step, 0, seat] and tape.batch.rewards[step, 0, seat] == np.float32(0.1):
            return name
    raise AssertionError("no car went freely")


def test_agents_that_come_in_some_continuations_only_earn_nothing_in_the_others(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", "traffic", env_config={"episode_length": 30})
    playable = opened(path)
    tape = play_episode(playable, Which(0, explore=True))
    light = Instead(5, "traffic_light_0", np.array(1 - tape.batch.actions[1][5, 0, 0]))
    answer = what_if(playable, tape, light, 100)
    assert set(answer.effects) - set(tape.agents)  # cars that had not come in the episode itself
    assert {len(numbers) for way in answer.returns.values() for numbers in way.values()} == {100}
    total = sum(effect.difference.mean for effect in answer.effects.values())
    assert answer.together.difference.mean == pytest.approx(total)
    assert answer.luck == "the env's luck is drawn anew in every continuation"


def test_both_ways_have_the_same_luck(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", f"{ENVS}:Fair", {"gambler": [SURE, 0.0]})
    answer = asked(path, Instead(0, "gambler", np.array(1)), 70)
    was = answer.returns["as_it_was"]["gambler"]
    assert was.std() > 0.5
    assert len(set(was.tolist())) == 70
    assert np.array_equal(was, answer.returns["instead"]["gambler"])


def test_common_random_numbers_narrow_the_interval_also_where_agents_come_and_go(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", "traffic", env_config={"episode_length": 40})
    playable = opened(path)
    tape = play_episode(playable, Which(2, explore=True))
    agent = next(a for a in tape.agents if a.startswith("car") and 20 in tape.steps_of(a))
    done = tape.batch.actions[0][20, 0, tape.seat_of(agent, 20)]
    found = what_if(playable, tape, Instead(20, agent, 1 - done), 200).together
    margins = [part.margin or 0.0 for part in (found.as_it_was, found.instead, found.difference)]
    assert 0 < margins[2] < 0.6 * np.hypot(margins[0], margins[1])  # so wide would the interval be without pairs


def test_an_agent_draws_the_same_numbers_whoever_else_is_asked() -> None:
    everybody, some = np.ones((2, 3), bool), np.array([[True, False, True], [False, True, True]])
    for draw in (
        lambda rng, n: rng.random(n, np.float32),
        lambda rng, n: rng.standard_exponential((n, 4), np.float32),
        lambda rng, n: rng.standard_normal((n, 2)),
        lambda rng, n: rng.uniform([0, 1], [1, 3], (n, 2)),
    ):
        all_rows, few = draw(SeatGenerator([1, 2], everybody), 6), draw(SeatGenerator([1, 2], some), 4)
        assert np.array_equal(all_rows[some.reshape(-1)], few)
        assert len(np.unique(all_rows)) == all_rows.size


@pytest.mark.slow
def test_the_interval_covers_the_true_difference_as_often_as_it_says(tmp_path: Path) -> None:
    playable = opened(constant(tmp_path / "run", f"{ENVS}:Dice", {"gambler": [SURE, 0.0]}))
    covered, questions = 0, 150
    for seed in range(questions):
        tape = play_episode(playable, Which(0, seed))
        found = what_if(playable, tape, Instead(0, "gambler", np.array(1)), 32).effects["gambler"].difference
        assert found.margin is not None
        covered += abs(found.mean - 0.3) <= found.margin
    # 95 % of 150 are 142.5 with a standard deviation of 2.7.
    assert 134 <= covered <= 149


def test_what_does_not_repeat_itself_is_refused_before_anything_is_played_on(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", f"{ENVS}:Forgetful", {"gambler": [SURE, 0.0]})
    playable = opened(path)
    tape = play_episode(playable, Which(0))
    told: list[int] = []
    with pytest.raises(EnvError, match=r"does not repeat itself: .* in step 0.*reset\(seed=\.\.\.\)"):
        what_if(playable, tape, Instead(1, "gambler", np.array(1)), 10, progress=lambda done, _: told.append(done))
    assert told == []


def test_continuations_that_do_not_end_are_cut_and_counted(tmp_path: Path) -> None:
    path = constant(tmp_path / "run", f"{ENVS}:Endless", {"gambler": [SURE, 0.0]})
    playable = opened(path)
    tape = play_episode(playable, Which(0))
    assert tape.returns == {"gambler": 2.0}
    answer = what_if(playable, tape, Instead(1, "gambler", np.array(1)), 4, longest=20)
    assert answer.cut >= 1
    assert means(answer.effects["gambler"]) == [2.0, 21.0, 19.0]
