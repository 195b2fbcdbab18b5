// What if: another action or another policy from a step on.

import { h } from "marl/dom.js";

/** The panel for one decision. `request` is what the trace was asked for with, `onBranch(answer)` shows a branch as an episode. */
export function whatIfPanel({ request, trace, step, agent, signal, onBranch }) {
  void [request, trace, step, agent, signal, onBranch];
  return h("div", { class: "what-if" });
}
