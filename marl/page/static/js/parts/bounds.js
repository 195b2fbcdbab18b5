// How exploitable each entrant of a report is, and what such a number is: exact, with sampled chance, or a lower bound.

import { h } from "marl/dom.js";
import { number } from "marl/format.js";
import { intervals } from "marl/parts/ranks.js";
import { pictureButtons } from "marl/save.js";

const MEANING = "NashConv: if all players were played by this entrant, how much could they gain together, each by "
  + "replying better while the others stay as they are? 0 is an equilibrium; with two players exploitability is half "
  + "of it. Lines, where there are any, are two standard errors around it.";
/** What the numbers of a measurement are. */
export const KINDS = {
  exact: { sign: "", words: "Exact: every reply that the game allows was looked at." },
  "sampled chance": {
    sign: "~ ",
    words: "Sampled chance: all replies were looked at, but seeds stand for chance; such a figure tends to err "
      + "upwards, by about its error.",
  },
  "lower bound": {
    sign: "≥ ",
    words: "A lower bound: only some replies were looked at, so the truth is as large or larger; 0 means that none "
      + "was found, not that there is none.",
  },
};

/** What a number of this kind is, in a sentence. */
export function boundWords(bound) {
  return KINDS[bound]?.words ?? `${bound ?? "As measured"}.`;
}

/** The bounds of a report, one line for each entrant. */
export function boundsPlot(bounds, { bare = false } = {}) {
  const rows = bounds.map(({ name, nash_conv: score, stderr, bound }) => {
    const error = 2 * (stderr ?? 0);
    return { name, score, low: Math.max(0, score - error), high: score + error, sign: KINDS[bound]?.sign };
  });
  const words = `NashConv: ${bounds.map((one) => `${one.name} ${number(one.nash_conv, 3)} (${one.bound})`).join(", ")}`;
  const svg = intervals(rows, { show: (value) => number(value, 3), words, first: "", head: "NashConv", also: [0] });
  const kinds = [...new Set(bounds.map((one) => one.bound))];
  return h("div", { class: "rank" },
    h("div", { class: "scroll" }, svg),
    h("div", { class: "row" }, h("span", { class: "grow" }), pictureButtons(() => svg, "nash_conv")),
    bare ? null : h("ul", {}, kinds.map((kind) => h("li", {}, `${KINDS[kind]?.sign ?? ""}${boundWords(kind)}`))),
    bare ? null : h("p", { class: "meaning" }, MEANING),
  );
}
