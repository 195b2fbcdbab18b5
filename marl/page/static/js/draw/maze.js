// Mazes and fields from above: walls, who walks there, what lies there, and the wind.

import { h, s } from "marl/dom.js";
import { arrowHead, box, colourOf, cut, disc, fillPaper, line, paper, path, word } from "marl/draw/paper.js";
import { arrowPad } from "marl/draw/places.js";

const CELL = 24;
const WAYS = { up: [0, -1], right: [1, 0], down: [0, 1], left: [-1, 0] };

/** A maze; walkers move by arrow keys where they can be played. */
export function mazeDrawing(options) {
  const sheet = paper("maze", 340);
  const element = h("div", { class: "scene-frame" }, sheet);
  const pad = arrowPad(element, options);
  if (options.onAction !== null) element.append(pad.element);
  let lines = "";
  let walls = [];
  return {
    element,
    show(scene) {
      // Walls do not change within an episode: they are made once.
      const now = scene.lines.join("\n");
      if (now !== lines) walls = wallParts(scene.lines);
      lines = now;
      drawMaze(sheet, scene, walls, options.seat);
      if (options.onAction !== null) pad.show(scene.actions);
    },
  };
}

function drawMaze(sheet, scene, walls, seat) {
  const rows = scene.lines.length;
  const columns = Math.max(...scene.lines.map((one) => one.length));
  const walkers = scene.things.filter((thing) => (thing.sort ?? "walker") === "walker").map((thing) => thing.name);
  const order = ["exit", "goal", "food", "walker"];
  const rank = (thing) => order.indexOf(thing.sort ?? "walker");
  const things = [...scene.things].sort((a, b) => rank(a) - rank(b));
  const drawn = things.map((thing) => thingParts(thing, walkers, thing.name === seat || walkers.length === 1));
  const breeze = scene.wind ? windParts(scene.wind, columns * CELL, rows * CELL) : null;
  const height = rows * CELL + (breeze ? 26 : 0);
  fillPaper(sheet, columns * CELL, height, scene.text, walls, drawn, breeze);
}

function wallParts(lines) {
  const columns = Math.max(...lines.map((one) => one.length));
  const parts = [box(0, 0, columns * CELL, lines.length * CELL, "maze-floor", 4)];
  const grid = [];
  for (let row = 1; row < lines.length; row += 1) grid.push(`M0 ${row * CELL}H${columns * CELL}`);
  for (let column = 1; column < columns; column += 1) grid.push(`M${column * CELL} 0V${lines.length * CELL}`);
  parts.push(path(grid.join(""), "maze-grid"));
  // Walls in a row are one bar: fewer parts, and no gaps between them.
  lines.forEach((text, row) => {
    for (const run of text.matchAll(/#+/g)) {
      parts.push(box(run.index * CELL, row * CELL, run[0].length * CELL, CELL, "maze-wall", 0));
    }
  });
  return parts;
}

function thingParts(thing, walkers, isMain) {
  const [x, y] = [(thing.column + 0.5) * CELL, (thing.row + 0.5) * CELL];
  const sort = thing.sort ?? "walker";
  const title = s("title", {}, thing.name);
  const style = sort === "goal" ? "goal-word" : "thing-word";
  const label = thing.text ? word(x, y, cut(thing.text, 3), { name: style }) : null;
  if (sort === "exit") return s("g", {}, box(x - 11, y - 11, 22, 22, "maze-exit", 4), flag(x, y), title);
  if (sort === "goal") return s("g", {}, disc(x, y, 9.5, "maze-goal"), label, title);
  if (sort === "food") {
    const stem = path(`M${x} ${y - 8}q2 -5 6 -4`, "maze-stem");
    return s("g", {}, disc(x, y + 1, 9.5, "maze-food"), stem, label, title);
  }
  const colour = colourOf(thing.name, walkers);
  return s("g", {}, isMain ? disc(x, y, 11, "maze-halo") : null, disc(x, y, 9, `body f${colour}`), label, title);
}

function flag(x, y) {
  const cloth = `M${x - 4} ${y - 8}L${x + 7} ${y - 4}L${x - 4} ${y}Z`;
  return [line(x - 4, y + 8, x - 4, y - 8, "flag-pole"), path(cloth, "flag")];
}

/** Below the maze, so that it hides nothing. */
function windParts(wind, width, top) {
  const [dx, dy] = WAYS[wind];
  const [x, y] = [width / 2 - 34, top + 15];
  const stroke = line(x - dx * 8, y - dy * 8, x + dx * 5, y + dy * 5, "wind");
  const head = arrowHead(x + dx * 9, y + dy * 9, dx, dy, 7, "wind-head");
  return [stroke, head, word(x + 18, y, "wind", { name: "quiet-word", anchor: "start" })];
}
