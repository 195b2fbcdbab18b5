// The view "runs".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("runs");
  root.append(h("h1", {}, "runs"));
}
