// Games that a phase portrait offers beside marl's classics, and what an address says of games and starts.

import { transposed } from "marl/solve/matrix.js";

export const MOST_PATHS = 6;
// Names of the actions of an own game, by its size.
export const OWN = { 2: ["a", "b"], 3: ["a", "b", "c"] };
// What marl has no table of, but every course has.
export const MORE = [
  symmetric("coordination", "Coordination", ["left", "right"], [[2, 0], [0, 1]]),
  symmetric("hawk_dove", "Hawk and dove", ["hawk", "dove"], [[-1, 4], [0, 2]]),
  symmetric(
    "rps_win",
    "Rock, paper, scissors: winning pays 2",
    ["rock", "paper", "scissors"],
    [[0, -1, 2], [2, 0, -1], [-1, 2, 0]],
  ),
  symmetric(
    "rps_lose",
    "Rock, paper, scissors: losing costs 2",
    ["rock", "paper", "scissors"],
    [[0, -2, 1], [1, 0, -2], [-2, 1, 0]],
  ),
];

function symmetric(name, title, actions, A) {
  return { name, title, actions: [actions, actions], payoffs: [A, transposed(A)] };
}

/** Starts of an address, "0.9,0.1/0.5,0.5;..."; what is no distribution is left out. */
export function readStarts(text) {
  const found = (text ?? "").split(";").map((one) => one.split("/").map((part) => part.split(",").map(Number)));
  const isShares = (part) => part.every((share) => share >= 0) && Math.abs(
    part.reduce((sum, share) => sum + share, 0) - 1,
  ) < 0.01;
  return found.filter((point) => point.length === 2 && point.every(isShares)).slice(-MOST_PATHS);
}

/** Tables of an address, or null: [[row player's], [column player's]] of 2 x 2 or 3 x 3 numbers. */
export function readPayoffs(text) {
  let tables;
  try {
    tables = JSON.parse(text ?? "null");
  } catch {
    return null;
  }
  const size = tables?.[0]?.length;
  const isTable = (table) => Array.isArray(table) && table.length === size && table.every(
    (row) => Array.isArray(row) && row.length === size && row.every(Number.isFinite),
  );
  if (![2, 3].includes(size) || tables.length !== 2 || !tables.every(isTable)) return null;
  return { A: tables[0], B: tables[1], actions: [OWN[size], OWN[size]], title: "Own game" };
}
