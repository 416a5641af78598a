// The client of Lope for browsers: cells are read and watched, events are sent and kept until they
// are acknowledged. One file, no build step:
//
//   import { Lope } from "/lope.js";
//   const lope = new Lope();
//   lope.watch("home/todo", (value) => show(value));
//   lope.send("home/todo/add", { title: "Tea" });
//
// An event is put into localStorage before it is sent, under an id of its own, and leaves it when
// the server has answered. A page that is closed, a server that dies, a network that is away: it is
// sent again when the page is back, and takes effect once.

const PREFIX = "lope.outbox.";
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5000;
const PATIENCE = 30000;
/** Cells that one stream of the server tells of, and streams that one page holds. */
const STREAM_CELLS = 100;
const STREAMS = 4;

/** A request that the server refused for good. */
export class LopeError extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server answered ${status}`);
    this.name = "LopeError";
    this.status = status;
    this.kind = body?.error?.kind;
    this.hint = body?.error?.hint;
  }
}

/** Whether asking again would not help. A server that does not know us may do so later. */
const isFinal = (error) => error instanceof LopeError && error.status >= 400 && error.status < 500 && ![401, 408, 429].includes(error.status);

const sleep = (time) => new Promise((done) => setTimeout(done, time));

/** An id that nobody else makes; later ones sort behind earlier ones. */
let lastTime = 0;
const freshId = () => {
  lastTime = Math.max(lastTime + 1, Date.now() * 1000);
  const random = crypto.getRandomValues(new Uint8Array(10));
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${lastTime.toString(36).padStart(11, "0")}-${hex}`;
};

/** The events of a stream of server-sent events, each as its fields. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const blocks = (text + read.value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = {};
      for (const line of block.split("\n")) {
        const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
        fields[name] = name in fields ? `${fields[name]}\n${value}` : value;
      }
      yield fields;
    }
  }
}

/** `space/document/path` in its parts. */
const parted = (address) => {
  const [space, document, ...path] = address.split("/");
  if (!space || !document) throw new TypeError(`'${address}' is no address of a cell, as in home/todo/list`);
  return { space, document, path: path.join("/") };
};

/** Who waits for what was sent, by the id of the event: any client of the page may be the one to send it. */
const promises = new Map();

export class Lope {
  #base;
  #token;
  #storage;
  #watched = new Map();
  #streams = [];
  #planned = 0;
  /** Events of other pages that this one may not send; somebody else may. */
  #foreign = new Set();
  #flushing = false;
  #listeners = new Set();
  #isLive = false;

  /**
   * `base`: where the server is, if not where this file came from. `token`: for a server that needs
   * one and a page that has no cookie of it. `storage`: where events wait, localStorage unless said.
   */
  constructor({ base, token, storage } = {}) {
    this.#base = new URL(base ?? ".", import.meta.url).href;
    this.#token = token;
    this.#storage = storage ?? globalThis.localStorage;
    addEventListener("online", () => this.flush());
    addEventListener("storage", (event) => {
      if (!event.key?.startsWith(PREFIX)) return;
      this.#tell();
      // Another tab has sent what this one waits for: the server says what became of it.
      if (event.newValue === null) this.#learn(event.key.slice(PREFIX.length));
    });
    addEventListener("pagehide", () => this.#hush());
    addEventListener("pageshow", (event) => { if (event.persisted) this.#listen(); });
    // A browser gives a server six connections for all of its tabs: a page that nobody sees holds none.
    globalThis.document?.addEventListener("visibilitychange", () => { if (document.hidden) this.#live(false); this.#listen(); });
    // What an earlier page did not get rid of.
    queueMicrotask(() => this.flush());
  }

  /** What a cell holds, links followed; undefined if nothing. */
  async get(address) {
    const { space, document, path } = parted(address);
    const query = path ? `?path=${encodeURIComponent(path)}` : "";
    try {
      const answer = await this.#ask("GET", `api/spaces/${encodeURIComponent(space)}/cells/${encodeURIComponent(document)}${query}`);
      return answer.value;
    } catch (error) {
      if (error.status === 404) return undefined;
      throw error;
    }
  }

  /** Changes a cell, and returns when everything that depends on it is up to date. */
  async set(address, value, how = "set") {
    const { space, document, path } = parted(address);
    const body = { path, value, how, id: freshId() };
    return this.#ask("POST", `api/spaces/${encodeURIComponent(space)}/cells/${encodeURIComponent(document)}/set`, body);
  }

  /** Calls `told(value)` now and whenever the cell changes; returns a function that ends it. */
  watch(address, told) {
    parted(address);
    const most = STREAM_CELLS * STREAMS;
    if (this.#watched.size >= most && !this.#watched.has(address)) throw new RangeError(`${most} cells are watched already; watch a cell that holds several`);
    const known = this.#watched.get(address) ?? { told: new Set(), has: false, value: undefined };
    known.told.add(told);
    if (!this.#watched.has(address)) {
      this.#watched.set(address, known);
      this.#replan();
    } else if (known.has) {
      queueMicrotask(() => told(known.value));
    }
    return () => {
      known.told.delete(told);
      if (known.told.size === 0 && this.#watched.delete(address)) this.#replan();
    };
  }

  /**
   * Sends an event to a stream. It is kept until the server has it; the promise is kept when it has
   * taken effect, and broken if the server refuses it, its handler fails, or nobody handles it. An `id`
   * of its own makes an event that is sent again the same one; something else under it is refused.
   */
  send(address, event = null, { id = freshId() } = {}) {
    const { space, document, path } = parted(address);
    const kept = { id, base: this.#base, space, document, path, event };
    const text = JSON.stringify(kept);
    const before = this.#storage.getItem(PREFIX + id);
    if (before !== null && before !== text) {
      const error = { kind: "conflict", message: `something else was sent under the id '${id}' before`, hint: "give another id" };
      return Promise.reject(new LopeError(409, { error }));
    }
    const known = promises.get(id);
    if (known) return known.promise;
    this.#storage.setItem(PREFIX + id, text);
    this.#tell();
    const promise = new Promise((done, failed) => promises.set(id, { done, failed, kept, owner: this }));
    promises.get(id).promise = promise;
    // Nobody has to wait for it.
    promise.catch(() => {});
    this.flush();
    return promise;
  }

  /** The events that wait, oldest first, those of other tabs too. */
  pending() {
    const found = [];
    for (let index = 0; index < this.#storage.length; index += 1) {
      const key = this.#storage.key(index);
      if (!key?.startsWith(PREFIX)) continue;
      try {
        const kept = JSON.parse(this.#storage.getItem(key));
        if (kept.base === this.#base) found.push(kept);
      } catch { /* not ours */ }
    }
    return found.sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  /** Calls `told({ live, pending })` whenever that changes; returns a function that ends it. */
  status(told) {
    this.#listeners.add(told);
    queueMicrotask(() => this.#tell());
    return () => this.#listeners.delete(told);
  }

  /** Sends what waits. One tab does it at a time, so that events keep their order. */
  async flush() {
    if (this.#flushing) return;
    this.#flushing = true;
    try {
      const work = () => this.#sendAll();
      if (globalThis.navigator?.locks) await navigator.locks.request(`lope.outbox ${this.#base}`, work);
      else await work();
    } finally {
      this.#flushing = false;
      if (this.#next()) setTimeout(() => this.flush(), FIRST_PAUSE);
    }
  }

  /** The first event that waits and that this page may send, as far as is known. */
  #next() {
    return this.pending().find(({ id }) => !this.#foreign.has(id));
  }

  async #sendAll() {
    let pause = FIRST_PAUSE;
    for (let next = this.#next(); next; next = this.#next()) {
      try {
        const receipt = await this.#post(next);
        this.#settle(next.id, (promise) => this.#told(promise, receipt));
        pause = FIRST_PAUSE;
      } catch (error) {
        if (error.status === 403 && promises.get(next.id)?.owner !== this) {
          this.#foreign.add(next.id);
          continue;
        }
        if (isFinal(error)) {
          this.#settle(next.id, (promise) => promise.failed(error));
          continue;
        }
        // The server is away, busy, or does not know us yet: what is not acknowledged stays.
        await sleep(pause);
        pause = Math.min(pause * 2, LONGEST_PAUSE);
      }
    }
  }

  #post({ id, space, document, path, event }) {
    const place = `api/spaces/${encodeURIComponent(space)}/streams/${encodeURIComponent(document)}/send`;
    return this.#ask("POST", place, { id, path, event });
  }

  /** What became of an event. The server may have it and nobody have handled it yet: it is asked again. */
  async #told(promise, receipt) {
    if (receipt.error) promise.failed(Object.assign(new Error(receipt.error.message), receipt.error));
    else if (receipt.outcome === "handled") promise.done(receipt);
    else if (receipt.outcome) promise.failed(Object.assign(new Error("nobody handled the event: it is with the dead letters"), { type: "NoHandler" }));
    else {
      await sleep(FIRST_PAUSE * 2);
      await this.#askAgain(promise);
    }
  }

  /** Asks for what became of an event that the server has. */
  async #askAgain(promise) {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        const { id, space } = promise.kept;
        const receipt = await this.#ask("GET", `api/spaces/${encodeURIComponent(space)}/receipts/${encodeURIComponent(id)}`);
        return await this.#told(promise, receipt);
      } catch (error) {
        if (isFinal(error)) return promise.failed(error);
        await sleep(pause);
      }
    }
  }

  async #learn(id) {
    const promise = promises.get(id);
    if (!promise) return;
    promises.delete(id);
    await this.#askAgain(promise);
  }

  #settle(id, how) {
    this.#storage.removeItem(PREFIX + id);
    const promise = promises.get(id);
    promises.delete(id);
    if (promise) how(promise);
    this.#tell();
  }

  #headers(accept) {
    return this.#token ? { accept, authorization: `Bearer ${this.#token}` } : { accept };
  }

  async #ask(method, path, body) {
    const headers = this.#headers("application/json");
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(new URL(path, this.#base), {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
      signal: AbortSignal.timeout(PATIENCE),
    });
    const read = await answer.json().catch(() => undefined);
    if (!answer.ok) throw new LopeError(answer.status, read);
    return read;
  }

  #tell() {
    const told = { live: this.#isLive, pending: this.pending().length };
    for (const listener of this.#listeners) listener(told);
  }

  #live(isLive) {
    if (this.#isLive === isLive) return;
    this.#isLive = isLive;
    this.#tell();
  }

  /** Cells that are watched in one go share a stream. */
  #replan() {
    clearTimeout(this.#planned);
    this.#planned = setTimeout(() => this.#listen());
  }

  #hush() {
    for (const stream of this.#streams) stream.abort();
    this.#streams = [];
  }

  #listen() {
    this.#hush();
    if (globalThis.document?.hidden) return;
    const cells = [...this.#watched.keys()];
    for (let from = 0; from < cells.length; from += STREAM_CELLS) this.#follow(cells.slice(from, from + STREAM_CELLS));
  }

  /** Follows some cells until nobody wants it any more; a stream that ends is opened again. */
  async #follow(cells) {
    const stream = new AbortController();
    this.#streams.push(stream);
    const url = new URL("api/cells/events", this.#base);
    for (const address of cells) url.searchParams.append("cell", address);
    let pause = 0;
    while (!stream.signal.aborted) {
      try {
        const answer = await fetch(url, { headers: this.#headers("text/event-stream"), credentials: "same-origin", signal: stream.signal });
        if (!answer.ok) throw new LopeError(answer.status, await answer.json().catch(() => undefined));
        this.#live(true);
        this.flush();
        pause = 0;
        for await (const { id, event, data } of events(answer.body)) {
          if (id) url.searchParams.set("after", id);
          if (event === "value") this.#show(JSON.parse(data));
        }
      } catch (error) {
        const isRefused = error instanceof LopeError;
        if (isRefused && pause === 0) console.warn(`lope: cells cannot be watched: ${error.message}`);
        pause = isRefused ? Math.min(pause * 2 + FIRST_PAUSE, LONGEST_PAUSE) : 0;
      }
      if (stream.signal.aborted) return;
      this.#live(false);
      await sleep(pause + FIRST_PAUSE * 2);
    }
  }

  #show({ cell, value, present }) {
    const known = this.#watched.get(cell);
    if (!known) return;
    known.has = true;
    known.value = present ? value : undefined;
    for (const told of known.told) told(known.value);
  }
}
