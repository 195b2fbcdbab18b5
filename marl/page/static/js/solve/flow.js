// Learning dynamics of a game {A, B} as marl.gametheory.solve.dynamics has them. A point is [x, y]: the shares of both
// players' actions. Continuous ones have a direction at every point; the others depend on what happened before.

import { columnPayoffs, dot, rowPayoffs, scaleOf } from "marl/solve/matrix.js";

/** Names of the dynamics, whether points have directions, and what they do, in a sentence. */
export const DYNAMICS = {
  replicator: {
    name: "Replicator", hasField: true,
    words: "Shares of actions that earn more than average grow, in proportion to how much more: dx = x (u − ū).",
  },
  best_response: {
    name: "Best response", hasField: true,
    words: "Play turns to what is best now: dx = b(x) − x, with ties in equal parts.",
  },
  logit: {
    name: "Logit", hasField: true,
    words: "Play moves towards a soft best reply, softmax(λ u); it rests in logit quantal response equilibria.",
  },
  fictitious: {
    name: "Fictitious play", hasField: true,
    words: "Each round a best reply to average play so far. The average is drawn; the start counts as one round.",
  },
  regret: {
    name: "Regret matching", hasField: false,
    words: "Actions in proportion to positive regrets. The next step depends on the past, so there are no arrows.",
  },
};

function payoffsAt({ A, B }, [x, y]) {
  return [rowPayoffs(A, y), columnPayoffs(B, x)];
}

export function softmax(logits, rationality = 1) {
  const top = Math.max(...logits);
  const weights = logits.map((value) => Math.exp(rationality * (value - top)));
  const total = weights.reduce((sum, w) => sum + w, 0);
  return weights.map((w) => w / total);
}

/** All of the best, in equal parts. */
function bestReplies(paid) {
  const top = Math.max(...paid);
  const near = 1e-12 * Math.max(1, ...paid.map(Math.abs));
  const best = paid.filter((value) => value >= top - near).length;
  return paid.map((value) => (value >= top - near ? 1 / best : 0));
}

/** The first of the best: ties go to the lowest number, and those of rounding count as ties. */
function bestReply(paid) {
  const top = Math.max(...paid);
  const near = 1e-12 * Math.max(1, ...paid.map(Math.abs));
  const best = paid.findIndex((value) => value >= top - near);
  return paid.map((_, i) => (i === best ? 1 : 0));
}

/** The direction in which a point moves, [dx, dy]. */
export function direction(game, kind, point, rationality = 5) {
  return payoffsAt(game, point).map((paid, k) => {
    const shares = point[k];
    if (kind === "best_response") return bestReplies(paid).map((p, i) => p - shares[i]);
    if (kind === "logit") return softmax(paid, rationality).map((p, i) => p - shares[i]);
    if (kind === "fictitious") return bestReply(paid).map((p, i) => p - shares[i]);
    const mean = dot(shares, paid);
    return shares.map((share, i) => share * (paid[i] - mean));
  });
}

/** Begin at a point: a state that `advance` moves on. `dt` is divided by the largest payoff where that is above 1. */
export function startAt(game, kind, point, { dt = 0.01, rationality = 5 } = {}) {
  const size = dt / Math.max(1, scaleOf(game));
  const state = { game, kind, point: point.map((part) => [...part]), time: 0, size, rationality };
  if (kind === "replicator") state.logits = point.map((part) => part.map((share) => Math.log(Math.max(share, 0))));
  if (kind === "fictitious") state.sums = point.map((part) => [...part]);
  if (kind === "regret") {
    state.regrets = point.map((part) => part.map(() => 0));
    state.first = point;
  }
  if (kind === "fictitious" || kind === "regret") [state.time, state.size] = [1, 1]; // rounds
  return state;
}

/** One step: of Runge-Kutta, or one round. */
export function advance(state) {
  STEPS[state.kind](state);
  state.time += state.size;
}

const STEPS = {
  // For logits, whose derivative is the payoff: shares stay positive, and what is extinct stays extinct.
  replicator(state) {
    const slope = (logits) => payoffsAt(state.game, logits.map((part) => softmax(part)));
    const moved = rungeKutta(state.logits, slope, state.size);
    state.logits = moved.map((part) => {
      const top = Math.max(...part);
      return part.map((value) => value - top);
    });
    state.point = state.logits.map((part) => softmax(part));
  },
  // Exact for as long as the best replies stay what they are.
  best_response(state) {
    const kept = Math.exp(-state.size);
    const towards = direction(state.game, "best_response", state.point);
    state.point = state.point.map((part, k) => part.map((share, i) => share + (1 - kept) * towards[k][i]));
  },
  logit(state) {
    const slope = (point) => direction(state.game, "logit", point, state.rationality);
    state.point = rungeKutta(state.point, slope, state.size);
  },
  fictitious(state) {
    const replies = payoffsAt(state.game, state.point).map(bestReply);
    state.sums = state.sums.map((part, k) => part.map((sum, i) => sum + replies[k][i]));
    state.point = state.sums.map((part) => part.map((sum) => sum / (state.time + 1)));
  },
  regret(state) {
    const paid = payoffsAt(state.game, state.point);
    const scale = scaleOf(state.game);
    state.regrets = state.regrets.map((part, k) => {
      const earned = dot(state.point[k], paid[k]);
      return part.map((regret, i) => tidy(regret + paid[k][i] - earned, scale));
    });
    state.point = state.regrets.map((part, k) => {
      const positive = part.map((regret) => Math.max(0, regret));
      const total = positive.reduce((sum, value) => sum + value, 0);
      return total > 0 ? positive.map((value) => value / total) : [...state.first[k]];
    });
  },
};

/** Regrets that are 0 but for rounding are 0: else noise decides what is played. */
function tidy(regret, scale) {
  return Math.abs(regret) <= 64 * Number.EPSILON * scale ? 0 : regret;
}

function rungeKutta(at, slope, dt) {
  const moved = (by, time) => at.map((part, k) => part.map((value, i) => value + time * by[k][i]));
  const k1 = slope(at);
  const k2 = slope(moved(k1, dt / 2));
  const k3 = slope(moved(k2, dt / 2));
  const k4 = slope(moved(k3, dt));
  return at.map((part, k) =>
    part.map((value, i) => value + (dt / 6) * (k1[k][i] + 2 * k2[k][i] + 2 * k3[k][i] + k4[k][i])),
  );
}
