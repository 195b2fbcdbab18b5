// The view "runs": all runs in a table that updates by itself, and the curves of those that are chosen.

import { follow, get, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { fieldChart, judgedBy } from "marl/parts/runs_chart.js";
import { startForm, startRun, startedCards } from "marl/parts/runs_start.js";
import { chosenRows, runsTable } from "marl/parts/runs_table.js";
import { chooser } from "marl/parts/runs_words.js";
import { address, setQuery } from "marl/routes.js";

const EVERY = 1000; // milliseconds between looks
const FIELDS_EVERY = 5000; // of the names of fields, while runs train
const MOST_FIRST = 10; // curves before anything was chosen
const STATES = ["running", "finished", "stopped", "failed"];

export async function show({ root, query, signal, setTitle, whenShown }) {
  setTitle("Runs");
  const view = {
    root, query, signal,
    runs: null, fields: [], known: 0, all: false,
    chosen: new Set(readList(query.get("runs"))),
    filter: {
      text: query.get("q") ?? "",
      state: query.get("state") ?? "",
      algo: query.get("algo") ?? "",
      env: query.get("env") ?? "",
      sort: query.get("sort") ?? "newest",
      up: query.get("up") !== null,
    },
  };
  build(view);
  let isFirst = true;
  const gaveUp = new AbortController();
  const shown = new Promise((resolve) => {
    const take = async (answer) => {
      await news(view, answer);
      if (isFirst) {
        whenShown();
        view.started.look();
      }
      isFirst = false;
      resolve();
    };
    const onTrouble = (error) => trouble(view, error, resolve);
    follow("/api/runs", take, { every: EVERY, signal: AbortSignal.any([signal, gaveUp.signal]), onTrouble });
  });
  await shown;
  if (view.runs === null) {
    gaveUp.abort(); // the page says what is wrong; nothing more is asked
    throw view.error;
  }
}

function readList(text) {
  try {
    const found = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.map(String) : [];
  } catch {
    return [];
  }
}

/** A server that does not answer is told once, on top of what is known. */
function trouble(view, error, resolve) {
  view.gone.hidden = error === null;
  if (error === null) return;
  view.error = error;
  view.gone.textContent = error.message;
  if (view.runs === null) resolve();
}

// -- the parts of the page ---------------------------------------------------------------------------------------

function build(view) {
  const inFile = savedPage() !== null;
  view.heading = h("h1", {}, "Runs");
  view.gone = h("p", { class: "message warning", hidden: true });
  view.reading = h("p", { class: "quiet", role: "status", hidden: true });
  view.place = h("div"); // of the form
  view.empty = h("div");
  view.chart = fieldChart({ query: view.query, signal: view.signal, name: "runs", canGroup: true, height: 250 });
  view.filters = h("div", { class: "row runs-filters", role: "search" });
  view.table = runsTable({
    onSort: (key) => sort(view, key),
    onChoose: (run, on) => choose(view, run, on),
    canChoose: !inFile,
  });
  view.started = inFile ? { element: null, look() {} } : startedCards({
    signal: view.signal,
    onRun: (run) => choose(view, run, true, true),
  });
  view.full = h("div", { hidden: true }, view.chart.element, view.filters, view.table.element);
  const start = inFile ? null : h(
    "button",
    { id: "start-run", "aria-expanded": "false", onclick: (event) => toggleForm(view, event.currentTarget) },
    "Start a run …",
  );
  const head = h("div", { class: "runs-head" }, view.heading, start);
  put(view.root, head, view.gone, view.place, view.started.element, view.reading, view.empty, view.full);
}

function toggleForm(view, button) {
  const isOpen = view.place.children.length > 0;
  button.setAttribute("aria-expanded", String(!isOpen));
  if (isOpen) {
    put(view.place);
    return;
  }
  const onStarted = (number) => {
    toggleForm(view, button);
    say("The run is starting.");
    view.started.watch(number);
  };
  put(view.place, startForm({ signal: view.signal, onStarted }));
  view.place.querySelector("input").focus();
}

/** What to do in a folder without runs. */
function fillEmpty(view) {
  if (view.runs.length > 0) {
    put(view.empty);
    return;
  }
  if (view.empty.children.length > 0) return;
  if (savedPage() !== null) {
    put(view.empty, h("p", {}, "There were no runs."));
    return;
  }
  const failed = h("p", { class: "message error", role: "alert", hidden: true });
  const button = h("button", { class: "primary", id: "start-first" }, "Train the two-step game");
  const onStarted = (number) => view.started.watch(number);
  button.addEventListener(
    "click",
    () => startRun({ scenario: "two_step_game" }, { button, trouble: failed, signal: view.signal, onStarted }),
  );
  put(
    view.empty,
    h(
      "section",
      { class: "card runs-empty" },
      h("h2", {}, "No runs yet"),
      h(
        "p",
        {},
        "Every run that writes its results to this folder appears here by itself. ",
        "To begin, train a small one, which takes about a minute:",
      ),
      h("div", { class: "row" }, button),
      failed,
      h("p", {}, "or in a terminal:"),
      h("pre", {}, "marl run two_step_game"),
    ),
  );
}

function fillFilters(view) {
  const { filter } = view;
  const change = (key) => (value) => {
    filter[key] = value;
    setQuery({ [key === "text" ? "q" : key]: value || null });
    showTable(view);
  };
  const of = (key) => [
    ["", "all"],
    ...[...new Set(view.runs.map((run) => run[key]))].sort().map((name) => [name, name]),
  ];
  const choices = JSON.stringify([of("algo"), of("env")]);
  if (choices === view.choices) return; // nothing new: what is being typed stays
  view.choices = choices;
  const text = h(
    "input",
    {
      type: "search",
      id: "runs-filter",
      value: filter.text,
      placeholder: "words in names, such as qmix seed=3",
      oninput: (event) => change("text")(event.target.value),
    },
  );
  put(
    view.filters,
    h("label", { class: "grow runs-chooser" }, "Filter ", text),
    chooser(
      "State",
      [["", "all"], ...STATES.map((name) => [name, name])],
      filter.state,
      change("state"),
      { id: "runs-state" },
    ),
    chooser("Algorithm", of("algo"), filter.algo, change("algo"), { id: "runs-algo" }),
    chooser("Env", of("env"), filter.env, change("env"), { id: "runs-env" }),
    h(
      "button",
      { class: "small", id: "choose-shown", disabled: savedPage() !== null, onclick: () => chooseShown(view) },
      "Compare those shown",
    ),
    h(
      "button",
      { class: "small", id: "choose-none", disabled: savedPage() !== null, onclick: () => chooseNone(view) },
      "Choose none",
    ),
  );
}

// -- what changes ------------------------------------------------------------------------------------------------

async function news(view, answer) {
  view.reading.hidden = answer.reading === 0;
  view.reading.textContent = `Still reading the older results of ${answer.reading} runs …`;
  if (view.runs !== null && answer.version === view.known) return;
  view.known = answer.version;
  view.runs = answer.runs;
  put(view.heading, "Runs ", h("span", { class: "quiet" }, `in ${answer.folder}`));
  view.full.hidden = answer.runs.length === 0;
  fillEmpty(view);
  if (answer.runs.length === 0) return;
  fillFilters(view);
  showTable(view);
  const now = performance.now(); // a run that trains gets fields later on, such as those of its first evaluation
  if (view.fieldsOf !== answer.runs.length || now - view.fieldsAt > FIELDS_EVERY) {
    Object.assign(view, { fieldsOf: answer.runs.length, fieldsAt: now });
    await askFields(view);
  }
  if (!view.signal.aborted) await showChart(view);
}

async function askFields(view) {
  try {
    const { fields } = await get("/api/runs/fields", { signal: view.signal });
    view.fields = fields;
  } catch (error) {
    if (!view.signal.aborted) throw error; // who goes on to another view needs no fields
  }
}

function showTable(view) {
  const { filter, chosen, all } = view;
  const rows = chosenRows(view.runs, filter);
  const onAll = () => {
    view.all = true;
    showTable(view);
  };
  view.table.show(rows, { total: view.runs.length, chosen, sort: filter.sort, up: filter.up, all, onAll });
}

/** The chosen runs; before anything was chosen those that run, or the newest with its siblings. */
function drawnRuns(view) {
  const chosen = view.runs.filter((run) => view.chosen.has(run.run));
  if (chosen.length > 0) return chosen;
  const running = view.runs.filter((run) => run.state === "running");
  if (running.length > 0) return running.slice(0, MOST_FIRST);
  return view.runs.filter((run) => run.experiment === view.runs[0].experiment).slice(0, MOST_FIRST);
}

async function showChart(view) {
  const drawn = drawnRuns(view);
  const mark = drawn.map((run) => `${run.iterations} ${run.timesteps}`).join();
  // A goal is drawn where all of the runs have the same one.
  const goal = drawn.every((run) => JSON.stringify(run.goal) === JSON.stringify(drawn[0].goal)) ? drawn[0].goal : {};
  const first = judgedBy(drawn);
  await view.chart.update({ runs: drawn.map((run) => run.run).sort(), fields: view.fields, goal, mark, first });
}

function sort(view, key) {
  const { filter } = view;
  filter.up = filter.sort === key ? !filter.up : false;
  filter.sort = key;
  setQuery({ sort: key, up: filter.up ? "1" : null });
  showTable(view);
}

function choose(view, run, on, isNew = false) {
  if (isNew) location.hash = address("run", [run]);
  if (isNew) return;
  if (on) view.chosen.add(run);
  else view.chosen.delete(run);
  keepChoice(view);
}

function chooseShown(view) {
  view.chosen = new Set(chosenRows(view.runs, view.filter).slice(0, 100).map((run) => run.run));
  keepChoice(view);
}

function chooseNone(view) {
  view.chosen = new Set();
  keepChoice(view);
}

function keepChoice(view) {
  setQuery({ runs: view.chosen.size ? JSON.stringify([...view.chosen]) : null });
  showTable(view);
  showChart(view);
}
