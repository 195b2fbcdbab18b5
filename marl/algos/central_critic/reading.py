"""What `marl show` prints of pg, a2c, a3c, ia2c, maa2c, coma, ppo, ippo, mappo, happo, mmd, nashpg and impala."""

from __future__ import annotations

from marl.algos.central_critic.action_critic import ActionCritic, build_critic, loss_over_actions
from marl.algos.central_critic.actor_critic import ActorCritic, Slopes
from marl.algos.central_critic.advantages import with_advantages
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView, _played, current_logp, in_network_units, last_layers
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.losses import (
    clipped_loss,
    error_loss,
    explained_variance,
    means_of,
    normalized,
    policy_gradient_loss,
    value_loss,
    with_slope,
)
from marl.algos.central_critic.magnet import Magnet
from marl.algos.central_critic.next_actions import (
    _draw,
    _moved_up,
    _played_on,
    actions_of_others,
    next_actions_of,
    with_next_actions,
)
from marl.algos.central_critic.penalties import Penalty, penalties
from marl.algos.central_critic.sequential import SequentialJob, _teams, job_of, moments, take_turn
from marl.algos.central_critic.stacked import TrainingJob, _plain, can_be_stacked
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch, columns_of, prepare, to_tensors
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.data.returns import discounted_until, fold_rewards, gae, returns_to_go, temporal_differences, vtrace
from marl.policies.value_scale import ValueScale

LEFT_OUT: dict[Function, str] = {
    CentralCriticLearner.prepare: "several learners of one run",
    CentralCriticLearner._trained: "moves schedules of exploration",
    TrainingJob.run_together: "policies of one shape, which are trained at once",
    TrainingJob.key.fget: "policies of one shape, which are trained at once",  # type: ignore[attr-defined]
    _plain: "policies of one shape, which are trained at once",
    can_be_stacked: "policies of one shape, which are trained at once",
    job_of: "whether policies learn at once or one after the other",
    SequentialJob.log_chances: "chances under a policy",
    SequentialJob.outcome.fget: "metrics",  # type: ignore[attr-defined]
    _teams: "numbers of groups",
    _moved_up: "shifts rows by one",
    _played: "which columns of the batch",
    last_layers: "looks up the layer that gives values",
    error_loss: "squares, or straight lines beyond vf_huber_delta",
    columns_of: "numpy to torch",
    CentralCriticLearner._take_gathered: "puts the rounds of a batch together",
    CentralCriticLearner._check_finite: "an error message",
    CentralCriticLearner._finish: "metrics",
    CentralCriticLearner._unread_columns: "what is not shuffled",
    CentralCriticLearner._add_custom_gradient: "users' own losses",
    ActorCritic.run: "actor and critic, one after the other",
    ActorCritic.pull: "the same, backwards",
    ActorCritic.run_traced: "users' own losses",
    Slopes.scaled: "several learners",
    means_of: "means",
    CentralCriticLearner._penalties: "which of them have a weight",
    with_slope: "a derivative by autograd",
    Critic.run: "one network",
    Critic.pull: "the same, backwards",
    Critic._value: "one network",
    Critic._look_ahead: "recurrent policies",
    Critic._slices: "batches larger than the memory",
    Critic._unchanged: "compares views",
    Critic.seen: "looks up rows",
    Critic.forward: "one network",
    Critic.observe: "running statistics of observations",
    Critic.of_taken: "critics of actions",
    Critic.by_all: "the same, backwards",
    Critic.values_of: "a single value has no axis of its own",
    Critic.by_output: "the same, backwards",
    build_critic: "which critic",
    ActionCritic._judged: "actor and critic, one after the other",
    TrainBatch._sequences: "recurrent policies",
    Minibatch.share: "several learners",
    prepare: "numpy to torch",
    to_tensors: "numpy to torch",
    explained_variance: "metrics",
}


def reading(learner: type[CentralCriticLearner], config: CentralCriticConfig) -> Reading:
    """From ``learn`` to the optimiser's step."""
    left_out = dict(LEFT_OUT)
    shown: list[Function] = [learner.learn, learner._prepare, with_advantages]
    if config.critic_sees == "own":
        left_out[CriticView.forward] = "critics that see more than one agent"
    else:
        shown += [CriticView.forward, CriticView._joint]
    if config.critic_sees_actions:
        shown += [actions_of_others, with_next_actions, next_actions_of, _played_on, _draw]
    else:
        left_out[with_next_actions] = "critics that see actions"
    if config.objective == "pg":
        left_out[fold_rewards] = "a column that is not learned from"
    shown += _advantages(config)
    if config.sequential_update:
        shown += [SequentialJob.run_together, take_turn, SequentialJob.training, SequentialJob.took]
        shown += [SequentialJob.__init__, moments]
        left_out[current_logp] = "chances under a policy"
    shown += [learner._train, learner._train_batch, normalized]
    if config.normalize_values:
        shown += [in_network_units, ValueScale.observe]
    shown += _losses(learner, config)
    if config.backward_kl_coeff > 0 or config.magnet_coeff > 0:
        shown += [penalties, Penalty.with_slope]
    else:
        left_out |= {penalties: "terms that few runs have", Penalty.with_slope: "terms that few runs have"}
    if config.magnet_coeff > 0:
        shown += [Magnet.divergence, Magnet.follow]
    shown += [FlatOptimiser.step, STEPS[config.optimizer.type]]
    return Reading(tuple(shown), left_out)


def _advantages(config: CentralCriticConfig) -> list[Function]:
    """From rewards to what is learned from."""
    if config.objective == "pg":
        return [returns_to_go, discounted_until]
    if config.objective == "vtrace":
        return [Critic.estimate_values, Critic._seen_again, current_logp, fold_rewards, vtrace, temporal_differences]
    values = ActionCritic.estimate_values if config.critic_values == "actions" else Critic.estimate_values
    return [values, Critic._seen_again, fold_rewards, gae, temporal_differences]


def _losses(learner: type[CentralCriticLearner], config: CentralCriticConfig) -> list[Function]:
    """From minibatches to the parts of the loss."""
    shown: list[Function] = [learner._minibatches]
    if config.objective == "ppo":
        shown.append(TrainBatch.minibatches)
    shown += [learner._update, learner._add_gradient, learner._loss]
    if config.critic_values == "actions":
        shown.append(loss_over_actions)
    shown.append(clipped_loss if config.objective == "ppo" else policy_gradient_loss)
    if config.objective != "pg":
        shown.append(value_loss)
    return shown
