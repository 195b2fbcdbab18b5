// Numbers, times and values as people read them.

/** A number with four significant digits; "–" where there is none. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en").replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
  return text.replaceAll("-", "−");
}

export function percent(fraction) {
  return fraction === null || fraction === undefined ? "–" : `${Math.round(100 * fraction)} %`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** A mean with its interval: "1.25 [1.1, 1.4]". */
export function interval(mean, low, high) {
  if (low === null || low === undefined) return number(mean);
  return `${number(mean)} [${number(low)}, ${number(high)}]`;
}

/** Any JSON value in one line, cut where it is long. */
export function short(value, most = 80) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text === undefined) return "–";
  return text.length > most ? `${text.slice(0, most)} …` : text;
}
