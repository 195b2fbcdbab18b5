// Parts of the page of one run: its numbers, notes, checkpoints, keys and files.

import { h, put } from "marl/dom.js";
import { duration, number, short } from "marl/format.js";
import { ago, bytes, sentence } from "marl/parts/runs_words.js";
import { address } from "marl/routes.js";

/** The facts of a run in two lines of words and numbers. */
export function facts(summary) {
  const told = [
    ["Best", number(summary.best), summary.best_of],
    ["Last reward", number(summary.reward), "episode_reward_mean of the newest result"],
    ["Iterations", number(summary.iterations)],
    ["Env steps", number(summary.timesteps)],
    ["Training time", duration(summary.seconds)],
    ["Seed", summary.seed ?? "–"],
    ["Newest result", summary.newest],
  ];
  const items = told.map(([name, value, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, value)));
  return h("dl", { class: "runs-facts" }, items);
}

/** Errors, warnings and notes; null where there are none. */
export function notesPart(notes, traceback) {
  if (notes.length === 0 && !traceback) return null;
  const lines = notes.map((note) => {
    const kind = note.kind === "note" ? "" : note.kind;
    const where = note.iteration ? ` (iteration ${number(note.iteration)})` : "";
    return h("li", { class: `message ${kind}` }, h("b", {}, `${note.kind}${where}: `), note.text);
  });
  const whole = traceback ? h(
    "details",
    {},
    h("summary", {}, "The whole traceback"),
    h("pre", { class: "runs-log-text" }, traceback),
  ) : null;
  return h("section", {}, h("h2", {}, "Notes and warnings"), h("ul", { class: "runs-notes" }, lines), whole);
}

/** Checkpoints with links to what can be done with each. */
export function checkpointsPart(run, checkpoints, inFile) {
  if (checkpoints.length === 0) {
    return h(
      "section",
      {},
      h("h2", {}, "Checkpoints"),
      h("p", { class: "quiet" }, "There are none yet: the first comes with checkpoint_freq, or at the end."),
    );
  }
  const rows = checkpoints.map((one) => {
    const links = one.damage || inFile ? null : [
      h("a", { href: address("episodes", [], { run, checkpoint: one.name }) }, "Episodes"),
      " ",
      h("a", { href: address("play", [], { run, checkpoint: one.name }) }, "Play"),
    ];
    const good = one.resumable ? "play, resume" : "play";
    const use = one.damage ? h("span", { class: "chip failed" }, "✕ damaged") : good;
    const when = one.written === null ? "–" : ago(1000 * one.written);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, one.name),
      h("td", {}, when),
      h("td", { class: "number" }, bytes(one.bytes)),
      h("td", {}, use),
      h("td", {}, links),
    );
  });
  const head = h(
    "tr",
    {},
    ["Checkpoint", "Written"].map((title) => h("th", { scope: "col" }, title)),
    h("th", { scope: "col", class: "number" }, "Size"),
    ["Good for", "Look at it"].map((title) => h("th", { scope: "col" }, title)),
  );
  const table = h("table", { class: "runs-checkpoints" }, h("thead", {}, head), h("tbody", {}, rows));
  return h("section", {}, h("h2", {}, "Checkpoints"), h("div", { class: "scroll" }, table));
}

/** A table of names and values with a box that filters it; `rows` are {name, value, unit, text}. */
export function valuesPart(title, id, note) {
  const body = h("tbody");
  const box = h("input", { type: "search", id: `${id}-filter`, placeholder: "words in names" });
  const state = { rows: [] };
  const fill = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ name }) => words.every((word) => name.toLowerCase().includes(word));
    put(body, state.rows.filter(fits).map(valueRow));
  };
  box.addEventListener("input", fill);
  const table = h("table", { class: "runs-values" }, h("tbody", {}));
  put(table, h("caption", {}, note), body);
  const details = h(
    "details",
    { id },
    h("summary", {}, h("h2", {}, title)),
    h("label", {}, "Filter ", box),
    h("div", { class: "scroll" }, table),
  );
  details.addEventListener("toggle", () => details.open && fill()); // hundreds of rows, which most readers never open
  const update = (rows) => {
    state.rows = rows;
    if (details.open) fill();
  };
  return { element: details, update };
}

function valueRow({ name, value, unit, text }) {
  const shown = typeof value === "number" ? number(value, 6) : short(value, 200);
  const meaning = text === undefined ? null : h("td", { class: "quiet" }, sentence(text));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("code", {}, name)),
    h("td", { class: "runs-value" }, shown, unit ? ` ${unit}` : ""),
    meaning,
  );
}

/** The keys of a scenario as rows of dotted names. */
export function keyRows(params, before = "") {
  return Object.entries(params).flatMap(([key, value]) => {
    const name = `${before}${key}`;
    const isTree = value !== null && typeof value === "object" && !Array.isArray(value);
    if (isTree && Object.keys(value).length > 0) return keyRows(value, `${name}.`);
    return [{ name, value: value === null ? "null" : value }];
  });
}
