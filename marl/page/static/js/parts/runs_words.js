// Small pieces that the table of runs and the page of one run share.

import { h } from "marl/dom.js";
import { number, percent } from "marl/format.js";

// A sign beside the word: colours are never alone.
const SIGNS = { running: "▶", finished: "✓", stopped: "■", failed: "✕" };

/** The state of a run as a chip. */
export function stateChip({ state, error }) {
  return h("span", { class: `chip ${state}`, title: error || null }, `${SIGNS[state] ?? ""} ${state}`);
}

/** Whether the goal is met; null without a goal. */
export function goalChip({ goal, goal_met: met, state }) {
  const fields = Object.entries(goal);
  if (fields.length === 0) return null;
  const wanted = fields.map(([field, value]) => `${field} ${number(value)}`).join(", ");
  if (met) return h("span", { class: "chip met", title: wanted }, "★ met");
  const word = state === "finished" ? "missed" : "not yet";
  return h("span", { class: `chip ${state === "finished" ? "missed" : ""}`, title: wanted }, word);
}

/** A bar, how far the run is, and the words for it. */
export function progressBar(summary) {
  const { progress, progress_label: label } = summary;
  const told = `${percent(progress)}: ${label}`;
  return [
    h("progress", { value: progress, max: 1, title: told, "aria-label": told }),
    h("span", { class: "runs-percent" }, percent(progress)),
  ];
}

/** When something was written, in words such as "3 min ago"; `now` and `when` in milliseconds. */
export function ago(when, now = Date.now()) {
  const seconds = Math.max(0, (now - when) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} days ago`;
}

/** Bytes as people read them. */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  if (size < 1e6) return `${(size / 1e3).toPrecision(3)} kB`;
  return size < 1e9 ? `${(size / 1e6).toPrecision(3)} MB` : `${(size / 1e9).toPrecision(3)} GB`;
}

/** A select with a label before it: choices are [value, text] pairs. */
export function chooser(label, choices, value, onchange, more = {}) {
  const options = choices.map(([key, text]) => h("option", { value: key, selected: key === value }, text));
  const select = h("select", { onchange: (event) => onchange(event.target.value), ...more }, options);
  return h("label", { class: "runs-chooser" }, `${label} `, select);
}

/** A sentence in which `such words` are code. */
export function sentence(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}
