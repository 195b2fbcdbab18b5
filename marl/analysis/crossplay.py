"""Cross-play: everybody meets everybody, and the payoffs become a table.

Checkpoints are read, their policies take the seats that they can play, and whole episodes are played for every cell of
``[s_0, s_1, ...]``, one strategy per player. Results are kept line by line, so an interrupted cross-play goes on where it was.

Seats matter in general, so each player has strategies of its own and all orders are played. Only where every entrant plays
all players in the same way can they be seen as *one* population: then the payoffs are averaged over seatings, and the tensor
says ``symmetric``. In a game with a first move this is the game in which a coin decides who has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from marl.analysis.match_log import MatchLog
from marl.analysis.participants import PLAY_KEYS, Env, Participant, Strategy, check_members, env_facts, read_entrants
from marl.data.task import AgentID, Task
from marl.envs.registry import EnvCreator
from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.policies.build import build_policies
from marl.policies.custom import classes_used
from marl.populations.matches import Job, PlayerID, Players, Returns, play, seats_of_players
from marl.populations.members import Member
from marl.populations.payoff_estimates import Cell, all_cells, over_seatings, payoff_tensor, seatings, standard_error
from marl.rollout.config import RolloutConfig
from marl.rollout.pool import WorkerPool
from marl.scenario.population import players_of
from marl.scenario.resolve import Setup
from marl.training.build import make_pool
from marl.trust import given_by_user, words_of

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the episodes that are there and the episodes that are wanted so far."""
ERRORS_APART = 2.0  # an advantage of so many standard errors has a sign
# A slip such as ten entrants for each of nine players would fill the memory before anything is played.
MOST_CELLS = 100_000


@dataclass(frozen=True)
class Effort:
    """How many episodes each pairing gets. A pairing of one population shares them out over its seatings."""

    episodes: int = 100
    until_decided: bool = False
    target_stderr: float | None = None
    max_episodes: int | None = None  # default: ten times as many

    def __post_init__(self) -> None:
        if self.episodes < 2:
            raise ConfigError(f"episodes is {self.episodes}; a standard error needs 2 or more per pairing.")
        if self.target_stderr is not None and self.target_stderr <= 0:
            raise ConfigError(f"target_stderr is {self.target_stderr}; expected a number above 0.")
        if self.max_episodes is not None and not self.goes_on:
            raise ConfigError("max_episodes means nothing without until_decided or target_stderr. Set one, or drop it.")
        if self.most < self.episodes:
            raise ConfigError(f"max_episodes is {self.max_episodes}, less than episodes ({self.episodes}). Raise it.")

    @property
    def goes_on(self) -> bool:
        return self.until_decided or self.target_stderr is not None

    @property
    def most(self) -> int:
        if self.max_episodes is None:
            # Errors fall with the square root: ten times as many episodes leave a third of the error.
            return 10 * self.episodes
        return self.max_episodes

    def wants_more(self, returns: Returns) -> bool:
        """Whether it is still open who of two players earns more, or an error is still too large."""
        if self.target_stderr is not None:
            errors = standard_error(returns)
            if (errors > self.target_stderr).any():
                return True
        return self.until_decided and not decided(returns)


def decided(returns: Returns) -> bool:
    """Whether each two players' payoffs differ by more than 2 standard errors, or in no episode."""
    for one in range(returns.shape[1]):
        ahead = returns[:, : one + 1] - returns[:, one : one + 1]
        error = standard_error(ahead)
        close = np.abs(ahead.mean(axis=0)) <= ERRORS_APART * error
        if (close & (error > 0)).any():  # without an error they never differ, however many more are played
            return False
    return True


def cross_play(
    checkpoints: Sequence[str | Path],
    env: str | EnvCreator | None = None,
    env_config: Mapping[str, Any] | None = None,
    players: Players | None = None,
    *,
    episodes: int = 100,
    until_decided: bool = False,
    target_stderr: float | None = None,
    max_episodes: int | None = None,
    symmetric: bool | Literal["auto"] = "auto",
    explore: bool | None = None,
    num_workers: int = 0,
    directory: Path | str | None = None,
    seed: int = 0,
    allow: Sequence[str] = (),
    progress: Progress | None = None,
) -> PayoffTensor:
    """What everybody earns against everybody; ``checkpoints`` may hold run directories, ``PATH#policy`` and ``random``.

    ``players`` names groups of agents (default: the run's groups, and every other agent by itself). ``explore`` None: policies
    that are distributions are drawn from, others play their best guess. ``until_decided`` and ``target_stderr`` play more
    episodes where it is needed, up to ``max_episodes`` per pairing. With ``directory`` results are kept in
    ``crossplay.jsonl`` there, and whatever is in it is not played again. Modules outside marl that checkpoints name have to
    be in ``allow``. The same call gives the same numbers with any ``num_workers``.
    """
    effort = Effort(episodes, until_decided, target_stderr, max_episodes)
    allowed = frozenset(allow)
    again = "the whole env, by --env and --env-config (env=..., env_config=...)"
    with given_by_user(words_of([env, env_config]), again):
        entrants, setup = read_entrants(checkpoints, Env(env, env_config), allowed)
    field = Field(entrants, setup, players, symmetric, seed)
    # Before workers start: weights that do not fit are told within a second.
    check_members(list(field.members.values()), setup.task, allowed)
    seats = {player: list(agents) for player, agents in field.players.items()}
    facts = {**env_facts(setup), "players": seats, "explore": explore}
    folder = Path(directory).expanduser() if directory is not None else None
    log = MatchLog(folder, facts)
    pool = match_pool(setup, entrants, num_workers)
    try:
        _play_all(field, effort, log, pool, explore, progress)
    finally:
        pool.stop()
    return field.tensor(log)


class Field:
    """Who meets whom: the strategies of each player, and how many episodes of each cell are wanted."""

    def __init__(
        self,
        entrants: Sequence[Participant],
        setup: Setup,
        players: Players | None,
        symmetric: bool | Literal["auto"],
        seed: int,
    ) -> None:
        if players is None:
            players = players_of(setup.scenario, setup.stage, setup.task)
        self.players: Players = players
        self.agents = _agents_of(self.players, setup.task)
        self.strategies: list[dict[str, Strategy]] = []
        self.members: dict[str, Member] = {}
        for player, agents in self.agents.items():
            known = _strategies(player, agents, entrants, setup.task)
            self.strategies.append(known)
            for member in chain.from_iterable(known.values()):
                self.members[member.key] = member
        self.symmetric = _one_population(self.strategies, symmetric)
        self.seed = seed
        shape = [len(known) for known in self.strategies]
        if math.prod(shape) > MOST_CELLS:
            raise ConfigError(
                f"{' x '.join(map(str, shape))} strategies have more than {MOST_CELLS:,} pairings. Take fewer entrants, or "
                "put agents together into players."
            )
        pairings = all_cells(shape)
        if self.symmetric:
            pairings = sorted({tuple(sorted(cell)) for cell in pairings})
        self.wanted: dict[Cell, int] = dict.fromkeys(pairings, 0)  # episodes of each pairing

    def jobs(self, pairing: Cell) -> dict[Cell, Job]:
        """The pairing's episodes, shared out over its seatings; all seatings have the same seeds."""
        cells = [pairing]
        if self.symmetric:
            cells = seatings(pairing)
        count = max(2, math.ceil(self.wanted[pairing] / len(cells)))  # fewer have no standard error
        # The same seeds on every seating: what luck deals to both falls out of the difference between seats.
        seeds = tuple(range(self.seed, self.seed + count))
        return {cell: Job(self._seating(cell), seeds) for cell in cells}

    def _seating(self, cell: Cell) -> tuple[tuple[AgentID, str], ...]:
        seated: list[tuple[AgentID, str]] = []
        for strategies, agents, number in zip(self.strategies, self.agents.values(), cell, strict=True):
            strategy = list(strategies.values())[number]
            keys = [member.key for member in strategy]
            seated += zip(agents, keys, strict=True)
        return tuple(seated)

    def returns(self, pairing: Cell, log: MatchLog) -> Returns:
        """Episode by episode, averaged over seatings where they do not count."""
        cells = self._samples(pairing, log)
        if self.symmetric:
            return over_seatings(cells, pairing)
        return cells[pairing]

    def _samples(self, pairing: Cell, log: MatchLog) -> dict[Cell, Returns]:
        """What was played of a pairing, seating by seating."""
        return {cell: log.returns(job) for cell, job in self.jobs(pairing).items()}

    def tensor(self, log: MatchLog) -> PayoffTensor:
        samples: dict[Cell, Returns] = {}
        for pairing in self.wanted:
            samples |= self._samples(pairing, log)
        names = [list(known) for known in self.strategies]
        return payoff_tensor(samples, list(self.agents), names, self.symmetric)


def _agents_of(players: Players, task: Task) -> dict[PlayerID, list[AgentID]]:
    """The agents (patterns, where ids are not known in advance) that each player's words mean."""
    agents = {}
    for player, seats in seats_of_players(players, task.kinds).items():
        # A pattern such as car_* has several seats, car_*[0], car_*[1], ..., which one strategy plays.
        names = [task.seat_names[seat].split("[")[0] for seat in seats]
        agents[player] = list(dict.fromkeys(names))
    return agents


def _strategies(
    player: PlayerID, agents: Sequence[AgentID], entrants: Sequence[Participant], task: Task
) -> dict[str, Strategy]:
    """Labels to the strategies of those who can play the player."""
    known: dict[str, Strategy] = {}
    for entrant in entrants:
        strategy = entrant.strategy(agents, task)
        if strategy is not None:
            known[entrant.label] = strategy
    if not known:
        raise ConfigError(
            f"nobody can play {player!r} ({', '.join(agents)}): the policies named by PATH#policy know other spaces. Add a "
            "checkpoint whose policy plays it, or random."
        )
    return known


def _one_population(strategies: Sequence[Mapping[str, Strategy]], wanted: bool | Literal["auto"]) -> bool:
    """Whether every entrant plays all players in the same way."""
    # Keys are hashes of the weights: the same policy is the same strategy, whoever is called by its name.
    keys = [_keys_of(known) for known in strategies]
    alike = len(keys) > 1 and keys.count(keys[0]) == len(keys)
    if wanted is True and not alike:
        raise ConfigError(
            "symmetric: an entrant plays the players with different policies, or only some of them, so they are not one "
            "population. Leave symmetric out, or name one policy per entrant by PATH#policy."
        )
    return alike and wanted is not False


def _keys_of(known: Mapping[str, Strategy]) -> dict[str, list[str]]:
    keys = {}
    for label, strategy in known.items():
        keys[label] = [member.key for member in strategy]
    return keys


def _play_all(
    field: Field, effort: Effort, log: MatchLog, pool: WorkerPool, explore: bool | None, progress: Progress | None
) -> None:
    """Play until every pairing has its episodes; then, where it is asked for, double those that need it."""
    field.wanted = dict.fromkeys(field.wanted, effort.episodes)
    _play_missing(field, log, pool, explore, progress)
    while effort.goes_on:
        undecided = _undecided(field, effort, log)
        if not undecided:
            return
        for pairing in undecided:
            # Doubled, as errors fall slowly: small steps would look at the whole table again and again.
            field.wanted[pairing] = min(2 * field.wanted[pairing], effort.most)
        _play_missing(field, log, pool, explore, progress)


def _play_missing(
    field: Field, log: MatchLog, pool: WorkerPool, explore: bool | None, progress: Progress | None
) -> None:
    """All pairings in one go, so that no worker waits for another pairing's last episodes."""
    jobs: list[Job] = []
    for pairing in field.wanted:
        jobs += field.jobs(pairing).values()
    missing = [log.missing(job) for job in jobs]
    total, left = _episodes(jobs), _episodes(missing)
    for batch in play(pool, field.members, missing, field.players, explore):
        log.add(batch)
        left -= _episodes([job for job, _ in batch])
        if progress is not None:
            progress(total - left, total)


def _undecided(field: Field, effort: Effort, log: MatchLog) -> list[Cell]:
    """Pairings that may get more episodes, and need them."""
    found = []
    for pairing, episodes in field.wanted.items():
        if episodes < effort.most and effort.wants_more(field.returns(pairing, log)):
            found.append(pairing)
    return found


def _episodes(jobs: Sequence[Job]) -> int:
    return sum(len(job.seeds) for job in jobs)


def match_pool(setup: Setup, entrants: Sequence[Participant], num_workers: int) -> WorkerPool:
    """Workers that only play matches."""
    old = setup.rollout
    kept = {key: getattr(old.config, key) for key in (*PLAY_KEYS, "env_timeout_s")}
    # Workers import what any of the runs needs, as policies of all of them are sent there.
    imports, models = dict.fromkeys(old.imports), [spec.model for spec in setup.policies.values()]
    for entrant in entrants:
        if entrant.setup is not None:
            imports |= dict.fromkeys(entrant.setup.rollout.imports)
            models += [spec.model for spec in entrant.setup.policies.values()]
    rollout = replace(
        old,
        config=RolloutConfig(num_workers=num_workers, **kept),
        imports=tuple(imports),
        registered_classes=classes_used(models),
    )
    # Whole episodes are waited for, however the run itself collected.
    policies = build_policies(rollout.policies, setup.task.kinds)
    return make_pool(replace(setup, rollout=rollout, asynchronous=False), policies)
