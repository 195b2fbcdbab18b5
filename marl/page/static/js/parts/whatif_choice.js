// What an agent does instead: buttons, numbers or lists of options for its action space, or a policy.

import { get, savedPage } from "marl/api.js";
import { add, h, put } from "marl/dom.js";
import { number, percent, short } from "marl/format.js";

const MOST_COORDINATES = 12;

/** The decision of the agent in this step of a trace; undefined where it is not asked. */
export function decisionOf(trace, step, agent) {
  return trace.steps[step]?.agents.find((one) => one.agent === agent && one.asked);
}

/** The part that chooses an action: {element, value()}; value() is null as long as nothing is chosen. */
export function actionChoice({ space, decision, names, first, onChange }) {
  if (space?.type === "MultiDiscrete" && space.nvec.flat().length <= MOST_COORDINATES) {
    return choicesOfMany(space, decision, first, onChange);
  }
  if (space?.type === "Box" && count(space) <= MOST_COORDINATES) return coordinates(space, decision, first, onChange);
  const size = sizeOf(space, decision, names);
  if (size !== null) return options(size, space?.start ?? 0, decision, names, first, onChange);
  return typed(decision, first, onChange);
}

function count(space) {
  return (space.shape ?? [1]).reduce((product, size) => product * size, 1);
}

/** How many actions there are, where they are numbers of one list. */
function sizeOf(space, decision, names) {
  if (space !== undefined && space.type !== "Discrete") return null;
  const { opinion, action_mask: mask } = decision;
  return space?.n ?? names?.length ?? opinion?.q_values?.length ?? opinion?.probabilities?.[0]?.length ?? mask?.length ?? null;
}

// -- one list of options -----------------------------------------------------------------------------------------------

function options(size, start, decision, names, first, onChange) {
  let chosen = first ?? null;
  const buttons = [];
  for (let i = 0; i < size; i += 1) {
    const value = names?.[i] ?? start + i;
    buttons.push(optionButton(i, start + i, value, decision, () => choose(value)));
  }
  const choose = (value) => {
    chosen = value;
    mark();
    onChange();
  };
  const mark = () => {
    for (const { button, value } of buttons) button.setAttribute("aria-pressed", String(value === chosen));
  };
  mark();
  const row = h("div", { class: "what-if-options", role: "group", "aria-label": "The action instead" });
  add(row, buttons.map(({ button }) => button));
  return { element: row, value: () => chosen };
}

function optionButton(i, action, value, decision, onclick) {
  const done = decision.action === action;
  const legal = decision.action_mask?.[i] ?? true;
  const told = [];
  const chance = decision.opinion?.probabilities?.[0]?.[i];
  const q = decision.opinion?.q_values?.[i];
  if (chance !== undefined) told.push(percent(chance));
  if (q !== undefined) told.push(`Q ${number(q, 3)}`);
  if (done) told.push("was done");
  if (!legal) told.push("not allowed");
  const name = typeof value === "string" ? `${action} ${value}` : String(value);
  const button = h(
    "button",
    { class: `what-if-option${done ? " done" : ""}`, type: "button", disabled: !legal, onclick },
    h("span", { class: "what-if-name" }, name),
    h("small", {}, told.join(" · ") || " "),
  );
  return { button, value };
}

// -- several choices and coordinates -----------------------------------------------------------------------------------

function choicesOfMany(space, decision, first, onChange) {
  const sizes = space.nvec.flat();
  const taken = (first ?? decision.action).flat();
  let at = 0; // where the options of a choice begin in the mask
  const lists = sizes.map((size, i) => {
    const list = h("select", { "aria-label": `Choice ${i + 1}`, onchange: onChange });
    for (let option = 0; option < size; option += 1) {
      const legal = decision.action_mask?.[at + option] ?? true;
      const chance = decision.opinion?.probabilities?.[i]?.[option];
      const text = `${option}${chance === undefined ? "" : ` (${percent(chance)})`}${legal ? "" : " not allowed"}`;
      list.append(h("option", { value: option, disabled: !legal, selected: option === taken[i] }, text));
    }
    at += size;
    return list;
  });
  return { element: h("div", { class: "row" }, lists), value: () => lists.map((list) => Number(list.value)) };
}

function coordinates(space, decision, first, onChange) {
  const taken = [first ?? decision.action].flat(Infinity);
  const low = [space.low].flat(Infinity);
  const high = [space.high].flat(Infinity);
  const fields = taken.map((value, i) =>
    h("input", {
      type: "number",
      step: "any",
      value: Number(value.toPrecision(6)),
      min: low[i] ?? low[0],
      max: high[i] ?? high[0],
      "aria-label": `Number ${i + 1}`,
      oninput: onChange,
    }),
  );
  const value = () => (fields.some((field) => field.value === "") ? null : fields.map((field) => Number(field.value)));
  const policy = decision.opinion?.mean;
  const hint = policy
    ? h("span", { class: "quiet" }, `The policy's mean: ${policy.map((x) => number(x, 3)).join(", ")}`)
    : null;
  return { element: h("div", { class: "row what-if-numbers" }, fields, hint), value };
}

function typed(decision, first, onChange) {
  const given = JSON.stringify(first ?? decision.action);
  const field = h("input", { type: "text", value: given, "aria-label": "The action as JSON", oninput: onChange });
  const value = () => field.value.trim() || null;
  return { element: h("div", { class: "row" }, field, h("span", { class: "quiet" }, short(decision.action))), value };
}

// -- policies ----------------------------------------------------------------------------------------------------------

/** The part that chooses a policy, a run or a checkpoint: {element, value(), fill()}; fill() asks which there are. */
export function policyChoice({ trace, request, first, onChange }) {
  const list = h("select", { "aria-label": "Who plays instead", onchange: onChange });
  const own = Object.keys(trace.gammas);
  const known = [["This run", own.map((name) => [name, name])], ["Anything", [["random", "random actions"]]]];
  const fill = async (signal) => {
    if (savedPage() !== null) return;
    known.push(...(await elsewhere(request, signal)));
    draw();
  };
  const draw = () => {
    const wanted = list.value || first || "random";
    put(list, known.map(([label, entries]) => group(label, entries, wanted)));
    if (first && ![...list.options].some(({ value }) => value === first)) list.prepend(h("option", { value: first }, first));
    list.value = wanted;
  };
  draw();
  return { element: list, value: () => list.value, fill };
}

function group(label, entries, wanted) {
  const options = entries.map(([value, text]) => h("option", { value, selected: value === wanted }, text));
  return h("optgroup", { label }, options);
}

async function elsewhere(request, signal) {
  const words = new URLSearchParams({ run: request.run });
  const { checkpoints } = await get(`/api/episodes/checkpoints?${words}`, { signal, keep: false });
  const { runs } = await get("/api/episodes", { signal, keep: false });
  const mine = checkpoints.map((name) => [`${request.run}/checkpoints/${name}`, name]);
  const others = runs.filter(({ run }) => run !== request.run).map(({ run }) => [run, run]);
  return [["Checkpoints of this run", mine], ["Other runs", others.slice(0, 200)]].filter(([, entries]) => entries.length);
}
