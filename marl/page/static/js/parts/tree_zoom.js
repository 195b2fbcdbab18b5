// A drawing that can be moved and made larger: by dragging, with Ctrl and the wheel, by buttons.

import { h } from "marl/dom.js";

const [SMALLEST, LARGEST] = [0.72, 1.35]; // pixels per unit at first: texts stay readable, small trees do not blow up
const MOST_HIGH = 620;

/** {buttons, setContent(box, stay), show(x, y), lookAt(x, y)}: `box` is all that is drawn, `stay` keeps place and
 *  size. */
export function panAndZoom(svg, signal) {
  let content = { x: 0, y: 0, width: 1, height: 1 };
  let middle = { x: 0, y: 0 };
  let scale = 1;
  const size = () => ({ width: svg.clientWidth || 800, height: svg.clientHeight || 400 });
  const apply = () => {
    const { width, height } = size();
    svg.setAttribute(
      "viewBox",
      `${middle.x - width / scale / 2} ${middle.y - height / scale / 2} ${width / scale} ${height / scale}`,
    );
  };
  const centre = () => {
    middle = { x: content.x + content.width / 2, y: content.y + content.height / 2 };
  };
  const fit = (smallest) => {
    const { width } = size();
    scale = Math.min(LARGEST, Math.max(smallest, width / content.width));
    svg.style.setProperty("height", `${Math.min(MOST_HIGH, Math.max(240, content.height * scale))}px`);
    centre();
    apply();
  };
  const zoomBy = (factor) => {
    scale = Math.min(4, Math.max(0.1, scale * factor));
    apply();
  };
  let grabbed = null;
  svg.addEventListener("pointerdown", (event) => {
    grabbed = { x: event.clientX, y: event.clientY, moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (grabbed === null || event.buttons === 0) return;
    const [dx, dy] = [event.clientX - grabbed.x, event.clientY - grabbed.y];
    if (!grabbed.moved && Math.hypot(dx, dy) < 5) return;
    if (!grabbed.moved) svg.setPointerCapture(event.pointerId); // only now: a click must reach its node
    grabbed = { x: event.clientX, y: event.clientY, moved: true };
    middle = { x: middle.x - dx / scale, y: middle.y - dy / scale };
    apply();
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 300));
  }, { passive: false });
  // Its width is known once it is on the page, and changes with the window.
  let before = 0;
  const watcher = new ResizeObserver(() => {
    const { width } = size();
    if (width === before) return;
    before = width;
    fit(SMALLEST);
    if (wanted !== null) show(wanted.x, wanted.y);
  });
  watcher.observe(svg);
  signal.addEventListener("abort", () => watcher.disconnect());
  let wanted = null;
  const show = (x, y) => {
    wanted = { x, y };
    const { width, height } = size();
    // Only where something is outside: a drawing that fits stands still.
    if (content.width * scale > width + 1) middle.x = clamp(x, content.x, content.width, width / scale);
    if (content.height * scale > height + 1) middle.y = clamp(y, content.y, content.height, height / scale);
    apply();
  };
  const button = (text, name, act) => h(
    "button",
    { class: "small", "aria-label": name, title: name, onclick: act },
    text,
  );
  const buttons = h(
    "span",
    { class: "picture-buttons", role: "group", "aria-label": "Size of the tree" },
    button("−", "Smaller", () => zoomBy(1 / 1.3)),
    button("+", "Larger", () => zoomBy(1.3)),
    button("Fit", "Show all that is drawn", () => fit(0.1)),
  );
  return {
    buttons,
    setContent(box, stay) {
      content = box;
      if (!stay) fit(SMALLEST);
      else apply();
    },
    show,
    lookAt(x, y) {
      const { width, height } = size();
      const outside = Math.abs(x - middle.x) > 0.42 * width / scale || Math.abs(y - middle.y) > 0.42 * height / scale;
      if (outside) middle = { x, y };
      apply();
    },
  };
}

/** The middle of a window of that length on all that is drawn, as near to a place as leaves no empty margin. */
function clamp(place, start, length, window) {
  return Math.min(Math.max(place, start + window / 2), start + length - window / 2);
}
