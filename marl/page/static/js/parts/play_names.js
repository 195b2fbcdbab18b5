// What games, moves and places are called.

/** The name of a game: "pettingzoo:classic/tictactoe_v3" is "Tictactoe". */
export function gameName({ env, variant }) {
  const last = (variant ?? env).split(/[/:]/).at(-1);
  const words = last.replace(/[-_]v\d+$/i, "").replaceAll("_", " ").trim();
  return words ? words[0].toUpperCase() + words.slice(1) : env;
}

/** What an option of a choice is called: by the env, by its place on a board, else by its number. */
export function optionName(column, i, places = {}) {
  return column.names[i] ?? places[i] ?? String(i + column.start);
}

/** Names of places by action, added to `places`: "1,0" of a board is "row 2, column 1". */
export function notePlaces(scene, places) {
  if (scene?.kind !== "board") return;
  for (const [key, action] of Object.entries(scene.actions ?? {})) {
    const found = key.match(/^(\d+),(\d+)$/);
    if (found === null) continue;
    const column = `column ${Number(found[2]) + 1}`;
    places[action] = scene.style === "holes" ? column : `row ${Number(found[1]) + 1}, ${column}`;
  }
}
