// A payoff table as heat maps look at it: who is in rows and columns, whose payoff is shown, in which order.

/** What stands in a nested list at a cell: at([[1, 2], [3, 4]], [1, 0]) is 3. */
export function at(nested, cell) {
  return cell.reduce((inner, i) => inner?.[i], nested);
}

/** The first look at a table: rows for the first player, columns for the second, all others with the first strategy. */
export function firstLook(payoffs) {
  const count = payoffs.players.length;
  return { row: 0, column: count > 1 ? 1 : null, earner: 0, fixed: payoffs.players.map(() => 0), sort: "" };
}

/** Whether all strategies are one population of two players, so that rows and columns are the same. */
export function isOnePopulation(payoffs) {
  return payoffs.symmetric && payoffs.players.length === 2;
}

/** The table of the strategies at `places` (a list of numbers for each player), as if nobody else had ever played. */
export function subTable(payoffs, places) {
  const cut = (nested, axes) => {
    if (axes.length === 0) return nested;
    return axes[0].map((i) => cut(nested[i], axes.slice(1)));
  };
  return {
    ...payoffs,
    names: payoffs.names.map((names, player) => places[player].map((i) => names[i])),
    mean: payoffs.mean.map((table) => cut(table, places)),
    stderr: payoffs.stderr.map((table) => cut(table, places)),
    count: cut(payoffs.count, places),
  };
}

/** The cell (a strategy's number for each player) in which the row and the column meet. */
export function cellAt(look, r, c) {
  const cell = [...look.fixed];
  cell[look.row] = r;
  if (look.column !== null) cell[look.column] = c;
  return cell;
}

/** The numbers of a cell for whoever earns. */
export function numbersAt(payoffs, look, cell) {
  return {
    mean: at(payoffs.mean[look.earner], cell),
    stderr: at(payoffs.stderr[look.earner], cell),
    count: at(payoffs.count, cell),
  };
}

/** The smallest and largest payoff, and the middle at which colours change: 0 where payoffs have both signs. */
export function scaleOf(payoffs, look) {
  const known = payoffs.mean[look.earner].flat(Infinity).filter((value) => value !== null);
  if (known.length === 0) return { low: 0, high: 0, middle: 0, reach: 1 };
  const low = Math.min(...known);
  const high = Math.max(...known);
  const middle = low < 0 && high > 0 ? 0 : (low + high) / 2;
  return { low, high, middle, reach: Math.max(high - middle, middle - low) || 1 };
}

/** Numbers of a player's strategies in the order that is wished for: as given, or the best of a ranking first. */
export function orderOf(payoffs, player, ranking) {
  const places = payoffs.names[player].map((_, i) => i);
  if (!ranking?.rows) return places;
  const score = new Map(ranking.rows.map((row) => [row.name, row.score]));
  const own = payoffs.names[player].map((name) => score.get(name) ?? score.get(`${payoffs.players[player]}: ${name}`));
  // Stable, so equal scores and those without a score stay as they were.
  return places.sort((a, b) => (own[b] ?? -Infinity) - (own[a] ?? -Infinity) || a - b);
}

/** A label that fits: of long ones the start, which says whose it is, and the end (checkpoints of one run begin
 *  alike); where there is hardly any room the end alone. */
export function label(text, most) {
  if (text.length <= most) return text;
  const start = most < 9 ? 0 : Math.floor(0.45 * most);
  return `${text.slice(0, start)}…${text.slice(text.length - most + start + 1)}`;
}
