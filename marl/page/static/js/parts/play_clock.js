// Playing in real time: a step at every tick, with the key that is held or the action that is done by default.

import { h } from "marl/dom.js";
import { optionName } from "marl/parts/play_names.js";

const SPEEDS = [0, 1, 2, 5, 10, 20];
const MOST_OPTIONS = 60;

/** `{element(columns, controls), hold, release, stop, runs}`; `ready()` says whether a move is awaited. */
export function realTime({ send, ready, signal }) {
  const clock = { runs: false, held: null, timer: null };
  let speed = null;
  let usual = () => null;

  function tick() {
    if (ready()) {
      const action = clock.held?.action ?? usual();
      if (action !== null) send(action);
    }
  }

  function set(perSecond) {
    clearInterval(clock.timer);
    clock.runs = perSecond > 0;
    if (clock.runs) clock.timer = setInterval(tick, 1000 / perSecond);
  }

  function element(columns, controls) {
    const [column] = columns;
    const single = columns.length === 1 && column.type === "choice";
    const list = h("select", { id: "clock-default" }, single ? options(column) : null);
    usual = () => (single ? Number(list.value) : controls.now());
    const speeds = SPEEDS.map((one) => h("option", { value: one }, one ? `${one} steps per second` : "off"));
    speed = h("select", { id: "clock-speed", onchange: () => set(Number(speed.value)) }, speeds);
    const note = single ? "with the key that you hold, else with the move below." : "with what the controls say.";
    return h("details", { class: "card play-clock", open: true }, h("summary", {}, "Real time"),
      h("p", { class: "quiet" }, `Steps go on by themselves: ${note}`),
      h("div", { class: "play-field" }, h("label", { for: "clock-speed" }, "Speed"), speed),
      single ? h("div", { class: "play-field" }, h("label", { for: "clock-default" }, "Without a key"), list) : null);
  }

  signal.addEventListener("abort", () => clearInterval(clock.timer));
  return Object.assign(clock, {
    element,
    hold: (key, action) => (clock.held = { key, action }),
    release: (event) => (clock.held = clock.held?.key === event.key ? null : clock.held),
    stop() {
      set(0);
      if (speed !== null) speed.value = "0";
    },
  });
}

function options(column) {
  const found = [];
  for (let i = 0; i < Math.min(column.options, MOST_OPTIONS); i++) {
    found.push(h("option", { value: i }, optionName(column, i)));
  }
  return found;
}
