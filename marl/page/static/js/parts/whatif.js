// What if: another action or another policy from a step on.

import { job, savedPage } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { parse, setQuery } from "marl/routes.js";
import { effectAnswer, whyCommand } from "marl/parts/whatif_answer.js";
import { actionChoice, decisionOf, policyChoice } from "marl/parts/whatif_choice.js";

const CONTINUATIONS = [100, 1000, 10000];
const measured = new Map(); // effects of this visit, by question: whoever scrubs away and comes back finds them again

/** The panel for one decision. `request` is what the trace was asked for with, `spaces` are those of the same answer;
 *  `onBranch(answer)` shows a branch as an episode. */
export function whatIfPanel({ request, trace, step, agent, signal, onBranch, spaces = {} }) {
  const root = h("section", { class: "what-if", "aria-label": `What if ${agent} had done something else in step ${step}` });
  const decision = decisionOf(trace, step, agent);
  if (decision === undefined) {
    put(root, h("p", { class: "quiet" }, `${agent} is not asked in step ${step}, so it could not do anything else there.`));
    return root;
  }
  const earlier = questionInAddress(step, agent);
  const panel = { root, request, trace, step, agent, signal, onBranch, decision, working: null };
  panel.mode = earlier?.instead.policy === undefined ? "action" : "policy";
  panel.continuations = earlier?.continuations ?? 1000;
  panel.action = actionChoice({
    space: spaces[agent],
    decision,
    names: trace.action_names?.[agent],
    first: earlier?.instead.action,
    onChange: () => update(panel),
  });
  panel.policy = policyChoice({ trace, request, first: earlier?.instead.policy, onChange: () => update(panel) });
  build(panel);
  showAgain(panel, earlier);
  return root;
}

/** What the address asks: a saved file or a shared address shows the same question, and a saved file its answer. */
function questionInAddress(step, agent) {
  const { query } = parse(savedPage()?.view ?? location.hash);
  try {
    const asked = JSON.parse(query.get("whatif"));
    return asked?.step === step && asked?.agent === agent ? asked : null;
  } catch {
    return null;
  }
}

function build(panel) {
  panel.choice = h("div", { class: "what-if-choice" });
  panel.show = h("button", { class: "what-if-show", onclick: () => branch(panel) }, "Show this branch");
  panel.measure = h("button", { class: "primary what-if-measure", onclick: () => effect(panel) }, "Measure the effect");
  panel.stop = h("button", { class: "danger", hidden: true, onclick: () => panel.working?.abort() }, "Stop");
  panel.bar = h("progress", { hidden: true, "aria-label": "Continuations played" });
  panel.told = h("span", { class: "quiet", role: "status" });
  panel.result = h("div", { class: "what-if-result" });
  const modes = [["action", "another action"], ["policy", "another policy from here on"]].map(([mode, text]) => {
    const input = h("input", {
      type: "radio",
      name: `what-if-${panel.step}-${panel.agent}`,
      value: mode,
      checked: mode === panel.mode,
    });
    input.addEventListener("change", () => changeMode(panel, mode));
    return h("label", {}, input, ` ${text}`);
  });
  const many = CONTINUATIONS.map((count) =>
    h("option", { value: count, selected: count === panel.continuations }, count.toLocaleString("en")),
  );
  const counts = h("select", { onchange: () => (panel.continuations = Number(counts.value)) }, many);
  const work = h("div", { class: "row what-if-work" }, panel.show, panel.measure, panel.stop, panel.bar, panel.told);
  put(
    panel.root,
    h("h3", {}, `What if ${panel.agent} had chosen otherwise in step ${panel.step}?`),
    h(
      "div",
      { class: "row", role: "radiogroup", "aria-label": "What is different" },
      modes,
      h("label", {}, "Continuations ", counts),
    ),
    panel.choice,
    savedPage() === null ? work : null,
    panel.result,
  );
  changeMode(panel, panel.mode);
}

function changeMode(panel, mode) {
  panel.mode = mode;
  put(panel.choice, mode === "action" ? panel.action.element : panel.policy.element);
  if (mode === "policy" && !panel.filled) {
    panel.filled = true;
    panel.policy.fill(panel.signal).catch((error) => trouble(panel, error));
  }
  update(panel);
}

function insteadOf(panel) {
  if (panel.mode === "policy") return { policy: panel.policy.value() };
  const action = panel.action.value();
  return action === null ? null : { action };
}

function update(panel) {
  const ready = insteadOf(panel) !== null && panel.working === null;
  panel.show.disabled = !ready;
  panel.measure.disabled = !ready;
}

// -- asking ------------------------------------------------------------------------------------------------------------

function question(panel) {
  const { request, step, agent } = panel;
  return { request, step, agent, instead: insteadOf(panel) };
}

async function branch(panel) {
  const asked = question(panel);
  await work(panel, async (signal) => {
    const answer = await job("/api/whatif/branch", asked, { signal });
    remember(asked, panel, "branch");
    panel.onBranch?.(answer);
    panel.told.textContent = "The branch is shown.";
  });
}

async function effect(panel) {
  const asked = { ...question(panel), continuations: panel.continuations };
  await work(panel, async (signal) => {
    const onProgress = ({ done, total, text }) => progress(panel, done, total, text);
    const told = await job("/api/whatif/effect", asked, { signal, onProgress });
    measured.set(JSON.stringify(asked), told);
    remember(asked, panel, "effect");
    showEffect(panel, asked, told);
  });
}

function progress(panel, done, total, text) {
  const known = text === "continuations" && total;
  panel.bar.max = total || 1;
  if (known) panel.bar.value = done;
  else panel.bar.removeAttribute("value");
  panel.told.textContent = known ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")} continuations` : text;
}

async function work(panel, doIt) {
  panel.working = new AbortController();
  const leave = () => panel.working?.abort();
  panel.signal?.addEventListener("abort", leave);
  waiting(panel, true);
  try {
    await doIt(panel.working.signal);
  } catch (error) {
    if (error.name !== "AbortError") trouble(panel, error);
    else panel.told.textContent = "Stopped.";
  } finally {
    panel.signal?.removeEventListener("abort", leave);
    panel.working = null;
    waiting(panel, false);
  }
}

function waiting(panel, on) {
  panel.stop.hidden = !on;
  panel.bar.hidden = !on;
  panel.bar.removeAttribute("value");
  if (on) panel.told.textContent = "";
  update(panel);
}

function trouble(panel, error) {
  if (error.name !== "AbortError") put(panel.result, h("p", { class: "message error", role: "alert" }, error.message));
}

function remember({ step, agent, instead }, panel, shown) {
  setQuery({ whatif: JSON.stringify({ step, agent, instead, continuations: panel.continuations, shown }) });
}

function showEffect(panel, asked, told) {
  panel.told.textContent = "";
  put(panel.result, effectAnswer(told, whyCommand(asked)));
}

/** An answer that is known already: of this visit, or in the saved file. */
async function showAgain(panel, earlier) {
  if (earlier === null) return;
  const asked = { ...question(panel), instead: earlier.instead, continuations: earlier.continuations };
  const known = measured.get(JSON.stringify(asked));
  if (known !== undefined) showEffect(panel, asked, known);
  if (savedPage() === null) return;
  const { continuations, ...shown } = asked;
  try {
    if (earlier.shown === "branch") panel.onBranch?.(await job("/api/whatif/branch", shown));
    else showEffect(panel, asked, await job("/api/whatif/effect", { ...shown, continuations }));
  } catch (error) {
    trouble(panel, error);
  }
}
