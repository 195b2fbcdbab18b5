// One agent in one step: what it saw, what its policy thought of each option, what it did, and what came of it.

import { h, put } from "marl/dom.js";
import { number, percent } from "marl/format.js";
import { actionText, optionColor } from "marl/parts/episode.js";
import { headOf } from "marl/parts/episode_lists.js";
import { observationView } from "marl/parts/observation.js";

const MOST_OPTIONS = 24; // of a choice that are shown; the likeliest ones

/** A card that shows one decision after another: {element, show(episode, step, agent)}. */
export function agentCard() {
  const head = h("div", { class: "agent-head" });
  const facts = h("div", { class: "agent-facts" });
  const thoughts = h("div", { class: "agent-thoughts" });
  const sight = h("div", { class: "agent-sight" });
  const seen = h("section", { class: "agent-seen", "aria-label": "Observation" }, h("h3", {}, "Saw"), sight);
  const element = h("article", { class: "card agent-card" }, head, facts, thoughts, seen);
  let view = null; // of observations of this agent

  function show(episode, step, agent) {
    const one = episode.at(step, agent);
    put(head, ...titleOf(episode, step, agent, one));
    seen.hidden = one === null || !one.asked;
    if (one === null) {
      put(facts, h("p", { class: "quiet" }, absence(episode, step, agent)));
      put(thoughts);
      return;
    }
    put(facts, ...factsOf(episode, agent, one));
    const waits = h("p", { class: "quiet" }, "It is not asked in this step.");
    put(thoughts, one.asked ? thoughtsOf(episode, agent, one) : waits);
    if (one.asked) showSight(episode, step, agent, one);
  }

  function showSight(episode, step, agent, one) {
    if (view === null || view.agent !== agent || view.episode !== episode) {
      view = { agent, episode, ...observationView(episode.observationSpaces[agent]) };
      put(sight, view.element);
    }
    const here = episode.isHere(step);
    element.classList.toggle("waiting", !here);
    if (here && one.observation !== null) view.show(one.observation);
  }
  return { element, show };
}

function absence(episode, step, agent) {
  if (step >= episode.length) {
    const earned = episode.trace.returns[agent] ?? episode.returnBefore(step, agent);
    return `The episode is over. It earned ${number(earned)} in all.`;
  }
  return "It is not there in this step.";
}

function titleOf(episode, step, agent, one) {
  const chips = [];
  if (one?.policy && one.policy !== agent) chips.push(h("span", { class: "chip" }, one.policy));
  if ((one?.opinion?.member ?? null) !== null) chips.push(h("span", { class: "chip" }, `member ${one.opinion.member}`));
  if (one?.terminated) chips.push(h("span", { class: "chip failed" }, "terminated"));
  if (one?.truncated) chips.push(h("span", { class: "chip stopped" }, "truncated"));
  return [h("h2", {}, agent), chips];
}

function factsOf(episode, agent, one) {
  const facts = [];
  const add = (name, value, kind = "") => facts.push(h("div", {}, h("dt", {}, name), h("dd", { class: kind }, value)));
  if (one.asked) add("did", actionText(episode, agent, one.action, one.action_name), "did");
  if (one.other !== null) {
    add("the other would", actionText(episode, agent, one.other_action), "other");
  }
  add("reward", number(one.reward || 0)); // there is a minus zero
  if (one.expected !== null) add("value expected", number(one.expected));
  else if ((one.opinion?.value ?? null) !== null) add("value", number(one.opinion.value));
  if ((one.other?.value ?? null) !== null) add("the other's value", number(one.other.value), "other");
  if (one.came !== null) add("return that came", number(one.came));
  if (one.error !== null) add(one.error > 0 ? "too much by" : "too little by", number(Math.abs(one.error)), "error");
  return [h("dl", { class: "facts" }, facts)];
}

// -- what policies thought ------------------------------------------------------------------------------------------

function thoughtsOf(episode, agent, one) {
  const parts = [];
  choicesOf(one, episode.spaces[agent]).forEach((choice, i, all) => {
    const title = all.length > 1 ? `Choice ${i}` : "Options";
    parts.push(optionTable(title, choice, one, (option) => optionName(episode, agent, option, all.length)));
  });
  if (one.opinion?.mean) parts.push(coordinateTable(one, episode.spaces[agent]));
  if (parts.length === 0) parts.push(h("p", { class: "quiet" }, "This policy says nothing of its options."));
  return parts;
}

/** The choices of an action, each with what is known of its options. */
function choicesOf(one, space) {
  const taken = takenOf(one.action, space);
  const others = takenOf(one.other_action, space);
  const sizes = sizesOf(one, space);
  let first = 0;
  return sizes.map((size, i) => {
    const choice = {
      size, taken: taken[i], otherTaken: others[i],
      legal: one.action_mask?.slice(first, first + size) ?? null,
      probabilities: one.opinion?.probabilities?.[i] ?? null,
      otherProbabilities: one.other?.probabilities?.[i] ?? null,
      q: sizes.length === 1 ? one.opinion?.q_values ?? null : null,
      otherQ: sizes.length === 1 ? one.other?.q_values ?? null : null,
    };
    first += size;
    return choice;
  });
}

function sizesOf(one, space) {
  if (one.opinion?.probabilities) return one.opinion.probabilities.map((part) => part.length);
  if (one.opinion?.q_values) return [one.opinion.q_values.length];
  if (space?.type === "Discrete") return [space.n];
  if (space?.type === "MultiDiscrete") return space.nvec.flat(Infinity);
  if (space?.type === "MultiBinary") return Array(space.shape.reduce((a, b) => a * b, 1)).fill(2);
  return [];
}

function takenOf(action, space) {
  if (action === null || action === undefined) return [];
  if (space?.type === "Discrete") return [action - space.start];
  return Array.isArray(action) ? action.flat(Infinity) : [];
}

function optionName(episode, agent, option, choices) {
  const space = episode.spaces[agent];
  const name = choices === 1 ? episode.trace.action_names[agent]?.[option] : undefined;
  return name ?? String(option + (choices === 1 ? space?.start ?? 0 : 0));
}

function optionTable(title, choice, one, nameOf) {
  const columns = [];
  if (choice.probabilities) columns.push(["probability", choice.probabilities, 1, percentOf, "mine"]);
  if (choice.otherProbabilities) columns.push(["the other's", choice.otherProbabilities, 1, percentOf, "other"]);
  const values = [...(choice.q ?? []), ...(choice.otherQ ?? [])];
  const range = { low: Math.min(0, ...values), high: Math.max(0, ...values) };
  if (choice.q) columns.push(["Q value", choice.q, range, number, "mine"]);
  if (choice.otherQ) columns.push(["the other's Q", choice.otherQ, range, number, "other"]);
  const options = shownOptions(choice);
  const rows = options.map((option) => optionRow(option, choice, columns, nameOf(option)));
  const left = choice.size - options.length;
  return h(
    "table", { class: "options" },
    h("caption", {}, title, left > 0 ? `, ${left} unlikely ones left out` : ""),
    headOf(["action", ...columns.map(([name]) => name)], Infinity),
    h("tbody", {}, rows),
  );
}

function percentOf(part) {
  return part > 0 && part < 0.005 ? "< 1 %" : percent(part);
}

function shownOptions({ size, probabilities, q, taken, otherTaken }) {
  const all = Array.from({ length: size }, (_, i) => i);
  if (size <= MOST_OPTIONS) return all;
  const likely = probabilities ?? q ?? [];
  const first = all.sort((a, b) => (likely[b] ?? 0) - (likely[a] ?? 0)).slice(0, MOST_OPTIONS);
  return [...new Set([...first, taken, otherTaken].filter((one) => one !== undefined))].sort((a, b) => a - b);
}

function optionRow(option, { taken, otherTaken, legal }, columns, name) {
  const isLegal = legal === null || legal[option];
  const marks = [];
  if (option === taken) marks.push(h("span", { class: "chip taken" }, "done"));
  if (option === otherTaken) marks.push(h("span", { class: "chip other" }, "the other"));
  if (!isLegal) marks.push(h("span", { class: "chip illegal" }, "not legal"));
  const dot = h("i", { class: "option-dot", style: { background: optionColor(option) } });
  return h(
    "tr", { class: option === taken ? "is-taken" : isLegal ? null : "is-illegal" },
    h("th", { scope: "row" }, dot, h("span", { class: "option-name" }, name), " ", marks),
    columns.map(([, values, scale, told, kind]) => {
      const text = h("span", { class: "number" }, told(values[option]));
      return h("td", {}, bar(values[option], scale, kind), text);
    }),
  );
}

function bar(value, scale, kind) {
  const { low, high } = scale === 1 ? { low: 0, high: 1 } : scale;
  const width = high - low || 1;
  const from = (Math.min(0, value) - low) / width;
  const size = Math.abs(value) / width;
  const style = { left: `${100 * from}%`, width: `${100 * size}%` };
  const sign = value < 0 ? "negative" : "";
  return h("span", { class: "option-bar" }, h("i", { class: `option-fill ${kind} ${sign}`, style }));
}

/** Box actions: the mean with its deviation on the way from the lowest to the highest, and what was done. */
function coordinateTable(one, space) {
  const done = [one.action].flat(Infinity);
  const theirs = [one.other_action].flat(Infinity);
  const rows = one.opinion.mean.map((mean, i) => {
    const std = one.opinion.std?.[i] ?? null;
    const low = finite([space?.low].flat(Infinity)[i] ?? space?.low, Math.min(mean, done[i]) - 2 * (std ?? 1));
    const high = finite([space?.high].flat(Infinity)[i] ?? space?.high, Math.max(mean, done[i]) + 2 * (std ?? 1));
    const place = (value) => `${Math.max(0, Math.min(100, (100 * (value - low)) / (high - low || 1)))}%`;
    const dot = (kind, value, title) => h("i", { class: kind, style: { left: place(value) }, title });
    const [left, right] = [place(mean - (std ?? 0)), place(mean + (std ?? 0))];
    const spread = h("i", { class: "line-spread", style: { left, width: `calc(${right} - ${left})` } });
    const here = dot("line-done", done[i], "done");
    const other = one.other === null ? null : dot("line-other", theirs[i], "the other");
    return h(
      "tr", {}, h("th", { scope: "row" }, i),
      h("td", {}, h("span", { class: "line-track" }, spread, dot("line-mean", mean, "mean"), other, here)),
      h("td", { class: "number" }, number(mean, 3), std === null ? "" : ` ± ${number(std, 2)}`),
      h("td", { class: "number" }, number(done[i], 3)),
    );
  });
  const head = headOf(["", "", "mean", "done"], 2);
  return h("table", { class: "options coordinates" }, h("caption", {}, "Coordinates"), head, h("tbody", {}, rows));
}

function finite(value, otherwise) {
  return typeof value === "number" && Math.abs(value) < 1e6 ? value : otherwise;
}
