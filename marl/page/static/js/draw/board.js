// Boards: squares, chess, stones on crossings, discs that fall into holes.

import { h, s } from "marl/dom.js";
import { box, disc, fillPaper, line, paper, path, word } from "marl/draw/paper.js";
import { isLegal, placeGrid } from "marl/draw/places.js";

const CELL = 48;
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
const WHITE = { "♔": "♚", "♕": "♛", "♖": "♜", "♗": "♝", "♘": "♞", "♙": "♟" };
const BLACK = new Set(Object.values(WHITE));
const NAMES = {
  "♔": "white king", "♕": "white queen", "♖": "white rook", "♗": "white bishop", "♘": "white knight", "♙": "white pawn",
  "♚": "black king", "♛": "black queen", "♜": "black rook", "♝": "black bishop", "♞": "black knight", "♟": "black pawn",
};

/** A board; places are its cells, in chess a cell to go from and one to go to. */
export function boardDrawing(options) {
  const sheet = paper("board", 340);
  const grid = placeGrid("Board");
  const element = h("div", { class: "scene-frame" }, sheet, options.onAction === null ? null : grid.element);
  let from = null; // the piece that was picked up, as "row,column"
  let shown = null;
  let last = [];

  function show(scene) {
    if (scene !== shown) [from, last] = [null, lastMove(scene, shown)];
    shown = scene;
    const edge = margin(scene);
    const [width, height] = [scene.columns * CELL + 2 * edge, scene.rows * CELL + 2 * edge];
    fillPaper(sheet, width, height, scene.text, ground(scene, edge), marks(scene, last, edge), pieces(scene, edge));
    // The buttons lie over the drawing: their frame is as wide as it may become.
    element.style.setProperty("max-width", sheet.style.getPropertyValue("max-width"));
    if (options.onAction !== null) grid.show(places(scene, edge, width, height));
  }

  function places(scene, edge, width, height) {
    const cells = [];
    const paired = Object.keys(scene.actions ?? {}).some((key) => key.includes(">"));
    const make = paired ? pairedPlace : singlePlace;
    for (let row = 0; row < scene.rows; row += 1) {
      for (let column = 0; column < scene.columns; column += 1) {
        const left = (100 * (edge + column * CELL)) / width;
        const top = (100 * (edge + row * CELL)) / height;
        const size = { left, top, width: (100 * CELL) / width, height: (100 * CELL) / height };
        cells.push({ row, column, ...size, ...make(scene, row, column) });
      }
    }
    return cells;
  }

  function singlePlace(scene, row, column) {
    const action = actionAt(scene, row, column);
    const free = isLegal(action, options.legal);
    const taken = scene.cells[row][column] !== null && scene.style !== "holes";
    const here = standing(scene, row, column);
    const verb = taken ? `choose ${here}` : `place ${scene.piece ?? "a piece"} at ${where(row, column)}`;
    const label = free ? verb : here;
    return { label, disabled: !free, onClick: () => options.onAction(action) };
  }

  function pairedPlace(scene, row, column) {
    const here = `${row},${column}`;
    const target = from === null ? undefined : scene.actions[`${from}>${here}`];
    const ends = isLegal(target, options.legal);
    const ways = Object.keys(scene.actions).filter((key) => key.startsWith(`${here}>`));
    const begins = ways.some((key) => isLegal(scene.actions[key], options.legal));
    const pick = () => {
      from = from === here ? null : here;
      show(scene);
    };
    const verb = ends ? "move to " : begins ? "pick up " : "";
    const onClick = () => (ends ? options.onAction(target) : pick());
    const label = `${verb}${standing(scene, row, column)}`;
    return { label, disabled: !ends && !begins, pressed: from === here, onClick };
  }

  return { element, show };
}

/** The cells of the last move: as the scene says, or else what is new since the scene that was shown before. */
function lastMove(scene, before) {
  if ((scene.last ?? []).length > 0 || before === null) return scene.last ?? [];
  if (before.rows !== scene.rows || before.columns !== scene.columns) return [];
  const changed = [];
  scene.cells.forEach((cells, row) => {
    cells.forEach((piece, column) => {
      if (piece !== null && piece !== before.cells[row][column]) changed.push([row, column]);
    });
  });
  // More than that is another game, or a way through it that left moves out.
  return changed.length === 1 ? changed : [];
}

/** In a board of holes a click anywhere in a column drops a disc there. */
function actionAt(scene, row, column) {
  const actions = scene.actions ?? {};
  if (scene.style !== "holes") return actions[`${row},${column}`];
  for (let falls = 0; falls < scene.rows; falls += 1) {
    const action = actions[`${falls},${column}`];
    if (action !== undefined) return action;
  }
  return undefined;
}

function where(row, column) {
  return `row ${row + 1}, column ${column + 1}`;
}

function standing(scene, row, column) {
  const piece = scene.cells[row][column];
  return `${piece === null ? "empty" : NAMES[piece] ?? piece} at ${where(row, column)}`;
}

// -- drawing ---------------------------------------------------------------------------------------------------------

function margin(scene) {
  if (scene.style === "chess" || scene.style === "points") return 20;
  return scene.style === "holes" ? 10 : 4;
}

function ground(scene, edge) {
  const { rows, columns, style } = scene;
  if (style === "holes") return holes(rows, columns, edge);
  if (style === "points") return crossings(rows, columns, edge);
  const parts = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const [x, y] = [edge + column * CELL, edge + row * CELL];
      if (style === "chess") {
        const name = (row + column) % 2 ? "board-dark" : "board-light";
        parts.push(s("rect", { x, y, width: CELL, height: CELL, class: name }));
      } else {
        parts.push(box(x + 2, y + 2, CELL - 4, CELL - 4, "board-tile"));
      }
    }
  }
  return style === "chess" ? [...parts, ...coordinates(rows, columns, edge)] : parts;
}

function coordinates(rows, columns, edge) {
  const parts = [];
  const middle = edge / 2;
  for (let row = 0; row < rows; row += 1) {
    parts.push(word(middle, edge + (row + 0.5) * CELL, String(rows - row), { name: "quiet-word", size: 11 }));
  }
  for (let column = 0; column < columns; column += 1) {
    const [x, y] = [edge + (column + 0.5) * CELL, edge + rows * CELL + middle];
    parts.push(word(x, y, LETTERS[column], { name: "quiet-word", size: 11 }));
  }
  return parts;
}

function holes(rows, columns, edge) {
  const parts = [box(2, 2, columns * CELL + 2 * edge - 4, rows * CELL + 2 * edge - 4, "board-rack", 14)];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      parts.push(disc(edge + (column + 0.5) * CELL, edge + (row + 0.5) * CELL, CELL * 0.39, "board-hole"));
    }
  }
  return parts;
}

function crossings(rows, columns, edge) {
  const parts = [box(2, 2, columns * CELL + 2 * edge - 4, rows * CELL + 2 * edge - 4, "board-wood", 8)];
  const [first, half] = [edge + CELL / 2, CELL / 2];
  for (let row = 0; row < rows; row += 1) {
    const y = first + row * CELL;
    parts.push(line(first, y, edge + columns * CELL - half, y, "board-line"));
  }
  for (let column = 0; column < columns; column += 1) {
    const x = first + column * CELL;
    parts.push(line(x, first, x, edge + rows * CELL - half, "board-line"));
  }
  return [...parts, ...coordinates(rows, columns, edge)];
}

/** The last move, and the line that has won. */
function marks(scene, last, edge) {
  const parts = [];
  const frame = (places, name) => {
    for (const [row, column] of places ?? []) {
      const [x, y] = [edge + column * CELL, edge + row * CELL];
      const round = scene.style === "holes" || scene.style === "points";
      if (round) parts.push(disc(x + CELL / 2, y + CELL / 2, CELL * 0.46, name));
      else parts.push(box(x + 3, y + 3, CELL - 6, CELL - 6, name));
    }
  };
  frame(last, "board-last");
  frame(scene.line, "board-won");
  return parts;
}

function pieces(scene, edge) {
  const parts = [];
  scene.cells.forEach((cells, row) => {
    cells.forEach((piece, column) => {
      if (piece === null) return;
      parts.push(drawPiece(piece, scene.style ?? "squares", edge + (column + 0.5) * CELL, edge + (row + 0.5) * CELL));
    });
  });
  return parts;
}

function drawPiece(piece, style, x, y) {
  if (piece in WHITE) return word(x, y + 1, WHITE[piece], { name: "chess-white", size: 36 });
  if (BLACK.has(piece)) return word(x, y + 1, piece, { name: "chess-black", size: 36 });
  const known = piece === "X" || piece === "O";
  if (!known) return word(x, y, piece, { name: "board-letter", most: 4, size: piece.length > 2 ? 14 : 24 });
  if (style === "points") return disc(x, y, CELL * 0.43, piece === "X" ? "stone-black" : "stone-white");
  if (style === "holes") return fallenDisc(piece, x, y);
  const arm = CELL * 0.26;
  if (piece === "O") return disc(x, y, arm, "board-ring");
  const [left, right, up, down] = [x - arm, x + arm, y - arm, y + arm];
  return path(`M${left} ${up}L${right} ${down}M${right} ${up}L${left} ${down}`, "board-cross");
}

/** Colours are never alone: one of the two discs has a ring on it. */
function fallenDisc(piece, x, y) {
  const name = piece === "X" ? "disc-first" : "disc-second";
  const ring = piece === "X" ? disc(x, y, CELL * 0.22, "disc-ring") : null;
  return s("g", {}, disc(x, y, CELL * 0.38, name), ring);
}
