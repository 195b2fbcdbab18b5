// The panel of an information set: its actions with sliders, and what each of them earns.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { badge } from "marl/parts/tree_drawing.js";
import { choicesOf } from "marl/solve/tree.js";

const CAPTION = "Drag or use the arrow keys; the other actions share the rest. Earns: if play goes on as it is. Regret: how "
  + "much more than now, times how often chance and the others lead here. ★ is a best reply, which also moves best later on.";

/** The panel; it follows the model by itself. */
export function setPanel(model) {
  const element = h("section", { class: "card set-panel", "aria-label": "Information set" });
  let refresh = () => {};
  const rebuild = () => {
    refresh = () => {};
    if (model.selected < 0) {
      put(
        element,
        h("h2", {}, "Information set"),
        h("p", { class: "quiet" }, "Choose a node of the tree or a line of the list."),
      );
    } else refresh = fill(element, model, model.selected);
    refresh();
  };
  model.listen((what) => (what === "selection" ? rebuild() : refresh()));
  rebuild();
  return element;
}

function fill(element, model, set) {
  const { tree, game } = model;
  const player = tree.setPlayer[set];
  const [first, end] = choicesOf(tree, set);
  const rows = [];
  for (let choice = first; choice < end; choice++) rows.push(row(model, choice, game.labels[choice]));
  const facts = h("p", { class: "quiet facts" });
  const head = ["Action", "Probability", "Earns", "Regret"].map(
    (name, k) => h("th", { scope: "col", class: k > 1 ? "number" : null }, name),
  );
  put(
    element,
    h("h2", {}, badge(player), " ", `${tree.players[player]}: ${model.words(set)}`),
    facts,
    h(
      "table",
      { class: "actions" },
      h("caption", {}, CAPTION),
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.map((one) => one.element)),
    ),
  );
  return () => {
    const reach = model.reachOf(set);
    const many = tree.members[set].length;
    const value = reach.others > 0 ? model.solver.setValue[set] / reach.others : NaN;
    put(
      facts,
      `${many === 1 ? "1 node, no other looks like it" : `${many} nodes that look alike`} · `,
      `reached ${share(reach.all)} (own moves ${share(reach.own)}, `,
      `chance and others ${share(reach.others)}) · worth ${number(value)}`,
    );
    for (const one of rows) one.refresh(reach);
  };
}

function row(model, choice, label) {
  const { solver, strategy } = model;
  const slider = h("input", {
    type: "range", min: 0, max: 1, step: 0.001, "aria-label": `Probability of ${label}`, "data-choice": choice,
    oninput: () => model.setChoice(choice, Number(slider.value)),
    onchange: () => model.settle(),
  });
  const [shown, earns, regret, star] = [
    h("output", {}),
    h("td", { class: "number" }),
    h("td", { class: "number" }),
    h("span", {}),
  ];
  const only = model.tree.numActions[model.tree.owner[choice]] === 1;
  slider.disabled = only;
  const element = h(
    "tr", {}, h("th", { scope: "row" }, label, " ", star), h(
      "td",
      { class: "slide" },
      h("div", {}, slider, shown),
    ), earns, regret,
  );
  const refresh = (reach) => {
    const probability = strategy[choice];
    // Not the one that is being moved: the hand is ahead of the frame.
    if (Math.abs(Number(slider.value) - probability) > 6e-4) slider.value = probability;
    shown.textContent = probability.toFixed(3);
    earns.textContent = number(reach.others > 0 ? solver.choiceValue[choice] / reach.others : NaN);
    regret.textContent = number(tiny(solver.regret[choice]));
    regret.classList.toggle("missed", solver.regret[choice] > 1e-9);
    star.textContent = solver.isBest[choice] ? "★" : "";
    star.setAttribute("aria-label", solver.isBest[choice] ? "best reply" : "");
  };
  return { element, refresh };
}

function tiny(value) {
  return Math.abs(value) < 1e-12 ? 0 : value;
}

function share(probability) {
  return `${number(100 * probability, 3)} %`;
}
