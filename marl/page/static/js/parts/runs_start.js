// Starting runs from the page, and what those that were started print.

import { get, post } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { address } from "marl/routes.js";

const POLL = 700; // milliseconds between looks at a process that has just been started

/** The form: a scenario by name or file, a seed, an end, and keys to change. `onStarted` gets the process's number. */
export function startForm({ signal, onStarted }) {
  const names = h("datalist", { id: "runs-scenarios" });
  const about = h("p", { class: "quiet" });
  const scenario = input({
    id: "start-scenario",
    list: "runs-scenarios",
    value: "two_step_game",
    required: true,
    autocomplete: "off",
  });
  const seed = input({ id: "start-seed", type: "number", min: 0, placeholder: "of the file" });
  const iterations = input({ id: "start-iterations", type: "number", min: 1, placeholder: "of the file" });
  const sets = h("textarea", { id: "start-sets", rows: 2, placeholder: "algo.lr=0.0005", spellcheck: "false" });
  const trouble = h("p", { class: "message error", role: "alert", hidden: true });
  const begin = h("button", { class: "primary", type: "submit" }, "Start");
  const submit = (event) => {
    event.preventDefault();
    const body = {
      scenario: scenario.value,
      sets: lines(sets.value),
      seed: whole(seed),
      stop_iters: whole(iterations),
    };
    startRun(body, { button: begin, trouble, signal, onStarted });
  };
  let known = [];
  const tellAbout = () => (about.textContent = known.find((one) => one.name === scenario.value)?.text ?? "");
  scenario.addEventListener("input", tellAbout);
  get("/api/runs/scenarios", { signal, keep: false }).then((answer) => {
    known = answer.scenarios;
    put(names, known.map((one) => h("option", { value: one.name }, one.text)));
    tellAbout();
  }, () => {});
  return h(
    "form",
    { class: "card runs-start", onsubmit: submit, "aria-label": "Start a run" },
    h("h2", {}, "Start a run"),
    h(
      "div",
      { class: "runs-start-fields" },
      labelled("Scenario: a shipped one, or a YAML file", scenario),
      labelled("Seed", seed),
      labelled("Iterations", iterations),
      labelled("Other keys: key=value, one per line", sets),
    ),
    names,
    about,
    trouble,
    h(
      "div",
      { class: "row" },
      begin,
      h("span", { class: "quiet" }, "It goes on when this page is closed and when marl watch ends."),
    ),
  );
}

function input(attributes) {
  return h("input", attributes);
}

function labelled(text, field) {
  return h("div", {}, h("label", { for: field.id }, text), field);
}

function lines(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

function whole(field) {
  return field.value === "" ? null : Number(field.value);
}

/** Ask for a new run; what is wrong with it is told with the sentence of the command line. */
export async function startRun(body, { button, trouble, signal, onStarted, path = "/api/runs/start" }) {
  const words = button.textContent;
  button.disabled = true;
  button.textContent = "Checking …";
  trouble.hidden = true;
  try {
    const { started } = await post(path, body, { signal });
    onStarted(started);
  } catch (error) {
    if (signal.aborted) return;
    trouble.textContent = error.message;
    trouble.hidden = false;
  } finally {
    button.disabled = false;
    button.textContent = words;
  }
}

/** What the processes that were started from the page print, until each has its run. `look()` looks at
 *  them, `watch(number)` also waits for the run of one. */
export function startedCards({ signal, onRun = () => {} }) {
  const element = h("div", { "aria-live": "polite" });
  const closed = new Set();
  const waiting = new Set();
  let told = "";
  async function look() {
    const { started } = await get("/api/runs/started", { signal, keep: false });
    const shown = started.filter((one) => !closed.has(one.number) && isOfInterest(one));
    const content = JSON.stringify(shown);
    if (content !== told) put(element, shown.map((one) => startedCard(one, () => close(one))));
    told = content;
    for (const one of started) {
      if (one.run !== null && waiting.delete(one.number)) onRun(one.run);
    }
    if (started.some((one) => one.code === null && one.run === null)) setTimeout(again, POLL);
  }
  function again() {
    if (!signal.aborted) look().catch((error) => !signal.aborted && say(error.message, "error"));
  }
  function close(one) {
    closed.add(one.number);
    again();
  }
  return { element, look: again, watch: (number) => (waiting.add(number), again()) };
}

/** Before a process has a run, and where it ended without one. */
function isOfInterest(one) {
  return one.run === null || (one.code !== null && one.code !== 0 && one.code !== 130);
}

function startedCard(one, close) {
  const hasEnded = one.code !== null;
  const word = hasEnded ? `ended with code ${one.code}` : "starting …";
  const stop = () => post("/api/runs/stop", { started: one.number }).catch((error) => say(error.message, "error"));
  return h(
    "section",
    { class: "card runs-started", "data-started": one.number },
    h("p", {}, h("code", {}, one.command), " ", h("span", { class: `chip ${hasEnded ? "failed" : "running"}` }, word)),
    logPart(one.tail),
    h(
      "div",
      { class: "row" },
      one.run === null ? null : h("a", { href: address("run", [one.run]) }, "Its run"),
      hasEnded ? h("button", { class: "small", onclick: close }, "Close") : h(
        "button",
        { class: "small danger", onclick: stop },
        "Stop",
      ),
    ),
  );
}

/** The end of what a process printed. */
export function logPart(text) {
  return h("pre", { class: "runs-log-text", tabindex: "0", "aria-label": "What it printed" }, text);
}
