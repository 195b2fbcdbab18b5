// NashConv over time, with what each number is: exact, with sampled chance, or a lower bound.

import { curveChart } from "marl/charts.js";
import { h } from "marl/dom.js";
import { number } from "marl/format.js";
import { KINDS, boundWords } from "marl/parts/bounds.js";

const MEANING = "NashConv: how much all players together could gain, each by replying as well as possible while the "
  + "others stay as they are. 0 means that nobody can gain: an equilibrium. Shaded: two standard errors around it, where "
  + "there is an error.";
const AMONG = "Among members: the same, but with replies of members alone. It stays near 0 while the meta-strategy "
  + "solves the payoff table, and says nothing about replies that nobody has learned yet.";

/** The chart of a run's measurements; null without any. `rounds` are those of a population. */
export function nashConvChart({ measured, rounds, signal }) {
  const series = [...new Set(measured.map((one) => one.bound))].map((bound) => {
    const own = measured.filter((one) => one.bound === bound);
    const spread = own.map((one) => 2 * (one.stderr ?? 0));
    const y = own.map((one) => one.nash_conv);
    const band = spread.some((error) => error > 0)
      ? { low: y.map((value, i) => Math.max(0, value - spread[i])), high: y.map((value, i) => value + spread[i]) } : {};
    return { label: `NashConv (${bound})`, x: own.map((one) => one.steps), y, ...band };
  });
  const among = rounds.filter((round) => Number.isFinite(round.empirical_nash_conv));
  if (among.length) {
    const y = among.map((round) => round.empirical_nash_conv);
    series.push({ label: "among members", x: among.map((round) => round.steps), y, dash: [6, 4] });
  }
  if (series.length === 0) return null;
  const { element } = curveChart({ series, xLabel: "env steps", yLabel: "NashConv", signal, name: "nash_conv" });
  const meaning = among.length ? `${MEANING} ${AMONG}` : MEANING;
  return h("div", {}, element, lastWords(measured), h("p", { class: "meaning" }, meaning));
}

function lastWords(measured) {
  const last = measured.at(-1);
  if (!last) return null;
  const error = last.stderr > 0 ? ` ± ${number(last.stderr, 2)}` : "";
  const gains = Object.entries(last.gains ?? {}).map(([player, gain]) => `${player} ${number(gain, 3)}`).join(", ");
  const figure = `${KINDS[last.bound]?.sign ?? ""}${number(last.nash_conv, 3)}${error}`;
  const parts = gains ? ` (could gain: ${gains})` : "";
  return h("p", {}, `Last: ${figure} at ${number(last.steps)} env steps${parts}. ${boundWords(last.bound)}`);
}
