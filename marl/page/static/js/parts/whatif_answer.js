// What the other action or policy changes: sentence, interval plot, table and command.

import { add, h, s } from "marl/dom.js";
import { number } from "marl/format.js";
import { pictureButtons } from "marl/save.js";

const MOST_ROWS = 12;
const ROW = 26;

/** Everything about a measured effect; `told` is the answer of POST /api/whatif/effect. */
export function effectAnswer(told, command) {
  const { answer, agent } = told;
  const rows = rowsOf(answer, agent);
  const plot = intervalPlot(rows, answer.exact);
  const name = `what_if_${told.env}_step_${told.step}`;
  return h(
    "div",
    { class: "what-if-answer" },
    h("p", { class: "message" }, answer.sentence),
    h(
      "div",
      { class: "what-if-both" },
      h("figure", {}, plot, h("figcaption", { class: "row" }, caption(answer), pictureButtons(() => plot, name))),
      effectTable(rows, answer),
    ),
    commandLine(command),
  );
}

/** The agent that was asked about, the others by how much changes for them, and all together. */
function rowsOf(answer, agent) {
  const others = Object.entries(answer.agents).filter(([name]) => name !== agent);
  others.sort((one, two) => Math.abs(two[1].difference.mean) - Math.abs(one[1].difference.mean));
  const all = [[agent, answer.agents[agent]], ...others.slice(0, MOST_ROWS - 1)];
  if (others.length > 0) all.push(["all together", answer.together]);
  return all.map(([label, effect]) => ({ label, ...effect }));
}

function caption(answer) {
  if (answer.exact) return h("span", { class: "grow" }, "Nothing is left to chance here, so one continuation is exact.");
  const many = `${answer.continuations.toLocaleString("en")} continuations both ways, with common random numbers`;
  const cut = answer.cut ? `; ${answer.cut} were cut because they went on for too long` : "";
  return h("span", { class: "grow" }, `Difference of the return with its 95 % interval. ${many}; ${answer.luck}${cut}.`);
}

function effectTable(rows, answer) {
  const head = h("tr", {}, ["Return", "As it was", "Instead", "Difference"].map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map(({ label, as_it_was: was, instead, difference }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, label),
      [was, instead].map((one) => cell(one, false)),
      cell(difference, !answer.exact, true),
    ),
  );
  const left = Object.keys(answer.agents).length - rows.length + 1;
  const note = left > 1 ? h("p", { class: "quiet" }, `… and ${left - 1} more agents for whom less changes.`) : null;
  const table = h("table", { class: "what-if-table" }, h("thead", {}, head), h("tbody", {}, body));
  return h("div", { class: "scroll" }, table, note);
}

function cell(estimate, withInterval, signed = false) {
  const sign = signed && estimate.mean > 0 ? "+" : "";
  const told = [`${sign}${number(estimate.mean)}`];
  if (withInterval && estimate.low !== null && estimate.low !== undefined) {
    told.push(h("small", { class: "quiet" }, ` [${number(estimate.low, 3)}, ${number(estimate.high, 3)}]`));
  }
  return h("td", { class: "number" }, told);
}

// -- the plot ----------------------------------------------------------------------------------------------------------

/** Differences as dots with their intervals as bars, and a line at zero. */
export function intervalPlot(rows, exact, width = plotWidth()) {
  const labels = Math.min(150, width * 0.3); // room for names
  const ends = rows.flatMap(({ difference: d }) => [d.low ?? d.mean, d.high ?? d.mean]);
  const low = Math.min(0, ...ends);
  const high = Math.max(0, ...ends);
  const span = high - low || 1;
  const x = (value) => labels + 24 + ((width - labels - 64) * (value - low)) / span;
  const height = ROW * rows.length + 34;
  const drawn = rows.map((row, i) => intervalRow(row, x, 18 + ROW * i + ROW / 2, labels));
  const spoken = rows.map(
    ({ label, difference: d }) =>
      `${label}: ${number(d.mean)}, from ${number(d.low ?? d.mean)} to ${number(d.high ?? d.mean)}`,
  );
  const label = `Difference that it makes${exact ? " (exact)" : ", with 95 % intervals"}. ${spoken.join("; ")}.`;
  return s(
    "svg",
    {
      class: "interval-plot",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
      style: { "max-width": `${width}px` },
    },
    s("line", { class: "interval-zero", x1: x(0), x2: x(0), y1: 8, y2: height - 18 }),
    ticks(low, high, x, height),
    drawn,
  );
}

/** Letters stay as large as those around the plot: it is drawn for the width that there is. */
function plotWidth() {
  return Math.max(280, Math.min(560, window.innerWidth - 90));
}

/** Zero and the ends, but none so near to zero that the numbers would touch. */
function ticks(low, high, x, height) {
  const far = [low, high].filter((value) => Math.abs(x(value) - x(0)) > 48);
  return [...far, 0].map((value) =>
    s(
      "text",
      { class: "interval-tick", x: x(value), y: height - 4, "text-anchor": "middle" },
      `${value > 0 ? "+" : ""}${number(value, 3)}`,
    ),
  );
}

function intervalRow({ label, difference: d }, x, y, labels) {
  const low = d.low ?? d.mean;
  const high = d.high ?? d.mean;
  const side = low > 0 ? "effect-more" : high < 0 ? "effect-less" : "effect-none";
  const most = Math.floor(labels / 7.5);
  const name = label.length > most ? `${label.slice(0, most - 1)}…` : label;
  const bar = s("line", { class: "interval-bar", x1: x(low), x2: x(high), y1: y, y2: y });
  const caps = [low, high].map((end) => s("line", { class: "interval-bar", x1: x(end), x2: x(end), y1: y - 5, y2: y + 5 }));
  const dot = s("circle", { cx: x(d.mean), cy: y, r: 4.5 });
  const text = s("text", { x: labels, y: y + 4, "text-anchor": "end" }, name, s("title", {}, label));
  return s("g", { class: side }, text, bar, low < high ? caps : null, dot);
}

// -- the command -------------------------------------------------------------------------------------------------------

/** `marl why` with the same question; null where it has none. */
export function whyCommand({ request, step, agent, instead, continuations }) {
  if (Object.keys(request.policies ?? {}).length > 0) return null;
  const place = request.checkpoint ? `${request.run}/checkpoints/${request.checkpoint}` : request.run;
  const words = ["marl", "why", place, "--episode", request.episode ?? 0, "--agent", agent, "--step", step];
  if (request.seed) words.push("--seed", request.seed);
  if (request.explore) words.push("--explore");
  if (request.recording) words.push("--recording", request.recording);
  if (instead.action !== undefined) words.push("--instead", asTyped(instead.action));
  if (instead.policy !== undefined) words.push("--policy", instead.policy);
  if (continuations !== 1000) words.push("--continuations", continuations);
  return words.map(quoted).join(" ");
}

function asTyped(action) {
  if (Array.isArray(action)) return action.join(",");
  return String(action);
}

/** A word of a command that no shell reads as anything else. */
function quoted(word) {
  const text = String(word);
  return /^[\w./:=,+@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function commandLine(command) {
  if (command === null) {
    return h("p", { class: "quiet" }, "marl why lets the run's own policies play, so it has no command for this episode.");
  }
  const copy = h("button", { class: "small", onclick: () => copied(copy, command) }, "Copy");
  const line = h("div", { class: "what-if-command" }, h("code", {}, command), copy);
  return add(h("div", {}), h("p", { class: "quiet" }, "The same as a command, in the results folder:"), line);
}

async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
}
