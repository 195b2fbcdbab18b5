// The view "explain": what QMIX, VDN and independent DQN believe about the two-step game while they learn it.

import { follow, get, job, post, savedPage } from "marl/api.js";
import { curveChart } from "marl/charts.js";
import { h, put } from "marl/dom.js";
import { number, short } from "marl/format.js";
import { gameDrawing, learnedPanel, tableOf, truePanel } from "marl/parts/explain_panels.js";
import { NAMES, exploredWords, playsByChance, wordsOf } from "marl/parts/explain_words.js";
import { address, setQuery } from "marl/routes.js";
import { pictureButtons } from "marl/save.js";

const DEMO = "/api/explain/demo";
const COLORS = { qmix: "--c0", vdn: "--c1", dqn: "--c2" };
const DASHES = { vdn: [9, 4], dqn: [3, 4] }; // two of them may earn the same
const INTRO = "Two agents, two moves. In state 1 agent 1 picks a branch, and then both are paid together. ";
const SAME =
  "Each learner explores by chance alone, so all see the same kind of play; they differ only in how they put the two agents' values " +
  "together. Watch what each comes to believe.";

export async function show({ root, query, signal, setTitle, whenShown }) {
  setTitle("The two-step game");
  const view = { root, signal, runs: [], demo: null, chosen: query.get("run") ?? "", at: number0(query.get("steps")) };
  build(view, query);
  const [demo, known] = await Promise.all([get(DEMO, { signal }), get("/api/explain/runs", { signal })]);
  fillChoice(view, known.runs);
  whenShown();
  view.seed.value = query.get("seed") ?? demo.seed;
  if (view.chosen !== "") await showRun(view);
  else if (demo.wanted && savedPage() === null) await start(view);
  else takeDemo(view, demo);
}

function number0(text) {
  return text === null ? null : Number(text);
}

// -- the page ----------------------------------------------------------------------------------------------------------

function build(view, query) {
  const { signal } = view;
  view.seed = h("input", { type: "number", min: 0, step: 1, value: query.get("seed") ?? 0, id: "explain-seed" });
  view.start = h("button", { class: "primary", id: "explain-start", onclick: () => start(view) }, "Start");
  view.stop = h("button", { class: "danger", id: "explain-stop", hidden: true, onclick: () => stop(view) }, "Stop");
  view.bar = h("progress", { max: 1, value: 0, "aria-label": "Env steps trained" });
  view.told = h("span", { class: "quiet", role: "status" });
  view.choice = h("select", { id: "explain-run", onchange: () => choose(view) });
  view.slider = h("input", { type: "range", min: 0, max: 0, value: 0, id: "explain-time", oninput: () => slide(view) });
  view.time = h("output", { for: "explain-time", class: "number" });
  view.panels = h("div", { class: "explain-panels" });
  view.words = h("div", { class: "explain-words" });
  view.keys = h("div", {});
  view.intro = h("p", {}, INTRO, SAME);
  view.game = h("figure", { class: "explain-game" });
  const chart = { series: [], xLabel: "env steps", height: 220, signal };
  view.reward = curveChart({ ...chart, yLabel: "reward of the team", name: "reward" });
  view.belief = curveChart({ ...chart, yLabel: "value of (B, B) in state 2B", name: "belief" });
  put(view.root, ...parts(view));
}

function parts(view) {
  const control = [
    h("label", { for: "explain-seed" }, "Seed ", view.seed), view.start, view.stop, view.bar, view.told,
    h("label", { for: "explain-run", class: "explain-choice" }, "Shown ", view.choice),
  ];
  return [
    h("div", { class: "explain-top" }, h("div", {}, h("h1", {}, "Eight, or only seven?"), view.intro), view.game),
    h("div", { class: "row explain-control" }, savedPage() === null ? control : view.told),
    h("div", { class: "row explain-time" }, h("label", { for: "explain-time" }, "Learned until"), view.slider, view.time),
    view.panels,
    h("p", { class: "quiet explain-legend" }, "Rows: agent 1, columns: agent 2. ★ in a frame: what both would do; in the true tables: what is best."),
    view.words,
    h("div", { class: "columns explain-charts" },
      h("section", { class: "card" }, h("h2", {}, "What greedy play earns"), view.reward.element),
      h("section", { class: "card" }, h("h2", {}, "What (B, B) in state 2B is believed to be worth"), view.belief.element)),
    view.keys,
  ];
}

function fillChoice(view, runs) {
  const options = runs.map(({ run }) => h("option", { value: run, selected: run === view.chosen }, run));
  put(view.choice, h("option", { value: "" }, "the three of the demo"), options);
}

// -- what is shown -----------------------------------------------------------------------------------------------------

async function choose(view) {
  view.chosen = view.choice.value;
  view.at = null;
  setQuery({ run: view.chosen || null, steps: null });
  if (view.chosen === "") takeDemo(view, await get(DEMO, { signal: view.signal }));
  else await showRun(view);
}

async function showRun(view) {
  view.following?.abort();
  put(view.words);
  put(view.panels, h("p", { class: "quiet" }, "Reading the checkpoints …"));
  try {
    const run = await job("/api/explain/values", { run: view.chosen }, { signal: view.signal });
    take(view, [run]);
    controls(view, false, `${run.points.length} moments of this run`);
  } catch (error) {
    if (error.name !== "AbortError") put(view.panels, h("p", { class: "message error", role: "alert" }, error.message));
  }
}

async function start(view) {
  view.chosen = "";
  view.choice.value = "";
  view.at = null;
  const seed = Math.max(0, Math.round(Number(view.seed.value) || 0));
  setQuery({ run: null, steps: null, seed });
  controls(view, true, "starting three processes …");
  await post(DEMO, { seed, ...shorter() }, { signal: view.signal });
  takeDemo(view, await get(DEMO, { signal: view.signal }));
}

/** Tests and the impatient may ask for fewer steps: #/explain?train=2048. */
function shorter() {
  const wanted = Number(new URLSearchParams(location.hash.split("?")[1] ?? "").get("train"));
  return wanted > 0 ? { steps: wanted } : {};
}

async function stop(view) {
  view.told.textContent = "stopping after this iteration …";
  await post(DEMO, {}, { method: "DELETE", signal: view.signal });
}

function takeDemo(view, demo) {
  if (view.chosen !== "") return;
  const running = demo.state === "running";
  view.demo = demo;
  const shown = demo.runs.filter(({ points }) => points.length > 0);
  take(view, shown);
  controls(view, running, demoWords(demo));
  view.bar.value = progressOf(demo);
  if (running && view.following === undefined) followDemo(view);
  if (!running) {
    view.following?.abort();
    view.following = undefined;
  }
}

function followDemo(view) {
  view.following = new AbortController();
  view.signal.addEventListener("abort", () => view.following?.abort());
  follow(DEMO, (demo) => takeDemo(view, demo), { every: 400, signal: view.following.signal });
}

function progressOf({ runs, steps }) {
  const done = runs.map(({ points }) => points.at(-1)?.steps ?? 0);
  return done.reduce((sum, one) => sum + one, 0) / (steps * Math.max(1, runs.length));
}

function demoWords({ state, runs, seed, folder }) {
  const failed = runs.find(({ error }) => error);
  if (failed) return `${NAMES[failed.algo]}: ${failed.error}`;
  if (state === "idle") return "Three runs of half a minute, in processes of their own.";
  if (state === "running") return runs.every(({ points }) => points.length) ? `training with seed ${seed}` : "starting three processes …";
  return `${state === "done" ? "Done" : "Stopped"}: the runs of seed ${seed} are kept in the folder ${folder}.`;
}

function controls(view, running, text) {
  view.stop.hidden = !running;
  view.start.hidden = running;
  const again = view.runs.length > 0 ? "Again" : "Start";
  view.start.textContent = view.chosen === "" ? again : "Train the demo";
  view.bar.hidden = !running;
  view.told.textContent = text;
  view.root.dataset.state = running ? "running" : "ready";
}

// -- moments -----------------------------------------------------------------------------------------------------------

function take(view, runs) {
  view.runs = runs;
  const moments = [...new Set(runs.flatMap(({ points }) => points.map(({ steps }) => steps)))].sort((one, two) => one - two);
  view.moments = moments;
  view.slider.max = Math.max(0, moments.length - 1);
  view.slider.disabled = moments.length < 2;
  const last = moments.length - 1;
  const wanted = view.at === null ? last : moments.findLastIndex((steps) => steps <= view.at);
  view.slider.value = Math.max(0, wanted);
  draw(view);
  drawCharts(view);
  drawKeys(view);
}

function slide(view) {
  const i = Number(view.slider.value);
  const newest = i === view.moments.length - 1;
  view.at = newest ? null : view.moments[i]; // at the end it goes along with what is learned
  setQuery({ steps: view.at });
  draw(view);
}

/** The newest point of a run that is not later than the moment that is shown. */
function shownPoint(view, run) {
  const until = view.at ?? Infinity;
  return run.points.findLast(({ steps }) => steps <= until) ?? run.points[0];
}

function draw(view) {
  const { runs } = view;
  const empty = runs.length === 0;
  view.time.textContent = empty ? "" : `${(view.moments[Number(view.slider.value)] ?? 0).toLocaleString("en")} env steps`;
  const known = runs[0] ?? view.demo;
  const most = Math.max(...Object.values(known.truth).flat(2).map(Math.abs));
  put(view.game, gameDrawing(known.truth));
  put(view.intro, INTRO, runs.every(playsByChance) ? SAME : "Watch what is believed of it.");
  const nothing = h("p", { class: "quiet explain-empty" }, "Press Start: what each learner believes appears here, beside what is true.");
  put(view.panels, trueCard(known, most), empty ? nothing : runs.map((run) => learnerCard(view, run, most)));
  // Of one run alone there is room beside its tables.
  put(view.words);
  put(runs.length === 1 ? view.panels.appendChild(h("div", { class: "explain-aside" })) : view.words, runs.map((run) => wordsCard(view, run)));
}

function card(title, chip, under, svg, name) {
  return h("figure", { class: "card values-card" },
    h("figcaption", {}, h("strong", {}, title), chip, h("span", { class: "quiet" }, under)), svg, pictureButtons(() => svg, name));
}

function trueCard({ truth, gamma, best }, most) {
  const chip = h("span", { class: "chip" }, `best ${number(best)}`);
  return card("True", chip, `by backward induction, discount ${gamma}`, truePanel(truth, most), "true_values");
}

function learnerCard(view, run, most) {
  const point = shownPoint(view, run);
  const loose = point.joint === null;
  const kinds = { none: "each alone: own values, added up", sum: "mixes by a sum", monotonic: "mixes by a network" };
  const svg = learnedPanel({ name: nameOf(run), point, members: run.mixer !== "monotonic", loose, most });
  const met = point.reward >= run.best;
  const chip = h("span", { class: `chip ${met ? "met" : "stopped"}` }, `earns ${number(point.reward)}`);
  const element = card(nameOf(run), chip, kinds[run.mixer], svg, `values_${run.algo}`);
  element.dataset.algo = run.algo;
  return element;
}

function nameOf(run) {
  return NAMES[run.algo] ?? run.algo;
}

function wordsCard(view, run) {
  const point = shownPoint(view, run);
  const sentences = wordsOf(run, point).map((sentence) => h("li", {}, sentence));
  const best = run.points.reduce((found, one) => (one.reward > found.reward ? one : found));
  const last = run.points.at(-1);
  const link = run.run ? h("a", { href: address("run", [run.run]) }, "this run") : null;
  const summary = `Last ${number(last.reward)}, best on the way ${number(best.reward)} (after ${best.steps.toLocaleString("en")} steps). `;
  return h("section", { class: "card", "data-algo": run.algo }, h("h2", {}, nameOf(run)), h("ul", {}, sentences),
    h("p", { class: "quiet" }, summary, savedPage() === null ? link : null));
}

function drawCharts(view) {
  const series = (value) => view.runs.map((run) => ({
    label: nameOf(run),
    x: run.points.map(({ steps }) => steps),
    y: run.points.map(value),
    color: COLORS[run.algo] ?? "--c3",
    dash: DASHES[run.algo],
  }));
  view.reward.update(series(({ reward }) => reward));
  view.belief.update(series((point) => tableOf(point, "risky")[1][1]));
  if (view.runs.length === 0) return;
  const { best, truth } = view.runs[0];
  const goal = `${best} ${truth.risky[1][1]}`;
  if (goal === view.goal) return;
  view.goal = goal;
  view.reward.setGoal({ value: best, label: "best" });
  view.belief.setGoal({ value: truth.risky[1][1], label: "true" });
}

function drawKeys(view) {
  const named = view.runs.filter(({ keys }) => keys);
  if (named.length === 0 || view.keys.dataset.runs === named.map(({ run }) => run).join()) return;
  view.keys.dataset.runs = named.map(({ run }) => run).join();
  const keys = [...new Set(named.flatMap((run) => Object.keys(run.keys)))];
  const rows = keys.map((key) =>
    h("tr", {}, h("th", { scope: "row" }, h("code", {}, key)),
      named.map((run) => h("td", {}, h("code", {}, short(run.keys[key] ?? "–", 120))))),
  );
  const head = h("tr", {}, h("th", { scope: "col" }, "Key"), named.map((run) => h("th", { scope: "col" }, nameOf(run))));
  const commands = named.filter(({ command }) => command).map((run) => h("pre", {}, run.command));
  put(view.keys, h("details", { class: "card explain-keys" },
    h("summary", {}, "How it is trained"),
    h("p", {}, exploredWords(named)),
    h("div", { class: "scroll" },
      h("table", {}, h("caption", {}, "Keys of the runs that are shown"), h("thead", {}, head), h("tbody", {}, rows))),
    commands.length > 0 ? h("p", {}, "The same runs as commands:") : null, commands));
}
