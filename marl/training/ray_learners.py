"""Learners that share every minibatch with copies of themselves on Ray actors (``num_learners``).

The learners of this process are member 0 of a group (``marl.algos.learner_group``): their policies are the run's policies,
and only their state is saved. Each actor holds the same learners. A round's batch goes to all of them through the object
store; then all learn in step and meet at every gradient. Ray carries batches and commands, torch's gloo the gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from marl.algos.custom_loss import LOSSES, Loss, register_loss
from marl.algos.intrinsic.kind import INTRINSIC, IntrinsicReward, register_intrinsic
from marl.algos.learner import Learner, Metrics
from marl.algos.learner_group import GlooLearnerGroup, LearnerGroupError, join_store, open_store
from marl.algos.plan import LearnerPlan, Role
from marl.data.batch import MultiAgentBatch
from marl.data.task import PolicyID
from marl.errors import ConfigError, ResourceError, TrainingError, UserError
from marl.policies.build import weights_of
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.ray_instance import first_line, get, put, ray_is_lost, start_ray, stop_ray
from marl.rollout.worker import RolloutWorker
from marl.rollout.worker_policies import Weights
from marl.scenario.resolve import Setup
from marl.training.learners import Learners, build_learners, learn
from marl.trust import under

DRIFT = 1e-4  # relative difference of two members' weights that no rounding explains
LOOPBACK = "127.0.0.1"  # where all learners are on one machine, nothing listens to others
LAST_WORDS_S = 30.0  # seconds to wait for the reason of a failure

Digest = dict[PolicyID, tuple[float, float]]


class RayLearners(Learners):
    """Member 0 of the learner group, and the one who tells the others what to do."""

    def __init__(self, setup: Setup, policies: Mapping[PolicyID, Policy]) -> None:
        super().__init__(setup, policies)
        self.size = setup.scenario.num_learners
        _check(self.members, self.size, policies)
        self.started_ray = _start_ray(setup, self.size - 1)
        self.actors: list[Any] = []
        try:
            self._start(syllabus(setup, policies))
        except BaseException:
            self.stop()
            raise
        self.known = digest(policies)  # what the actors have

    def _start(self, syllabus: Syllabus) -> None:
        """Start the actors and join them; what is wrong with them shows here."""
        import ray

        syllabus_reference = put(syllabus)
        remote = ray.remote(Helper).options(num_cpus=1, max_restarts=0)
        self.actors = [remote.remote(syllabus_reference, rank, self.size) for rank in range(1, self.size)]
        nodes = {_node(), *self._answers([actor.node.remote() for actor in self.actors])}
        address = LOOPBACK if len(nodes) == 1 else _address(_node())
        store = open_store(address)
        joined = [actor.join.remote(address, store.port) for actor in self.actors]
        group = GlooLearnerGroup(store, 0, self.size, address)
        self._answers(joined)
        for learner in self.members:
            learner.learner_group = group

    def learn(self, batch: MultiAgentBatch) -> Metrics:

        clock = self.members[0].clock
        clock.start()
        self._push_if_changed()
        reference = put(batch)
        clock.lap("load")
        answers = [actor.learn.remote(reference) for actor in self.actors]
        try:
            metrics = super().learn(batch)
            digests = self._answers(answers)
        except LearnerGroupError as error:
            self._leave()
            self._answers(answers, LAST_WORDS_S)  # raises what went wrong there
            raise error
        except BaseException:
            self._leave()  # members are no longer in step: nobody may go on as if they were
            raise
        self.known = digest(self.policies)
        self._check_drift(digests)
        return metrics

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        self._answers([actor.set_trained.remote(tuple(policies)) for actor in self.actors])

    def align(self) -> None:

        states = [(learner.state_dict(), learner.replay_state(), learner.trained) for learner in self.members]
        everything = put((weights_of(self.policies), states))
        self._answers([actor.load.remote(everything) for actor in self.actors])
        self.known = digest(self.policies)

    def stop(self) -> None:
        import ray

        self._leave()
        if not ray_is_lost():
            for actor in self.actors:
                ray.kill(actor)
        self.actors = []
        if self.started_ray:
            stop_ray()
            self.started_ray = False

    def _leave(self) -> None:
        for learner in self.members:
            learner.learner_group.close()

    def _push_if_changed(self) -> None:
        """Whoever changed the policies since the last round (a user, ``load``, annealing anew): the others follow."""
        if digest(self.policies) == self.known:
            return
        weights = put(weights_of(self.policies))
        self._answers([actor.set_weights.remote(weights) for actor in self.actors])

    def _answers(self, references: Sequence[Any], timeout: float | None = None) -> list[Any]:
        """Answers of all actors; the first error that is not merely another one's absence is raised."""
        import ray

        answers, errors = [], []
        for rank, reference in enumerate(references, start=1):
            try:
                answers.append(get(reference, timeout=timeout))
            except ray.exceptions.RayTaskError as error:
                errors.append(_original(error, rank))
            except ray.exceptions.RayActorError as error:
                errors.append(_dead(rank, error))
            except ray.exceptions.GetTimeoutError:
                continue  # it waits for somebody else
        for found in sorted(errors, key=lambda e: isinstance(e, LearnerGroupError)):
            raise found
        return answers

    def _check_drift(self, digests: Sequence[Digest]) -> None:
        """Members that apply the same gradients stay equal but for rounding, unless something draws by itself."""
        for rank, other in enumerate(digests, start=1):
            for name, (mine, scale) in self.known.items():
                theirs, _ = other[name]
                if abs(theirs - mine) > DRIFT * scale:
                    raise TrainingError(
                        f"learner {rank} has other weights of policy {name!r} than learner 0 (sums {theirs:.9g} and "
                        f"{mine:.9g}). A custom model or loss that draws random numbers by itself does this; use "
                        "num_learners: 1 with it."
                    )


@dataclass(frozen=True)
class Syllabus:
    """All that an actor builds its learners from."""

    rollout: RolloutSpec
    plans: tuple[LearnerPlan, ...]
    roles: Mapping[PolicyID, Role]
    losses: Mapping[str, type[Loss]]  # of the user's own, by the names under which they were registered here
    intrinsic: Mapping[str, type[IntrinsicReward]]  # the same of intrinsic rewards
    seed: int
    weights: Weights


def syllabus(setup: Setup, policies: Mapping[PolicyID, Policy]) -> Syllabus:
    """What the learners of this process were built from."""
    losses = {}
    for role in setup.roles.values():
        name = str(role.config.custom_loss)
        # A module:Class is found by its name there as well; what was registered is known to this process alone.
        if name in LOSSES.classes:
            losses[name] = LOSSES.find(name)
    return Syllabus(
        rollout=setup.rollout,
        plans=setup.plans,
        roles=setup.roles,
        losses=losses,
        intrinsic=INTRINSIC.added,
        seed=setup.scenario.seed,
        weights=weights_of(policies),
    )


class Helper:
    """Member ``rank`` of the learner group: the same learners on a Ray actor. It does what member 0 does, when it is told."""

    def __init__(self, syllabus: Syllabus, rank: int, size: int) -> None:
        spec = syllabus.rollout
        self.rank, self.size = rank, size
        worker = RolloutWorker(spec, 0)  # knows how to find and build policies; its env is never made
        self.policies = worker.policy_map
        worker.set_weights(syllabus.weights)
        for name, loss in syllabus.losses.items():
            register_loss(name, loss)
        for name, kind in syllabus.intrinsic.items():
            register_intrinsic(name, kind)
        with under(spec.trust):  # losses have names, too
            self.learners = build_learners(syllabus.plans, syllabus.roles, self.policies, spec.task, syllabus.seed)

    def node(self) -> str:
        return _node()

    def digest(self) -> Digest:
        return digest(self.policies)

    def join(self, address: str, port: int) -> None:
        mine = LOOPBACK if address == LOOPBACK else _address(_node())
        group = GlooLearnerGroup(join_store(address, port), self.rank, self.size, mine)
        for learner in self.learners:
            learner.learner_group = group

    def learn(self, batch: MultiAgentBatch) -> Digest:
        try:
            learn(self.learners, batch)
        except BaseException:
            for learner in self.learners:
                learner.learner_group.close()  # so that the others do not wait for this one
            raise
        return digest(self.policies)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        for learner in self.learners:
            learner.set_trained(policies)

    def set_weights(self, weights: Weights) -> None:
        for name, arrays in weights.items():
            self.policies[name].set_weights(arrays)

    def load(self, everything: tuple[Weights, Sequence[tuple[Any, Any, frozenset[PolicyID]]]]) -> None:
        weights, states = everything
        self.set_weights(weights)
        for learner, (state, replay, trained) in zip(self.learners, states, strict=True):
            learner.load_state_dict(state)
            learner.load_replay_state(replay)
            learner.set_trained(trained)


def digest(policies: Mapping[PolicyID, Policy]) -> Digest:
    """A number per policy that tells different weights apart, since each weight counts with a factor of its own; and its
    scale, the same sum over absolute weights."""
    found = {}
    for name, policy in policies.items():
        parts = [torch.zeros(0, dtype=torch.float64)]  # scripted policies have no weights
        for tensor in policy.state_dict().values():
            parts.append(tensor.reshape(-1).double())
        flat = torch.cat(parts)
        factors = torch.linspace(1.0, 2.0, len(flat), dtype=torch.float64)
        found[name] = (float(flat @ factors), float(flat.abs() @ factors))
    return found


def _check(learners: Sequence[Learner], size: int, policies: Mapping[PolicyID, Policy]) -> None:
    for learner in learners:
        if not learner.shares_minibatches:
            raise ConfigError(
                f"num_learners is {size}, but the algorithm of {', '.join(learner.policies)} does not "
                "share its work. Use num_learners: 1, or an algorithm that learns by gradients."
            )
    if any(policy.device.type != "cpu" for policy in policies.values()):
        raise ConfigError(
            f"num_learners is {size}, but the learners compute on a GPU, which they would share. Use num_learners: 1, or "
            "device: cpu."
        )


def _start_ray(setup: Setup, helpers: int) -> bool:
    """Ray with room for workers and helpers; refuses what can never fit. True: it is ours to shut down."""
    import ray

    config = setup.rollout.config
    worker_cpus = 0.0
    if config.on_ray:
        worker_cpus = config.num_workers * config.num_cpus_per_worker
    else:
        config = config.model_copy(update={"num_workers": 0})  # workers of this process need nothing of Ray
    ours = start_ray(config, helpers)
    there = ray.cluster_resources().get("CPU", 0)
    if worker_cpus + helpers > there:
        if ours:
            stop_ray()
        raise ResourceError(
            f"the run can never start: num_learners: {helpers + 1} takes {helpers} CPU beside this process and the workers "
            f"take {worker_cpus:g}, but Ray has {there:g}. Ask for less, or join a larger cluster by `address`."
        )
    return ours


def _node() -> str:
    """Ray's name of the machine on which this process runs."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _address(node: str) -> str:
    """Under which the other machines of the cluster reach this one."""
    import ray

    return next(str(known["NodeManagerAddress"]) for known in ray.nodes() if known["NodeID"] == node)


def _original(error: Any, rank: int) -> Exception:
    """The error as the actor raised it; a user's mistake keeps its own text."""
    cause = getattr(error, "cause", None)
    if not isinstance(cause, Exception):
        cause = error
    if isinstance(cause, UserError):
        return cause
    return TrainingError(f"learner {rank} failed: {type(cause).__name__}: {cause}")


def _dead(rank: int, error: object) -> TrainingError:
    return TrainingError(
        f"learner {rank} died ({first_line(error)}). Usual reasons are too little memory and a killed process; the run can go "
        "on from its last checkpoint, also with another num_learners."
    )
