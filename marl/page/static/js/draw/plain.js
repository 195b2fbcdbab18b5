// Scenes that the env has drawn itself: a picture or a text.

import { h } from "marl/dom.js";

/** A picture in PNG. */
export function pictureDrawing() {
  const element = h("img", { class: "scene-picture", alt: "" });
  let shown = null;
  return {
    element,
    show(scene) {
      if (scene.png !== shown) element.src = `data:image/png;base64,${scene.png}`;
      shown = scene.png;
      element.alt = scene.text;
    },
  };
}

/** A text in a typewriter's font, as envs that draw with letters expect it. */
export function textDrawing() {
  const element = h("pre", { class: "scene-text" });
  return {
    element,
    show(scene) {
      element.textContent = scene.text ?? "";
    },
  };
}
