// A game of a few states: each with its payoffs, the ways between them, and where the players are.

import { arrowHead, box, fillPaper, paper, path, word } from "marl/draw/paper.js";
import { payoffTable } from "marl/draw/matrix.js";

const GAP = 50; // between two rows of states
const BESIDE = 56; // room for what stands at two arrows

/** The first states on top, those to which ways lead below them. */
export function statesDrawing() {
  const sheet = paper("states");
  return { element: sheet, show: (scene) => drawStates(sheet, scene) };
}

function drawStates(sheet, scene) {
  const levels = byLevel(scene);
  const cards = scene.states.map((state, i) => card(scene, state, i));
  const widths = levels.map((level) => level.reduce((sum, i) => sum + cards[i].width + BESIDE, -BESIDE));
  const width = Math.max(...widths) + 8;
  let y = 4;
  levels.forEach((level, depth) => {
    let x = 4 + (width - 8 - widths[depth]) / 2;
    const tall = Math.max(...level.map((i) => cards[i].height));
    for (const i of level) {
      Object.assign(cards[i], { x, y });
      x += cards[i].width + BESIDE;
    }
    y += tall + GAP;
  });
  const drawn = cards.map((one) => one.draw(one.x, one.y));
  fillPaper(sheet, width, y - GAP + 4, scene.text, arrows(scene, cards), drawn);
}

/** How many arrows lead to each state from the first one. */
function byLevel(scene) {
  const depth = scene.states.map(() => 0);
  for (let turn = 0; turn < scene.states.length; turn += 1) {
    for (const { start, end } of scene.arrows ?? []) {
      if (start < end) depth[end] = Math.max(depth[end], depth[start] + 1);
    }
  }
  const levels = [];
  depth.forEach((level, i) => (levels[level] ??= []).push(i));
  return levels.filter((level) => level !== undefined);
}

function card(scene, state, i) {
  const isNow = scene.now.includes(i);
  const unsure = isNow && scene.now.length > 1;
  const table = { players: scene.players, moves: scene.moves, payoffs: [state.payoffs ?? []] };
  const size = state.payoffs ? payoffTable(table, 0, 0) : { width: 120, height: 8 };
  const [width, height] = [Math.max(size.width + 20, 150), size.height + 46];
  const draw = (x, y) => {
    const parts = [box(x, y, width, height, isNow ? "state-card now" : "state-card", 8)];
    parts.push(word(x + 12, y + 18, state.name, { name: "strong-word", anchor: "start", most: 22 }));
    const here = unsure ? "perhaps here" : "here";
    if (isNow) parts.push(word(x + width - 12, y + 18, here, { name: "here-word", anchor: "end" }));
    if (state.payoffs) parts.push(payoffTable(table, x + 8, y + 34).parts);
    else parts.push(word(x + 12, y + 38, "pays nothing", { name: "quiet-word", anchor: "start" }));
    return parts;
  };
  return { width, height, draw };
}

/** Out of the side of a state and down to the next one, or straight down; words stand on the inner side. */
function arrows(scene, cards) {
  return (scene.arrows ?? []).map(({ start, end, text }) => {
    const [a, b] = [cards[start], cards[end]];
    const [x, y] = [b.x + b.width / 2, b.y - 2];
    const beside = x < a.x || x > a.x + a.width;
    const from = x < a.x ? a.x : a.x + a.width;
    const middle = a.y + a.height / 2;
    const way = beside ? `M${from} ${middle}H${x}V${y - 4}` : `M${x} ${a.y + a.height}V${y - 4}`;
    const leftOfMiddle = x < a.x;
    const place = { name: "quiet-word", anchor: leftOfMiddle ? "start" : "end", most: 20 };
    const label = word(x + (leftOfMiddle ? 9 : -9), y - GAP / 2, text ?? "", place);
    return [path(way, "way"), arrowHead(x, y, 0, 1, 9, "way-head"), label];
  });
}
