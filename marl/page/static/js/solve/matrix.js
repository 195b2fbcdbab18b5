// Games of two players in tables: what strategies earn, and all equilibria of small ones. A game is {A, B}: what the
// row and
// the column player get, both [rows][columns].

const ZERO = 1e-9; // slacks and probabilities below this are 0

/** What each action of the row player earns against y. */
export function rowPayoffs(table, y) {
  return table.map((row) => row.reduce((sum, paid, j) => sum + paid * y[j], 0));
}

/** What each action of the column player earns against x. */
export function columnPayoffs(table, x) {
  return table[0].map((_, j) => x.reduce((sum, p, i) => sum + p * table[i][j], 0));
}

export function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

/** What both earn. */
export function values({ A, B }, x, y) {
  return [dot(x, rowPayoffs(A, y)), dot(y, columnPayoffs(B, x))];
}

/** What both could gain together by best replies. */
export function nashConv({ A, B }, x, y) {
  const [u, v] = [rowPayoffs(A, y), columnPayoffs(B, x)];
  return Math.max(...u) - dot(x, u) + Math.max(...v) - dot(y, v);
}

/** Whether players can be exchanged: B is A with rows and columns exchanged. */
export function isSymmetric({ A, B }) {
  if (A.length !== A[0].length) return false;
  const scale = Math.max(...A.flat().map(Math.abs), 1e-300);
  return A.every((row, i) => row.every((paid, j) => Math.abs(paid - B[j][i]) <= 1e-9 * scale));
}

/** The largest payoff of anybody, without its sign; 1 where all are 0. */
export function scaleOf({ A, B }) {
  return Math.max(...A.flat().map(Math.abs), ...B.flat().map(Math.abs)) || 1;
}

export function transposed(table) {
  return table[0].map((_, j) => table.map((row) => row[j]));
}

/** All equilibria [{x, y}] by the vertices of both best-response polytopes, small supports first; of a degenerate
 *  game the corners of its sets of equilibria, and `degenerate` is true. */
export function equilibria({ A, B }) {
  // Replies of the column player bound x, and the other way round; payoffs above 0 make the polytopes bounded.
  const rows = vertices(above(B));
  const columns = vertices(transposed(above(A)));
  const found = [];
  for (const { point: x, tight: replies } of rows) {
    for (const { point: y, tight: answers } of columns) {
      const fits = x.every((p, i) => p === 0 || answers[i]) && y.every((p, j) => p === 0 || replies[j]);
      if (fits) found.push({ x: normalised(x), y: normalised(y) });
    }
  }
  const tooMany = ({ point, tight }) => tight.filter(Boolean).length > point.filter((p) => p > 0).length;
  const support = ({ x, y }) => [...x, ...y].filter((p) => p > 0).length;
  found.sort((a, b) => support(a) - support(b));
  return { found, degenerate: rows.some(tooMany) || columns.some(tooMany) };
}

function above(table) {
  const all = table.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const unit = high - low || 1;
  return table.map((row) => row.map((paid) => (paid - low) / unit + 0.5));
}

function normalised(weights) {
  const total = weights.reduce((sum, w) => sum + w, 0);
  return weights.map((w) => w / total);
}

/** Vertices of {x >= 0, table' x <= 1} without the origin, each once, with the inequalities that they meet. */
function vertices(table) {
  const [m, n] = [table.length, table[0].length];
  const found = new Map();
  for (let size = 1; size <= Math.min(m, n); size++) {
    for (const support of subsets(m, size)) {
      for (const replies of subsets(n, size)) {
        const part = solveLinear(replies.map((j) => support.map((i) => table[i][j])), new Array(size).fill(1));
        if (part === null || part.some((p) => p <= ZERO)) continue;
        const point = new Array(m).fill(0);
        support.forEach((i, k) => {
          point[i] = part[k];
        });
        const slack = columnPayoffs(table, point).map((paid) => 1 - paid);
        if (slack.some((room) => room < -ZERO)) continue;
        const tight = slack.map((room) => room < ZERO);
        found.set(`${support}|${tight}`, { point, tight });
      }
    }
  }
  return [...found.values()];
}

function subsets(n, size) {
  if (size === 0) return [[]];
  const found = [];
  for (let last = size - 1; last < n; last++) {
    for (const rest of subsets(last, size - 1)) found.push([...rest, last]);
  }
  return found;
}

/** The solution of a small linear system by elimination with pivots; null where it is singular. */
export function solveLinear(matrix, right) {
  const rows = matrix.map((row, i) => [...row, right[i]]);
  const n = rows.length;
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i;
    if (Math.abs(rows[pivot][k]) < 1e-12) return null;
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    for (let i = 0; i < n; i++) {
      if (i === k) continue;
      const factor = rows[i][k] / rows[k][k];
      for (let j = k; j <= n; j++) rows[i][j] -= factor * rows[k][j];
    }
  }
  return rows.map((row, k) => row[n] / row[k]);
}
