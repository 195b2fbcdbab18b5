"""Between strategies on a tree and policies that play.

``policies_of`` writes a strategy into tables that play in any rollout; ``strategy_of`` reads policies as a strategy, so that
the exact NashConv of a trained network is known. A network without memory takes one forward pass per player. One with a
memory is stepped along the information sets, which form a tree per player: level by level, each from its parent's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from marl.data.batch import SampleBatch
from marl.data.task import Array, Floats, Ints
from marl.errors import ConfigError, PolicyError, SpaceMismatchError
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.policies.distributions import Categorical
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import FixedPolicy, RandomPolicy
from marl.policies.stochastic import Chances, StochasticPolicy
from marl.policies.tabular import TabularPolicy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import ValueTable


@runtime_checkable
class HasProbabilities(Protocol):
    """A policy that tells how likely it plays each action ``[N, n]``."""

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array: ...


@runtime_checkable
class HasDistribution(Protocol):
    """A policy that gives the distributions behind rows of a batch, and plays them whether it explores or not."""

    def action_distribution(self, batch: SampleBatch) -> Chances: ...


class Reading(NamedTuple):
    """Chances of the actions ``[N, n]``, and the memory after the decision where there is one."""

    chances: Array
    memory: Tensor


# -- from a strategy to policies -----------------------------------------------------------------------------------


def policies_of(tree: Tree, strategy: Behaviour, *, greedy: bool = False) -> dict[str, TabularPolicy]:
    """A policy per player that plays the strategy. It remembers its own past only where observations do not tell it."""
    strategy = tree.checked(strategy)
    return {name: _table(tree, strategy, player, greedy) for player, name in enumerate(tree.players)}


def _table(tree: Tree, strategy: Behaviour, player: int, greedy: bool) -> TabularPolicy:
    sets, mine, kind = tree.sets, tree.infosets(player), tree.kind_of(player)
    count, width = mine.stop - mine.start, kind.columns.options
    chances = np.zeros((count, width))
    choices = tree.choices(player)
    chances[sets.owner[choices] - mine.start, sets.action[choices]] = strategy[choices]
    obs = np.array(sets.obs[mine], kind.obs_dtype).reshape(count, kind.obs_width)
    after, legal = np.zeros(0, np.int64), np.zeros((0, 0), bool)
    if len(np.unique(obs, axis=0)) < count:
        before = sets.parent_choice[mine]
        row = sets.owner[np.maximum(before, 0)] - mine.start
        after = np.where(before >= 0, 1 + row * width + sets.action[np.maximum(before, 0)], 0)
        legal = _inputs(tree, player, kind.masked, np.arange(count)).legal
    seat = np.full(count, player - kind.first_seat)
    return TabularPolicy(kind, obs, chances, seat, after, legal, greedy=greedy)


# -- from policies to a strategy -----------------------------------------------------------------------------------


def strategy_of(tree: Tree, policies: Mapping[str, Policy], *, explore: bool | None = None) -> Behaviour:
    """The strategy that these policies play, by player's name.

    ``explore`` is read as in acting: drawing policies as they draw, or their most likely action; values with their epsilon
    of random play, or greedily. None: policies that draw are read as they draw, values greedily. Tables, mixtures and
    everything else with ``probabilities`` or ``action_distribution`` are read as they are; of nfsp that is the average policy.
    """
    missing = [name for name in tree.players if name not in policies]
    if missing:
        raise ConfigError(
            f"game {tree.name!r}: no policy was given for {', '.join(missing)}; expected one for each of "
            f"{', '.join(tree.players)}. The same one may play several."
        )
    strategy = np.zeros(tree.num_choices)
    for player, name in enumerate(tree.players):
        _check(tree, player, policies[name])
        policy = policies[name]
        if isinstance(policy, Mixture):
            strategy[tree.choices(player)] = _read_mixture(tree, player, policy, explore)
        else:
            strategy[tree.choices(player)] = _read(tree, player, policy, explore)
    return strategy


def _read_mixture(tree: Tree, player: int, policy: Mixture, explore: bool | None) -> Behaviour:
    """One member per episode: mixed in sequence form, where strategies can be averaged, and behaviour again."""
    form = tree.form.players[player]
    draws, total = policy.draws_actions if explore is None else explore, np.zeros(form.num_sequences)
    for number, chance in enumerate(policy.chances.tolist()):
        if chance > 0:
            total += chance * form.plan(_read(tree, player, policy.member(number), draws))
    return form.behaviour(total)


def _check(tree: Tree, player: int, policy: Policy) -> None:
    kind, given = tree.kind_of(player), policy.kind
    if (given.obs_width, given.columns.sizes) != (kind.obs_width, kind.columns.sizes):
        raise SpaceMismatchError(
            f"game {tree.name!r}: {tree.players[player]} has {kind.obs_width} numbers to see and the actions "
            f"{kind.action_space}, but its policy was made for {given.obs_width} and {given.action_space}."
        )
    if policy.remembers_reward:
        raise PolicyError(
            f"the policy of {tree.players[player]} looks at its last reward, which information sets of the tree do not hold. "
            "Train it without lstm_use_prev_reward or attention_use_n_prev_rewards to measure it exactly."
        )


def _read(tree: Tree, player: int, policy: Policy, explore: bool | None) -> Behaviour:
    """Chances of the player's choices, level by level where the policy has a memory."""
    sets, mine, choices = tree.sets, tree.infosets(player), tree.choices(player)
    found = np.zeros((mine.stop - mine.start, tree.kind_of(player).columns.options))
    if not len(found):
        return np.zeros(0)
    carry = np.zeros((len(found), policy.carry_size), np.float32)
    level = sets.level[mine]
    for depth in range(int(level.max()) + 1 if policy.carry_size else 1):
        rows = np.flatnonzero(level == depth) if policy.carry_size else np.arange(len(found))
        reading, inputs = _ask(tree, player, policy, rows, carry[rows], explore)
        found[rows] = reading.chances
        below = np.flatnonzero(level == depth + 1) if policy.carry_size else rows[:0]
        if below.size:
            before = sets.parent_choice[mine][below]
            parent = np.searchsorted(rows, sets.owner[before] - mine.start)
            carry[below] = _carry(policy, inputs, carry[rows], reading.memory, parent, sets.action[before])
    local = sets.owner[choices] - mine.start
    legal = found[local, sets.action[choices]]
    total = np.bincount(local, legal)
    if not (total > 0).all():  # also NaN
        raise PolicyError(
            f"the policy of {tree.players[player]} gives no legal action a chance at {int((~(total > 0)).sum())} of its "
            f"{len(found)} information sets. Its probabilities have to be 0 or more and hold a legal action."
        )
    return np.asarray(legal / total[local])


def _ask(
    tree: Tree, player: int, policy: Policy, rows: Ints, carry: Floats, explore: bool | None
) -> tuple[Reading, Inputs]:
    inputs = _inputs(tree, player, policy.kind.masked, rows)
    reading = _reading(policy, inputs, carry, explore)
    if reading is None:
        raise PolicyError(
            f"the policy of {tree.players[player]} is a {type(policy).__name__}, which can be asked for an action but not for "
            "its probabilities. Give it a method probabilities(inputs, carry) -> [N, actions]."
        )
    return reading, inputs


def _inputs(tree: Tree, player: int, masked: bool, rows: Ints) -> Inputs:
    """What the player sees at some of its information sets."""
    sets, kind, first = tree.sets, tree.kind_of(player), tree.infosets(player).start
    obs = np.array([sets.obs[first + row] for row in rows.tolist()], kind.obs_dtype).reshape(len(rows), kind.obs_width)
    legal = np.zeros((len(rows), kind.columns.options if masked else 0), bool)
    if masked:
        for i, row in enumerate(rows.tolist()):
            at = int(sets.first_choice[first + row])
            legal[i, sets.action[at : at + int(sets.num_actions[first + row])]] = True
    return Inputs(obs, legal, np.full(len(rows), player - kind.first_seat))


def _reading(policy: Policy, inputs: Inputs, carry: Floats, explore: bool | None) -> Reading | None:
    """How the policy plays, or None where it cannot be told."""
    nothing = torch.zeros(len(inputs), 0)
    if isinstance(policy, HasProbabilities):
        return Reading(np.asarray(policy.probabilities(inputs, carry), np.float64), nothing)
    if isinstance(policy, RandomPolicy):
        return Reading(_even(inputs, policy.kind.columns.options), nothing)
    if isinstance(policy, FixedPolicy):
        played = policy.act(inputs, carry, np.random.default_rng(0), explore=False).actions
        return Reading(np.eye(policy.kind.columns.options)[played], nothing)
    if isinstance(policy, StochasticPolicy) and isinstance(policy.distribution, Categorical):
        return _reading_of_logits(policy, inputs, carry, explore)
    if isinstance(policy, ValuePolicy | ValueTable):
        return _reading_of_values(policy, inputs, carry, bool(explore))
    if isinstance(policy, HasDistribution) and not policy.carry_size:
        rows = {"obs": inputs.obs, "agent_index": inputs.agent_index, "legal": inputs.legal}
        found = policy.action_distribution(SampleBatch(rows))
        if isinstance(found.family, Categorical):
            return Reading(found.params.double().softmax(1).cpu().numpy(), nothing)
    return None


def _reading_of_logits(policy: StochasticPolicy, inputs: Inputs, carry: Floats, explore: bool | None) -> Reading:
    with torch.inference_mode():
        obs, index, legal = policy.tensors(inputs, policy.device)
        past = torch.from_numpy(carry).to(policy.device)
        # In double, so that chances sum to 1 as precisely as the tree computes with them.
        chances = policy.params(obs, index, legal, past).double().softmax(1).cpu().numpy()
        memory = torch.zeros(len(inputs), 0)
        if policy.carry_size:
            memory = policy.model.step(obs, index, past)[1]
    if explore is not None and not explore:
        chances = np.eye(chances.shape[1])[chances.argmax(1)]
    return Reading(chances, memory)


def _reading_of_values(
    policy: ValuePolicy | ValueTable, inputs: Inputs, carry: Floats, explore: bool
) -> Reading | None:
    """The best legal action or, where it explores, how likely each of them is; None where noise on weights decides."""
    if isinstance(policy, ValueTable):
        return Reading(policy.chances(inputs, explore=explore), torch.zeros(len(inputs), 0))
    with torch.inference_mode():
        obs, index, _ = policy.tensors(inputs, policy.device)
        values, memory = policy.step(obs, index, torch.from_numpy(carry).to(policy.device))
    chances = policy.chances(values.cpu().numpy(), inputs.legal, explore=explore)
    if chances is None:
        return None
    exact = chances.astype(np.float64)  # the tree computes with chances that sum to 1 more precisely than float32 does
    return Reading(exact / exact.sum(axis=1, keepdims=True), memory)


def _even(inputs: Inputs, actions: int) -> Array:
    """The same chance for every legal action."""
    allowed = inputs.legal if inputs.legal.shape[1] else np.ones((len(inputs), actions), bool)
    return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))


def _carry(policy: Policy, inputs: Inputs, carry: Floats, memory: Tensor, rows: Ints, actions: Ints) -> Floats:
    """The carry after rows of a level did these actions."""
    if isinstance(policy, StochasticPolicy | ValuePolicy):
        with torch.inference_mode():
            taken = torch.from_numpy(np.ascontiguousarray(actions)).to(memory.device)
            unpaid = torch.zeros(len(rows), device=memory.device)
            carried: Floats = policy.model.carried(memory[torch.from_numpy(rows)], taken, unpaid).cpu().numpy()
            return carried
    if isinstance(policy, TabularPolicy):
        seen = Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows])
        return policy.carried(seen, carry[rows], actions)
    raise PolicyError(
        f"a {type(policy).__name__} has a memory, but cannot be told which action it took. Give it carry_size 0, or measure "
        "it by trained best responses."
    )
