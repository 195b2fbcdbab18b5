// Lists beside an episode: everybody in this step, where values were most wrong, where a second checkpoint disagrees.

import { h, put } from "marl/dom.js";
import { number, percent } from "marl/format.js";
import { actionText } from "marl/parts/episode.js";

const FEW = 8; // entries before "more"
const COLUMNS = ["agent", "did", "probability", "reward", "value", "return so far"];

/** The head of a table; from column `numbers` on there are numbers, which stand at the right. */
export function headOf(names, numbers) {
  const cells = names.map((name, i) => h("th", { scope: "col", class: i >= numbers ? "number" : null }, name));
  return h("thead", {}, h("tr", {}, cells));
}

/** All agents of a step as a table: {element, show(episode, step, agent)}; `onPick(agent)` is told who was clicked. */
export function everybody(onPick) {
  const body = h("tbody", {});
  const caption = h("caption", {}, "Everybody in this step");
  const table = h("table", { class: "everybody" }, caption, headOf(COLUMNS, 2), body);
  const element = h("div", { class: "scroll everybody-scroll" }, table);
  const rows = new Map();
  let shown = null;

  function rowOf(agent) {
    const cells = COLUMNS.slice(1).map((_, i) => h("td", { class: i > 0 ? "number" : null }));
    const name = h("button", { class: "small agent-pick", onclick: () => onPick(agent) }, agent);
    return { element: h("tr", {}, h("th", { scope: "row" }, name), cells), cells, name, texts: [] };
  }

  function show(episode, step, agent) {
    if (shown !== episode) {
      shown = episode;
      rows.clear();
      put(body);
    }
    for (const name of episode.agents) {
      const one = episode.at(step, name);
      const isHere = one !== null || (step >= episode.length && episode.agents.length <= 50);
      if (!rows.has(name)) {
        if (!isHere) continue;
        rows.set(name, rowOf(name));
        body.append(rows.get(name).element);
      }
      const row = rows.get(name);
      if (row.element.hidden === isHere) row.element.hidden = !isHere;
      if (isHere) write(row, textsOf(episode, step, name, one), name === agent);
    }
  }
  return { element, show };
}

function textsOf(episode, step, agent, one) {
  const soFar = number(episode.returnBefore(step, agent));
  if (one === null) return ["–", "–", "–", "–", soFar];
  const did = one.asked ? actionText(episode, agent, one.action, one.action_name) : "waits";
  const value = one.expected ?? one.opinion?.value ?? null;
  return [did, chanceOf(one, episode.spaces[agent]), number(one.reward || 0), number(value), soFar];
}

function chanceOf(one, space) {
  const chances = one.opinion?.probabilities;
  return chances?.length === 1 && space?.type === "Discrete" ? percent(chances[0][one.action - space.start]) : "–";
}

/** Only what has changed is written: this happens sixty times a second. */
function write(row, texts, isChosen) {
  texts.forEach((text, i) => {
    if (row.texts[i] !== text) row.cells[i].textContent = text;
  });
  row.texts = texts;
  if (row.chosen === isChosen) return;
  row.chosen = isChosen;
  row.name.setAttribute("aria-pressed", isChosen);
}

/** Where values were most wrong; `goTo(step, agent)` jumps there. */
export function wrongList(episode, goTo) {
  const { wrong, trace: { missing_values: missing } } = episode;
  const section = h("section", { class: "card" }, h("h2", {}, "Where the value was most wrong"));
  if (wrong.length === 0) {
    const none = "No value of this episode can be held against a return.";
    section.append(h("p", { class: "quiet" }, missing ? `Nobody expected anything: ${missing}.` : none));
    return section;
  }
  const rows = wrong.map(({ step, agent, expected, came, error }) => {
    const texts = [number(expected), number(came), `${error > 0 ? "+" : ""}${number(error)}`];
    const jump = h("button", { class: "small", onclick: () => goTo(step, agent) }, `step ${step}`);
    const numbers = texts.map((text) => h("td", { class: "number" }, text));
    return h("tr", {}, h("td", {}, jump), h("td", { class: "agent-name" }, agent), numbers);
  });
  const body = h("tbody", {});
  const head = headOf(["", "agent", "expected", "came", "error"], 2);
  section.append(h("div", { class: "scroll" }, h("table", {}, head, body)));
  limited(body, rows, section);
  return section;
}

/** Where the second checkpoint would do something else. */
export function disagreementList(episode, goTo) {
  const { disagreements, request } = episode;
  let decisions = 0;
  for (const step of episode.steps) for (const one of step.values()) decisions += one.other === null ? 0 : 1;
  const text = disagreements.length === 0
    ? `${request.other} would have done the same in all ${decisions} decisions.`
    : `${request.other} would do something else in ${disagreements.length} of ${decisions} decisions.`;
  const section = h("section", { class: "card" }, h("h2", {}, "Where they disagree"), h("p", {}, text));
  const buttons = disagreements.slice(0, 200).map(({ step, agent }) => h(
    "button", { class: "small", onclick: () => goTo(step, agent) }, `step ${step}, ${agent}`,
  ));
  const place = h("div", { class: "row disagreements" });
  section.append(place);
  limited(place, buttons, section);
  return section;
}

function limited(place, entries, section) {
  put(place, entries.slice(0, FEW));
  if (entries.length <= FEW) return;
  const all = () => {
    put(place, entries);
    more.remove();
  };
  const more = h("button", { class: "small", onclick: all }, `All ${entries.length}`);
  section.append(more);
}
