// The equilibria of Kuhn poker that Kuhn found: one for each chance alpha, up to 1/3, to bluff with the jack.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";

// Chance to bet, by player, card and what happened before. Player 1 has one strategy only.
const KUHN = [
  {
    J: { "": (a) => a, "pass bet": () => 0 },
    Q: { "": () => 0, "pass bet": (a) => a + 1 / 3 },
    K: { "": (a) => 3 * a, "pass bet": () => 1 },
  },
  {
    J: { bet: () => 0, pass: () => 1 / 3 },
    Q: { bet: () => 1 / 3, pass: () => 0 },
    K: { bet: () => 1, pass: () => 1 },
  },
];

/** A slider for alpha; null where the game is not Kuhn poker of two. */
export function kuhnFamily(model) {
  const { tree, game } = model;
  if (game.name !== "kuhn_poker" || tree.P !== 2) return null;
  const told = h("output", {});
  const show = () => {
    const alpha = Number(slider.value) / 300;
    put(
      told,
      ` α = ${number(alpha, 3)}: bets the jack ${number(100 * alpha, 3)} %, the king ${number(300 * alpha, 3)} %, and calls `,
      `with the queen ${number(100 * (alpha + 1 / 3), 3)} %`,
    );
    return alpha;
  };
  const slider = h("input", {
    type: "range", min: 0, max: 100, step: 1, value: 50, id: "kuhn-alpha", "aria-label": "Alpha of Kuhn's equilibria",
    oninput: () => model.setAll(kuhnEquilibrium(model, show()), tree.members.keys()),
    onchange: () => model.settle(),
  });
  show();
  const why = "Every α from 0 to 1/3 is an equilibrium; the value for player_0 is −1/18 in all of them.";
  return h(
    "div",
    { class: "preset" },
    h("label", { for: "kuhn-alpha" }, "Kuhn’s family of equilibria"),
    slider,
    told,
    h("p", { class: "quiet" }, why),
  );
}

/** The strategy of both players for one alpha. */
export function kuhnEquilibrium({ tree, game }, alpha) {
  const strategy = new Float64Array(tree.C);
  for (let set = 0; set < tree.I; set++) {
    const chances = KUHN[tree.setPlayer[set]][game.sets.private[set]];
    const bet = chances[game.sets.history[set].join(" ")](alpha);
    strategy[tree.firstChoice[set]] = 1 - bet;
    strategy[tree.firstChoice[set] + 1] = bet;
  }
  return strategy;
}
