// Round bodies on a plane: where they are, how large, how fast, and what they say.

import { h, s } from "marl/dom.js";
import { arrowHead, box, colourOf, cut, disc, fillPaper, line, paper, word } from "marl/draw/paper.js";
import { arrowPad } from "marl/draw/places.js";

const SIDE = 400;
const STILL = new Set(["landmark", "obstacle", "wall", "goal", "food", "forest"]);

/** A plane seen from above; arrows show velocities. */
export function particlesDrawing(options) {
  const sheet = paper("particles");
  const element = h("div", { class: "scene-frame" }, sheet);
  const pad = arrowPad(element, options);
  if (options.onAction !== null) element.append(pad.element);
  return {
    element,
    show(scene) {
      drawPlane(sheet, scene, options.seat);
      if (options.onAction !== null) pad.show(scene.actions);
    },
  };
}

function drawPlane(sheet, scene, seat) {
  const scale = SIDE / (2 * scene.reach);
  const at = (x, y) => [(x + scene.reach) * scale, (scene.reach - y) * scale];
  const roles = [...new Set(scene.bodies.map((body) => body.role).filter((role) => !STILL.has(role)))];
  // What stands still lies under those who move, the largest of it below.
  const depth = (body) => (STILL.has(body.role) ? body.radius : -1);
  const bodies = [...scene.bodies].sort((a, b) => depth(b) - depth(a));
  const drawn = bodies.map((body) => bodyParts(body, at, scale, roles, body.name === seat));
  const names = bodies.filter((body) => !STILL.has(body.role)).map((body) => nameOf(body, at, scale, scene));
  fillPaper(sheet, SIDE, SIDE, scene.text, plane(scene.reach, at), drawn, names);
}

/** The ground with a cross through the middle and the square from -1 to 1. */
function plane(reach, at) {
  const [x0, y0] = at(-1, 1);
  const [x1, y1] = at(1, -1);
  const [mx, my] = at(0, 0);
  const axes = [line(mx, 0, mx, SIDE, "plane-line"), line(0, my, SIDE, my, "plane-line")];
  return [box(0.5, 0.5, SIDE - 1, SIDE - 1, "plane", 10), axes, box(x0, y0, x1 - x0, y1 - y0, "plane-edge", 2)];
}

function bodyParts(body, at, scale, roles, isSeat) {
  const [x, y] = at(body.x, body.y);
  const radius = Math.max(body.radius * scale, 3);
  const still = STILL.has(body.role);
  const colour = body.colour ?? (still ? 7 : colourOf(body.role, roles));
  const parts = [];
  if (body.marked) parts.push(disc(x, y, radius + 6, "body-mark"));
  parts.push(disc(x, y, radius, still ? `body-still f${colour % 8} s${colour % 8}` : `body f${colour % 8}`));
  if (isSeat) parts.push(disc(x, y, radius + 3, "body-own"));
  parts.push(s("title", {}, body.name));
  const speed = Math.hypot(body.vx ?? 0, body.vy ?? 0);
  if (speed > 0.03) parts.push(arrow(body, x, y, radius, scale));
  return s("g", {}, parts.flat());
}

function arrow(body, x, y, radius, scale) {
  const speed = Math.hypot(body.vx, body.vy);
  const [ux, uy] = [body.vx / speed, -body.vy / speed];
  const length = radius + 6 + 0.22 * speed * scale;
  const [tx, ty] = [x + ux * length, y + uy * length];
  const shaft = line(x + ux * radius, y + uy * radius, tx - ux * 4, ty - uy * 4, "speed");
  return [shaft, arrowHead(tx, ty, ux, uy, 7, "speed-head")];
}

function nameOf(body, at, scale, scene) {
  const [x, y] = at(body.x, body.y);
  const radius = Math.max(body.radius * scale, 3);
  const words = (scene.said ?? []).filter((one) => one.name === body.name).map((one) => one.text);
  // Large bodies carry their number inside; the names of small ones stand below, or above at the lower edge.
  const short = /(\d+)$/.exec(body.name)?.[1] ?? cut(body.name, 4);
  const below = y + radius + 10 < SIDE - 8 ? y + radius + 10 : y - radius - 10;
  const inside = word(x, y, short, { name: "on-colour" });
  const label = radius > 13 ? inside : word(x, below, body.name, { name: "body-name", most: 14 });
  if (words.length === 0) return label;
  const [tx, ty] = [Math.min(Math.max(x, 60), SIDE - 60), Math.max(y - radius - 22, 16)];
  return [label, box(tx - 44, ty - 12, 88, 24, "bubble", 12), word(tx, ty, cut(words[0], 13), { name: "said-word" })];
}
