"""The two-step game with its agents in two processes: both play one episode, and each knows only its own agent.

A referee in this process holds the game; each player tells it what it does and hears what it sees and earns. What to do,
each player asks the server, which also learns here. A step is complete when both have reported it (``parties=2``).

python examples/serve/two_processes.py
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import marl
from marl.driving import contract_of

AGENTS = ("agent_0", "agent_1")
EPISODES_PER_ITERATION = 50  # of two steps each


def player(agent: str, entry: dict[str, Any], url: str, referee: Connection) -> None:
    """A process that plays one agent until the server has learned enough and closes."""
    client = marl.PolicyClient(url, name=agent, agents={agent: entry}, patience=1.0)
    with contextlib.suppress(marl.PolicyClientError, EOFError):
        while True:
            play_game(client, agent, referee.recv(), referee)


def play_game(client: marl.PolicyClient, agent: str, episode: str, referee: Connection) -> None:
    client.start(episode, parties=len(AGENTS))
    t, report, over = 0, {"obs": referee.recv()}, False
    while not over:
        answer = client.act(episode=episode, t=t, agents={agent: report})
        referee.send(answer["actions"][agent])
        report, over = referee.recv()
        t += 1
    client.end(episode=episode, t=t, agents={agent: report})


def hold_games(players: dict[str, Connection], returns: list[float]) -> None:
    """Game after game, until the players have left."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            returns.append(hold_game(players, f"game {len(returns)}"))


def hold_game(players: dict[str, Connection], name: str) -> float:
    env = marl.make_env("two_step_game")
    earned, over = 0.0, False
    obs, _ = env.reset()
    for agent, pipe in players.items():
        pipe.send(name)
        pipe.send(obs[agent].tolist())
    while not over:
        actions = {agent: pipe.recv() for agent, pipe in players.items()}
        obs, rewards, terminated, _, _ = env.step(actions)
        over = terminated["__all__"]
        earned += sum(rewards.values())
        for agent, pipe in players.items():
            report = {"obs": obs[agent].tolist(), "reward": float(rewards[agent]), "terminated": over}
            pipe.send((report, over))
    return earned


def main(iterations: int = 20) -> list[float]:
    """Gives the return of every game."""
    agents, _ = contract_of(marl.make_env("two_step_game"))
    config = {
        "env_config": {"agents": agents},
        "external": {"port": 0, "lock_step": True},
        "evaluation": {"interval": 0},
        "train_batch_size": 2 * EPISODES_PER_ITERATION,
        "sgd_minibatch_size": 2 * EPISODES_PER_ITERATION,
        "lr": 0.01,
        "seed": 1,
    }
    returns: list[float] = []
    # Not forked: a copy of this process would have the server's threads and sockets in it.
    processes = multiprocessing.get_context("spawn")
    with marl.Trainer("ppo", env="external", config=config) as trainer:
        url = trainer.workers.serve()
        mine: dict[str, Connection] = {}
        for agent in AGENTS:
            mine[agent], theirs = processes.Pipe()
            processes.Process(target=player, args=(agent, agents[agent], url, theirs), daemon=True).start()
            theirs.close()  # the player has its own: when it leaves, this end is told
        threading.Thread(target=hold_games, args=(mine, returns), daemon=True).start()
        for _ in range(iterations):
            result = trainer.train()
            print(f"iteration {result['training_iteration']}: {result['episode_reward_mean']:.2f} per game", flush=True)
    return returns


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
