// What is seen, in sentences that are made of the numbers on the page, and only of these.

import { ACTIONS, STATES, tableOf, two } from "marl/parts/explain_panels.js";

const CLOSE = 0.05; // smaller errors are not worth a word
export const NAMES = { qmix: "QMIX", vdn: "VDN", dqn: "DQN", apex: "Ape-X" };

const highest = (table) => Math.max(...table.flat());
const pair = (r, c) => `(${ACTIONS[r]}, ${ACTIONS[c]})`;

/** Whether a run draws every action uniformly throughout, by its keys. */
export function playsByChance({ keys }) {
  const told = keys?.exploration_config ?? {};
  return told.initial_epsilon === 1 && told.final_epsilon === 1;
}

/** How the runs that are shown explored. */
export function exploredWords(runs) {
  if (!runs.every(playsByChance)) {
    return "How a run explored stands in exploration_config: pairs of actions that it rarely tried are known less well. " +
      "Greedy play is what is measured.";
  }
  return "Every action is drawn uniformly (epsilon 1 throughout), as in the paper of QMIX: so all pairs are seen equally often, " +
    "and no learner misses the 8 for want of trying. Greedy play is what is measured.";
}

/** Sentences about one learner at one moment; `run` has `mixer`, `truth` and `best`. */
export function wordsOf(run, point) {
  return [course(run, point), ...reasons(run, point)];
}

/** What greedy play earns, and how far that is from the best. */
function course(run, point) {
  const { first, safe, risky } = point.greedy;
  const [state, then] = first[0] === 0 ? ["2A", safe] : ["2B", risky];
  const missing = run.best - point.reward;
  const judged = missing <= 0 ? "the most that the game pays" : `${number(missing)} less than the game pays at most`;
  return (
    `Agent 1 does ${ACTIONS[first[0]]}, which leads to state ${state}, and there both play ${pair(...then)}: ` +
    `the team earns ${number(point.reward)}, ${judged}.`
  );
}

function reasons(run, point) {
  if (run.mixer === "none") return ofIndependent(run, point);
  if (point.joint === null)
    return ["This checkpoint has kept no mixer, so only the agents' own values are known: the table adds them up."];
  return run.mixer === "sum" ? ofSum(run, point) : ofMixer(run, point);
}

// -- a sum -------------------------------------------------------------------------------------------------------------

function ofSum(run, point) {
  const [[aa, ab], [ba, bb]] = point.joint.risky;
  const [[trueAa, trueAb], [trueBa, trueBb]] = run.truth.risky;
  const found = [
    `A sum must give (A, A) and (B, B) together the same as (A, B) and (B, A) together: in its state 2B ${two(aa)} + ${two(bb)} = ` +
      `${two(aa + bb)} and ${two(ab)} + ${two(ba)} = ${two(ab + ba)}.`,
  ];
  const [one, other] = [trueAa + trueBb, trueAb + trueBa];
  if (one !== other) {
    found.push(`In truth that is ${number(one)} and ${number(other)}, so no sum is right. ${nearest(run, point)}`);
  }
  return [...found, comparison(point, "It believes")];
}

/** The additive table that is nearest to the true one if all pairs are played equally often. */
export function nearestSum(table) {
  const mean = table.flat().reduce((sum, value) => sum + value, 0) / 4;
  const rows = table.map(([one, other]) => (one + other) / 2);
  const columns = [0, 1].map((c) => (table[0][c] + table[1][c]) / 2);
  return rows.map((row) => columns.map((column) => row + column - mean));
}

function nearest(run, point) {
  const wanted = nearestSum(run.truth.risky);
  const off = Math.max(...wanted.flat().map((value, i) => Math.abs(value - point.joint.risky.flat()[i])));
  const values = wanted.flat().map(number).join(", ");
  return `The nearest one under uniform play is ${values}, and what it has learned is within ${two(off)} of that.`;
}

/** Which of the two states looks better, and whether the first state's values say the same. */
function comparison(point, who) {
  const risky = highest(tableOf(point, "risky"));
  const safe = highest(tableOf(point, "safe"));
  const better = risky > safe ? "2B" : "2A";
  const goes = point.greedy.first[0] === 1 ? "2B" : "2A";
  const so = better === goes ? `so agent 1 goes to ${goes}` : `but its values of state 1 still send agent 1 to ${goes}`;
  return `${who} the best of 2B to be worth ${two(risky)} and the best of 2A ${two(safe)}, ${so}.`;
}

// -- a mixer -----------------------------------------------------------------------------------------------------------

function ofMixer(run, point) {
  const [[aa, ab], [ba, bb]] = run.truth.risky;
  const found = [errors(run, point)];
  found.push(
    `In state 2B agent 1 adds ${number(ba - aa)} by B if agent 2 plays A, and ${number(bb - ab)} if it plays B. A sum has one number for ` +
      "both. QMIX's network may differ: all that it must not do is lower the team's value when an agent's own value rises.",
  );
  return [...found, comparison(point, "It believes")];
}

function errors(run, point) {
  let worst = { error: -1 };
  for (const [state, title] of STATES) {
    point.joint[state].forEach((row, r) =>
      row.forEach((value, c) => {
        const error = Math.abs(value - run.truth[state][r][c]);
        if (error > worst.error)
          worst = { error, where: `${pair(r, c)} in ${title.toLowerCase().replace(/[ab]$/, (x) => x.toUpperCase())}` };
      }),
    );
  }
  if (worst.error < CLOSE)
    return `Its tables are the true ones: none of the 12 entries is wrong by more than ${two(Math.max(0.01, worst.error))}.`;
  return `Its largest error is ${two(worst.error)}, at ${worst.where}.`;
}

// -- independent learners ----------------------------------------------------------------------------------------------

function ofIndependent(run, point) {
  const [one, other] = run.truth.risky[1];
  const expected = (one + other) / 4; // half of the reward each, and half of the time each
  const own = point.members.risky.map((values) => two(values[1])).join(" and ");
  return [
    "There is no joint value: each agent learns what its own action brings on average, whatever the other one does. The tables add both up.",
    `For B in state 2B, if the other one plays both equally often, that is half of the mean of ${number(one)} and ${number(other)}: ` +
      `${two(expected)}. The agents say ${own}.`,
    comparison(point, "Added up, they believe"),
  ];
}

function number(value) {
  return String(Math.round(value * 100) / 100).replace("-", "−");
}
