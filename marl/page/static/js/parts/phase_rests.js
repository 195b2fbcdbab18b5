// Nash equilibria in a list, with what becomes of play nearby.

import { h } from "marl/dom.js";
import { number } from "marl/format.js";
import { pointWords } from "marl/parts/phase_portrait.js";
import { scaleOf, values } from "marl/solve/matrix.js";

/** The list; `left` is how many equilibria the picture cannot show. */
export function restList({ rests, left, degenerate, game, single }) {
  const rows = rests.map(({ point, kind, words }) => h(
    "li",
    {},
    h(
      "span",
      { class: `rest-sign ${kind}`, "aria-hidden": "true" },
      { stable: "●", unstable: "○", neutral: "◐" }[kind],
    ),
    " ", pointWords(single ? [point[0]] : point, game.actions),
    h(
      "span",
      { class: "quiet" },
      ` pays ${values(game, ...point).map((paid) => number(tidy(paid, game), 3)).join(", ")}; ${words}`,
    ),
  ));
  return [
    h("ul", { class: "rests" }, rows),
    left > 0 ? h(
      "p",
      { class: "quiet" },
      `${left} more in which the two play differently; they are not in this picture.`,
    ) : null,
    degenerate ? h(
      "p",
      { class: "quiet" },
      "The game is degenerate: these are corners of whole sets of equilibria.",
    ) : null,
    h(
      "p",
      { class: "quiet" },
      "Stability is that of the replicator dynamics, by the eigenvalues of its linear part.",
    ),
  ];
}

/** What is 0 but for rounding is 0. */
function tidy(paid, game) {
  return Math.abs(paid) < 1e-12 * scaleOf(game) ? 0 : paid;
}
