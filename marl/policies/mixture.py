"""A mixture over a population is a policy: it draws one of its members for each episode and plays that member to the end.

Which member plays follows from the *lot* of the episode, a number from 0 to 1 that the env runner draws once per team and
episode: agents of one team get the same lot, so a team is played by one member as a whole. The member is chosen for all
agents when the episode begins, also for those that come or act later, so an episode ends as it began even if chances change
meanwhile. Who plays without a lot draws a member at the first decision and remembers it in the carry (its number plus one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from marl.data.task import AgentType, Array, Floats, Ints
from marl.errors import ConfigError
from marl.policies.policy import Decision, Inputs, Insight, Policy

MEMBER = "members."
Chances = NDArray[np.float64]
BELOW_ONE = 1 - 1e-9  # stays below the next whole number when a member's number is added


class Mixture(Policy):
    """``chances[k]`` is the probability that member ``k`` plays an episode.

    ``fresh`` builds one more member; members differ in their weights alone. Members that draw their actions draw them
    always, also where others play greedily: a mixed strategy has no greedy version.
    """

    draws_lots = True

    def __init__(self, kind: AgentType, fresh: Callable[[], Policy], draws_actions: bool) -> None:
        super().__init__(kind)
        self.fresh, self.draws_actions = fresh, draws_actions
        first = _settled(fresh())
        if first.remembers_reward:
            raise ConfigError(
                "lstm_use_prev_reward and attention_use_n_prev_rewards do not work in a population: the memory of its members "
                "has another place. Drop them."
            )
        self.env_units = first.env_units
        self.members = nn.ModuleList([first])
        self.chances: torch.Tensor
        self.register_buffer("chances", torch.ones(1, dtype=torch.float64))

    @property
    def carry_size(self) -> int:  # type: ignore[override]  # members may come that remember more
        """The member's number, and the memory of the member that remembers most."""
        return 1 + max(self.member(index).carry_size for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.members)

    def member(self, index: int) -> Policy:
        found = self.members[index]
        assert isinstance(found, Policy)
        return found

    def share(self, other: Mixture) -> None:
        """Have the same members as ``other``, with chances of one's own."""
        self.members = other.members

    def add(self, weights: Mapping[str, Array]) -> int:
        """One more member, also of the mixtures that share them; returns its number. Its chance is 0 until it is set."""
        policy = self.fresh()
        policy.set_weights(dict(weights))
        self.members.append(_settled(policy).to(self.device))
        return len(self.members) - 1

    def replace(self, index: int, weights: Mapping[str, Array]) -> None:
        """Other weights for a member, also in the mixtures that share it."""
        member = self.member(index)
        member.set_weights(dict(weights))
        _settled(member)

    def set_chances(self, chances: Sequence[float] | Chances) -> None:
        given = np.asarray(chances, np.float64)
        fits = given.shape == (len(self),)
        if not fits or given.min() < -1e-9 or abs(given.sum() - 1) > 1e-6:
            raise ConfigError(f"a mixture of {len(self)} members needs so many chances that add up to 1, got {given}.")
        positive = np.maximum(given, 0)  # solvers leave tiny negative chances
        self.chances = torch.from_numpy(positive / positive.sum()).to(self.chances.device)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        carry = carry.copy()
        new = carry[:, 0] == 0
        if new.any():
            outside = not len(inputs.episode_uniform)  # of an episode
            drawn = self.draw(rng.random(len(inputs))) if outside else inputs.episode_uniform
            carry[new, 0] = np.floor(drawn[new]) + 1
        playing = carry[:, 0].astype(np.int64) - 1
        actions = np.zeros((len(inputs), *self.kind.action_shape), self.kind.action_dtype)
        logp = np.zeros(len(inputs), np.float32)
        for number in np.unique(playing):
            rows, member = np.flatnonzero(playing == number), self.member(number)
            mine = slice(1, 1 + member.carry_size)
            found = member.act(_part(inputs, rows, member), carry[rows, mine], rng, explore=self.draws_actions)
            actions[rows], logp[rows] = found.actions, found.logp
            if member.carry_size:
                carry[rows, mine] = found.carry
        return Decision(actions, logp, carry)

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """What the member that plays each row thinks; nothing where no member was drawn yet."""
        del explore
        number = carry[:, 0].astype(np.int64) - 1
        if len(inputs.episode_uniform):
            number = np.where(number < 0, np.floor(inputs.episode_uniform).astype(np.int64), number)
        # Outside of an episode the member is only drawn when it acts.
        if (number < 0).any():
            return Insight()
        found: list[tuple[Ints, Insight]] = []
        for k in np.unique(number).tolist():
            rows, member = np.flatnonzero(number == k), self.member(k)
            part, past = _part(inputs, rows, member), carry[rows, 1 : 1 + member.carry_size]
            found.append((rows, member.insight(part, past, explore=self.draws_actions)))
        return joined_insights(found, member=number)

    def tells_logp(self, explore: bool) -> bool:
        """Given the member that plays: which one does, has nothing to do with what is seen."""
        del explore
        return self.member(0).tells_logp(self.draws_actions)

    def recarried(self, inputs: Inputs, before: Floats, after: Floats, actions: Array) -> Floats:
        changed = after.copy()
        playing = after[:, 0].astype(np.int64) - 1
        for k in np.unique(playing).tolist():
            rows, member = np.flatnonzero(playing == k), self.member(k)
            part, mine = _part(inputs, rows, member), slice(1, 1 + member.carry_size)
            changed[rows, mine] = member.recarried(part, before[rows, mine], after[rows, mine], actions[rows])
        return changed

    def draw(self, episode_uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of the member into whose share of 0..1 a lot falls, plus where in that share: the member's own lot."""
        edges = np.concatenate([[0.0], np.cumsum(self.chances.cpu().numpy())])
        place = episode_uniform * edges[-1]
        found: Ints = np.minimum(np.searchsorted(edges[1:], place, side="right"), len(self) - 1)
        own = (place - edges[found]) / np.maximum(edges[found + 1] - edges[found], 1e-300)
        drawn: NDArray[np.float64] = found + np.clip(own, 0.0, BELOW_ONE)
        return drawn

    # -- weights ---------------------------------------------------------------------------------------------------

    def fit(self, weights: Mapping[str, Array]) -> None:
        """Have as many members as these weights."""
        wanted = len(weights["chances"])
        while len(self.members) < wanted:
            self.members.append(self.fresh().to(self.device))
        if len(self.members) > wanted:
            del self.members[wanted:]  # in place: other mixtures share them
        if len(self.chances) != wanted:
            self.chances = torch.full((wanted,), 1.0 / wanted, dtype=torch.float64)

    def set_weights(self, weights: dict[str, Array]) -> None:
        self.fit(weights)
        super().set_weights(weights)

    def weights_of_member(self, index: int) -> dict[str, Array]:
        return self.member(index).get_weights()


def mixture(policies: Sequence[Policy], chances: Sequence[float] | Chances, *, draws_actions: bool = True) -> Mixture:
    """These policies, of which one is drawn for each episode: networks, tables, best responses.

    They are members as they are, not copies. With ``draws_actions=False`` they play their best guess, as values do.
    """
    given = list(policies)
    if not given or any(isinstance(policy, Mixture) for policy in given):
        raise ConfigError(
            f"a mixture needs one policy or more, and no mixtures among them; got {len(given)} policies. Give the members of "
            "a mixture, with the products of their chances."
        )
    first = given[0].kind
    for number, policy in enumerate(given):
        kind = policy.kind
        if (kind.obs_width, kind.action_space) != (first.obs_width, first.action_space):
            raise ConfigError(
                f"the members of a mixture play for the same agents, but policy 0 sees {first.obs_width} numbers and has the "
                f"actions {first.action_space}, and policy {number} sees {kind.obs_width} and has {kind.action_space}."
            )
    found = Mixture(first, lambda: deepcopy(given[0]), draws_actions)
    found.members = nn.ModuleList(given)
    found.set_chances(chances)
    return found


def _part(inputs: Inputs, rows: Ints, member: Policy) -> Inputs:
    """Rows that one member plays, with the member's own lots."""
    part = Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows])
    if len(inputs.episode_uniform):
        part.episode_uniform = member.draw(inputs.episode_uniform[rows] % 1.0)
    return part


def joined_insights(parts: Sequence[tuple[Ints, Insight]], member: Ints) -> Insight:
    """What several members think of some rows each, as one table. Members are built alike: they think of the same things."""
    columns: dict[str, Array] = {}
    for name in ("probabilities", "mean", "std", "q_values", "value"):
        for rows, insight in parts:
            column = getattr(insight, name)
            if column is not None:
                columns.setdefault(name, np.zeros((len(member), *column.shape[1:]), np.float32))[rows] = column
    return Insight(**columns, member=member)


def member_weights(mixture: Mapping[str, Array], number: int) -> dict[str, Array]:
    """The weights of one member out of those of a mixture, which keeps all under names that begin with the member's."""
    start = f"{MEMBER}{number}."
    found = {}
    for name, array in mixture.items():
        if name.startswith(start):
            found[name.removeprefix(start)] = array
    return found


def weights_as_mixture(policy: Policy) -> dict[str, Array]:
    """Weights of a mixture whose only member is this policy."""
    inner = {f"{MEMBER}0.{name}": array for name, array in policy.get_weights().items()}
    return {"chances": np.ones(1), **inner}


def _settled(policy: Policy) -> Policy:
    """A member plays its strategy: it is not in the phase of uniform play with which exploration may begin."""
    uniform = getattr(getattr(policy, "exploration", None), "uniform", None)
    if isinstance(uniform, torch.Tensor):
        uniform.zero_()
    return policy
