// A chart of any field of chosen runs: over seeds or each by itself, with the sentence that says what the field is.

import { get, savedPage } from "marl/api.js";
import { curveChart } from "marl/charts.js";
import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { chooser, sentence } from "marl/parts/runs_words.js";
import { setQuery } from "marl/routes.js";

export const FIRST_FIELD = "episode_reward_mean";
const OVER = [
  ["timesteps_total", "env steps"],
  ["training_iteration", "iterations"],
  ["time_total_s", "seconds"],
  ["episodes_total", "episodes"],
];

/** The address of the curves of these runs. */
export function curvesPath(runs, fields, { over, together }) {
  const words = new URLSearchParams();
  for (const run of runs) words.append("run", run);
  for (const field of fields) words.append("field", field);
  words.append("over", over);
  if (together) words.append("together", "true");
  return `/api/runs/curves?${words}`;
}

/** The field that these runs are judged by, for a chart in which none was chosen. Evaluations of the reward of all
 *  agents are few points of nearly the same curve, so that one is drawn as it was trained. */
export function judgedBy(runs) {
  const [first] = runs;
  const isOne = first !== undefined && runs.every((run) => run.best_of === first.best_of);
  return isOne && !first.best_of.endsWith(FIRST_FIELD) ? first.best_of : FIRST_FIELD;
}

/** The card. `update({runs, fields, goal, mark, first})` draws anew where the choice or `mark` has changed: what the
 *  runs have come to. `first` is the field to draw until one is chosen. */
export function fieldChart({ query, signal, name, canGroup = false, height = 320 }) {
  const card = {
    field: query.get("field") ?? FIRST_FIELD,
    isChosen: query.get("field") !== null,
    over: OVER.some(([key]) => key === query.get("over")) ? query.get("over") : OVER[0][0],
    together: canGroup && query.get("each") === null,
    log: query.get("log") !== null,
    canGroup, signal, runs: [], fields: [], goal: {}, drawn: "",
  };
  card.chart = curveChart({ series: [], log: card.log, signal, height, name });
  card.controls = h("div", { class: "row runs-controls" });
  card.meaning = h("p", { class: "meaning" });
  card.method = h("p", { class: "quiet runs-method" });
  card.trouble = h("p", { class: "message error", hidden: true });
  card.element = h("section", { class: "card runs-chart", "aria-label": "Curves" });
  put(card.element, card.controls, card.meaning, card.trouble, card.chart.element, card.method);
  card.update = (news) => update(card, news);
  return card;
}

async function update(card, { runs, fields, goal = {}, mark, first = FIRST_FIELD }) {
  Object.assign(card, { runs, goal, mark: mark ?? card.mark });
  if (!card.isChosen) card.field = first;
  const names = [card.field, ...fields.map((field) => field.name)].join("\n");
  if (names !== card.names) {
    Object.assign(card, { fields, names });
    showControls(card);
  }
  await draw(card);
}

async function draw(card) {
  const path = curvesPath(card.runs, [card.field], card);
  const wanted = `${path} ${card.mark}`;
  if (wanted === card.drawn || card.runs.length === 0) return;
  card.drawn = wanted;
  try {
    const { charts } = await get(path, { signal: card.signal });
    if (card.drawn !== wanted) return; // something else was chosen meanwhile
    show(card, charts[0]);
  } catch (error) {
    if (card.signal.aborted) return;
    card.drawn = "";
    tell(card, error);
  }
}

function tell(card, error) {
  card.trouble.hidden = error === null;
  card.trouble.textContent = error?.message ?? "";
}

function show(card, { field, series, method, over }) {
  tell(card, null);
  const axis = OVER.find(([key]) => key === over)[1];
  const labels = `${axis} ${field} ${card.goal[field]}`;
  if (labels !== card.labels) {
    card.labels = labels;
    card.chart.setLabels(axis, field);
    const goal = card.goal[field];
    card.chart.setGoal(goal === undefined ? null : { value: goal, label: `goal ${number(goal)}` });
  }
  card.chart.update(series);
  card.method.textContent = method;
}

function showControls(card) {
  const inFile = savedPage() !== null;
  const more = { disabled: inFile };
  const choose = (key, changes) => (value) => {
    card[key] = value;
    card.isChosen ||= key === "field";
    setQuery(changes(value));
    explain(card);
    draw(card);
  };
  const names = card.fields.map((field) => field.name);
  if (!names.includes(card.field)) names.unshift(card.field);
  const fields = chooser(
    "Field",
    names.map((name) => [name, name]),
    card.field,
    choose("field", (field) => ({ field })),
    { ...more, class: "runs-field" },
  );
  const over = chooser("over", OVER, card.over, choose("over", (value) => ({ over: value })), more);
  const onGroup = (event) => choose("together", (on) => ({ each: on ? null : "1" }))(event.target.checked);
  const box = { type: "checkbox", ...more, class: "runs-together" };
  const group = h("input", { ...box, checked: card.together, onchange: onGroup });
  const log = h("input", { type: "checkbox", checked: card.log, class: "runs-log", onchange: (event) => {
    card.log = event.target.checked;
    setQuery({ log: card.log ? "1" : null });
    card.chart.setLog(card.log);
  } });
  put(
    card.controls,
    fields,
    over,
    card.canGroup ? h("label", {}, group, " mean over seeds") : null,
    h("label", {}, log, " log scale"),
  );
  explain(card);
}

/** The sentence of `marl explain`. */
function explain(card) {
  const known = card.fields.find((field) => field.name === card.field);
  const unit = known?.unit ? ` (${known.unit})` : "";
  const text = known?.text || "A number of your own code: marl explain knows nothing of it.";
  put(card.meaning, h("b", {}, card.field), `${unit}: `, sentence(text));
  card.meaning.hidden = known === undefined;
}
