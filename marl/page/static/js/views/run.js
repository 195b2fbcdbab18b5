// The view "run": everything about one run, while it trains and afterwards.

import { follow, get, post, savedPage } from "marl/api.js";
import { curveChart } from "marl/charts.js";
import { h, put, say } from "marl/dom.js";
import { curvesPath, fieldChart, judgedBy } from "marl/parts/runs_chart.js";
import { checkpointsPart, facts, keyRows, notesPart, valuesPart } from "marl/parts/runs_detail.js";
import { logPart, startRun, startedCards } from "marl/parts/runs_start.js";
import { bytes, goalChip, progressBar, stateChip } from "marl/parts/runs_words.js";
import { address } from "marl/routes.js";

const EVERY = 1000;
const MOST_POLICIES = 16;

export async function show({ root, parts, query, signal, setTitle, whenShown }) {
  const run = parts[0] ?? "";
  const view = { root, run, query, signal, setTitle, answer: null, seen: "", error: null, made: new Map() };
  build(view);
  const gaveUp = new AbortController();
  await new Promise((resolve) => {
    const take = async (answer) => {
      await news(view, answer);
      if (!root.isConnected) view.started.look();
      whenShown();
      resolve();
    };
    const onTrouble = (error) => {
      view.gone.hidden = error === null;
      if (error === null) return;
      view.gone.textContent = error.message;
      view.error = error;
      if (view.answer === null) resolve();
    };
    const path = `/api/runs/detail?${new URLSearchParams({ run })}`;
    follow(path, take, { every: EVERY, signal: AbortSignal.any([signal, gaveUp.signal]), onTrouble });
  });
  if (view.answer === null) {
    gaveUp.abort(); // the page says what is wrong; nothing more is asked
    throw view.error;
  }
}

function build(view) {
  const inFile = savedPage() !== null;
  view.head = h("div");
  view.gone = h("p", { class: "message warning", hidden: true });
  view.failed = h("p", { class: "message error", role: "alert", hidden: true });
  view.acts = h("div", { class: "row runs-acts" });
  view.started = inFile ? { element: null, look() {} } : startedCards({ signal: view.signal });
  view.chart = fieldChart({ query: view.query, signal: view.signal, name: "run" });
  view.policies = h("div");
  view.notes = h("div");
  view.checkpoints = h("div");
  view.result = valuesPart(
    "The newest result",
    "newest-result",
    "Every field of the last line of result.json, with the sentence of marl explain.",
  );
  view.keys = valuesPart("Keys of the scenario", "keys", "All keys, also those that have their defaults: params.json.");
  view.files = h("ul", { class: "runs-files" });
  const files = h("details", {}, h("summary", {}, h("h2", {}, "Files")), view.files);
  view.log = h("div");
  put(
    view.root, view.head, view.gone, view.acts, view.failed, view.started.element, view.notes, view.chart.element,
    view.policies, view.checkpoints, view.log, view.result.element, view.keys.element, files,
  );
}

async function news(view, answer) {
  const seen = JSON.stringify(answer);
  if (seen === view.seen) return;
  const isFirst = view.answer === null;
  Object.assign(view, { seen, answer });
  const { summary } = answer;
  showHead(view, answer);
  showActs(view, summary, answer.checkpoints.length > 0);
  renew(view, view.notes, [answer.notes, answer.traceback], () => notesPart(answer.notes, answer.traceback));
  renew(
    view,
    view.checkpoints,
    answer.checkpoints,
    () => checkpointsPart(view.run, answer.checkpoints, savedPage() !== null),
  );
  renew(view, view.log, answer.log, () => showLog(answer.log));
  view.result.update(answer.result);
  if (isFirst) view.keys.update(keyRows(answer.params));
  put(view.files, answer.files.map((file) => h("li", {}, h("code", {}, file.name), ` ${bytes(file.bytes)}`)));
  const mark = `${summary.iterations} ${summary.timesteps}`;
  const first = judgedBy([summary]);
  await view.chart.update({ runs: [view.run], fields: answer.fields, goal: summary.goal, mark, first });
  await showPolicies(view, answer, mark);
}

/** Parts that have not changed stay as they are: with the focus, and scrolled to where the reader is. */
function renew(view, place, content, make) {
  const text = JSON.stringify(content);
  if (view.made.get(place) === text) return;
  view.made.set(place, text);
  put(place, make());
  const log = place.querySelector(".runs-log-text");
  if (place === view.log && log !== null) log.scrollTop = log.scrollHeight;
}

function showHead(view, { summary }) {
  view.setTitle(`${summary.id} ${summary.algo} on ${summary.env}`);
  const back = savedPage() !== null ? null : h(
    "p",
    { class: "runs-back" },
    h("a", { href: address("runs") }, "← All runs"),
  );
  put(
    view.head,
    back,
    h("h1", {}, `${summary.algo} on ${summary.env} `, h("span", { class: "quiet" }, summary.experiment)),
    h("p", { class: "quiet runs-path" }, view.run),
    h(
      "div",
      { class: "row runs-states" },
      stateChip(summary),
      goalChip(summary),
      h("span", { class: "runs-bar" }, progressBar(summary)),
      h("span", { class: "quiet" }, summary.progress_label),
    ),
    facts(summary),
  );
}

// -- start and stop ----------------------------------------------------------------------------------------------

function showActs(view, summary, isKept) {
  const isRunning = summary.state === "running";
  const what = `${summary.state} ${isKept}`;
  if (savedPage() !== null || what === view.actsOf) return; // a button that is being pressed stays
  view.actsOf = what;
  const { run } = view;
  const buttons = isRunning ? [stopButton(view)] : [resumeButton(view)];
  put(
    view.acts,
    buttons,
    isKept ? h("a", { class: "button", href: address("episodes", [], { run }) }, "Watch episodes") : null,
    isKept ? h("a", { class: "button", href: address("play", [], { run }) }, "Play against it") : null,
    isKept ? null : h("span", { class: "quiet" }, "Episodes and games need a checkpoint: there is none yet."),
  );
}

/** The first press asks the run to save and end, the second ends it at once. */
function stopButton(view) {
  const button = h("button", { class: "danger", id: "stop-run" }, "Stop");
  button.addEventListener("click", async () => {
    try {
      await post("/api/runs/stop", { run: view.run }, { signal: view.signal });
      button.textContent = "Stop at once";
      button.title = "Without waiting for the end of this iteration";
      say("The run ends after this iteration, with a checkpoint.");
    } catch (error) {
      if (!view.signal.aborted) say(error.message, "error");
    }
  });
  return button;
}

function resumeButton(view) {
  const button = h("button", { id: "resume-run", class: "primary" }, "Resume");
  const more = h(
    "input",
    {
      type: "number",
      id: "resume-iterations",
      placeholder: "as before",
      "aria-label": "Stop at this iteration",
    },
  );
  const onStarted = (number) => {
    say("The run goes on in a moment.");
    view.started.watch(number);
  };
  button.addEventListener("click", () => {
    more.min = view.answer.summary.iterations + 1; // what it has come to is no later stop condition
    if (!more.reportValidity()) return;
    const body = { run: view.run, stop_iters: more.value === "" ? null : Number(more.value) };
    startRun(body, { button, trouble: view.failed, signal: view.signal, onStarted, path: "/api/runs/resume" });
  });
  return h("span", { class: "row runs-resume" }, button, h("label", { for: more.id }, "until iteration "), more);
}

function showLog(text) {
  return text === "" ? null : h("section", {}, h("h2", {}, "What it prints"), logPart(text));
}

// -- one curve for each policy -----------------------------------------------------------------------------------

async function showPolicies(view, { policies, fields }, mark) {
  const names = new Set(fields.map((field) => field.name));
  const all = policies.map((policy) => [policy, `policy_reward_mean.${policy}`]);
  const shown = all.filter(([, field]) => names.has(field));
  if (shown.length < 2 || mark === view.policiesMark) return;
  view.policiesMark = mark;
  const few = shown.slice(0, MOST_POLICIES);
  const path = curvesPath([view.run], few.map(([, field]) => field), { over: "timesteps_total", together: false });
  const { charts } = await get(path, { signal: view.signal });
  const series = charts.map((chart, i) => ({ ...chart.series[0], label: few[i][0] }));
  if (view.policyChart === undefined) {
    const options = {
      series,
      xLabel: "env steps",
      yLabel: "policy_reward_mean",
      height: 280,
      signal: view.signal,
      name: "policies",
    };
    view.policyChart = curveChart(options);
    const left = shown.length - few.length;
    const note = left > 0 ? h(
      "p",
      { class: "quiet" },
      `${left} more policies are found in the field chooser above.`,
    ) : null;
    put(
      view.policies,
      h("section", { class: "card runs-chart" }, h("h2", {}, "Reward of each policy"), view.policyChart.element, note),
    );
  } else {
    view.policyChart.update(series);
  }
}
