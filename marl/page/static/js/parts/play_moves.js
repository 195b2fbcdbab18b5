// What a person can do: buttons with names, sliders for numbers, and keys.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";

const MOST_BUTTONS = 60; // more options are a list
// Keys of the arrows by words in the names of actions.
const ARROWS = [["ArrowLeft", /left|west/i], ["ArrowRight", /right|east/i], ["ArrowUp", /\bup|north|forward/i],
  ["ArrowDown", /down|south|back/i], [" ", /no_?op|no_action|stay|nothing|wait/i]];
const SIGNS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };

/** The controls of one seat: `{element, update(view), keys}`. `send(action)` plays a move. */
export function moveControls(columns, send) {
  const single = columns.length === 1 && columns[0].type === "choice";
  const made = single ? singleChoice(columns[0], send) : severalColumns(columns, send);
  return { ...made, element: h("div", { class: "play-moves", role: "group", "aria-label": "Your moves" }, made.element) };
}

/** What an option is called. */
export function optionName(column, i) {
  return column.names[i] ?? String(i + column.start);
}

function singleChoice(column, send) {
  const keys = keysOf(column);
  const signs = new Map();
  for (const [key, i] of keys) {
    if (!signs.has(i) || key in SIGNS) signs.set(i, SIGNS[key] ?? key);
  }
  const many = column.options > MOST_BUTTONS;
  const list = h("select", { "aria-label": "Move" });
  const play = h("button", { type: "button", class: "primary", onclick: () => send(Number(list.value)) }, "Play it");
  const buttons = [];
  if (!many) {
    for (let i = 0; i < column.options; i++) {
      const sign = signs.get(i);
      buttons.push(h("button", { type: "button", "data-action": i, onclick: () => send(i) },
        optionName(column, i), sign ? h("kbd", { "aria-hidden": "true" }, sign) : null));
    }
  }
  const element = many ? h("div", { class: "row" }, list, play) : h("div", { class: "play-buttons" }, buttons);
  function update({ legal, asked, chosen, hinted }) {
    const allowed = legal?.[0] ?? null;
    if (many) {
      const free = [...Array(column.options).keys()].filter((i) => allowed === null || allowed[i]);
      put(list, free.map((i) => h("option", { value: i, selected: hinted?.[0] === i }, optionName(column, i))));
      play.disabled = list.disabled = !asked;
      return;
    }
    buttons.forEach((button, i) => {
      button.disabled = !asked || (allowed !== null && !allowed[i]);
      button.classList.toggle("hinted", hinted?.[0] === i);
      button.setAttribute("aria-pressed", String(chosen === i));
    });
  }
  const press = (key) => keys.get(key) ?? null;
  return { element, update, press, now: () => null };
}

/** Digits are the options in their order; arrows those whose names say so, or the two of a choice between two. */
function keysOf(column) {
  const keys = new Map();
  for (let i = 0; i < Math.min(9, column.options); i++) keys.set(String(i + 1), i);
  for (const [key, pattern] of ARROWS) {
    const i = column.names.findIndex((name) => pattern.test(name));
    if (i >= 0) keys.set(key, i);
  }
  if (column.options === 2 && !keys.has("ArrowLeft")) keys.set("ArrowLeft", 0).set("ArrowRight", 1);
  return keys;
}

function severalColumns(columns, send) {
  const inputs = columns.map((column, i) => (column.type === "choice" ? choiceInput(column, i) : numberInput(column, i)));
  const read = () => inputs.map((one) => one.read());
  const play = h("button", { type: "submit", class: "primary" }, "Play it");
  const element = h("form", {}, inputs.map((one) => one.element), play);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!play.disabled) send(read());
  });
  function update({ legal, asked, hinted }) {
    play.disabled = !asked;
    let choice = 0;
    inputs.forEach((one, i) => {
      one.allow(columns[i].type === "choice" ? (legal?.[choice++] ?? null) : null);
      if (hinted) one.write(hinted[i]);
    });
  }
  return { element, update, press: () => null, now: read };
}

function choiceInput(column, i) {
  const id = `move-${i}`;
  const list = h("select", { id });
  let before = "";
  function allow(allowed) {
    const text = JSON.stringify(allowed);
    if (text === before) return;
    before = text;
    const kept = list.value;
    const free = [...Array(column.options).keys()].filter((one) => allowed === null || allowed[one]);
    put(list, free.map((one) => h("option", { value: one, selected: String(one) === kept }, optionName(column, one))));
  }
  allow(null);
  return {
    element: h("div", { class: "play-field" }, h("label", { for: id }, `Choice ${i + 1}`), list),
    read: () => Number(list.value),
    write: (value) => (list.value = String(value)),
    allow,
  };
}

function numberInput(column, i) {
  const id = `move-${i}`;
  const bounded = column.low !== null && column.high !== null && column.high - column.low < 1e6;
  const step = column.whole ? 1 : bounded ? (column.high - column.low) / 100 : "any";
  const middle = bounded ? Math.min(Math.max(0, column.low), column.high) : 0;
  const shown = h("output", { for: id }, number(middle, 3));
  const input = h("input", {
    id, type: bounded ? "range" : "number", min: column.low, max: column.high, step, value: middle,
  });
  input.value = String(middle); // before the bounds are known a slider cuts to 0..100
  input.addEventListener("input", () => (shown.textContent = number(Number(input.value), 3)));
  const label = h("label", { for: id }, `Number ${i + 1}`, bounded ? ` (${number(column.low)} to ${number(column.high)})` : "");
  return {
    element: h("div", { class: "play-field" }, h("div", { class: "row" }, label, bounded ? shown : null), input),
    // Steps of a slider may end just beyond the bound.
    read: () => (bounded ? Math.min(Math.max(Number(input.value), column.low), column.high) : Number(input.value)),
    write(value) {
      input.value = String(value);
      shown.textContent = number(Number(input.value), 3);
    },
    allow() {},
  };
}
