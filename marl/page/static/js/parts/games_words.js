// What the numbers of a game mean, in sentences that a report and the view share.

/** What the cells of a payoff table are. */
export function heatMeaning(payoffs) {
  const seats = payoffs.symmetric
    ? "One population: everybody played on every seat, and seats are averaged."
    : `Seats count: ${payoffs.players.slice(0, 2).map((player, i) => `${["rows", "columns"][i]} play ${player}`).join(", ")}.`;
  return `Each cell is the mean payoff of an episode in which the row's entrant met the column's. ${seats} Blue is high, `
    + "orange is low. Two payoffs that are closer than two standard errors may well be equal.";
}

/** How to read a response graph. */
export function graphMeaning() {
  return "An arrow leads to what earns more against it (where several players choose: to where the one who changes earns "
    + "more), if the difference is clearer than two standard errors. Dashed arrows are there in fewer than 80 % of tables "
    + "drawn anew. Double rings are where better replies end: a single one is a clear winner, several that are joined by "
    + "arrows are a cycle, in which nobody is the best, as in rock, paper, scissors.";
}

/** What a meta-strategy is. */
export function metaMeaning() {
  return "How often each member would be played: the mixture that the run proposes after this round.";
}
