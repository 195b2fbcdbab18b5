// Payoff tables: who gets what for which actions, what was played, and the rounds before.

import { h } from "marl/dom.js";
import { box, cut, disc, fillPaper, line, paper, path, word } from "marl/draw/paper.js";
import { choiceRow, isLegal } from "marl/draw/places.js";
import { number } from "marl/format.js";

const ROW = 44;
const MOST_TABLES = 8;

/** A matrix game. With more than two players there is one table for each joint action of the others. */
export function matrixDrawing(options) {
  const sheet = paper("matrix");
  const row = choiceRow("Your move");
  const element = h("div", { class: "scene-frame" }, sheet, options.onAction === null ? null : row.element);
  const memory = roundsSeen();
  return {
    element,
    show(scene) {
      drawMatrix(sheet, { ...scene, history: memory(scene) });
      if (options.onAction !== null) row.show(choices(scene, options));
    },
  };
}

/** The rounds so far: as the scene says, or else those that were shown here one after another. */
function roundsSeen() {
  let seen = [];
  return (scene) => {
    if ((scene.history ?? []).length > 0) return scene.history;
    if (scene.round <= seen.length) seen = seen.slice(0, scene.round);
    else if (scene.round === seen.length + 1 && scene.played) seen = [...seen, scene.played];
    else seen = [];
    return seen;
  };
}

function choices(scene, { onAction, legal, seat }) {
  const names = scene.moves[scene.players.indexOf(seat)] ?? [];
  return Object.entries(scene.actions ?? {}).map(([key, action]) => ({
    key,
    text: names[Number(key)] ?? key,
    disabled: !isLegal(action, legal),
    onClick: () => onAction(action),
  }));
}

function drawMatrix(sheet, scene) {
  const tables = slices(scene);
  const parts = [];
  let y = 0;
  let width = 0;
  for (const table of tables.slice(0, MOST_TABLES)) {
    const drawn = payoffTable(table, 0, y);
    parts.push(drawn.parts);
    width = Math.max(width, drawn.width);
    y += drawn.height + 14;
  }
  if (tables.length > MOST_TABLES) {
    const more = `and ${tables.length - MOST_TABLES} more tables`;
    parts.push(word(4, y + 8, more, { name: "quiet-word", anchor: "start" }));
    y += 24;
  }
  const past = historyStrip(scene, y, width);
  fillPaper(sheet, width, y + past.height, scene.text, parts, past.parts);
}

/** One table per joint action of the third player and those behind; the one that was played comes first. */
function slices(scene) {
  const { players, moves, payoffs } = scene;
  const two = players.length > 1 ? [0, 1] : [0];
  const base = { players: two.map((i) => players[i]), moves: two.map((i) => moves[i]) };
  let found = [{ title: "", pick: (tables) => tables, played: scene.played ?? null }];
  for (let other = 2; other < players.length; other += 1) {
    const next = [];
    for (const slice of found) {
      moves[other].forEach((name, action) => {
        const title = `${slice.title}${slice.title ? ", " : ""}${players[other]} plays ${name}`;
        const fits = slice.played !== null && (slice.played[other] ?? null) === action;
        const pick = (table) => deeper(slice.pick(table), action);
        next.push({ title, pick, played: fits ? slice.played : null });
      });
    }
    found = next;
  }
  const tables = found.map(({ title, pick, played }) => ({
    ...base,
    title,
    played: played === null ? null : played.slice(0, 2),
    payoffs: payoffs.map((one) => pick(players.length > 1 ? one : one.map((value) => [value]))),
  }));
  return tables.sort((a, b) => (b.played !== null) - (a.played !== null));
}

/** A table [row][column][action of a third player]... without its third axis. */
function deeper(table, action) {
  return table.map((row) => row.map((cell) => cell[action]));
}

/** A table as drawn parts with its size, also for the states of a game. `payoffs` has one table per player. */
export function payoffTable({ players, moves, payoffs, played = null, title = "" }, x, y) {
  const [rows, columns] = [moves[0], moves[1] ?? [""]];
  const named = [...rows, players[0]];
  const wide = Math.max(44, ...named.map((name) => 7.4 * Math.min(name.length, 14) + 16));
  const cell = Math.max(46, cellWidth(payoffs), ...columns.map((name) => 7.2 * Math.min(name.length, 12) + 14));
  const left = x + wide;
  const top = y + (title ? 22 : 0) + 42;
  const width = wide + cell * columns.length + 2;
  const parts = [];
  if (title) parts.push(word(x + 2, y + 10, title, { name: "strong-word", anchor: "start", most: 60 }));
  parts.push(word(left + (cell * columns.length) / 2, top - 32, players[1] ?? "", { name: "player-1", most: 30 }));
  parts.push(word(left - 8, top - 12, players[0], { name: "player-0", anchor: "end", most: 14 }));
  columns.forEach((name, j) => {
    const isPlayed = played !== null && played[1] === j;
    const style = isPlayed ? "played-word" : "move-word";
    parts.push(word(left + (j + 0.5) * cell, top - 12, cut(name, 12), { name: style }));
  });
  rows.forEach((name, i) => {
    const isPlayed = played !== null && played[0] === i;
    const at = top + (i + 0.5) * ROW;
    parts.push(word(left - 8, at, cut(name, 14), { name: isPlayed ? "played-word" : "move-word", anchor: "end" }));
    columns.forEach((_, j) => parts.push(...cellParts(payoffs, i, j, left + j * cell, top + i * ROW, cell, played)));
  });
  return { parts, width, height: top - y + rows.length * ROW + 2 };
}

/** Room for what all players get: one beside the other, of two players one above the other. */
function cellWidth(payoffs) {
  const digits = Math.max(...payoffs.flat(2).map((value) => number(value, 3).length));
  if (payoffs.length === 2) return Math.max(58, 7.6 * digits + 40);
  return payoffs.length * (7.6 * digits + 9) + 16;
}

function cellParts(payoffs, i, j, x, y, cell, played) {
  const known = played !== null;
  const isPlayed = known && played[0] === i && (played[1] === undefined || played[1] === j);
  const inLine = known && !isPlayed && (played[0] === i || played[1] === j) && played.includes(null);
  const name = isPlayed ? "matrix-cell played" : inLine ? "matrix-cell in-line" : "matrix-cell";
  const parts = [box(x + 1.5, y + 1.5, cell - 3, ROW - 3, name, 5)];
  // Two players: the row's payoff lower left, the column's upper right, as in textbooks.
  const corners = [[0.28, 0.7], [0.72, 0.32]];
  payoffs.forEach((table, player) => {
    const beside = [(player + 0.5) / payoffs.length, 0.5];
    const [right, down] = payoffs.length === 2 ? corners[player] : beside;
    const style = payoffs.length === 1 ? "payoff" : `payoff player-${player % 8}`;
    parts.push(word(x + cell * right, y + ROW * down, number(table[i][j], 3), { name: style }));
  });
  return parts;
}

/** The rounds before as one dot per player and round; its height is what was played. */
function historyStrip(scene, y, width) {
  const history = scene.history ?? [];
  const several = (scene.rounds ?? 1) > 1;
  if (!several) return { parts: [], height: 0 };
  const title = `Round ${scene.round} of ${scene.rounds}`;
  const parts = [word(2, y + 12, title, { name: "strong-word", anchor: "start", most: 40 })];
  let top = y + 28;
  if (history.length === 0) return { parts, height: 24 };
  const step = Math.min(18, (width - 96) / Math.max(history.length, 1));
  scene.players.slice(0, 6).forEach((player, p) => {
    const names = scene.moves[p];
    const gap = Math.max(9, Math.min(15, 44 / names.length));
    const tall = gap * names.length;
    parts.push(word(2, top + tall / 2, cut(player, 12), { name: `player-${p % 8}`, anchor: "start" }));
    names.forEach((_, action) => {
      const at = top + (action + 0.5) * gap;
      parts.push(line(90, at, width - 2, at, "history-line"));
    });
    parts.push(...historyOf(history, p, top, gap, step));
    top += tall + 10;
  });
  return { parts, height: top - y };
}

function historyOf(history, player, top, gap, step) {
  const points = [];
  history.forEach((joint, round) => {
    if (joint[player] !== null) points.push([96 + round * step, top + (joint[player] + 0.5) * gap]);
  });
  const way = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const dots = points.map(([x, y], i) => disc(x, y, i === points.length - 1 ? 4.5 : 3, `f${player % 8}`));
  return way ? [path(way, `history-way s${player % 8}`), ...dots] : dots;
}
