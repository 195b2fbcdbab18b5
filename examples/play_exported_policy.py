"""Play an exported policy without its run: ``marl export RUN --out DIR``, then ``python play_exported_policy.py DIR``."""

import sys

import gymnasium as gym

import marl

policy = marl.load_policy(sys.argv[1])
env = gym.make("CartPole-v1")
obs, _ = env.reset(seed=0)
actions, over = [], False
while not over:
    actions.append(policy.compute_action(obs))
    obs, _, terminated, truncated, _ = env.step(actions[-1])
    over = terminated or truncated
print(f"{len(actions)} steps: {''.join(map(str, actions))}")
