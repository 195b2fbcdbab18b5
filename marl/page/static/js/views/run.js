// The view "run".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("run");
  root.append(h("h1", {}, "run"));
}
