// What becomes of play near an equilibrium: eigenvalues of the dynamics' linear part there, in words.

import { columnPayoffs, dot, rowPayoffs } from "marl/solve/matrix.js";

const STILL = 1e-7; // real parts below this, relative to the largest eigenvalue or 1, decide nothing

/** Eigenvalues [{re, im}] of the replicator dynamics at a point: of both populations, or with `single` of one that
 *  plays against itself. Shares sum to 1, so the last one of each is left out. */
export function replicatorEigenvalues(game, point, single) {
  return eigenvalues(single ? singleJacobian(game, point[0]) : jacobian(game, point));
}

/** d(dx_i)/dx_j with the last share as 1 minus the others. */
function singleJacobian({ A }, x) {
  const n = x.length;
  const u = rowPayoffs(A, x);
  const mean = dot(x, u);
  // d mean / dx_j = u_j + (A' x)_j
  const meanSlope = x.map((_, j) => u[j] + x.reduce((sum, p, i) => sum + p * A[i][j], 0));
  const full = x.map((share, i) => x.map((_, j) => (i === j ? u[i] - mean : 0) + share * (A[i][j] - meanSlope[j])));
  return reduced(full, n);
}

function reduced(full, n) {
  const rows = full.slice(0, n - 1);
  return rows.map((row) => row.slice(0, n - 1).map((value) => value - row[n - 1]));
}

/** Both populations, [(m - 1) + (n - 1)] square. */
function jacobian({ A, B }, [x, y]) {
  const [u, v] = [rowPayoffs(A, y), columnPayoffs(B, x)];
  const own = (shares, paid) => {
    const mean = dot(shares, paid);
    const full = shares.map((share, i) => shares.map((_, j) => (i === j ? paid[i] - mean : 0) - share * paid[j]));
    return reduced(full, shares.length);
  };
  const across = (shares, other, pays) => {
    const full = shares.map((share, i) => other.map((_, j) => {
      const meanSlope = shares.reduce((sum, p, k) => sum + p * pays(k, j), 0);
      return share * (pays(i, j) - meanSlope);
    }));
    const rows = full.slice(0, shares.length - 1);
    return rows.map((row) => row.slice(0, -1).map((value) => value - row.at(-1)));
  };
  const [xx, yy] = [own(x, u), own(y, v)];
  const xy = across(x, y, (i, j) => A[i][j]);
  const yx = across(y, x, (j, i) => B[i][j]);
  return [...xx.map((row, i) => [...row, ...xy[i]]), ...yy.map((row, j) => [...yx[j], ...row])];
}

/** Roots of the characteristic polynomial (Faddeev and LeVerrier), by Durand and Kerner: for matrices of a few rows. */
export function eigenvalues(matrix) {
  const n = matrix.length;
  const coefficients = [1];
  let M = matrix.map((row) => row.map(() => 0));
  for (let k = 1; k <= n; k++) {
    M = M.map((row, i) => row.map((value, j) => value + (i === j ? coefficients[k - 1] : 0)));
    const product = times(matrix, M);
    coefficients.push(-product.reduce((sum, row, i) => sum + row[i], 0) / k);
    M = product;
  }
  if (n === 2) return quadratic(coefficients[1], coefficients[2]);
  return roots(coefficients);
}

function times(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, value, k) => sum + value * b[k][j], 0)));
}

function quadratic(b, c) {
  const inside = (b * b) / 4 - c;
  if (inside < 0) return [{ re: -b / 2, im: Math.sqrt(-inside) }, { re: -b / 2, im: -Math.sqrt(-inside) }];
  const root = Math.sqrt(inside);
  return [{ re: -b / 2 + root, im: 0 }, { re: -b / 2 - root, im: 0 }];
}

function roots(coefficients) {
  const n = coefficients.length - 1;
  const size = 1 + Math.max(...coefficients.map(Math.abs));
  let found = Array.from({ length: n }, (_, k) => {
    const angle = (2 * Math.PI * k) / n + 0.4;
    return { re: 0.5 * size ** (1 / n) * Math.cos(angle), im: 0.5 * size ** (1 / n) * Math.sin(angle) };
  });
  for (let round = 0; round < 500; round++) {
    found = found.map((z, k) => {
      let value = { re: 0, im: 0 };
      for (const c of coefficients) value = {
        re: value.re * z.re - value.im * z.im + c,
        im: value.re * z.im + value.im * z.re,
      };
      let below = { re: 1, im: 0 };
      found.forEach((other, j) => {
        if (j === k) return;
        const [re, im] = [z.re - other.re || 1e-12, z.im - other.im];
        below = { re: below.re * re - below.im * im, im: below.re * im + below.im * re };
      });
      const norm = below.re ** 2 + below.im ** 2;
      return {
        re: z.re - (value.re * below.re + value.im * below.im) / norm,
        im: z.im - (value.im * below.re - value.re * below.im) / norm,
      };
    });
  }
  return found;
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
