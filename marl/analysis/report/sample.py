"""Random play: what an env shows of itself when nobody has learned anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marl.analysis.crossplay import match_pool
from marl.analysis.participants import Participant
from marl.data.task import AgentID
from marl.envs.vector.env_errors import close_all
from marl.gametheory.tree.size import WALKS, Walks, walk
from marl.populations.matches import Job, PlayerID, Returns, play_all
from marl.populations.members import Member
from marl.scenario.resolve import Setup


@dataclass(frozen=True, eq=False)
class Sample:
    """Episodes of random play."""

    returns: Returns  # [episodes, players]
    walks: Walks


def sample(setup: Setup, agents: Mapping[PlayerID, Sequence[AgentID]], episodes: int, seed: int) -> Sample:
    """Play at random; ``agents`` are those of each player."""
    drawn = Participant("random")
    seated: dict[AgentID, Member] = {}
    for mine in agents.values():
        seated |= dict(zip(mine, drawn.strategy(mine, setup.task) or (), strict=True))
    members = {member.key: member for member in seated.values()}
    seating = tuple((agent, member.key) for agent, member in seated.items())
    pool = match_pool(setup, [], 0)
    try:
        job = Job(seating, tuple(range(seed, seed + episodes)))
        (returns,) = play_all(pool, members, [job], agents, explore=True)
        env = pool.local_worker().make_copies(WALKS)
        try:
            return Sample(returns, walk(env, setup.rollout.config.horizon, seed))
        finally:
            close_all([env], env.name)
    finally:
        pool.stop()
