// The tree of a small game: drag a probability and see best replies and NashConv solved again.

import { get, savedPage } from "marl/api.js";
import { add, h, put, say } from "marl/dom.js";
import { number } from "marl/format.js";
import { badge, treeDrawing } from "marl/parts/tree_drawing.js";
import { figures } from "marl/parts/tree_figures.js";
import { TreeModel, gameAddress } from "marl/parts/tree_model.js";
import { setPanel } from "marl/parts/tree_panel.js";
import { kuhnFamily } from "marl/parts/tree_presets.js";
import { setList } from "marl/parts/tree_sets.js";
import { address } from "marl/routes.js";
import { pictureButtons } from "marl/save.js";
import { choicesOf } from "marl/solve/tree.js";

const FIRST_GAME = "kuhn_poker";
let shown = null; // the model on the page, for benchmarks

export async function show({ root, query, signal, setTitle, whenShown }) {
  const asked = askedFor(query);
  setTitle("Trees");
  const place = h("div", {}, h("p", { class: "quiet" }, "Building the tree …"));
  add(root, h("h1", {}, "The tree of a small game"), await chooser(asked, signal), place);
  whenShown();
  let game;
  try {
    game = await get(gameAddress(asked), { signal });
  } catch (error) {
    if (signal.aborted) return;
    put(place, h("p", { class: "message error", role: "alert" }, error.message));
    return;
  }
  setTitle(`Tree of ${game.title}`);
  const model = new TreeModel(game, asked);
  shown = model;
  signal.addEventListener("abort", () => model.stopSolving());
  fill(place, model, signal);
  await begin(model, query, signal);
}

function askedFor(query) {
  for (const key of ["run", "env", "name"]) {
    if (!query.get(key)) continue;
    const asked = { [key]: query.get(key) };
    const more = { env: "env_config", run: "checkpoint" }[key];
    if (query.get(more)) asked[more] = query.get(more);
    return asked;
  }
  return { name: FIRST_GAME };
}

/** Games by name, runs, and any other env; not in a saved file, which holds one game. */
async function chooser(asked, signal) {
  if (savedPage() !== null) return null;
  const { games, runs } = await get("/api/tree/games", { signal, keep: false });
  const go = (query) => {
    location.hash = address("tree", [], query);
  };
  const options = games.map(({ name, title }) => h("option", { value: name, selected: asked.name === name }, title));
  const named = h("select", { id: "tree-game", onchange: () => named.value && go({ name: named.value }) });
  add(named, asked.name ? null : h("option", { value: "", selected: true }, "…"), options);
  const ofRun = h("select", { id: "tree-run", onchange: () => ofRun.value && go({ run: ofRun.value }) });
  add(ofRun, h("option", { value: "" }, runs.length ? "…" : "no runs here"));
  add(ofRun, runs.map((run) => h("option", { value: run, selected: asked.run === run }, run)));
  const env = h("input", { id: "tree-env", value: asked.env ?? "", placeholder: "openspiel:NAME", size: 18 });
  const config = h(
    "input",
    { value: asked.env_config ?? "", placeholder: '{"sides": 3}', size: 14, "aria-label": "env_config as JSON" },
  );
  const other = h("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    if (env.value) go({ env: env.value, env_config: config.value || null });
  } }, h("label", { for: "tree-env" }, "another env"), env, config, h("button", { type: "submit" }, "Build"));
  return h(
    "div",
    { class: "row tree-chooser" },
    h("label", { for: "tree-game" }, "Game"), named,
    h("label", { for: "tree-run" }, "or the game of a run"), ofRun,
    h("details", {}, h("summary", {}, "another env"), other),
  );
}

function fill(place, model, signal) {
  const { game, tree } = model;
  const drawing = treeDrawing(model, { signal });
  const numbers = figures(model);
  const [many, sets] = [tree.N, tree.I].map((count) => count.toLocaleString("en"));
  const size = `${many} nodes, ${sets} information sets, ${tree.P} players`;
  const chance = {
    none: "nothing is random",
    exact: "chance is exact",
    sampled: "chance is sampled, so all figures have an error",
  };
  const legend = tree.players.map((name, player) => h("span", {}, badge(player), " ", name));
  put(
    place,
    h("p", { class: "quiet" }, `${game.title}: ${size}; ${chance[game.chance.mode]}.`),
    strategyButtons(model, signal),
    h(
      "div",
      { class: "tree-columns" },
      h(
        "div",
        { class: "card tree-card" },
        h(
          "div",
          { class: "row" },
          h("div", { class: "legend grow" }, legend, h("span", {}, "▲ chance")),
          pictureButtons(drawing.svg, `tree_${game.name}`),
        ),
        drawing.element,
      ),
      h("div", { class: "tree-side" }, numbers.element, setPanel(model), kuhnFamily(model)),
      setList(model),
    ),
  );
}

/** Buttons that begin again from a strategy, and the one that solves the game in the page. */
function strategyButtons(model, signal) {
  const told = h("span", { class: "quiet", role: "status" });
  const names = { uniform: "Uniform", equilibrium: "Equilibrium", policies: "Policies of the checkpoint" };
  const buttons = Object.entries(names).map(([base, name]) => {
    if (base === "policies" && !model.game.has_policies) return null;
    return h("button", { "data-base": base, onclick: () => reset(base) }, name);
  });
  const { checkpoints, checkpoint } = model.game;
  const which = h("select", { "aria-label": "Checkpoint", onchange: () => {
    location.hash = address("tree", [], { run: model.asked.run, checkpoint: which.value });
  } }, checkpoints.map((name) => h("option", { value: name, selected: name === checkpoint }, name)));
  const reset = async (base) => {
    stop();
    try {
      await model.reset(base, { signal });
    } catch (error) {
      if (!signal.aborted) say(error.message, "error");
    }
  };
  const stop = () => {
    if (!model.solving) return;
    model.stopSolving();
    model.settle();
    solve.textContent = "Solve by CFR+";
    solve.setAttribute("aria-pressed", "false");
  };
  const solve = h("button", { class: "primary", id: "tree-solve", "aria-pressed": "false", onclick: () => {
    if (model.solving) return stop();
    model.cfr = undefined;
    model.history.length = 0;
    model.startSolving();
    solve.textContent = "Stop";
    solve.setAttribute("aria-pressed", "true");
  } }, "Solve by CFR+");
  model.listen((what) => {
    for (const button of buttons) {
      const isBase = button?.dataset.base === model.base && model.edited.size === 0 && !model.solving;
      button?.setAttribute("aria-pressed", String(isBase));
    }
    if (model.solving) put(told, `${model.cfr.iterations.toLocaleString("en")} iterations of CFR+`);
    else if (what === "settled") put(told, noteOf(model));
  });
  return h(
    "div",
    { class: "row strategies", role: "group", "aria-label": "Strategy" },
    h("span", { class: "quiet" }, "Begin with"),
    buttons,
    checkpoints.length && savedPage() === null ? which : null,
    solve,
    told,
  );
}

function noteOf(model) {
  const note = model.notes[model.base];
  if (note === undefined) return "";
  const many = model.edited.size;
  const changed = many ? `; changed since at ${many} information ${many === 1 ? "set" : "sets"}` : "";
  const found = note.nash_conv < 1e-12 * (model.tree.scale || 1) ? 0 : note.nash_conv; // less is rounding
  return `${note.method}, NashConv ${number(found)}${changed}`;
}

/** The strategy and the information set of the address; a run begins as its policies play. */
async function begin(model, query, signal) {
  const wanted = query.get("base") ?? (model.game.has_policies ? "policies" : "uniform");
  const edits = query.get("edits");
  const iterations = Number(query.get("iterations"));
  try {
    if (wanted === "cfr" && iterations > 0) await model.solveAgain(iterations, signal);
    else await model.reset(["uniform", "equilibrium", "policies"].includes(wanted) ? wanted : "uniform", { signal });
  } catch (error) {
    if (signal.aborted) return;
    say(error.message, "error");
  }
  if (edits) {
    model.applyEdits(edits);
    model.settle();
  }
  model.history.splice(0, model.history.length - 1);
  const asked = Number(query.get("set") ?? -1);
  model.select(Number.isInteger(asked) && asked < model.tree.I && query.get("set") !== null ? asked : mostLost(model));
  // For the button and for saved files; nobody waits for it.
  if (savedPage() === null) model.load("equilibrium", { signal }).catch(() => {});
}

function mostLost(model) {
  let best = 0;
  for (let set = 1; set < model.tree.I; set++) if (model.lossAt(set) > model.lossAt(best) + 1e-12) best = set;
  return model.tree.I ? best : -1;
}

/** The probabilities that are shown, for tests. */
export function strategyShown() {
  return shown.strategy;
}

/** Drags a probability of the selected information set up and down as fast as frames come, for `seconds`.
 *  Gives {updates, seconds, perSecond, millisecondsPerUpdate}: each update solves everything and redraws. */
export async function dragBenchmark(seconds = 3) {
  const model = shown;
  const [first] = choicesOf(model.tree, model.selected);
  const slider = document.querySelector(`input[data-choice="${first}"]`);
  const before = model.updates;
  const began = performance.now();
  let busy = 0;
  while (performance.now() - began < 1000 * seconds) {
    slider.value = 0.5 + 0.5 * Math.sin(performance.now() / 300);
    slider.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(done));
  }
  const passed = (performance.now() - began) / 1000;
  const updates = model.updates - before;
  for (let k = 0; k < 100; k++) {
    const start = performance.now();
    model.setChoice(first, (k % 10) / 10);
    model.update();
    document.body.getBoundingClientRect(); // the layout of what has changed belongs to it
    busy += performance.now() - start;
  }
  slider.dispatchEvent(new Event("change"));
  return { updates, seconds: passed, perSecond: updates / passed, millisecondsPerUpdate: busy / 100 };
}
