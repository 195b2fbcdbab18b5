// An episode as the page holds it: what the server said of it, by step and agent.

import { job } from "marl/api.js";

const CHUNK = 20; // steps whose observations and pictures are fetched together
const NO_PICTURE = { kind: "text", text: "Without its seed a recording has no pictures: no env is played." };
const PALETTE = 8; // colours --c0 to --c7

/** The episode of an answer of /api/episodes/trace. */
export class Episode {
  constructor(answer, signal) {
    this.request = answer.request;
    this.trace = answer.trace;
    this.signal = signal;
    this.scenes = answer.scenes;
    this.spaces = answer.spaces ?? {};
    this.observationSpaces = answer.observation_spaces ?? {};
    this.leftOut = new Set(answer.left_out ?? []);
    this.length = this.trace.length;
    this.steps = this.trace.steps.map(({ agents }) => new Map(agents.map((one) => [one.agent, one])));
    this.agents = agentsOf(this.steps, this.trace.returns);
    this.loading = new Map();
    this.series = new Map();
    this.paid = runningReturns(this);
    this.disagreements = disagreementsOf(this);
    this.wrong = peaksOf(this.trace.most_wrong, this.length);
  }

  /** What is known of an agent in a step; null if it is not there. */
  at(step, agent) {
    return this.steps[step]?.get(agent) ?? null;
  }

  /** All that an agent was paid before this step. */
  returnBefore(step, agent) {
    return this.paid.get(agent)[Math.min(step, this.length)];
  }

  /** What the env looked like before a step (or at the end); null: it draws nothing; undefined: not fetched yet. */
  scene(step) {
    if (this.trace.seed === null) return NO_PICTURE;
    if (this.leftOut.has("scenes")) return this.scenes[step];
    return this.scenes[step] ?? null;
  }

  /** What was left out of the answer for a step; true as soon as it is there. */
  async fetch(step) {
    if (this.leftOut.size === 0 || this.isHere(step)) return true;
    const base = Math.floor(Math.min(step, this.length - 1) / CHUNK) * CHUNK;
    if (!this.loading.has(base)) {
      const ended = this.fetchChunk(base).finally(() => this.loading.delete(base));
      this.loading.set(base, ended);
    }
    await this.loading.get(base);
    return true;
  }

  isHere(step) {
    return this.leftOut.size === 0 || this.fetched?.has(Math.min(step, this.length - 1)) === true;
  }

  async fetchChunk(base) {
    const last = Math.min(base + CHUNK, this.length) - 1;
    for (let first = base; first <= last; ) {
      const body = { request: this.request, first, last };
      const { steps, scenes } = await job("/api/episodes/part", body, { signal: this.signal });
      steps.forEach((one, i) => this.take(one, scenes[i]));
      first += steps.length;
    }
  }

  take({ step, observations }, scenes) {
    for (const [agent, observation] of Object.entries(observations)) this.at(step, agent).observation = observation;
    scenes.forEach((scene, i) => (this.scenes[step + i] = scene));
    this.fetched ??= new Set();
    this.fetched.add(step);
  }

  /** Numbers of an agent over time, NaN where there are none: reward, expected, came, action (its option's number). */
  numbersOf(agent) {
    if (!this.series.has(agent)) this.series.set(agent, numbersOf(this, agent));
    return this.series.get(agent);
  }
}

function agentsOf(steps, returns) {
  const found = new Set();
  for (const step of steps) for (const agent of step.keys()) found.add(agent);
  for (const agent of Object.keys(returns)) found.add(agent);
  return [...found];
}

function runningReturns(episode) {
  const paid = new Map();
  for (const agent of episode.agents) {
    const sums = new Float64Array(episode.length + 1);
    for (let t = 0; t < episode.length; t += 1) sums[t + 1] = sums[t] + (episode.at(t, agent)?.reward ?? 0);
    paid.set(agent, sums);
  }
  return paid;
}

function numbersOf(episode, agent) {
  const series = {};
  const names = ["reward", "expected", "came", "action"];
  for (const name of names) series[name] = new Float64Array(episode.length).fill(NaN);
  const space = episode.spaces[agent];
  for (let t = 0; t < episode.length; t += 1) {
    const one = episode.at(t, agent);
    if (one === null) continue;
    series.reward[t] = one.reward;
    series.expected[t] = one.expected ?? NaN;
    series.came[t] = one.came ?? NaN;
    series.action[t] = one.asked ? firstNumber(one.action, space) : NaN;
  }
  return series;
}

function firstNumber(action, space) {
  if (Array.isArray(action)) return firstNumber(action.flat(Infinity)[0], null);
  if (action !== null && typeof action === "object") return firstNumber(Object.values(action)[0], null);
  return typeof action === "number" ? action - (space?.start ?? 0) : NaN;
}

/** Decisions in which the other checkpoint would do something else. */
function disagreementsOf(episode) {
  const found = [];
  episode.steps.forEach((agents, step) => {
    for (const one of agents.values()) {
      if (one.other !== null && !sameAction(one.action, one.other_action)) found.push({ step, agent: one.agent });
    }
  });
  return found;
}

/** Where values were most wrong, without the neighbours of each: a wrong value is wrong for a while. */
function peaksOf(wrong, length) {
  const near = Math.max(1, Math.round(length / 50));
  const found = [];
  for (const one of wrong) {
    const isNew = found.every(({ step, agent }) => agent !== one.agent || Math.abs(step - one.step) > near);
    if (one.error !== 0 && (isNew || length <= 20)) found.push(one);
  }
  return found;
}

/** Whether two actions are the same; coordinates to a thousandth, as networks never agree to the last digit. */
export function sameAction(one, other) {
  if (typeof one === "number" && typeof other === "number") return Math.abs(one - other) <= 1e-3;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return one === other;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => sameAction(one[key], other[key]));
}

/** An action in words: its name, or its numbers. */
export function actionText(episode, agent, action, name = null) {
  if (action === null || action === undefined) return "–";
  if (name) return name;
  const names = episode.trace.action_names[agent];
  const space = episode.spaces[agent];
  if (names !== undefined && Number.isInteger(action)) return names[action - (space?.start ?? 0)] ?? String(action);
  return typeof action === "object" ? JSON.stringify(action, rounded) : String(action);
}

function rounded(_, value) {
  return typeof value === "number" ? Number(value.toPrecision(3)) : value;
}

/** The colour of an option, by its number. */
export function optionColor(option) {
  return `var(--c${((option % PALETTE) + PALETTE) % PALETTE})`;
}
