// What an agent saw: bars for vectors, a picture for pictures, cells for grids, a table for dicts.

import { h, put } from "marl/dom.js";
import { number, short } from "marl/format.js";

const MOST_BARS = 96; // numbers with a bar each; longer vectors are a strip of cells
const MOST_CELLS = 4096;
const LEAST_PICTURE = 12; // pixels of a side: smaller arrays are grids of numbers

/** A place for one observation of a space after another: {element, show(value)}. */
export function observationView(space) {
  const shape = space?.shape ?? [];
  if (space?.type === "Dict" || space?.type === "Tuple") return composite(space);
  if (space?.type === "Discrete") return discrete(space);
  if (isPicture(space)) return picture(shape);
  if (shape.length >= 2 && shape.reduce((a, b) => a * b, 1) <= MOST_CELLS) return grids(shape);
  if (shape.length === 1 && shape[0] <= MOST_BARS) return bars(shape[0], space);
  if (shape.length >= 1 && ["Box", "MultiBinary", "MultiDiscrete"].includes(space.type)) return strip();
  return anything();
}

function anything() {
  const element = h("code", { class: "observation-text" });
  return { element, show: (value) => put(element, short(value, 2000)) };
}

function discrete({ n, start }) {
  const element = h("p", { class: "observation-number" });
  return { element, show: (value) => put(element, h("b", {}, number(value)), ` of ${start} to ${start + n - 1}`) };
}

function composite({ type, spaces }) {
  const names = Object.keys(spaces);
  const inner = names.map((name) => observationView(spaces[name]));
  const rows = names.map((name, i) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, inner[i].element)));
  const element = h("table", { class: "observation-table" }, h("tbody", {}, rows));
  return {
    element,
    show(value) {
      names.forEach((name, i) => inner[i].show(type === "Tuple" ? value[Number(name)] : value[name]));
    },
  };
}

// -- vectors --------------------------------------------------------------------------------------------------------

/** Where the only 1 of zeros is; -1 if it is no such vector. */
export function oneHot(values) {
  let at = -1;
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] === 0 || values[i] === false) continue;
    if ((values[i] !== 1 && values[i] !== true) || at >= 0) return -1;
    at = i;
  }
  return values.length > 2 ? at : -1;
}

function bars(length, space) {
  const note = h("p", { class: "quiet observation-note" });
  const cells = [];
  const rows = [];
  for (let i = 0; i < length; i += 1) {
    const fill = h("i", { class: "bar-fill" });
    const text = h("span", { class: "number bar-number" });
    cells.push({ fill, text, before: null });
    rows.push(h("li", {}, h("span", { class: "bar-index quiet" }, i), h("span", { class: "bar-track" }, fill), text));
  }
  const kind = isNeverNegative(space) ? "observation-bars from-left" : "observation-bars";
  const element = h("div", {}, note, h("ol", { class: kind }, rows));
  const most = bound(space);
  let largest = most ?? 1;

  function show(values) {
    if (most === null) for (const value of values) largest = Math.max(largest, Math.abs(value ?? 0));
    const at = oneHot(values);
    note.textContent = at >= 0 ? `one-hot: ${at} of 0 to ${length - 1}` : "";
    note.hidden = at < 0;
    cells.forEach((cell, i) => paintCell(cell, Number(values[i] ?? NaN), largest));
  }
  return { element, show };
}

function isNeverNegative({ low, type }) {
  return type !== "Box" || [low ?? -1].flat(Infinity).every((one) => one >= 0);
}

/** The largest size of a number that the space allows; null where that is no help. */
function bound({ low, high, type }) {
  if (type === "MultiBinary") return 1;
  const sizes = [low, high].flat(Infinity).map((one) => Math.abs(one ?? NaN));
  const most = Math.max(...sizes);
  return Number.isFinite(most) && most > 0 && most <= 20 ? most : null;
}

function paintCell(cell, value, largest) {
  if (cell.before === value && cell.largest === largest) return; // most numbers stay what they were
  cell.before = value;
  cell.largest = largest;
  cell.text.textContent = number(value, 3);
  const part = Number.isNaN(value) ? 0 : Math.max(-1, Math.min(1, value / largest));
  cell.fill.classList.toggle("negative", part < 0);
  cell.fill.style.setProperty("transform", `scaleX(${Math.abs(part)})`);
}

// -- arrays ---------------------------------------------------------------------------------------------------------

function isPicture(space) {
  const shape = space?.shape ?? [];
  if (space?.type !== "Box" || shape.length < 2 || shape.length > 3) return false;
  const { sides, channels } = sidesOf(shape);
  return Math.min(...sides) >= LEAST_PICTURE && [1, 3, 4].includes(channels);
}

function sidesOf(shape) {
  if (shape.length === 2) return { sides: shape, channels: 1, first: false };
  const first = shape[0] <= 4 && shape[2] > 4; // channels may come before the rows
  if (first) return { sides: shape.slice(1), channels: shape[0], first };
  return { sides: shape.slice(0, 2), channels: shape[2], first };
}

function picture(shape) {
  const { sides: [rows, columns], channels, first } = sidesOf(shape);
  const canvas = h("canvas", { class: "observation-picture", width: columns, height: rows, role: "img" });
  canvas.setAttribute("aria-label", `A picture of ${columns} times ${rows} dots that the agent saw`);
  const paint = canvas.getContext("2d");
  const pixels = paint.createImageData(columns, rows);

  function show(values) {
    const flat = values.flat(Infinity);
    const scale = flat.some((one) => one > 1) ? 1 : 255;
    const size = rows * columns;
    for (let i = 0; i < size; i += 1) {
      for (let c = 0; c < 3; c += 1) {
        const from = Math.min(c, channels - 1);
        pixels.data[4 * i + c] = flat[first ? from * size + i : i * channels + from] * scale;
      }
      pixels.data[4 * i + 3] = 255;
    }
    paint.putImageData(pixels, 0, 0);
  }
  return { element: canvas, show };
}

/** Small arrays: one grid of cells for each plane. Planes are the last axis if it is the shortest, else the first. */
function grids(shape) {
  const element = h("div", { class: "observation-grids" });
  return { element, show: (values) => put(element, planesOf(values, shape).map(grid)) };
}

function planesOf(values, shape) {
  if (shape.length === 2) return [values];
  if (shape.length > 3) return planesOf(values.map((one) => one.flat(shape.length - 3)), [shape[0], shape[1], 0]);
  const [, , depth] = shape;
  if (depth > Math.min(shape[0], shape[1])) return values;
  return Array.from({ length: depth }, (_, c) => values.map((row) => row.map((cell) => cell[c])));
}

function grid(plane, i) {
  const largest = Math.max(1e-9, ...plane.flat().map((one) => Math.abs(one ?? 0)));
  const cell = (value) => {
    const shade = Math.round((100 * Math.abs(value)) / largest);
    const ground = `color-mix(in srgb, var(${value < 0 ? "--low" : "--high"}) ${0.6 * shade}%, var(--ground))`;
    return h("td", { style: { background: ground } }, number(Number(value), 2));
  };
  const rows = plane.map((row) => h("tr", {}, row.map(cell)));
  return h("table", { class: "observation-grid" }, h("caption", {}, `plane ${i}`), h("tbody", {}, rows));
}

function strip() {
  const canvas = h("canvas", { class: "observation-picture", role: "img" });
  const note = h("p", { class: "quiet observation-note" });
  const element = h("div", {}, canvas, note);

  function show(values) {
    const flat = values.flat(Infinity).map(Number);
    const columns = Math.ceil(Math.sqrt(flat.length * 4));
    const rows = Math.ceil(flat.length / columns);
    const largest = Math.max(1e-9, ...flat.map(Math.abs));
    canvas.width = columns;
    canvas.height = rows;
    const paint = canvas.getContext("2d");
    flat.forEach((value, i) => {
      paint.fillStyle = value < 0 ? "#d55e00" : "#0072b2";
      paint.globalAlpha = Math.abs(value) / largest;
      paint.fillRect(i % columns, Math.floor(i / columns), 1, 1);
    });
    const mean = flat.reduce((sum, one) => sum + one, 0) / flat.length;
    note.textContent = `${flat.length} numbers, row by row; mean ${number(mean)}, largest size ${number(largest)}`;
    canvas.setAttribute("aria-label", note.textContent);
  }
  return { element, show };
}
