// Addresses of the page: which view, of what, how.

// The first word of the address, the module that shows it, and its name in the bar (empty: not in the bar).
export const VIEWS = {
  runs: { module: "marl/views/runs.js", name: "Runs" },
  run: { module: "marl/views/run.js", name: "" },
  episodes: { module: "marl/views/episodes.js", name: "Episodes" },
  play: { module: "marl/views/play.js", name: "Play" },
  games: { module: "marl/views/games.js", name: "Games" },
  tree: { module: "marl/views/tree.js", name: "Trees" },
  dynamics: { module: "marl/views/dynamics.js", name: "Dynamics" },
  explain: { module: "marl/views/explain.js", name: "Explain" },
};
export const FIRST = "runs";

/** An address of the page: address("run", ["a/b"], {field: "x"}) is "#/run/a%2Fb?field=x". */
export function address(view, parts = [], query = {}) {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined));
  const asked = words.toString();
  return `#/${path}${asked ? `?${asked}` : ""}`;
}

/** The view, the parts of its path and its query. */
export function parse(hash) {
  const [path, asked = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...parts] = path.split("/").map(decode);
  return { view: view || FIRST, parts, query: new URLSearchParams(asked) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Change the query of the address without showing the view anew: what is on the page has changed already. */
export function setQuery(changes) {
  if (document.getElementById("saved") !== null) return;
  const { view, parts, query } = parse(location.hash);
  const words = Object.fromEntries(query);
  history.replaceState(null, "", address(view, parts, { ...words, ...changes }));
}
