// What becomes of play near an equilibrium: eigenvalues of the dynamics' linear part there, in words.

import { columnPayoffs, dot, rowPayoffs } from "marl/solve/matrix.js";

const STILL = 1e-7; // real parts below this, relative to the largest eigenvalue or 1, decide nothing
const UNUSED = 1e-12; // shares up to this are 0

/** Eigenvalues [{re, im}] of the replicator dynamics at a Nash equilibrium: of both populations, or with `single` of one
 *  that plays against itself. Those of unused actions are how much less these earn; the others belong to the actions
 *  in use, which all earn the same, so that small square roots give them without a search. */
export function replicatorEigenvalues(game, [x, y], single) {
  const [u, v] = [rowPayoffs(game.A, y), columnPayoffs(game.B, x)];
  const [rows, columns] = [used(x), used(y)];
  if (single) return [...unused(x, u), ...eigenvalues(singleJacobian(game, x, rows))];
  const outside = [...unused(x, u), ...unused(y, v)];
  const across = slopes(x, rows, columns, (i, j) => game.A[i][j]);
  const back = slopes(y, columns, rows, (j, i) => game.B[i][j]);
  // Neither player's change depends on its own shares, so two steps lead back: the eigenvalues' squares.
  const squares = rows.length <= columns.length ? times(across, back) : times(back, across);
  const still = Math.abs(rows.length - columns.length); // only in degenerate games
  const zeros = Array.from({ length: still }, () => ({ re: 0, im: 0 }));
  return [...outside, ...zeros, ...eigenvalues(squares).flatMap(bothRoots)];
}

function used(shares) {
  return shares.map((_, i) => i).filter((i) => shares[i] > UNUSED);
}

function unused(shares, paid) {
  const mean = dot(shares, paid);
  return paid.filter((_, i) => shares[i] <= UNUSED).map((value) => ({ re: value - mean, im: 0 }));
}

/** d(dx_i)/dx_j of one population at its used actions, with the last share as 1 minus the others. */
function singleJacobian({ A }, x, support) {
  const u = rowPayoffs(A, x);
  const mean = dot(x, u);
  const slope = x.map((_, j) => u[j] + x.reduce((sum, p, i) => sum + p * A[i][j], 0)); // d mean / dx_j
  const entry = (i, j) => (i === j ? u[i] - mean : 0) + x[i] * (A[i][j] - slope[j]);
  return reduced(support.map((i) => support.map((j) => entry(i, j))));
}

/** How a player's shares change with those of the other one, at the actions in use. */
function slopes(shares, own, others, pays) {
  const mean = (j) => own.reduce((sum, k) => sum + shares[k] * pays(k, j), 0);
  return reduced(own.map((i) => others.map((j) => shares[i] * (pays(i, j) - mean(j)))));
}

/** Shares sum to 1, so the last one of each player is left out. */
function reduced(full) {
  return full.slice(0, -1).map((row) => row.slice(0, -1).map((value) => value - row.at(-1)));
}

function times(a, b) {
  return a.map((row) => a.map((_, j) => row.reduce((sum, value, k) => sum + value * b[k][j], 0)));
}

/** Of a matrix of up to two rows. */
function eigenvalues(matrix) {
  if (matrix.length < 2) return matrix.map(([value]) => ({ re: value, im: 0 }));
  const [[a, b], [c, d]] = matrix;
  const middle = (a + d) / 2;
  let inside = ((a - d) / 2) ** 2 + b * c;
  if (Math.abs(inside) < 1e-14 * (a * a + d * d + Math.abs(b * c))) inside = 0; // equal ones, but for rounding
  const root = Math.sqrt(Math.abs(inside));
  return [1, -1].map((sign) => (
    inside < 0 ? { re: middle, im: sign * root } : { re: middle + sign * root, im: 0 }
  ));
}

function bothRoots({ re, im }) {
  const size = Math.sqrt(Math.hypot(re, im));
  const angle = Math.atan2(im, re) / 2;
  // The cosine of a right angle is 0, which numbers only nearly say.
  const root = im === 0 && re < 0 ? { re: 0, im: size } : { re: size * Math.cos(angle), im: size * Math.sin(angle) };
  return [root, { re: -root.re, im: -root.im }];
}

/** Eigenvalues in words: {kind, words}. */
export function stability(found) {
  const unit = STILL * Math.max(1, ...found.map(({ re, im }) => Math.hypot(re, im)));
  const growing = found.filter(({ re }) => re > unit).length;
  const falling = found.filter(({ re }) => re < -unit).length;
  const turning = found.some(({ im }) => Math.abs(im) > unit);
  if (falling === found.length) {
    return {
      kind: "stable",
      words: turning ? "stable: play nearby spirals into it" : "stable: play nearby comes back to it",
    };
  }
  if (growing === found.length) {
    return {
      kind: "unstable",
      words: turning ? "unstable: play nearby spirals away" : "unstable: play nearby leaves it",
    };
  }
  if (growing > 0) return {
    kind: "unstable",
    words: falling
      ? "a saddle: play comes near on one side and leaves on another"
      : "unstable: play leaves it in some directions",
  };
  if (turning && falling === 0) return {
    kind: "neutral",
    words: "a centre: play nearby circles around it, neither in nor out",
  };
  return {
    kind: "neutral",
    words: "neutral: in some direction play nearby neither leaves nor comes back, as far as the linear part tells",
  };
}
