// Places of a drawing that stand for actions: real buttons over the drawing, and arrow keys.

import { h } from "marl/dom.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const WAYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };

/** Whether an action may be taken now; `legal` gives a list of action numbers, or null where all may be. */
export function isLegal(action, legal) {
  const allowed = legal();
  return action !== undefined && (allowed === null || allowed === undefined || allowed.includes(action));
}

/** Buttons over a grid, one per cell, that arrow keys walk through: `{element, show(cells)}`. A cell is
 *  {row, column, left, top, width, height (in % of the drawing), label, disabled, pressed, onClick}. */
export function placeGrid(label) {
  const element = h("div", { class: "places", role: "group", "aria-label": label });
  const buttons = new Map();
  let current = null; // the one cell that the tab key reaches; arrows lead to the others

  function walk(event) {
    const step = STEPS[event.key];
    const from = buttons.get(current);
    if (step === undefined || from === undefined) return;
    event.preventDefault();
    focus(`${from.cell.row + step[0]},${from.cell.column + step[1]}`);
  }

  function focus(key) {
    if (!buttons.has(key)) return;
    buttons.get(current).button.tabIndex = -1;
    current = key;
    const { button } = buttons.get(key);
    button.tabIndex = 0;
    button.focus();
  }

  function click(key) {
    const { cell } = buttons.get(key);
    if (!cell.disabled) cell.onClick();
  }

  function make(key) {
    const button = h("button", { type: "button", class: "place", tabindex: "-1", onclick: () => click(key) });
    button.addEventListener("focus", () => {
      if (current !== key && buttons.has(current)) buttons.get(current).button.tabIndex = -1;
      current = key;
      button.tabIndex = 0;
    });
    element.append(button);
    return { button, cell: null };
  }

  function show(cells) {
    const wanted = new Set();
    for (const cell of cells) {
      const key = `${cell.row},${cell.column}`;
      wanted.add(key);
      if (!buttons.has(key)) buttons.set(key, make(key));
      update(buttons.get(key), cell);
    }
    for (const [key, { button }] of buttons) {
      if (wanted.has(key)) continue;
      button.remove();
      buttons.delete(key);
    }
    if (!buttons.has(current)) current = firstFree() ?? null;
    if (current !== null) buttons.get(current).button.tabIndex = 0;
  }

  function firstFree() {
    const keys = [...buttons.keys()];
    return keys.find((key) => !buttons.get(key).cell.disabled) ?? keys[0];
  }

  element.addEventListener("keydown", walk);
  return { element, show };
}

function update(place, cell) {
  const { button, cell: before } = place;
  place.cell = cell;
  if (before === null || before.left !== cell.left || before.top !== cell.top || before.width !== cell.width) {
    for (const side of ["left", "top", "width", "height"]) button.style.setProperty(side, `${cell[side]}%`);
  }
  if (before?.label !== cell.label) button.setAttribute("aria-label", cell.label);
  // Not the attribute disabled: arrow keys have to pass over taken cells, and readers have to hear what stands there.
  if (before?.disabled !== cell.disabled) button.setAttribute("aria-disabled", String(cell.disabled));
  if (before?.pressed !== cell.pressed) {
    if (cell.pressed === undefined) button.removeAttribute("aria-pressed");
    else button.setAttribute("aria-pressed", String(cell.pressed));
  }
}

/** A row of buttons with words on them: `{element, show(choices)}`; a choice is {key, text, label, disabled, pressed,
 *  onClick}. Buttons stay the same from scene to scene, so that the focus is not lost. */
export function choiceRow(label) {
  const element = h("div", { class: "choices row", role: "group", "aria-label": label });
  const buttons = new Map();
  function show(choices) {
    element.hidden = choices.length === 0;
    if ([...buttons.keys()].join("\n") !== choices.map((choice) => choice.key).join("\n")) begin(choices);
    for (const choice of choices) {
      const entry = buttons.get(choice.key);
      entry.choice = choice;
      entry.button.disabled = Boolean(choice.disabled);
      if (entry.button.textContent !== choice.text) entry.button.textContent = choice.text;
      if (choice.label) entry.button.setAttribute("aria-label", choice.label);
      if (choice.pressed !== undefined) entry.button.setAttribute("aria-pressed", String(choice.pressed));
    }
  }
  function begin(choices) {
    buttons.clear();
    for (const { key } of choices) {
      const entry = { button: h("button", { type: "button", onclick: () => entry.choice.onClick() }), choice: null };
      buttons.set(key, entry);
    }
    element.replaceChildren(...[...buttons.values()].map((entry) => entry.button));
  }
  return { element, show };
}

const ORDER = ["left", "up", "down", "right", "stay"]; // as arrow keys lie; others come behind them
const SIGNS = { up: "↑", down: "↓", left: "←", right: "→", stay: "•" };

/** Arrows for moves on a plane or in a maze: buttons, and arrow keys wherever the focus is in `around`. */
export function arrowPad(around, { onAction, legal }) {
  const row = choiceRow("Moves");
  row.element.classList.add("arrow-pad");
  let actions = {};
  around.addEventListener("keydown", (event) => {
    const action = actions[WAYS[event.key]];
    if (onAction === null || !isLegal(action, legal)) return;
    event.preventDefault();
    onAction(action);
  });
  function show(places) {
    actions = places ?? {};
    const rank = (key) => (ORDER.indexOf(key) + ORDER.length + 1) % (ORDER.length + 1);
    const keys = onAction === null ? [] : Object.keys(actions).sort((a, b) => rank(a) - rank(b));
    row.show(
      keys.map((key) => ({
        key,
        text: SIGNS[key] ?? key,
        label: key in SIGNS && key !== "stay" ? `go ${key}` : key,
        disabled: !isLegal(actions[key], legal),
        onClick: () => onAction(actions[key]),
      })),
    );
  }
  return { element: row.element, show };
}
