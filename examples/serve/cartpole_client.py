"""A client of a policy server: the simulator stays here, actions come from there. See cartpole_server.py.

python examples/serve/cartpole_client.py [--no-train] [--off-policy] [--stop-at-reward 150]
"""

from __future__ import annotations

import argparse

import gymnasium as gym

from marl import PolicyClient

parser = argparse.ArgumentParser()
parser.add_argument("--no-train", action="store_true", help="Whether to disable training.")
parser.add_argument("--off-policy", action="store_true", help="Whether to take random instead of on-policy actions.")
parser.add_argument("--stop-at-reward", type=float, default=9999, help="Stop when an episode brings so much.")
parser.add_argument("--episodes", type=int, default=1_000_000, help="Stop after so many episodes.")
parser.add_argument("--address", default="http://127.0.0.1:9900")
parser.add_argument("--inference-mode", choices=["local", "remote"], default="remote")


def main(arguments: list[str] | None = None) -> float:
    """Gives the reward of the last episode."""
    args = parser.parse_args(arguments)
    env = gym.make("CartPole-v1")
    client = PolicyClient(args.address, inference_mode=args.inference_mode)
    rewards = 0.0
    for _ in range(args.episodes):
        eid = client.start_episode(training_enabled=not args.no_train)
        obs, info = env.reset()
        rewards, done = 0.0, False
        while not done:
            if args.off_policy:
                action = env.action_space.sample()
                client.log_action(eid, obs, action)
            else:
                action = client.get_action(eid, obs)
            obs, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
            rewards += float(reward)
            client.log_returns(eid, reward, info=info)
        print("Total reward:", rewards, flush=True)
        client.end_episode(eid, obs, truncated=truncated)
        if rewards >= args.stop_at_reward:
            print("Target reward achieved, exiting")
            break
    client.close()
    return rewards


if __name__ == "__main__":
    main()
