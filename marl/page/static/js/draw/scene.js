// The picture of an env: a drawing by its kind, a rendered picture, or its text.

import { h, put } from "marl/dom.js";
import { boardDrawing } from "marl/draw/board.js";
import { cardsDrawing } from "marl/draw/cards.js";
import { matrixDrawing } from "marl/draw/matrix.js";
import { mazeDrawing } from "marl/draw/maze.js";
import { networkDrawing } from "marl/draw/network.js";
import { particlesDrawing } from "marl/draw/particles.js";
import { pictureDrawing, textDrawing } from "marl/draw/plain.js";
import { statesDrawing } from "marl/draw/states.js";
import { trafficDrawing } from "marl/draw/traffic.js";

// By the kind of a scene: what makes an empty drawing, {element, show(scene)}, that takes one scene after another.
const DRAWINGS = {
  matrix: matrixDrawing,
  states: statesDrawing,
  cards: cardsDrawing,
  board: boardDrawing,
  particles: particlesDrawing,
  traffic: trafficDrawing,
  maze: mazeDrawing,
  network: networkDrawing,
  picture: pictureDrawing,
  text: textDrawing,
};

/** A place for one scene after another: `{element, show(scene)}`. What stays the same is not made anew.
 *  With `onAction(action)`, places that stand for an action can be clicked; `legal` are the numbers of the
 *  actions that may be taken (null: all), or a function that gives them; `seat` is the agent whose view it is. */
export function scenePicture({ onAction = null, legal = null, seat = null } = {}) {
  const element = h("div", { class: "scene" });
  const options = { onAction, seat, legal: typeof legal === "function" ? legal : () => legal };
  let kind = null;
  let drawing = null;

  function begin(scene) {
    kind = scene.kind;
    drawing = (DRAWINGS[kind] ?? textDrawing)(options);
    put(element, drawing.element);
  }

  function show(scene) {
    if (scene === null || scene === undefined) {
      kind = null;
      put(element, h("p", { class: "quiet" }, "This env draws nothing."));
      return;
    }
    try {
      if (scene.kind !== kind) begin(scene);
      drawing.show(scene);
    } catch (error) {
      // A scene of a user's env that fits its form and still cannot be drawn is read instead.
      console.warn(error);
      kind = null;
      put(element, h("pre", { class: "scene-text" }, scene.text ?? ""));
    }
  }

  return { element, show };
}

/** An element that shows one scene; for one scene after another a `scenePicture` is cheaper and does not flicker. */
export function drawScene(scene, options = {}) {
  const picture = scenePicture(options);
  picture.show(scene);
  return picture.element;
}
