// A scrubber: the steps of an episode as a slider with marks, buttons and keys to move, and playing at a chosen speed.

import { h, put, s } from "marl/dom.js";

const SPEEDS = [1, 2, 5, 10, 30, 60];
const LARGE_STEPS = 10; // steps of Page Up and Page Down
let shown = null; // the scrubber on the page, for `scrubberRate`

/** A scrubber over the positions 0 to `last`: {element, set(step), setMarks(marks, last), stop()}. `onStep(step)` shows
 *  a step, `onSettle(step)` is told once it stays there. Marks are {step, kind, height, text}, heights from 0 to 1; kinds:
 *  wrong, differs, branch. */
export function scrubber({ last, step = 0, onStep, onSettle = () => {}, signal }) {
  const state = { last, step, playing: false, speed: 5, owed: 0, before: 0, settle: 0 };
  const thumb = h("div", { class: "scrub-thumb" });
  const done = h("div", { class: "scrub-done" });
  const marks = h("div", { class: "scrub-marks", "aria-hidden": "true" });
  const track = h(
    "div",
    { class: "scrub-track", role: "slider", tabindex: "0", "aria-label": "Step of the episode", "aria-valuemin": 0 },
    h("div", { class: "scrub-rail" }, done), marks, thumb,
  );
  const playButton = h("button", { class: "scrub-play primary", onclick: toggle });
  const counter = h("output", { class: "scrub-count number", "aria-live": "off" });
  const speeds = SPEEDS.map((speed) => {
    return h("option", { value: speed, selected: speed === state.speed }, `${speed} steps/s`);
  });
  const select = h(
    "select", { "aria-label": "Speed of playing", onchange: (event) => (state.speed = Number(event.target.value)) },
    speeds, h("option", { value: Infinity }, "fastest"),
  );
  const element = h(
    "div",
    { class: "scrubber" },
    h(
      "div",
      { class: "row scrub-buttons" },
      button("M4 3v10M13 3v10L6 8z", "To the beginning (Home)", () => jump(0)),
      button("M12 3v10L4 8z", "One step back (left arrow)", () => jump(state.step - 1)),
      playButton,
      button("M4 3v10l8-5z", "One step on (right arrow)", () => jump(state.step + 1)),
      button("M12 3v10M3 3v10l7-5z", "To the end (End)", () => jump(state.last)),
      select, counter,
    ),
    track,
  );

  function move(wanted) {
    state.step = Math.max(0, Math.min(state.last, wanted));
    paint();
    onStep(state.step);
  }

  function paint() {
    const part = state.last === 0 ? 0 : state.step / state.last;
    thumb.style.setProperty("left", `${100 * part}%`);
    done.style.setProperty("transform", `scaleX(${part})`);
    track.setAttribute("aria-valuemax", state.last);
    track.setAttribute("aria-valuenow", state.step);
    const ended = state.step === state.last;
    const text = ended ? `the end, after ${state.last} steps` : `step ${state.step} of ${state.last}`;
    track.setAttribute("aria-valuetext", text);
    counter.textContent = `${ended ? "end" : state.step} / ${state.last}`;
  }

  function settleSoon() {
    clearTimeout(state.settle);
    state.settle = setTimeout(() => onSettle(state.step), 200);
  }

  function jump(wanted) {
    pause();
    move(wanted);
    settleSoon();
  }

  function toggle() {
    if (state.playing) return pause();
    if (state.step === state.last) move(0);
    state.playing = true;
    state.owed = 0;
    state.before = performance.now();
    paintPlay();
    requestAnimationFrame(frame);
  }

  function pause() {
    if (!state.playing) return;
    state.playing = false;
    paintPlay();
    settleSoon();
  }

  function paintPlay() {
    put(playButton, state.playing ? "❚❚ Pause" : "▶ Play");
    playButton.setAttribute("aria-pressed", state.playing);
  }

  function frame(now) {
    if (!state.playing || signal.aborted) return;
    state.owed += state.speed === Infinity ? 1 : ((now - state.before) / 1000) * state.speed;
    state.before = now;
    const steps = Math.floor(state.owed);
    state.owed -= steps;
    if (steps > 0) move(state.step + steps);
    if (state.step === state.last) pause();
    else requestAnimationFrame(frame);
  }

  function setMarks(found, newLast = state.last) {
    state.last = newLast;
    put(marks, found.map((mark) => markElement(mark, state.last)));
    move(state.step);
  }

  dragged(track, (part) => jump(Math.round(part * state.last)), signal);
  keys(track, { jump, toggle, state }, signal);
  signal.addEventListener("abort", () => clearTimeout(state.settle));
  paintPlay();
  paint();
  const made = { element, set: jump, setMarks, stop: pause, get step() { return state.step; }, state, move };
  shown = made;
  return made;
}

function button(path, label, onclick) {
  const sign = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: path }));
  return h("button", { class: "scrub-button", "aria-label": label, title: label, onclick }, sign);
}

function markElement({ step, kind, height = 1, text = "" }, last) {
  const style = { left: `${last === 0 ? 0 : (100 * step) / last}%`, "--height": height };
  return h("i", { class: `mark mark-${kind}`, style, title: text });
}

function dragged(track, goTo, signal) {
  const at = (event) => {
    const { left, width } = track.getBoundingClientRect();
    goTo(Math.max(0, Math.min(1, (event.clientX - left) / width)));
  };
  track.addEventListener("pointerdown", (event) => {
    track.setPointerCapture(event.pointerId);
    at(event);
  }, { signal });
  track.addEventListener("pointermove", (event) => {
    if (track.hasPointerCapture(event.pointerId)) at(event);
  }, { signal });
}

const BUSY = "input, select, textarea, [contenteditable], .scene [tabindex], [role=radiogroup], dialog";

/** Keys work wherever the focus is, but for fields that need them themselves. */
function keys(track, { jump, toggle, state }, signal) {
  const moves = {
    ArrowLeft: () => jump(state.step - 1),
    ArrowRight: () => jump(state.step + 1),
    PageUp: () => jump(state.step - LARGE_STEPS),
    PageDown: () => jump(state.step + LARGE_STEPS),
    Home: () => jump(0),
    End: () => jump(state.last),
    " ": toggle,
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || !(key in moves)) return;
    if (target.closest?.(BUSY)) return;
    // Elsewhere on the page these keys scroll, and space presses the button that has the focus.
    if (target !== track && (key.startsWith("Page") || (key === " " && target.closest?.("button, a, summary")))) return;
    event.preventDefault();
    moves[key]();
  }, { signal });
}

/** Frames per second of the scrubber on the page, with another step in every frame: {rate, frames, seconds, work};
 *  `work` is the milliseconds that showing one step takes. For measurements. */
export function scrubberRate(seconds = 2) {
  const { state, move } = shown;
  return new Promise((resolve) => {
    const began = performance.now();
    let frames = 0;
    let work = 0;
    const frame = () => {
      const before = performance.now();
      move(state.step >= state.last ? 0 : state.step + 1);
      work += performance.now() - before;
      frames += 1;
      const past = (performance.now() - began) / 1000;
      if (past < seconds) requestAnimationFrame(frame);
      else resolve({ rate: frames / past, frames, seconds: past, work: work / frames });
    };
    requestAnimationFrame(frame);
  });
}
