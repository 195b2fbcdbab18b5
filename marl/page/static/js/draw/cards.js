// Card and dice games: hands, what lies on the table, the pot, and who said what.

import { s } from "marl/dom.js";
import { box, cut, disc, fillPaper, paper, word } from "marl/draw/paper.js";
import { number } from "marl/format.js";

const [WIDE, TALL] = [46, 64]; // of a card
const DIE = 34; // where there is room
const ROOM = 140; // of a hand
const PIPS = {
  1: [[0, 0]], 2: [[-1, -1], [1, 1]], 3: [[-1, -1], [0, 0], [1, 1]], 4: [[-1, -1], [1, -1], [-1, 1], [1, 1]],
  5: [[-1, -1], [1, -1], [0, 0], [-1, 1], [1, 1]], 6: [[-1, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [1, 1]],
};
const WIDTH = 400;

/** A table with one row per player. */
export function cardsDrawing({ seat }) {
  const sheet = paper("cards");
  return { element: sheet, show: (scene) => drawTable(sheet, scene, seat) };
}

function drawTable(sheet, scene, seat) {
  const parts = [];
  let y = 6;
  const middle = scene.players.length > 1 ? Math.ceil(scene.players.length / 2) : 1;
  scene.players.forEach((player, i) => {
    // What belongs to nobody lies between the players.
    if (i === middle) y += commonParts(scene, y, parts);
    y += playerParts(player, i, y, parts, seat);
  });
  if (scene.players.length <= middle) y += commonParts(scene, y, parts);
  y += courseParts(scene, y, parts);
  fillPaper(sheet, WIDTH, y + 4, scene.text, parts);
}

function playerParts(player, i, y, parts, seat) {
  const isDice = (player.dice ?? []).length > 0;
  const height = (isDice ? DIE + 8 : TALL) + 20;
  const name = player.turn ? "seat-box turn" : player.folded ? "seat-box folded" : "seat-box";
  parts.push(box(4, y, WIDTH - 8, height, name, 10));
  parts.push(disc(20, y + 21, 6, `f${i % 8}`));
  parts.push(word(32, y + 22, player.name, { name: "strong-word", anchor: "start", most: 18 }));
  parts.push(word(32, y + 42, state(player, seat), { name: "quiet-word", anchor: "start", most: 22 }));
  if (player.paid !== null && player.paid !== undefined && !isDice) {
    parts.push(word(32, y + 62, `put in ${number(player.paid)}`, { name: "quiet-word", anchor: "start" }));
  }
  handParts(player, y + 10, parts);
  if (player.said) parts.push(bubble(player.said, 330, y + (isDice ? 20 : 26)));
  if (player.won !== null && player.won !== undefined) parts.push(won(player.won, y + height - 16));
  return height + 8;
}

function state(player, seat) {
  if (player.folded) return "folded";
  if (player.turn) return player.name === seat ? "your turn" : "to move";
  return player.name === seat ? "you" : "";
}

function won(amount, y) {
  const sign = amount > 0 ? "+" : "";
  const name = amount > 0 ? "won-word" : amount < 0 ? "lost-word" : "strong-word";
  return word(330, y, `${sign}${number(amount)}`, { name });
}

function bubble(said, x, y) {
  const wide = Math.min(116, 8 * Math.min(said.length, 14) + 20);
  return [box(x - wide / 2, y - 13, wide, 26, "bubble", 13), word(x, y, cut(said, 14), { name: "said-word" })];
}

function handParts(player, y, parts) {
  const cards = player.cards ?? [];
  const dice = player.dice ?? [];
  const step = Math.min(WIDE + 6, (ROOM - WIDE) / Math.max(1, cards.length - 1));
  cards.forEach((card, i) => parts.push(drawCard(card, 146 + i * step, y)));
  // Cards may lie over each other, dice become smaller.
  const size = Math.min(DIE, (ROOM + 4) / Math.max(1, dice.length) - 4);
  dice.forEach((die, i) => parts.push(drawDie(die, 140 + i * (size + 4), y + (DIE + 4 - size) / 2, size)));
}

/** A card face up, or its back where it is hidden. */
function drawCard(card, x, y) {
  const hidden = card === null;
  const name = hidden ? "card-back" : "card-face";
  const parts = [box(x, y, WIDE, TALL, name, 6)];
  if (hidden) {
    parts.push(box(x + 5, y + 5, WIDE - 10, TALL - 10, "card-pattern", 3));
    parts.push(word(x + WIDE / 2, y + TALL / 2, "?", { name: "card-hidden", size: 20 }));
    return s("g", {}, parts, s("title", {}, "a hidden card"));
  }
  const suit = /[♠♥♦♣]$/.exec(card)?.[0] ?? "";
  const rank = suit ? card.slice(0, -1) : card;
  const ink = suit === "♥" || suit === "♦" ? "card-red" : "card-ink";
  const size = rank.length > 2 ? 15 : 24;
  parts.push(word(x + WIDE / 2, y + (suit ? 22 : TALL / 2), cut(rank, 5), { name: ink, size }));
  if (suit) parts.push(word(x + WIDE / 2, y + 47, suit, { name: ink, size: 22 }));
  return s("g", {}, parts, s("title", {}, card));
}

function drawDie(face, x, y, size) {
  const hidden = face === null;
  const parts = [box(x, y, size, size, hidden ? "card-back" : "card-face", size / 5)];
  const [cx, cy, away] = [x + size / 2, y + size / 2, size * 0.26];
  if (hidden) parts.push(word(cx, cy, "?", { name: "card-hidden", size: size / 2 }));
  else if (face in PIPS) parts.push(PIPS[face].map(([dx, dy]) => disc(cx + dx * away, cy + dy * away, size / 11, "pip")));
  else parts.push(word(cx, cy, String(face), { name: "card-ink", size: size / 2 }));
  return s("g", {}, parts.flat(), s("title", {}, hidden ? "a hidden die" : `a die that shows ${face}`));
}

/** Cards on the table and the pot; the height that they take. */
function commonParts(scene, y, parts) {
  const table = scene.table ?? [];
  const pot = scene.pot ?? null;
  if (table.length === 0 && pot === null) return 0;
  if (table.length === 0) {
    parts.push(potParts(pot, WIDTH / 2, y + 16));
    return 40;
  }
  const step = Math.min(WIDE + 6, 190 / Math.max(1, table.length - 1));
  const first = table.length < 4 ? 146 : 70;
  table.forEach((card, i) => parts.push(drawCard(card, first + i * step, y + 2)));
  parts.push(word(20, y + TALL / 2, "table", { name: "quiet-word", anchor: "start" }));
  if (pot !== null) parts.push(potParts(pot, 348, y + TALL / 2));
  return TALL + 14;
}

function potParts(pot, x, y) {
  const coins = [disc(x - 34, y + 4, 7, "coin"), disc(x - 28, y, 7, "coin"), disc(x - 36, y - 3, 7, "coin")];
  return [coins, word(x - 14, y, `pot ${number(pot)}`, { name: "strong-word", anchor: "start" })];
}

/** All moves so far, in lines. */
function courseParts(scene, y, parts) {
  const course = scene.course ?? [];
  if (course.length === 0) return 0;
  const names = scene.players.map((player) => player.name);
  let [x, top] = [12, y + 14];
  for (const move of course.slice(-24)) {
    const text = cut(move.text, 14);
    const wide = 7 * text.length + 24;
    if (x + wide > WIDTH - 8) [x, top] = [12, top + 22];
    parts.push(disc(x + 6, top, 4, `f${Math.max(0, names.indexOf(move.player)) % 8}`));
    parts.push(word(x + 14, top, text, { name: "course-word", anchor: "start" }));
    x += wide;
  }
  return top + 14 - y;
}
