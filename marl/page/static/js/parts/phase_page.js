// The parts of the page of dynamics, put together: choosers, pictures, payoffs, equilibria.

import { add, h } from "marl/dom.js";
import { badge } from "marl/parts/tree_drawing.js";
import { pictureButtons } from "marl/save.js";
import { DYNAMICS } from "marl/solve/flow.js";

/** Gives the view its elements; they call its methods. */
export function buildPage(view) {
  const options = view.games.map(({ name, title }) => h("option", { value: name }, title));
  view.chooser = h("select", { id: "phase-game", onchange: () => view.choose(view.chooser.value) });
  add(
    view.chooser,
    options,
    h("option", { value: "own2" }, "Own game, 2 × 2"),
    h("option", { value: "own3" }, "Own game, 3 × 3"),
  );
  const kinds = Object.entries(DYNAMICS).map(([key, { name }]) => h("option", { value: key }, name));
  view.kinds = h("select", { id: "phase-kind", onchange: () => view.setKind(view.kinds.value) }, kinds);
  view.lambda = h("input", {
    type: "range", id: "phase-lambda", min: 0.2, max: 20, step: 0.2, value: 5,
    "aria-label": "Rationality λ of the logit dynamics",
    oninput: () => view.setRationality(Number(view.lambda.value)),
  });
  view.lambdaText = h("output", {});
  view.lambdaRow = h(
    "span",
    { class: "row lambda", hidden: true },
    h("label", { for: "phase-lambda" }, "λ"),
    view.lambda,
    view.lambdaText,
  );
  view.mirror = h(
    "input",
    { type: "checkbox", id: "phase-mirror", onchange: () => view.setMirror(view.mirror.checked) },
  );
  view.words = h("p", { class: "quiet" });
  view.figures = h("div", { class: "phase-figures" });
  view.rests = h("div", {});
  view.basins = h("div", { role: "status" });
  view.basinButton = h("button", { onclick: () => view.findBasins() }, "Basins");
  view.told = h("p", { class: "quiet", role: "status" });
  const clear = h("button", { onclick: () => view.clear() }, "Clear");
  view.element = h(
    "div",
    {},
    h("h1", {}, "Learning dynamics"),
    h(
      "div",
      { class: "row" },
      h("label", { for: "phase-game" }, "Game"),
      view.chooser,
      h("label", { for: "phase-kind" }, "Dynamics"),
      view.kinds,
      view.lambdaRow,
      clear,
    ),
    view.words,
    h(
      "div",
      { class: "phase-columns" },
      h("div", { class: "card" }, view.figures, view.told),
      h(
        "div",
        { class: "tree-side" },
        h(
          "section",
          { class: "card", "aria-label": "Payoffs" },
          view.table.element,
          h(
            "p",
            {},
            view.mirror,
            " ",
            h("label", { for: "phase-mirror" }, "symmetric: the column player's table mirrors the row player's"),
          ),
        ),
        h("section", { class: "card", "aria-label": "Equilibria" }, h("h2", {}, "Nash equilibria"), view.rests,
          view.basinButton, view.basins),
        h(
          "section",
          { class: "card", "aria-label": "Payoffs over time" },
          h(
            "div",
            { class: "row" },
            h("h2", { class: "grow" }, "Payoffs over time"),
            pictureButtons(() => view.chart.svg, "payoffs"),
          ),
          view.chart.svg,
          h(
            "p",
            { class: "quiet pay-legend" },
            badge(0),
            " row player (line)  ",
            badge(1),
            " column player (dashes)",
          ),
        ),
      ),
    ),
  );
}
