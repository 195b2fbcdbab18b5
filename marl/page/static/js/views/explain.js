// The view "explain".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("explain");
  root.append(h("h1", {}, "explain"));
}
