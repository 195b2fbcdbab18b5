// What strategies earn, the best replies to them and how far they are from an equilibrium. Exact, in one pass per
// player
// over the ends of the game and its information sets: NashConv = sum_i max_b u_i(b, s_-i) - u_i(s).

const EQUALLY_GOOD = 1e-12; // payoffs that differ by less (in units of the largest) are equal: it is rounding

/** Chance of each player's own moves up to each sequence, [C + 1]; entry 0 is 1. */
export function plansOf(tree, strategy, plans = new Float64Array(tree.C + 1)) {
  plans[0] = 1;
  for (let set = 0; set < tree.I; set++) {
    const before = plans[tree.parentChoice[set] + 1];
    const end = tree.firstChoice[set] + tree.numActions[set];
    for (let c = tree.firstChoice[set]; c < end; c++) plans[c + 1] = before * strategy[c];
  }
  return plans;
}

/** Counterfactual payoffs of a player's sequences at the ends of the game: chance and all others, not the player
 *  itself. */
export function counterfactual(tree, plans, player, into = new Float64Array(tree.C + 1)) {
  const { P, Z, endSequence, endPaid } = tree;
  into.fill(0);
  if (P === 2) {
    const other = 1 - player;
    for (let z = 0, at = 0; z < Z; z++, at += 2) {
      into[endSequence[at + player]] += endPaid[at + player] * plans[endSequence[at + other]];
    }
    return into;
  }
  for (let z = 0, at = 0; z < Z; z++, at += P) {
    let weight = endPaid[at + player];
    for (let p = 0; p < P; p++) if (p !== player) weight *= plans[endSequence[at + p]];
    into[endSequence[at + player]] += weight;
  }
  return into;
}

/** A place to solve in: arrays that are made once and used in every frame. */
export function makeSolver(tree) {
  return {
    tree,
    plans: new Float64Array(tree.C + 1),
    earned: new Float64Array(tree.C + 1),
    best: new Float64Array(tree.C + 1),
    // What evaluate() finds; per choice: counterfactual value and regret under the strategy, whether a best reply takes
    // it.
    choiceValue: new Float64Array(tree.C),
    regret: new Float64Array(tree.C),
    isBest: new Uint8Array(tree.C),
    setValue: new Float64Array(tree.I),
    values: new Float64Array(tree.P),
    bestValues: new Float64Array(tree.P),
    gains: new Float64Array(tree.P),
    nashConv: 0,
  };
}

/** Solve everything for a strategy: values, best replies, gains, NashConv, regrets. Gives the solver back. */
export function evaluate(solver, strategy) {
  const { tree } = solver;
  plansOf(tree, strategy, solver.plans);
  solver.nashConv = 0;
  for (let player = 0; player < tree.P; player++) {
    counterfactual(tree, solver.plans, player, solver.earned);
    solver.best.set(solver.earned);
    solver.values[player] = expectedPass(solver, strategy, player);
    solver.bestValues[player] = bestPass(solver, player);
    solver.gains[player] = solver.bestValues[player] - solver.values[player];
    solver.nashConv += solver.gains[player];
  }
  return solver;
}

/** Backwards through the player's information sets with what the strategy earns; sets are numbered forwards. */
function expectedPass({ tree, earned, choiceValue, regret, setValue }, strategy, player) {
  for (let set = tree.I - 1; set >= 0; set--) {
    if (tree.setPlayer[set] !== player) continue;
    const first = tree.firstChoice[set];
    const end = first + tree.numActions[set];
    let value = 0;
    for (let c = first; c < end; c++) value += strategy[c] * earned[c + 1];
    for (let c = first; c < end; c++) {
      choiceValue[c] = earned[c + 1];
      regret[c] = earned[c + 1] - value;
    }
    setValue[set] = value;
    earned[tree.parentChoice[set] + 1] += value;
  }
  return earned[0];
}

/** The same with the best choice at every set; the first of equally good ones. */
function bestPass({ tree, best, isBest }, player) {
  const near = EQUALLY_GOOD * tree.scale;
  for (let set = tree.I - 1; set >= 0; set--) {
    if (tree.setPlayer[set] !== player) continue;
    const first = tree.firstChoice[set];
    const end = first + tree.numActions[set];
    let most = -Infinity;
    for (let c = first; c < end; c++) if (best[c + 1] > most) most = best[c + 1];
    let taken = -1;
    for (let c = first; c < end; c++) {
      isBest[c] = 0;
      if (taken < 0 && best[c + 1] >= most - near) taken = c;
    }
    isBest[taken] = 1;
    best[tree.parentChoice[set] + 1] += best[taken + 1];
  }
  return best[0];
}
