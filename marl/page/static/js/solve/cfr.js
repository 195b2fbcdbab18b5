// CFR+ in the page: regrets that never fall below 0, and an average in which iteration t counts t times (Tammelin,
// 2014).

import { counterfactual, plansOf } from "marl/solve/response.js";
import { uniform } from "marl/solve/tree.js";

// A difference below this share of the numbers that were added up is rounding; ties of regrets have to stay ties, or
// noise
// decides what is played.
const ROUNDING = 64 * Number.EPSILON;

/** A solver that goes on where it stopped: step(cfr), then average(cfr). It begins with equal chances. */
export function startCfr(tree) {
  const strategy = uniform(tree);
  return {
    tree,
    strategy,
    iterations: 0,
    plans: plansOf(tree, strategy),
    regrets: new Float64Array(tree.C),
    largest: Float64Array.from(tree.owner, (set) => tree.scales[tree.setPlayer[set]]),
    sums: new Float64Array(tree.C),
    earned: new Float64Array(tree.C + 1),
  };
}

/** One iteration: the players in turn, each against the newest strategies of the others. */
export function step(cfr) {
  cfr.iterations += 1;
  for (let player = 0; player < cfr.tree.P; player++) update(cfr, player);
}

function update(cfr, player) {
  const { tree, plans, strategy, regrets, earned, sums } = cfr;
  counterfactual(tree, plans, player, earned);
  for (let set = tree.I - 1; set >= 0; set--) {
    if (tree.setPlayer[set] !== player) continue;
    const first = tree.firstChoice[set];
    const end = first + tree.numActions[set];
    let value = 0;
    for (let c = first; c < end; c++) {
      sums[c] += cfr.iterations * plans[c + 1];
      value += strategy[c] * earned[c + 1];
    }
    for (let c = first; c < end; c++) regrets[c] += earned[c + 1] - value;
    keepTies(cfr, first, end);
    earned[tree.parentChoice[set] + 1] += value;
  }
  matchRegrets(cfr, player);
}

/** Regrets that are 0 but for rounding become 0, equal ones equal; then negative ones are forgotten. */
function keepTies({ regrets, largest }, first, end) {
  for (let c = first; c < end; c++) {
    const size = Math.abs(regrets[c]);
    if (size > largest[c]) largest[c] = size;
    if (size <= ROUNDING * largest[c]) regrets[c] = 0;
  }
  for (let left = end - 1; left >= first; left--) {
    for (let right = left + 1; right < end; right++) {
      if (Math.abs(regrets[left] - regrets[right]) <= ROUNDING * largest[right]) regrets[right] = regrets[left];
    }
  }
  for (let c = first; c < end; c++) if (regrets[c] < 0) regrets[c] = 0;
}

/** Play in proportion to regrets, evenly where there are none; plans follow, parents before children. */
function matchRegrets({ tree, regrets, strategy, plans }, player) {
  for (let set = 0; set < tree.I; set++) {
    if (tree.setPlayer[set] !== player) continue;
    const first = tree.firstChoice[set];
    const end = first + tree.numActions[set];
    let total = 0;
    for (let c = first; c < end; c++) total += regrets[c];
    const before = plans[tree.parentChoice[set] + 1];
    for (let c = first; c < end; c++) {
      strategy[c] = total > 0 ? regrets[c] / total : 1 / (end - first);
      plans[c + 1] = before * strategy[c];
    }
  }
}

/** The average strategy, which is what converges; equal shares where it never comes. */
export function average({ tree, sums }, into = new Float64Array(tree.C)) {
  for (let set = 0; set < tree.I; set++) {
    const first = tree.firstChoice[set];
    const end = first + tree.numActions[set];
    let total = 0;
    for (let c = first; c < end; c++) total += sums[c];
    for (let c = first; c < end; c++) into[c] = total > 0 ? sums[c] / total : 1 / (end - first);
  }
  return into;
}
