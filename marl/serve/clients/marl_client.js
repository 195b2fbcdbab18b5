// Asks a marl server for actions and tells it what came of them. One ES module, no dependencies: browsers and Node 18 or newer.
//
//   import { PolicyClient } from "./marl_client.js";
//   const client = new PolicyClient("http://127.0.0.1:9900");
//   const episode = await client.startEpisode();
//   const action = await client.getAction(episode, observation);
//   client.logReturns(episode, reward);
//   await client.endEpisode(episode, observation);
//
// Every message may be sent again without harm, because (session, episode, t) names a step. So the client repeats a message
// after any network fault until it is answered. With several agents, observations, actions and rewards are objects by agent.

const FIRST_PAUSE = 0.05; // seconds
const LONGEST_PAUSE = 5.0;

/** What the server refused (`code` as in docs/wire.md), or `unreachable`, `not_marl`, `misuse` and `closed`. */
export class PolicyClientError extends Error {
  constructor(code, message, details = {}) {
    super(message);
    this.name = "PolicyClientError";
    this.code = code;
    this.details = details;
    this.retryAfter = details.retry_after ?? null;
  }
}

/** A fault of the network: the message is sent again. */
class Fault extends Error {}

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function randomId() {
  const bytes = new Uint8Array(16);
  globalThis.crypto.getRandomValues(bytes);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Typed arrays as JSON has them. */
function plain(value) {
  if (ArrayBuffer.isView(value)) return Array.from(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part)]));
  }
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new PolicyClientError("misuse", `the message holds ${value}, which JSON does not have.`);
  }
  return value;
}

function readAnswer(answer, status) {
  if (answer !== null && typeof answer === "object") {
    if (answer.error) throw new PolicyClientError(answer.error.code, answer.error.message, answer.error);
    if (status === 200) return answer;
  }
  if (status === 429 || status === 503) throw new Fault(`HTTP status ${status}`);
  throw new PolicyClientError("not_marl", `what answered is no marl server (HTTP status ${status}).`);
}

/** One POST per message; the platform keeps connections alive. */
class Http {
  constructor(client) {
    this.client = client;
  }

  async ask(kind, message) {
    const headers = { "Content-Type": "application/json" };
    if (this.client.token) headers.Authorization = `Bearer ${this.client.token}`;
    const signal = AbortSignal.timeout(1000 * this.client.timeout);
    let response, text;
    try {
      response = await fetch(`${this.client.root}/v1/${kind}`, { method: "POST", headers, body: JSON.stringify(message), signal });
      text = await response.text();
    } catch (error) {
      throw new Fault(String(error.cause ?? error));
    }
    let answer = null;
    try {
      answer = JSON.parse(text);
    } catch {
      // A page of a proxy, perhaps.
    }
    return readAnswer(answer, response.status);
  }

  close() {}
}

/** One socket for all messages; answers are known by the id of their question. */
class Socket {
  constructor(client) {
    this.client = client;
    this.asked = 0;
    this.waiting = new Map();
    this.open = this.connect();
    this.open.catch(() => {}); // whoever asks is told
  }

  connect() {
    return new Promise((resolve, reject) => {
      this.socket = new WebSocket(`${this.client.root.replace(/^http/, "ws")}/v1/session`);
      this.socket.onopen = () => {
        this.opened = true;
        resolve();
      };
      this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
      this.socket.onerror = () => reject(new Fault("the connection failed"));
      this.socket.onclose = (event) => {
        this.gone = true;
        const fault = new Fault(`the connection was closed (${event.code}) ${event.reason}`);
        reject(fault);
        for (const question of this.waiting.values()) question.reject(fault);
        this.waiting.clear();
      };
    });
  }

  receive(answer) {
    const { id, type, ...rest } = answer;
    const question = this.waiting.get(id);
    if (!question) return;
    this.waiting.delete(id);
    question.resolve(rest);
  }

  async ask(kind, message) {
    await this.open;
    const id = ++this.asked;
    // A browser cannot send headers with a WebSocket, so the token travels in the messages.
    const token = this.client.token ? { token: this.client.token } : {};
    let timer;
    const answer = new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      timer = setTimeout(() => reject(new Fault("no answer came")), 1000 * this.client.timeout);
    });
    try {
      this.socket.send(JSON.stringify({ ...message, ...token, type: kind, id }));
      return readAnswer(await answer, 200);
    } finally {
      clearTimeout(timer);
      this.waiting.delete(id);
    }
  }

  close() {
    this.socket.close();
  }
}

export class PolicyClient {
  /**
   * A session with a server. `name`: started again under the same name, it finds its open episodes (`hello().open`).
   * `agents`: ids or patterns and their spaces, where this client plays only some, or tells a new server whom it plays.
   * `transport`: ws, http, or auto. Seconds: after `timeout` of silence a message is sent again; after `patience` of faults in
   * a row it is given up.
   */
  constructor(address, { token = null, name = null, agents = null, stateSize = 0, transport = "auto", timeout = 60, patience = 600 } = {}) {
    this.root = address.replace(/^ws/, "http").replace(/\/+$/, "");
    this.token = token;
    this.timeout = timeout;
    this.patience = patience;
    this.transport = transport;
    if (transport === "auto" && typeof WebSocket === "undefined") this.transport = "http";
    // Also a client without a name gives one: then a greeting that is sent again does not open a second session.
    this.greeting = { protocol: "marl/1", name: name ?? randomId() };
    if (agents) this.greeting.agents = agents;
    if (stateSize) this.greeting.state_size = stateSize;
    this.about = null;
    this.running = new Map();
    this.connection = null;
    this.closed = false;
  }

  // -- messages as they are --------------------------------------------------------------------------------------------

  /** What the server said of itself: session, agents, policies, version, limits, and which episodes are open. */
  hello() {
    this.about ??= this.greet();
    return this.about;
  }

  async greet() {
    try {
      const about = await this.untilAnswered("hello", this.greeting);
      for (const one of about.open) {
        if (!this.running.has(one.episode)) this.running.set(one.episode, new Running(one.t));
      }
      return about;
    } catch (error) {
      this.about = null;
      throw error;
    }
  }

  async ask(kind, fields) {
    const { session } = await this.hello();
    return this.untilAnswered(kind, { session, ...plain(fields) });
  }

  /** Begin an episode; one without an id gets a random one, so that the message can be sent again. */
  async start(episode = null, fields = {}) {
    const message = { episode: episode ?? randomId(), ...fields };
    try {
      return await this.ask("start", message);
    } catch (error) {
      if (error.code !== "unknown_session") throw error;
    }
    this.about = null; // silent for too long, or the server was started anew: nothing of ours is open there
    return this.ask("start", message);
  }

  act(fields) {
    return this.ask("act", fields);
  }

  log(fields) {
    return this.ask("log", fields);
  }

  end(fields) {
    return this.ask("end", fields);
  }

  async untilAnswered(kind, message) {
    let deadline = null;
    let pause = 0;
    while (!this.closed) {
      let fault;
      let wanted = 0;
      try {
        return await this.connected().ask(kind, message);
      } catch (error) {
        if (error instanceof Fault) {
          fault = new PolicyClientError("unreachable", `${this.root} does not answer (${error.message}).`);
          this.dropConnection();
        } else if (error.retryAfter != null) {
          [fault, wanted] = [error, error.retryAfter];
        } else {
          throw error;
        }
      }
      deadline ??= Date.now() + 1000 * this.patience;
      if (Date.now() > deadline) throw fault;
      pause = Math.max(wanted, Math.min(LONGEST_PAUSE, 2 * pause || FIRST_PAUSE) * (0.75 + Math.random() / 4));
      await sleep(pause);
    }
    throw new PolicyClientError("closed", "this client has been closed.");
  }

  connected() {
    if (this.connection?.gone) this.dropConnection();
    this.connection ??= this.transport === "http" ? new Http(this) : new Socket(this);
    return this.connection;
  }

  dropConnection() {
    // A socket that never opened may be one that a proxy does not let through; what is wrong, the answer to a POST tells.
    if (this.transport === "auto" && this.connection && !this.connection.opened) this.transport = "http";
    this.connection?.close();
    this.connection = null;
  }

  /** End all connections. Open episodes stay open on the server until it has not heard of them for too long. */
  close() {
    this.closed = true;
    this.connection?.close();
  }

  // -- the five calls of a simulator -----------------------------------------------------------------------------------

  /** Begin an episode, which is learned from unless `trainingEnabled` is false; returns its id. */
  async startEpisode(episodeId = null, trainingEnabled = true) {
    const { episode } = await this.start(episodeId, { training: trainingEnabled });
    this.running.set(episode, new Running(0));
    return episode;
  }

  /** What to do now; of several agents, an object of observations leads to an object of actions. */
  async getAction(episodeId, observation) {
    const [seen, alone] = await this.byAgent(observation);
    const { actions } = await this.step("act", episodeId, seen);
    return alone ? Object.values(actions)[0] : actions;
  }

  /** Tell of an action that was chosen here. */
  async logAction(episodeId, observation, action) {
    const [seen] = await this.byAgent(observation);
    const [actions] = await this.byAgent(action);
    await this.step("log", episodeId, seen, { actions });
  }

  /** Tell what agents earned, and who is done ({agent: true}). It travels with the next message; until then it adds up. */
  logReturns(episodeId, reward, info = null, done = null) {
    this.find(episodeId).returns.push({ reward, info, done });
  }

  /** End it with the last observations; returns what each agent earned. `truncated`: cut off, not over by the rules. */
  async endEpisode(episodeId, observation = null, truncated = false) {
    const running = this.find(episodeId);
    const [seen] = observation === null ? [{}] : await this.byAgent(observation);
    const { returns } = await this.step("end", episodeId, seen, {}, (agents) => {
      for (const agent of running.alive) (agents[agent] ??= {}).terminated ??= !truncated;
    });
    this.running.delete(episodeId);
    return returns;
  }

  async step(kind, episodeId, seen, fields = {}, change = () => {}) {
    const running = this.find(episodeId);
    const { agents: contract } = await this.hello();
    const sent = running.returns.length; // what is added while we wait belongs to the next message
    const agents = await this.report(running.returns);
    for (const [agent, obs] of Object.entries(seen)) {
      const entry = (agents[agent] ??= {});
      if (isMasked(agent, contract)) Object.assign(entry, { obs: obs.observation, action_mask: obs.action_mask });
      else entry.obs = obs;
    }
    change(agents);
    const answer = await this.ask(kind, { episode: episodeId, t: running.t, agents, ...fields });
    running.t += 1;
    running.returns.splice(0, sent);
    running.meet(agents);
    return answer;
  }

  async report(returns) {
    const agents = {};
    const entry = (agent) => (agents[agent] ??= { reward: 0 });
    for (const { reward, info, done } of returns) {
      const [rewards, alone] = await this.byAgent(reward);
      for (const [agent, earned] of Object.entries(rewards)) {
        entry(agent).reward += Number(earned);
        const told = alone ? info : info?.[agent];
        if (told) entry(agent).info = { ...entry(agent).info, ...told };
      }
      for (const [agent, ended] of Object.entries(done ?? {})) if (ended && agent !== "__all__") entry(agent).terminated = true;
    }
    return agents;
  }

  find(episodeId) {
    const running = this.running.get(episodeId);
    if (!running) throw new PolicyClientError("misuse", `episode ${episodeId} is not open here. Call startEpisode() first.`);
    return running;
  }

  /** An object by agent as it is, and whether one agent plays alone: then what is meant for it, under its name. */
  async byAgent(value) {
    const names = Object.keys(this.greeting.agents ?? (await this.hello()).agents);
    const alone = names.length === 1 && !names[0].includes("*");
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value) && !ArrayBuffer.isView(value);
    if (isObject && (!alone || (Object.keys(value).length === 1 && names[0] in value))) return [value, false];
    if (alone) return [{ [names[0]]: value }, true];
    throw new PolicyClientError("misuse", `expected an object by agent (${names.join(", ")}).`);
  }
}

/** An open episode: the number of its next step, who plays, and what agents have earned since the last step. */
class Running {
  constructor(t) {
    this.t = t;
    this.alive = new Set();
    this.returns = [];
  }

  meet(agents) {
    for (const [agent, entry] of Object.entries(agents)) {
      if (entry.terminated || entry.truncated) this.alive.delete(agent);
      else if (entry.obs !== undefined) this.alive.add(agent);
    }
  }
}

function isMasked(agent, contract) {
  return Object.entries(contract).some(([name, entry]) => {
    const [before, after] = name.split("*");
    const fits = agent === name || (after !== undefined && agent.startsWith(before) && agent.endsWith(after));
    return fits && entry.action_mask;
  });
}
