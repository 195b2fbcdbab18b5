// Reach and values of nodes and information sets: what a drawing of the tree shows.

/** Arrays for reachAndValues, made once. */
export function makeNodes(tree) {
  return {
    reach: new Float64Array(tree.N), // chance times all players
    values: new Float64Array(tree.N * tree.P), // what each player earns from here on
  };
}

/** How likely play comes to each node, and what everybody earns there. Chance alone is tree.luck. */
export function reachAndValues(tree, strategy, nodes = makeNodes(tree)) {
  const { N, P, parent, choice, probability } = tree;
  const { reach, values } = nodes;
  reach[0] = 1;
  for (let node = 1; node < N; node++) {
    const move = choice[node];
    reach[node] = reach[parent[node]] * (move >= 0 ? strategy[move] : probability[node]);
  }
  values.set(tree.payoffs);
  for (let node = N - 1; node > 0; node--) {
    const move = choice[node];
    const step = move >= 0 ? strategy[move] : probability[node];
    const above = parent[node] * P;
    for (let p = 0; p < P; p++) values[above + p] += step * values[node * P + p];
  }
  return nodes;
}

/** Of an information set: how likely play comes there (all), by its player's own moves alone (own), and by chance
 *  and the others alone. `plans` are those of response.js. */
export function reachOfSet(tree, plans, set) {
  const player = tree.setPlayer[set];
  const own = plans[tree.parentChoice[set] + 1]; // the same at all nodes: the player remembers what it did
  let others = 0;
  for (const node of tree.members[set]) {
    let by = tree.luck[node];
    for (let p = 0; p < tree.P; p++) if (p !== player) by *= plans[tree.last[node * tree.P + p] + 1];
    others += by;
  }
  return { all: own * others, own, others };
}
