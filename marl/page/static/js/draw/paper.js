// What drawings share: a sheet of SVG that grows with the page, texts on it, and colours by number.

import { s } from "marl/dom.js";

const LARGEST = 1.35; // pixels per unit: texts of small drawings would become headlines

/** An empty sheet; where there is room it becomes at least so many pixels wide. */
export function paper(name, least = 0) {
  return s("svg", { class: `scene-paper draw-${name}`, role: "img", focusable: "false", "data-least": least });
}

/** Put a drawing of `width` x `height` units on the sheet, and tell what it shows. */
export function fillPaper(sheet, width, height, told, ...drawn) {
  const box = `0 0 ${round(width)} ${round(height)}`;
  // Setting the same value again would make the browser lay the page out anew.
  if (sheet.getAttribute("viewBox") !== box) {
    sheet.setAttribute("viewBox", box);
    sheet.style.setProperty("max-width", `${round(Math.max(width * LARGEST, Number(sheet.dataset.least)))}px`);
  }
  if (sheet.getAttribute("aria-label") !== told) sheet.setAttribute("aria-label", told);
  sheet.replaceChildren(...drawn.flat(Infinity).filter((part) => part !== null));
}

export function round(number) {
  return Math.round(number * 100) / 100;
}

/** A text whose middle is at x, y; `anchor` start or end for one that begins or ends there. */
export function word(x, y, text, { name = "", anchor = "middle", most = 24, size = null } = {}) {
  const attributes = { x: round(x), y: round(y), class: `draw-word ${name}`, "text-anchor": anchor };
  if (size !== null) attributes.style = { "font-size": `${size}px` };
  const shown = cut(text, most);
  return s("text", attributes, shown, shown === text ? null : s("title", {}, text));
}

/** A text of at most so many letters: its beginning and its end, because ids differ at the end. */
export function cut(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 3);
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}

export function box(x, y, width, height, name, radius = 6) {
  return s("rect", { x: round(x), y: round(y), width: round(width), height: round(height), rx: radius, class: name });
}

export function disc(x, y, radius, name) {
  return s("circle", { cx: round(x), cy: round(y), r: round(radius), class: name });
}

export function line(x1, y1, x2, y2, name) {
  return s("line", { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), class: name });
}

export function path(d, name, more = {}) {
  return s("path", { d, class: name, ...more });
}

/** The head of an arrow whose point is at x, y and that comes from the direction dx, dy. */
export function arrowHead(x, y, dx, dy, size, name) {
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [(dx / length) * size, (dy / length) * size];
  const left = `${round(x - ux - uy * 0.6)} ${round(y - uy + ux * 0.6)}`;
  const right = `${round(x - ux + uy * 0.6)} ${round(y - uy - ux * 0.6)}`;
  return path(`M${round(x)} ${round(y)}L${left}L${right}Z`, name);
}

/** The number of a colour for a name: the same names have the same colours in a drawing. */
export function colourOf(name, names) {
  return Math.max(0, names.indexOf(name)) % 8;
}
