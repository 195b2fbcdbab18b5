"""What `marl show` prints of q_learning, sarsa and monte_carlo."""

from __future__ import annotations

from marl.algos.reading import Function, Reading
from marl.algos.tabular.config import TabularConfig
from marl.algos.tabular.learner import TabularLearner
from marl.algos.tabular.updates import LOOK_AHEAD, backed_up, first_visits, move, next_played
from marl.data.returns import discounted_until, fold_rewards, returns_to_go

LEFT_OUT: dict[Function, str] = {
    TabularLearner._make_room: "memory that grows",
    TabularLearner._report: "the numbers that are reported",
}


def reading(learner: type[TabularLearner], config: TabularConfig) -> Reading:
    """From ``learn`` to the value that moves."""
    shown: list[Function] = [learner.learn, learner._decisions]
    left_out = dict(LEFT_OUT)
    if config.backup == "return":
        left_out[fold_rewards] = "rewards of single decisions, which returns replace"
        firsts: list[Function] = [first_visits] if config.first_visit else []
        shown += [returns_to_go, discounted_until, learner._train, learner._learn_returns, *firsts]
    else:
        followed: list[Function] = [learner._followed, next_played] if config.backup == "played" else []
        ahead = LOOK_AHEAD[config.backup]
        shown += [
            fold_rewards,
            *followed,
            learner._train,
            learner._learn_step_by_step,
            learner._target,
            ahead,
            backed_up,
        ]
    return Reading((*shown, learner._move, move), left_out)
