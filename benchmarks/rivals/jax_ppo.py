"""PPO on JaxMARL's simple_spread in pure JAX: playing, advantages and all minibatches are one compiled call.

The same work as marl's: one policy shared by three agents, actor and critic of two layers of 64 with tanh, GAE, advantages
normalised over the batch, clipped ratio, value loss, one Adam over both with the gradient clipped.

    python jax_ppo.py '{"envs": 256, "steps": 25, "epochs": 4, "minibatch": 4800, "iterations": 4, "learn": true}'
"""

from __future__ import annotations

import itertools
import json
import sys
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxmarl
from clock import answer

GAMMA, TRACE, CLIP, VALUE_WEIGHT, MAX_NORM, LR = 0.95, 0.95, 0.2, 0.5, 0.5, 1e-3
HIDDEN, WIDTH, ACTIONS = 64, 18, 5  # of a layer, of an observation, of a choice
EPISODE = 25


class Rows(NamedTuple):
    """Columns of decisions. ``last_value`` is that of the observation at the end of an episode, 0 elsewhere."""

    obs: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    last_value: jax.Array


class State(NamedTuple):
    """Everything that goes from one iteration to the next."""

    weights: jax.Array
    mean: jax.Array  # of the gradient, and of its square: Adam's
    square: jax.Array
    updates: jax.Array
    env: Any
    obs: jax.Array
    key: jax.Array


# -- networks ------------------------------------------------------------------------------------------------------


class Network(NamedTuple):
    """Where a fully connected network lies in the one flat vector of weights, which saves XLA many small updates."""

    sizes: tuple[int, ...]
    start: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.sizes))

    @property
    def end(self) -> int:
        return self.start + sum(n * m + m for n, m in self.shapes)

    def first(self, key: jax.Array, last_scale: float) -> jax.Array:
        """Orthogonal weights; a small last layer keeps the first policy near uniform."""
        parts = []
        for i, (n, m) in enumerate(self.shapes):
            key, mine = jax.random.split(key)
            scale = last_scale if i == len(self.shapes) - 1 else 2**0.5
            parts += [jax.nn.initializers.orthogonal(scale)(mine, (n, m)).ravel(), jnp.zeros(m)]
        return jnp.concatenate(parts)

    def forward(self, weights: jax.Array, x: jax.Array) -> jax.Array:
        at = self.start
        for i, (n, m) in enumerate(self.shapes):
            weight, bias = weights[at : at + n * m].reshape(n, m), weights[at + n * m : at + n * m + m]
            x = x @ weight + bias
            x = jnp.tanh(x) if i < len(self.shapes) - 1 else x
            at += n * m + m
        return x


ACTOR = Network((WIDTH, HIDDEN, HIDDEN, ACTIONS), 0)
CRITIC = Network((WIDTH, HIDDEN, HIDDEN, 1), ACTOR.end)


def log_probs(weights: jax.Array, obs: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(ACTOR.forward(weights, obs))


def values(weights: jax.Array, obs: jax.Array) -> jax.Array:
    return CRITIC.forward(weights, obs)[..., 0]


# -- playing -------------------------------------------------------------------------------------------------------


class Spread:
    """Many copies of JaxMARL's simple_spread; arrays ``[E, A, ...]``."""

    def __init__(self, envs: int) -> None:
        self.env = jaxmarl.make("MPE_simple_spread_v3", action_type="Discrete")
        self.envs, self.agents = envs, self.env.agents
        assert self.env.observation_space(self.agents[0]).shape == (WIDTH,)
        assert self.env.action_space(self.agents[0]).n == ACTIONS

    def _columns(self, by_agent: Any) -> jax.Array:
        return jnp.stack([by_agent[agent] for agent in self.agents], axis=1)

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        obs, state = jax.vmap(self.env.reset)(jax.random.split(key, self.envs))
        return self._columns(obs), state

    def step(
        self, key: jax.Array, state: Any, actions: jax.Array
    ) -> tuple[jax.Array, jax.Array, Any, jax.Array, jax.Array]:
        """What JaxMARL's own ``step`` does (a new episode where one ended), but the last observation is told as well."""
        chosen = {agent: actions[:, i] for i, agent in enumerate(self.agents)}
        for_step, for_reset = jax.random.split(key)
        keys = jax.random.split(for_step, self.envs)
        seen, state, reward, done, _ = jax.vmap(self.env.step_env)(keys, state, chosen)
        last, over = self._columns(seen), done["__all__"]
        first, anew = self.reset(for_reset)

        def where_over(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        state = jax.tree.map(where_over, anew, state)
        return where_over(first, last), last, state, self._columns(reward), self._columns(done)


def play(game: Spread, steps: int, state: State, learns: bool) -> tuple[State, Rows]:
    """``[T, E, A]`` decisions; values only if they are learnt from, as in marl, which asks for them while it learns."""

    def both_values(obs: jax.Array, last_obs: jax.Array, done: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Episodes end because their time is up: the value of what they end with counts, as in marl.
        nothing = jnp.zeros(done.shape, jnp.float32)
        last_value = jax.lax.cond(done.any(), lambda: values(state.weights, last_obs), lambda: nothing)
        return values(state.weights, obs), last_value

    def tick(carried: tuple[Any, jax.Array, jax.Array], _: None) -> tuple[Any, Rows]:
        env, obs, key = carried
        key, for_choice, for_env = jax.random.split(key, 3)
        logp = log_probs(state.weights, obs)
        action = jax.random.categorical(for_choice, logp)
        chosen = jnp.take_along_axis(logp, action[..., None], -1)[..., 0]
        new_obs, last_obs, env, reward, done = game.step(for_env, env, action)
        value, last_value = both_values(obs, last_obs, done) if learns else (reward, reward)
        return (env, new_obs, key), Rows(obs, action, chosen, value, reward, done, last_value)

    (env, obs, key), rows = jax.lax.scan(tick, (state.env, state.obs, state.key), None, steps)
    return state._replace(env=env, obs=obs, key=key), rows


def advantages(rows: Rows, last_value: jax.Array) -> jax.Array:
    """GAE, backwards over time."""

    def back(carried: tuple[jax.Array, jax.Array], row: Rows) -> tuple[Any, jax.Array]:
        running, next_value = carried
        error = row.reward + GAMMA * jnp.where(row.done, row.last_value, next_value) - row.value
        running = error + GAMMA * TRACE * jnp.where(row.done, 0.0, running)
        return (running, row.value), running

    return jax.lax.scan(back, (jnp.zeros_like(last_value), last_value), rows, reverse=True)[1]


# -- learning ------------------------------------------------------------------------------------------------------


def loss(
    weights: jax.Array, obs: jax.Array, action: jax.Array, old: jax.Array, better: jax.Array, target: jax.Array
) -> jax.Array:
    logp = jnp.take_along_axis(log_probs(weights, obs), action[:, None], -1)[:, 0]
    ratio = jnp.exp(logp - old)
    gain = jnp.minimum(ratio * better, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * better)
    return -gain.mean() + VALUE_WEIGHT * jnp.square(values(weights, obs) - target).mean()


def adam(state: State, gradient: jax.Array) -> State:
    norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    gradient = gradient * jnp.minimum(1.0, MAX_NORM / (norm + 1e-6))
    n = state.updates + 1
    mean = 0.9 * state.mean + 0.1 * gradient
    square = 0.999 * state.square + 0.001 * gradient * gradient
    step, root = LR / (1 - 0.9**n), 1 / jnp.sqrt(1 - 0.999**n)
    weights = state.weights - step * mean / (jnp.sqrt(square) * root + 1e-8)
    return state._replace(weights=weights, mean=mean, square=square, updates=n)


def learn(state: State, rows: Rows, epochs: int, minibatch: int) -> State:
    better = advantages(rows, values(state.weights, state.obs))
    target = better + rows.value
    better = (better - better.mean()) / (better.std() + 1e-8)
    columns = [column.reshape(-1, *column.shape[3:]) for column in (rows.obs, rows.action, rows.logp, better, target)]
    size = columns[0].shape[0]

    def update(state: State, rows: list[jax.Array]) -> tuple[State, None]:
        return adam(state, jax.grad(loss)(state.weights, *rows)), None

    def epoch(state: State, _: None) -> tuple[State, None]:
        key, mine = jax.random.split(state.key)
        order = jax.random.permutation(mine, size)
        mixed = [column[order].reshape(-1, minibatch, *column.shape[1:]) for column in columns]
        return jax.lax.scan(update, state._replace(key=key), mixed)[0], None

    return jax.lax.scan(epoch, state, None, epochs)[0]


@partial(jax.jit, static_argnums=(0, 2), donate_argnums=1)
def iterate(game: Spread, state: State, keys: tuple[int, int, int, int, bool]) -> tuple[State, jax.Array]:
    """So many iterations in one call; also the mean reward of an agent in one step."""
    iterations, steps, epochs, minibatch, learns = keys

    def iteration(state: State, _: None) -> tuple[State, jax.Array]:
        state, rows = play(game, steps, state, learns)
        reward = rows.reward.mean()
        if learns:
            return learn(state, rows, epochs, minibatch), (reward, None)
        # What sampling hands over is part of its work: columns that nobody reads would be left out by XLA.
        return state, (reward, [column.mean() for column in rows])

    state, (reward, _) = jax.lax.scan(iteration, state, None, iterations)
    return state, reward.mean()


def begin(game: Spread, seed: int) -> State:
    key, for_env, for_actor, for_critic = jax.random.split(jax.random.key(seed), 4)
    weights = jnp.concatenate([ACTOR.first(for_actor, 0.01), CRITIC.first(for_critic, 1.0)])
    obs, env = game.reset(for_env)
    zero = jnp.zeros_like(weights)
    return State(weights, zero, zero.copy(), jnp.zeros((), jnp.int32), env, obs, key)


def main() -> None:
    work = json.loads(sys.argv[1])
    game = Spread(work["envs"])
    state = begin(game, work.get("seed", 0))
    keys = (work["iterations"], work["steps"], work["epochs"], work["minibatch"], work["learn"])

    def one_round() -> dict[str, float]:
        nonlocal state
        state, reward = iterate(game, state, keys)
        return {
            "count": work["iterations"] * work["envs"] * work["steps"],
            "reward": float(reward) * EPISODE * len(game.agents),
        }

    answer(one_round, "jax", "jaxlib", "jaxmarl")


if __name__ == "__main__":
    main()
