// The picture of an env: a drawing by its kind, a rendered picture, or its text.

import { h } from "marl/dom.js";

/** An element that shows the scene. With `onAction(action)`, places that stand for an action can be clicked; `legal` are those
 *  that may be taken. */
export function drawScene(scene, { onAction = null, legal = null } = {}) {
  void [onAction, legal];
  if (scene === null) return h("p", { class: "quiet" }, "This env draws nothing.");
  if (scene.kind === "picture") return h("img", { src: `data:image/png;base64,${scene.png}`, alt: scene.text ?? "The env" });
  return h("pre", { class: "scene-text" }, scene.text ?? "");
}
