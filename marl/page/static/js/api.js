// What the page asks the server. In a saved file the answers are inside of it, and nothing is asked.

const KEY = "marl-token";
const saved = readSaved();
// Answers of the view that is shown, by their addresses: a saved file is made of them.
const answers = new Map();

/** What a saved file holds; null where the page comes from a server. */
export function savedPage() {
  return saved;
}

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = error.code ?? "";
    this.details = error;
  }
}

function readSaved() {
  const place = document.getElementById("saved");
  return place === null ? null : JSON.parse(place.textContent);
}

/** The token comes behind the # of the first address, which browsers send to nobody; it stays in this tab alone. */
export function takeToken() {
  const found = location.hash.match(/^#token=([\w-]+)(.*)$/);
  if (found === null) return;
  sessionStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", `${location.pathname}${found[2] ? `#${found[2]}` : "#/"}`);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token === null ? more : { ...more, authorization: `Bearer ${token}` };
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message = "marl watch does not answer: it was stopped, or the network is away.";
    throw new ApiError(0, { code: "gone", message });
  }
  if (response.status === 204) return null;
  const content = response.headers.get("content-type") ?? "";
  if (!content.startsWith("application/json")) return response;
  const told = await response.json();
  if (!response.ok) throw new ApiError(response.status, told.error ?? {});
  return told;
}

/** GET, as JSON. Answers are kept for a saved file; `keep: false` for what no view is made of. */
export async function get(path, { signal, keep = true } = {}) {
  if (saved !== null) {
    if (Object.hasOwn(saved.answers, path)) return saved.answers[path];
    throw new ApiError(0, { code: "saved", message: "This saved page does not hold that." });
  }
  const answer = await ask(path, { headers: headers(), signal });
  if (keep) answers.set(path, answer);
  return answer;
}

/** POST (or another method) of a JSON body. */
export async function post(path, body = {}, { method = "POST", signal } = {}) {
  if (saved !== null) {
    throw new ApiError(0, { code: "saved", message: "This is a saved page: open it in marl watch to do that." });
  }
  const typed = headers({ "content-type": "application/json" });
  return ask(path, { method, headers: typed, body: JSON.stringify(body), signal });
}

/** Long work: POST begins it, then its progress is asked for until it ends. `onProgress` gets {done, total, text}.
 *  The result is kept for a saved file, which gives it again to whoever asks for the same; `keep: false`: it is not. */
export async function job(path, body, { onProgress = () => {}, signal, keep = true } = {}) {
  const key = `${path} ${JSON.stringify(body)}`;
  if (saved !== null && Object.hasOwn(saved.answers, key)) return saved.answers[key];
  const { job: id } = await post(path, body, { signal });
  try {
    for (;;) {
      const told = await get(`/api/jobs/${id}`, { signal, keep: false });
      if (told.state === "failed") throw new ApiError(400, told.error);
      if (told.state === "done") {
        if (keep) answers.set(key, told.result);
        return told.result;
      }
      onProgress(told);
      await pause(150, signal);
    }
  } catch (error) {
    if (error.name === "AbortError") post(`/api/jobs/${id}`, {}, { method: "DELETE" }).catch(() => {});
    throw error;
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    });
  });
}

/** Ask again and again while the view is shown and the tab is looked at; `show` gets every answer. Once in a file. */
export async function follow(path, show, { every = 1000, signal, onTrouble = () => {} } = {}) {
  for (;;) {
    try {
      // `show` may ask for more: what fails there is trouble of this round too.
      if (!document.hidden) await show(await get(path, { signal }));
      onTrouble(null);
    } catch (error) {
      if (signal?.aborted) return;
      onTrouble(error);
    }
    if (saved !== null) return;
    try {
      await pause(every, signal);
    } catch {
      return;
    }
  }
}

export function forget() {
  answers.clear();
}

/** The view that is shown as one HTML file. */
export async function savedFile(title) {
  const view = location.hash || "#/";
  const body = { view, title, answers: Object.fromEntries(answers) };
  const response = await ask("/api/saved", {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(body),
  });
  return response.blob();
}
