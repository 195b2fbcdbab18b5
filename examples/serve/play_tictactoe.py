"""A human at a terminal against a trained policy. In two shells:

marl serve RUN                                  (a run of scenarios/tictactoe.yaml)
python examples/serve/play_tictactoe.py         (you begin, and play X)

The server plays one of the two players only; moves of the human never reach it, only what its player sees after them.
"""

from __future__ import annotations

import sys
from typing import Any

import marl
from marl.driving import contract_of

HUMAN, MACHINE = "player_1", "player_2"
# Squares are numbered column by column, as the env has them.
SHOWN = [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def main(address: str = "http://127.0.0.1:9900") -> str:
    """Gives who won."""
    env = marl.make_env("pettingzoo:classic/tictactoe_v3")
    agents, _ = contract_of(env)
    client = marl.PolicyClient(address, agents={MACHINE: agents[MACHINE]})
    episode = client.start_episode(training_enabled=False)
    seen, _ = env.reset()
    board, earned, over = [" "] * 9, dict.fromkeys(agents, 0.0), False
    while not over:
        (player,) = seen
        if player == HUMAN:
            move = ask(board, seen[HUMAN]["action_mask"])
        else:
            move = client.get_action(episode, {MACHINE: seen[MACHINE]})[MACHINE]
        board[move] = "X" if player == HUMAN else "O"
        seen, rewards, terminated, _, _ = env.step({player: move})
        for agent, reward in rewards.items():
            earned[agent] += reward
        client.log_returns(episode, {MACHINE: rewards.get(MACHINE, 0.0)})
        over = any(terminated.values())
    client.end_episode(episode, {MACHINE: seen[MACHINE]} if MACHINE in seen else None)
    client.close()
    show(board)
    winner = {1.0: "you win", -1.0: "the machine wins"}.get(earned[HUMAN], "a draw")
    print(winner)
    return winner


def ask(board: list[str], allowed: Any) -> int:
    show(board)
    while True:
        print("your square (0 to 8): ", end="", flush=True)
        said = sys.stdin.readline()
        if not said:
            raise SystemExit("\nno more moves")
        if said.strip().isdigit() and int(said) < len(allowed) and allowed[int(said)]:
            return int(said)
        print(f"{said.strip()!r} is no free square")


def show(board: list[str]) -> None:
    for row in SHOWN:
        print(" | ".join(board[square] if board[square] != " " else str(square) for square in row))


if __name__ == "__main__":
    main(*sys.argv[1:])
