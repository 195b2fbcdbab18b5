// A table of payoffs to type into: what the row and the column player get in every cell.

import { h, put } from "marl/dom.js";
import { transposed } from "marl/solve/matrix.js";

const LARGEST = 1e6;

/** {element, show(game)}; `onChange(game)` gets every table that is whole: {A, B, actions}. */
export function payoffTable(onChange) {
  const element = h("div", {});
  const trouble = h("p", { class: "message error", role: "alert", hidden: true });
  let game = null;

  const read = (mirrored) => {
    const tables = game.A.map((row) => row.map(() => [0, 0]));
    let wrong = null;
    for (const input of element.querySelectorAll("input[data-cell]")) {
      const [k, i, j] = input.dataset.cell.split(",").map(Number);
      const value = Number(input.value.replace("−", "-"));
      const isNumber = input.value.trim() !== "" && Number.isFinite(value) && Math.abs(value) <= LARGEST;
      input.setAttribute("aria-invalid", String(!isNumber));
      if (!isNumber) wrong ??= input.value;
      tables[i][j][k] = value;
    }
    trouble.hidden = wrong === null;
    if (wrong !== null) {
      put(
        trouble,
        `${JSON.stringify(wrong)} is no payoff: expected a number from −1,000,000 to 1,000,000. `,
        "The picture shows the last whole table.",
      );
      return;
    }
    const A = tables.map((row) => row.map(([first]) => first));
    const B = mirrored ? transposed(A) : tables.map((row) => row.map(([, second]) => second));
    onChange({ A, B, actions: game.actions });
  };
  const show = (shown, mirrored) => {
    game = shown;
    const heads = game.actions[1].map((name) => h("th", { scope: "col" }, name));
    const rows = game.A.map((row, i) => {
      const cells = row.map((_, j) => h("td", {}, h("span", { class: "cell" }, [game.A, game.B].map((table, k) => {
        const whose = k === 0 ? "row" : "column";
        return h("input", {
          inputmode: "decimal", size: 4, value: String(table[i][j]), "data-cell": `${k},${i},${j}`,
          class: `pay-${whose}`,
          "aria-label": `${whose} player's payoff at ${game.actions[0][i]}, ${game.actions[1][j]}`,
          disabled: mirrored && k === 1, oninput: () => read(mirrored),
        });
      }))));
      return h("tr", {}, h("th", { scope: "row" }, game.actions[0][i]), cells);
    });
    put(
      element,
      h("div", { class: "scroll" }, h(
        "table",
        { class: "payoffs" },
        h("caption", {}, "Payoffs of the row player (blue) and the column player (orange): type your own."),
        h("thead", {}, h("tr", {}, h("td", {}), heads)),
        h("tbody", {}, rows),
      )),
      trouble,
    );
    trouble.hidden = true;
  };
  return { element, show };
}
