// One lane per agent over time: rewards, values against what came, actions. Only the lanes that can be seen are drawn.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";

const ROW = 58; // pixels of a lane
const GAP = 6; // pixels between labels and lanes
const REWARDS = { top: 3, height: 16 };
const VALUES = { top: 22, height: 23 };
const ACTIONS = { top: 48, height: 7 };

/** The lanes of an episode: {element, set(step, agent), use(episode, length)}; `onPick(step, agent)`: a click. */
export function lanes({ episode, onPick, signal }) {
  const cursor = h("div", { class: "lane-cursor" });
  const inner = h("div", { class: "lanes-inner" }, cursor);
  const element = h("div", { class: "lanes", role: "list", "aria-label": "Agents over time", tabindex: "-1" }, inner);
  const view = { episode, scales: null, step: 0, length: 1, agent: null, drawn: new Map(), order: [] };
  const painter = paints(element);

  function stepWidth() {
    return laneWidth() / Math.max(1, view.length);
  }

  function laneWidth() {
    return Math.max(40, element.clientWidth - labelWidth(element) - GAP);
  }

  /** Show the lanes of an episode on a scale of `length` steps. */
  function use(next, length = next.length) {
    view.episode = next;
    view.length = length;
    view.order = next.agents;
    view.scales = scalesOf(next);
    inner.style.setProperty("height", `${view.order.length * ROW}px`);
    redraw();
  }

  function redraw() {
    for (const row of view.drawn.values()) row.remove();
    view.drawn.clear();
    painter.refresh();
    showVisible();
    moveCursor();
  }

  function showVisible() {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - 2);
    const last = Math.min(view.order.length, Math.ceil((element.scrollTop + element.clientHeight) / ROW) + 2);
    for (const [i, row] of view.drawn) {
      if (i < first || i >= last) {
        row.remove();
        view.drawn.delete(i);
      }
    }
    for (let i = first; i < last; i += 1) if (!view.drawn.has(i)) addRow(i);
  }

  function addRow(i) {
    const agent = view.order[i];
    const canvas = h("canvas", { class: "lane-canvas", role: "img", "aria-label": laneText(view.episode, agent) });
    const pick = () => onPick(view.step, agent);
    const label = h(
      "button", { class: "lane-label", title: agent, onclick: pick, "aria-pressed": String(agent === view.agent) },
      h("span", { class: "lane-name" }, agent),
      h("span", { class: "quiet lane-return" }, `return ${number(view.episode.trace.returns[agent] ?? null)}`),
    );
    const row = h("div", { class: "agent-lane", role: "listitem", style: { top: `${i * ROW}px` } }, label, canvas);
    canvas.addEventListener("pointerdown", (event) => {
      const step = Math.floor((event.clientX - canvas.getBoundingClientRect().left) / stepWidth());
      onPick(Math.max(0, Math.min(view.episode.length - 1, step)), agent);
    });
    row.dataset.agent = agent;
    view.drawn.set(i, row);
    inner.append(row);
    paintLane(painter, canvas, view, agent, laneWidth(), stepWidth());
  }

  function moveCursor() {
    const step = Math.min(view.step, view.episode.length);
    const width = stepWidth();
    cursor.style.setProperty("transform", `translateX(${labelWidth(element) + GAP + step * width}px)`);
    cursor.style.setProperty("width", `${step === view.episode.length ? 2 : Math.max(2, width)}px`);
  }

  function set(step, agent) {
    view.step = step;
    if (agent !== view.agent) {
      view.agent = agent;
      for (const row of view.drawn.values()) {
        row.firstChild.setAttribute("aria-pressed", row.dataset.agent === agent);
      }
      reveal(element, view.order.indexOf(agent));
    }
    moveCursor();
  }

  element.addEventListener("scroll", showVisible, { signal, passive: true });
  const sizes = new ResizeObserver(redraw);
  sizes.observe(element);
  signal.addEventListener("abort", () => sizes.disconnect());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw, { signal });
  use(episode);
  return { element, set, use };
}

function labelWidth(element) {
  return parseFloat(getComputedStyle(element).getPropertyValue("--gutter"));
}

function reveal(element, i) {
  if (i < 0) return;
  const [top, bottom] = [i * ROW, (i + 1) * ROW];
  if (top < element.scrollTop) element.scrollTop = top;
  if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
}

function laneText(episode, agent) {
  const { reward } = episode.numbersOf(agent);
  const steps = reward.filter((one) => !Number.isNaN(one)).length;
  const earned = number(episode.trace.returns[agent] ?? null);
  return `${agent}: there in ${steps} of ${episode.length} steps, return ${earned}`;
}

/** The largest reward, and the range of values, of all agents: so lanes can be compared. */
function scalesOf(episode) {
  let reward = 0;
  let low = Infinity;
  let high = -Infinity;
  for (const agent of episode.agents) {
    const series = episode.numbersOf(agent);
    for (let t = 0; t < episode.length; t += 1) {
      if (Math.abs(series.reward[t]) > reward) reward = Math.abs(series.reward[t]);
      if (Number.isNaN(series.expected[t])) continue;
      low = Math.min(low, series.expected[t], series.came[t]);
      high = Math.max(high, series.expected[t], series.came[t]);
    }
  }
  return { reward: reward || 1, low, high: high > low ? high : low + 1 };
}

// -- painting -------------------------------------------------------------------------------------------------------

/** The page's colours, for canvases, which know no style sheets. */
function paints(element) {
  const painter = { colors: {}, refresh };
  function refresh() {
    const style = getComputedStyle(element);
    for (const name of ["good", "bad", "quiet", "line", "accent", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"]) {
      painter.colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }
  return painter;
}

function paintLane({ colors }, canvas, { episode, scales }, agent, width, step) {
  const dots = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round((ROW - 2) * dots);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${ROW - 2}px`);
  const paint = canvas.getContext("2d");
  paint.scale(dots, dots);
  const series = episode.numbersOf(agent);
  paintLife(paint, colors, series, step);
  paintRewards(paint, colors, series.reward, scales.reward, step);
  paintLine(paint, colors.c2, series.came, scales, step, [3, 2]);
  paintLine(paint, colors.c0, series.expected, scales, step, []);
  paintActions(paint, colors, series.action, step, episode.spaces[agent]);
}

function paintLife(paint, colors, { reward }, step) {
  paint.fillStyle = colors.line;
  const zero = REWARDS.top + REWARDS.height / 2;
  reward.forEach((value, t) => {
    if (!Number.isNaN(value)) paint.fillRect(t * step, zero, step, 1);
  });
}

function paintRewards(paint, colors, rewards, largest, step) {
  const zero = REWARDS.top + REWARDS.height / 2;
  const width = Math.max(1, step - (step > 4 ? 1 : 0));
  rewards.forEach((value, t) => {
    if (Number.isNaN(value) || value === 0) return;
    const height = Math.max(1, (Math.abs(value) / largest) * (REWARDS.height / 2));
    paint.fillStyle = value > 0 ? colors.good : colors.bad;
    paint.fillRect(t * step, value > 0 ? zero - height : zero + 1, width, height);
  });
}

function paintLine(paint, color, values, { low, high }, step, dash) {
  paint.strokeStyle = color;
  paint.lineWidth = 1.5;
  paint.setLineDash(dash);
  paint.beginPath();
  let open = false;
  values.forEach((value, t) => {
    if (Number.isNaN(value) || low === Infinity) {
      open = false;
      return;
    }
    const y = VALUES.top + VALUES.height * (1 - (value - low) / (high - low));
    if (!open) paint.moveTo(t * step, y);
    paint.lineTo((t + 1) * step, y); // a level over the step: it also shows where an agent is asked once
    open = true;
  });
  paint.stroke();
  paint.setLineDash([]);
}

function paintActions(paint, colors, actions, step, space) {
  const isChoice = space?.type !== "Box";
  const sizes = actions.filter((one) => !Number.isNaN(one)).map(Math.abs);
  const largest = sizes.reduce((most, one) => Math.max(most, one), 0) || 1;
  actions.forEach((action, t) => {
    if (Number.isNaN(action)) return;
    paint.fillStyle = isChoice ? colors[`c${((action % 8) + 8) % 8}`] : action < 0 ? colors.c1 : colors.c0;
    paint.globalAlpha = isChoice ? 1 : 0.2 + (0.8 * Math.abs(action)) / largest;
    paint.fillRect(t * step, ACTIONS.top, Math.max(1, step - (step > 4 ? 1 : 0)), ACTIONS.height);
  });
  paint.globalAlpha = 1;
}

/** What the colours and lines of lanes mean. */
export function laneLegend(hasValues) {
  const entry = (kind, text) => h("span", { class: "legend-entry" }, h("i", { class: `legend legend-${kind}` }), text);
  const values = hasValues ? [entry("expected", "value expected"), entry("came", "return that came (discounted)")] : [];
  return put(
    h("p", { class: "lane-legend quiet" }),
    entry("paid", "reward above zero"), entry("fined", "below zero"), values,
    entry("action", "action, one colour each"),
  );
}
