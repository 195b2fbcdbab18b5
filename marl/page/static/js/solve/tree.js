// A game tree as typed arrays, ready to be solved again and again. No part of the page is needed here.

export const CHANCE = -1;
export const TERMINAL = -2;

/** The answer of /api/tree/game as typed arrays. Sequence 0 of a player is "nothing yet", sequence c + 1 ends with the
 *  player's choice c; choices have one numbering over all players. */
export function compileTree(game) {
  const nodes = linkNodes(game);
  const sets = linkSets(game);
  const tree = { players: game.players, P: game.players.length, ...nodes, ...sets, labels: game.labels };
  Object.assign(tree, choiceOfNodes(tree));
  Object.assign(tree, mergeEnds(tree));
  tree.scales = scalesOf(tree);
  tree.scale = Math.max(...tree.scales);
  return tree;
}

/** Parents, first children and chance probabilities from the numbers of children: nodes stand level by level. */
function linkNodes(game) {
  const N = game.player.length;
  const player = Int32Array.from(game.player);
  const numChildren = Int32Array.from(game.num_children);
  const [parent, branch, firstChild] = [new Int32Array(N).fill(-1), new Int32Array(N), new Int32Array(N)];
  const probability = new Float64Array(N).fill(1);
  const chanceLabel = new Map();
  let next = 1;
  let byChance = 0;
  for (let node = 0; node < N; node++) {
    firstChild[node] = next;
    for (let k = 0; k < numChildren[node]; k++, next++) {
      parent[next] = node;
      branch[next] = k;
      if (player[node] === CHANCE) {
        probability[next] = game.chance_probability[byChance];
        chanceLabel.set(next, game.chance_label[byChance]);
        byChance += 1;
      }
    }
  }
  const P = game.players.length;
  const payoffs = new Float64Array(N * P);
  let end = 0;
  for (let node = 0; node < N; node++) {
    if (player[node] === TERMINAL) payoffs.set(game.payoffs[end++], node * P);
  }
  const infoset = Int32Array.from(game.infoset);
  return { N, player, infoset, numChildren, firstChild, parent, branch, probability, chanceLabel, payoffs };
}

function linkSets(game) {
  const { sets } = game;
  const I = sets.player.length;
  const numActions = Int32Array.from(sets.num_actions);
  const firstChoice = new Int32Array(I);
  for (let i = 1; i < I; i++) firstChoice[i] = firstChoice[i - 1] + numActions[i - 1];
  const C = game.labels.length;
  const owner = new Int32Array(C);
  for (let i = 0; i < I; i++) owner.fill(i, firstChoice[i], firstChoice[i] + numActions[i]);
  const members = Array.from({ length: I }, () => []);
  game.infoset.forEach((set, node) => {
    if (set >= 0) members[set].push(node);
  });
  return {
    I, C, numActions, firstChoice, owner, members,
    setPlayer: Int32Array.from(sets.player), parentChoice: Int32Array.from(sets.parent_choice),
  };
}

/** The choice that leads to each node (-1 below chance), and the last choice of each player before it, [N * P]. */
function choiceOfNodes(tree) {
  const { N, P } = tree;
  const choice = new Int32Array(N).fill(-1);
  const last = new Int32Array(N * P).fill(-1);
  const luck = new Float64Array(N).fill(1);
  for (let node = 1; node < N; node++) {
    const above = tree.parent[node];
    for (let p = 0; p < P; p++) last[node * P + p] = last[above * P + p];
    luck[node] = luck[above] * tree.probability[node];
    if (tree.player[above] >= 0) {
      choice[node] = tree.firstChoice[tree.infoset[above]] + tree.branch[node];
      last[node * P + tree.player[above]] = choice[node];
    }
  }
  return { choice, last, luck };
}

/** Terminal nodes with the same last choices of all players count as one: Z rows of sequences and of payoffs times
 *  luck. */
function mergeEnds(tree) {
  const { N, P } = tree;
  const places = new Map();
  const sequences = [];
  const paid = [];
  for (let node = 0; node < N; node++) {
    if (tree.player[node] !== TERMINAL) continue;
    const mine = tree.last.subarray(node * P, node * P + P);
    const key = mine.join(",");
    if (!places.has(key)) {
      places.set(key, places.size);
      for (const choice of mine) sequences.push(choice + 1);
      for (let p = 0; p < P; p++) paid.push(0);
    }
    const at = places.get(key) * P;
    for (let p = 0; p < P; p++) paid[at + p] += tree.luck[node] * tree.payoffs[node * P + p];
  }
  return { Z: places.size, endSequence: Int32Array.from(sequences), endPaid: Float64Array.from(paid) };
}

/** The largest payoff of each player, without its sign: what is tiny is tiny next to it. */
function scalesOf(tree) {
  const scales = new Array(tree.P).fill(0);
  tree.payoffs.forEach((paid, at) => {
    scales[at % tree.P] = Math.max(scales[at % tree.P], Math.abs(paid));
  });
  return scales;
}

/** Every action with the same chance. */
export function uniform(tree) {
  return Float64Array.from(tree.owner, (set) => 1 / tree.numActions[set]);
}

/** The choices of an information set, as [first, behind the last]. */
export function choicesOf(tree, set) {
  return [tree.firstChoice[set], tree.firstChoice[set] + tree.numActions[set]];
}

/** Give one choice a probability, in place; the others of its set keep their shares of the rest. */
export function setProbability(tree, strategy, choice, wanted) {
  const [first, end] = choicesOf(tree, tree.owner[choice]);
  const value = end - first === 1 ? 1 : Math.min(1, Math.max(0, wanted));
  const rest = 1 - strategy[choice];
  for (let c = first; c < end; c++) {
    if (c === choice) continue;
    const share = rest > 1e-12 ? strategy[c] / rest : 1 / (end - first - 1);
    strategy[c] = share * (1 - value);
  }
  strategy[choice] = value;
}
