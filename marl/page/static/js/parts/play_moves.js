// What a person can do: buttons with names, sliders for numbers, and keys.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { optionName } from "marl/parts/play_names.js";

const MOST_BUTTONS = 60; // more options are a list
// Keys of the arrows by words in the names of actions.
const ARROWS = [
  ["ArrowLeft", /left|west/i],
  ["ArrowRight", /right|east/i],
  ["ArrowUp", /\bup|north|forward/i],
  ["ArrowDown", /down|south|back/i],
  [" ", /no_?op|no_action|stay|nothing|wait/i],
];
const SIGNS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };

/** The controls of one seat: `{element, update(view), press(key), now()}`. `send(action)` plays a move, `press` gives
 *  the action of a key, `now` what the sliders say; `places` are names of options by their places on a board. */
export function moveControls(columns, places, send) {
  const single = columns.length === 1 && columns[0].type === "choice";
  const made = single ? singleChoice(columns[0], places, send) : severalColumns(columns, send);
  const element = h("div", { class: "play-moves", role: "group", "aria-label": "Your moves" }, made.element);
  return { ...made, element };
}

// -- one choice -------------------------------------------------------------------------------------------------------

function singleChoice(column, places, send) {
  const keys = keysOf(column);
  const press = (key) => keys.get(key) ?? null;
  const made = column.options > MOST_BUTTONS ? optionList(column, send) : optionButtons(column, keys, places, send);
  return { ...made, press, now: () => null };
}

/** Digits are the options by number, or by their order where they have names; arrows those whose names say so. */
function keysOf(column) {
  const keys = new Map();
  const first = column.names.length ? 1 : 0;
  for (let i = 0; i + first < 10 && i < column.options; i++) keys.set(String(i + first), i);
  for (const [key, pattern] of ARROWS) {
    const i = column.names.findIndex((name) => pattern.test(name));
    if (i >= 0) keys.set(key, i);
  }
  if (column.options === 2 && !keys.has("ArrowLeft")) keys.set("ArrowLeft", 0).set("ArrowRight", 1);
  return keys;
}

function optionButtons(column, keys, places, send) {
  const signs = new Map();
  for (const [key, i] of keys) {
    if (!signs.has(i) || key in SIGNS) signs.set(i, SIGNS[key] ?? key);
  }
  const buttons = [];
  for (let i = 0; i < column.options; i++) {
    const sign = signs.get(i);
    // The number itself is the key where it is all that the option is called.
    const shows = sign !== undefined && sign !== String(i);
    const key = shows ? h("kbd", { "aria-hidden": "true" }, sign) : null;
    const name = optionName(column, i);
    buttons.push(h("button", { type: "button", "data-action": i, onclick: () => send(i) }, name, key));
  }
  function update({ legal, asked, chosen, hinted }) {
    const allowed = legal?.[0] ?? null;
    buttons.forEach((button, i) => {
      button.disabled = !asked || (allowed !== null && !allowed[i]);
      button.classList.toggle("hinted", hinted?.[0] === i);
      button.setAttribute("aria-pressed", String(chosen === i));
      if (i in places) button.setAttribute("aria-label", places[i]);
    });
  }
  return { element: h("div", { class: "play-buttons" }, buttons), update };
}

function optionList(column, send) {
  const list = h("select", { "aria-label": "Move" });
  const play = h("button", { type: "button", class: "primary", onclick: () => send(Number(list.value)) }, "Play it");
  function update({ legal, asked, hinted }) {
    const options = freeOptions(column, legal?.[0] ?? null);
    put(list, options.map((i) => h("option", { value: i, selected: hinted?.[0] === i }, optionName(column, i))));
    play.disabled = list.disabled = !asked;
  }
  return { element: h("div", { class: "row play-list" }, list, play), update };
}

function freeOptions(column, allowed) {
  return [...Array(column.options).keys()].filter((i) => allowed === null || allowed[i]);
}

// -- several choices, and numbers -------------------------------------------------------------------------------------

function severalColumns(columns, send) {
  const make = (column, i) => (column.type === "choice" ? choiceInput(column, i) : numberInput(column, i));
  const inputs = columns.map(make);
  const read = () => inputs.map((one) => one.read());
  const play = h("button", { type: "submit", class: "primary" }, "Play it");
  const element = h("form", {}, inputs.map((one) => one.element), play);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!play.disabled) send(read());
  });
  let written = null;
  function update({ legal, asked, hinted }) {
    play.disabled = !asked;
    let choice = 0;
    inputs.forEach((one, i) => {
      one.allow(columns[i].type === "choice" ? (legal?.[choice++] ?? null) : null);
      // Once: what the person changes afterwards stays.
      if (hinted && hinted !== written) one.write(hinted[i]);
    });
    written = hinted;
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
    const make = (one) => h("option", { value: one, selected: String(one) === kept }, optionName(column, one));
    put(list, freeOptions(column, allowed).map(make));
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
  const type = bounded ? "range" : "number";
  const input = h("input", { id, type, min: column.low, max: column.high, step });
  input.value = String(middle); // not before its bounds are known: a slider is from 0 to 100 until then
  const tell = () => (shown.textContent = number(Number(input.value), 3));
  input.addEventListener("input", tell);
  const range = bounded ? ` (${number(column.low)} to ${number(column.high)})` : "";
  const label = h("label", { for: id }, `Number ${i + 1}${range}`);
  return {
    element: h("div", { class: "play-field" }, h("div", { class: "row" }, label, bounded ? shown : null), input),
    // The last step of a slider may end just beyond its bound.
    read: () => (bounded ? Math.min(Math.max(Number(input.value), column.low), column.high) : Number(input.value)),
    write(value) {
      input.value = String(value);
      tell();
    },
    allow() {},
  };
}
