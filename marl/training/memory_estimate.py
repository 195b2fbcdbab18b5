"""How much memory a run will take at least, and whether there is so much, before anything of that size is made.

With ``E`` copies of the env on all workers together, ``T`` steps of each per round (``rollout_fragment_length``), ``B`` env
steps per training batch of on-policy algorithms, and ``row``, the bytes of one step of one copy in a grid (observations,
actions, masks, rewards, ... of all agents, before and after the step):

    rounds      2 * T * E * row               the grids of the workers, and the same rows together
    batch       B * row                       what on-policy learners gather, if that is more than a round
    copies      E * 2 kB                      objects of a copy that is stepped by itself, without what the env takes
    replay      size * 8 + rows * row         its agents' share of a row; no more rows than ``stop`` lets the run collect
    networks    16 bytes per weight           weights, gradients and two moments of the optimiser
    workers     150 MB each on Ray            Python with torch

What an env takes by itself, vision nets and custom models, and copies that are made for a moment (a checkpoint that is being
written) are not known and not counted, and of a replay only what is written at once and the rows that come: its columns are
taken from the system as they fill. So a run that is refused would have run out of memory before the steps or iterations that
its ``stop`` allows (without ``stop``: sooner or later), and one that is not refused may still be tight.
"""

from __future__ import annotations

from dataclasses import dataclass

from marl.algos.config import ReplayConfig
from marl.algos.nfsp.config import NfspConfig
from marl.algos.plan import Role
from marl.data.task import PolicyID, Task
from marl.errors import ResourceError
from marl.memory import free_memory, in_words
from marl.policies.memories import carry_count, memory_keys
from marl.policies.size import FLOAT, keys_by_size, parameter_count
from marl.rollout.rollout_buffer import RolloutBuffer
from marl.scenario.env import is_native
from marl.scenario.resolve import Setup

COPY = 2_000  # bytes
WORKER = 150_000_000  # bytes
OPTIMISED_WEIGHT = 16  # bytes: weight, gradient, two moments
EPISODE = 100  # bytes of an evaluation's episode: its seed and what was earned
LINK = 8  # bytes in a replay that are there from the beginning


@dataclass(frozen=True)
class Need:
    """Bytes that a part of the run takes, and the keys that make it so large."""

    size: int
    what: str
    keys: tuple[str, ...]


def check_memory(setup: Setup, runs: int = 1) -> None:
    """Raise a ``ResourceError`` with the numbers if the run, or so many like it, cannot fit into the memory that is free."""
    needs, free = needs_of(setup), free_memory()
    total = sum(need.size for need in needs)
    who, share, remedy = "this run", "", ""
    if runs > 1:
        free //= runs
        who, share = f"each of these {runs} runs", " for each"
        remedy = f", or train fewer than {runs} of them at once"
    if total <= free:
        return
    largest = sorted(needs, key=lambda need: -need.size)
    parts = []
    for need in largest[:3]:
        if need.size > total / 100:  # less explains nothing
            parts.append(f"{in_words(need.size)} for {need.what}")
    raise ResourceError(
        f"{who} would take {in_words(total)} of memory or more, and {in_words(free)} are free{share}: {'; '.join(parts)}. "
        f"Lower {' or '.join(largest[0].keys)}{remedy}."
    )


def needs_of(setup: Setup) -> list[Need]:
    """All parts whose size is known before they are made."""
    scenario, config = setup.scenario, setup.rollout.config
    workers = max(1, config.num_workers)
    copies = workers * config.num_envs_per_worker
    env = setup.rollout.env_recipe
    # A natively batched env keeps all copies in arrays; otherwise every one is an object of its own.
    each = 0 if is_native(env.env) and not env.wrappers else COPY
    needs = [
        Need(each * copies, f"{copies:,} copies of the env", ("num_envs_per_worker", "num_workers")),
        _rounds(setup, copies, row_bytes(setup)),
        Need(EPISODE * scenario.evaluation.episodes, "the episodes of an evaluation", ("evaluation.episodes",)),
    ]
    for name in setup.policies:
        needs.append(_networks(setup, name))
    for name, role in setup.roles.items():
        needs += _memories(setup, name, role)
    if config.on_ray and config.address is None:
        needs.append(Need(WORKER * workers, f"{workers:,} workers", ("num_workers",)))
    return needs


def _rounds(setup: Setup, copies: int, row: int) -> Need:
    config = setup.rollout.config
    batches = [role.config.train_batch_size for role in setup.roles.values() if role.preset.family.on_policy]
    steps, gathered = setup.fragment * copies, max(batches, default=0)
    held = (
        3 if config.collection == "overlap" else 2
    )  # the round that is learned from, once more as it came, and the next
    what = f"rounds of {setup.fragment:,} steps in {copies:,} copies"
    if _carry_bytes(setup) > row / 2:  # fewer rows would not be the remedy
        what += ", each with what agents remember"
        return Need((held * steps + gathered * (gathered > steps)) * row, what, _memory_keys(setup))
    if gathered > steps:
        what += f", gathered to batches of {gathered:,}"
        return Need((held * steps + gathered) * row, what, ("train_batch_size",))
    length = "rollout_fragment_length"
    if batches and config.rollout_fragment_length == "auto":
        length = "train_batch_size"  # from which the length follows
    factors = {
        length: setup.fragment,
        "num_envs_per_worker": config.num_envs_per_worker,
        "num_workers": config.num_workers,
    }
    largest_first = sorted(factors, key=lambda key: -factors[key])
    return Need(held * steps * row, what, tuple(largest_first[:2]))


def _networks(setup: Setup, name: PolicyID) -> Need:
    spec = setup.policies[name]
    weights = parameter_count(spec, setup.task.kinds[spec.kind])
    each = OPTIMISED_WEIGHT if name in setup.roles else OPTIMISED_WEIGHT // 4
    return Need(each * weights, f"the network of policy {name!r}", keys_by_size(spec.model)[:2])


def _memories(setup: Setup, name: PolicyID, role: Role) -> list[Need]:
    """The replay of a policy, or its part of the team's; and what NFSP imitates, which grows as it fills."""
    config = role.config
    if not isinstance(config, ReplayConfig):
        return []
    rows = _most_steps(setup) * len(role.seats)  # where every decision of every agent is a row of its own
    row = row_bytes(setup, role.seats, config.needs_state or config.looks_at_groups)
    row += _carry_in_replay(setup, name) * len(role.seats)
    if not config.looks_at_groups:
        row = row // len(role.seats)
    capacity = config.buffer_size
    size = int(LINK * capacity + row * min(capacity, rows))
    needs = [Need(size, f"the replay of policy {name!r} ({capacity:,} rows)", ("buffer_size",))]
    if isinstance(config, NfspConfig):
        kept = int(row / 2 * min(config.reservoir_size, rows))  # no outcomes
        needs.append(Need(kept, f"the reservoir of policy {name!r}", ("reservoir_size",)))
    return needs


def _most_steps(setup: Setup) -> float:
    """Env steps that the run's ``stop`` lets it take.

    Nobody knows after how many steps a time, a reward or a goal is reached: of a run that stops by these alone only the first
    iteration is certain. One without ``stop`` goes on until its memories are full.
    """
    stop = setup.scenario.stop
    round_of_all = setup.fragment * max(1, setup.rollout.config.num_workers) * setup.rollout.config.num_envs_per_worker
    first = setup.iteration_steps + round_of_all
    if stop and not {"timesteps_total", "training_iteration"} & set(stop):
        return first
    steps = float(stop.get("timesteps_total", float("inf")))
    iterations = float(stop.get("training_iteration", float("inf")))
    return max(0.0, min(steps, iterations * setup.iteration_steps)) + first


def row_bytes(setup: Setup, seats: frozenset[int] | None = None, with_state: bool = True) -> int:
    """Of one step of one copy in a grid, as the grid makes it; of some seats their share, without what they remember."""
    task: Task = setup.task
    columns = RolloutBuffer(task, list(setup.policies), 1, False).allocate(1)
    total = 0
    for column in columns.values():
        # Observations, actions and what policies remember have an array per kind of agents.
        arrays = column if isinstance(column, list) else [column]
        total += sum(array.nbytes for array in arrays)
    if seats is None:
        return int(total) + _carry_bytes(setup)
    state = columns["state"].nbytes + columns["new_state"].nbytes
    return int(state * with_state + (total - state) * len(seats) / task.num_seats)


def _carry_bytes(setup: Setup) -> int:
    """Of what all agents remember in one step. Only counted: attention may be told to look back further than fits anywhere."""
    total = 0
    for kind, numbers in zip(setup.task.kinds, _carries(setup), strict=True):
        total += FLOAT * numbers * kind.size
    return total


def _memory_keys(setup: Setup) -> tuple[str, ...]:
    """Of the policy that remembers most."""
    kinds = setup.task.kinds
    most = max(setup.policies.values(), key=lambda spec: carry_count(spec.model, kinds[spec.kind]))
    return memory_keys(most.model)[:2]


def _carry_in_replay(setup: Setup, name: PolicyID) -> int:
    """Of one agent and one row: a replay keeps what was remembered once per sequence."""
    spec = setup.policies[name]
    return FLOAT * carry_count(spec.model, setup.task.kinds[spec.kind]) // spec.model.max_seq_len


def _carries(setup: Setup) -> list[int]:
    """Numbers that the agents of each kind remember."""
    sizes = [0] * len(setup.task.kinds)
    for spec in setup.policies.values():
        sizes[spec.kind] = max(sizes[spec.kind], carry_count(spec.model, setup.task.kinds[spec.kind]))
    return sizes
