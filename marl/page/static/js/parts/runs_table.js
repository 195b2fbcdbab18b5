// The table of runs: sorted, filtered, chosen from; rows change in place, so a table that updates does not flicker.

import { h, put } from "marl/dom.js";
import { duration, number } from "marl/format.js";
import { goalChip, progressBar, stateChip } from "marl/parts/runs_words.js";
import { address } from "marl/routes.js";

export const MOST_ROWS = 300; // shown at once; the others are found by the filter, or by the button

// What a column shows, and what it is sorted by.
export const COLUMNS = [
  { key: "name", title: "Run", cell: nameCell, value: (run) => `${run.experiment} ${run.name}`.toLowerCase() },
  { key: "state", title: "State", cell: stateChip, value: (run) => run.state },
  { key: "progress", title: "Progress", cell: progressBar, value: (run) => run.progress },
  { key: "goal", title: "Goal", cell: goalChip, value: (run) => (run.goal_met === null ? -1 : Number(run.goal_met)) },
  {
    key: "best",
    title: "Best",
    number: true,
    cell: (run) => h("span", { title: run.best_of }, number(run.best)),
    value: (run) => run.best ?? -Infinity,
  },
  {
    key: "last",
    title: "Last",
    number: true,
    cell: (run) => number(run.reward),
    value: (run) => run.reward ?? -Infinity,
  },
  { key: "algo", title: "Algorithm", cell: (run) => run.algo, value: (run) => run.algo },
  { key: "env", title: "Env", cell: (run) => run.env, value: (run) => run.env },
  { key: "seed", title: "Seed", number: true, cell: (run) => run.seed ?? "–", value: (run) => run.seed ?? -1 },
  {
    key: "steps",
    title: "Env steps",
    number: true,
    cell: (run) => number(run.timesteps),
    value: (run) => run.timesteps,
  },
  { key: "time", title: "Time", number: true, cell: (run) => duration(run.seconds), value: (run) => run.seconds },
  {
    key: "newest",
    title: "Newest",
    cell: (run) => h("span", { class: "runs-date", title: run.newest }, run.newest.slice(5, 16)),
    value: (run) => run.newest,
  },
];

function nameCell(run) {
  return [
    h("a", { href: address("run", [run.run]), title: run.run }, run.id),
    h("span", { class: "quiet runs-experiment" }, run.experiment),
  ];
}

/** The runs that the filter lets through, in the order that was asked for. */
export function chosenRows(runs, { text, state, algo, env, sort, up }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (run) => {
    if ((state && run.state !== state) || (algo && run.algo !== algo) || (env && run.env !== env)) return false;
    const all = `${run.run} ${run.algo} ${run.env} ${run.state} seed=${run.seed}`.toLowerCase();
    return words.every((word) => all.includes(word));
  };
  const { value } = COLUMNS.find(({ key }) => key === sort) ?? COLUMNS[COLUMNS.length - 1];
  const found = runs.filter(fits).map((run) => ({ run, by: value(run) }));
  found.sort((a, b) => (a.by < b.by ? -1 : a.by > b.by ? 1 : 0) * (up ? 1 : -1));
  return found.map(({ run }) => run);
}

/** The table. `onSort(key)` and `onChoose(run, isChosen)` tell what was clicked; show(rows, view) fills it. */
export function runsTable({ onSort, onChoose, canChoose = true }) {
  const rows = new Map();
  const body = h("tbody");
  const heads = COLUMNS.map((column) => {
    const button = h("button", { class: "runs-sort", onclick: () => onSort(column.key) }, column.title);
    return h("th", { scope: "col", class: column.number ? "number" : null }, button);
  });
  const caption = h("caption");
  const more = h("p", { hidden: true });
  const first = h("th", { scope: "col" }, h("span", { class: "runs-hidden" }, "Compare"));
  const table = h("table", { class: "runs-table" }, caption, h("thead", {}, h("tr", {}, first, heads)), body);
  const element = h(
    "div",
    {},
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, table),
    more,
  );

  function show(runs, { total, chosen, sort, up, all, onAll }) {
    COLUMNS.forEach((column, i) => {
      heads[i].setAttribute("aria-sort", column.key !== sort ? "none" : up ? "ascending" : "descending");
    });
    const shown = all ? runs : runs.slice(0, MOST_ROWS);
    const wanted = shown.map((run) => row(run, chosen.has(run.run)));
    const isSame = wanted.length === body.children.length && wanted.every((one, i) => body.children[i] === one);
    if (!isSame) body.replaceChildren(...wanted);
    caption.textContent = captionOf(runs.length, total, chosen.size);
    more.hidden = shown.length === runs.length;
    put(more, h("button", { onclick: onAll }, `Show all ${runs.length} runs`));
  }

  function row(run, isChosen) {
    let known = rows.get(run.run);
    if (known === undefined) {
      known = newRow(run, canChoose, onChoose);
      rows.set(run.run, known);
    }
    const content = JSON.stringify(run);
    if (known.content !== content) {
      known.content = content;
      COLUMNS.forEach((column, i) => put(known.cells[i], column.cell(run)));
    }
    known.box.checked = isChosen;
    known.element.classList.toggle("chosen", isChosen);
    return known.element;
  }

  return { element, show };
}

function newRow(run, canChoose, onChoose) {
  const box = h("input", { type: "checkbox", disabled: !canChoose, "aria-label": `Compare ${run.name}` });
  box.addEventListener("change", () => onChoose(run.run, box.checked));
  const cells = COLUMNS.map((column) => h("td", { class: column.number ? "number" : `runs-${column.key}` }));
  return { box, cells, element: h("tr", { "data-run": run.run }, h("td", {}, box), cells), content: "" };
}

function captionOf(shown, total, chosen) {
  const which = shown === total ? `${total} ${total === 1 ? "run" : "runs"}` : `${shown} of ${total} runs`;
  return chosen ? `${which}, ${chosen} chosen for the chart` : `${which}. Tick some to compare them in the chart.`;
}
