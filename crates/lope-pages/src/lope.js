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

const sleep = (time) => new Promise((done) => setTimeout(done, time));

/** An id that nobody else makes; later ones sort behind earlier ones. */
let lastTime = 0;
const freshId = () => {
  lastTime = Math.max(lastTime + 1, Date.now() * 1000);
  const random = crypto.getRandomValues(new Uint8Array(10));
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${lastTime.toString(36).padStart(11, "0")}-${hex}`;
};

/** `space/document/path` in its parts. */
const parted = (address) => {
  const [space, document, ...path] = address.split("/");
  if (!space || !document) throw new TypeError(`'${address}' is no address of a cell, as in home/todo/list`);
  return { space, document, path: path.join("/") };
};

export class Lope {
  #base;
  #token;
  #storage;
  #watched = new Map();
  #source = null;
  #planned = 0;
  #lastEvent = "";
  #promises = new Map();
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
    addEventListener("pagehide", () => this.#source?.close());
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
    const known = this.#watched.get(address) ?? { told: new Set(), has: false, value: undefined };
    known.told.add(told);
    if (!this.#watched.has(address)) {
      this.#watched.set(address, known);
      this.#lastEvent = "";
      this.#replan();
    } else if (known.has) {
      queueMicrotask(() => told(known.value));
    }
    return () => {
      known.told.delete(told);
      if (known.told.size === 0 && this.#watched.delete(address)) { this.#lastEvent = ""; this.#replan(); }
    };
  }

  /**
   * Sends an event to a stream. It is kept until the server has it; the promise is kept when it has
   * taken effect, and broken if the server refuses it or its handler fails.
   */
  send(address, event = null, { id = freshId() } = {}) {
    const { space, document, path } = parted(address);
    const kept = { id, base: this.#base, space, document, path, event };
    this.#storage.setItem(PREFIX + id, JSON.stringify(kept));
    this.#tell();
    const promise = new Promise((done, failed) => this.#promises.set(id, { done, failed, kept }));
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
      if (this.pending().length > 0) setTimeout(() => this.flush(), FIRST_PAUSE);
    }
  }

  async #sendAll() {
    let pause = FIRST_PAUSE;
    for (let next = this.pending()[0]; next; next = this.pending()[0]) {
      try {
        const receipt = await this.#post(next);
        this.#settle(next.id, (promise) => this.#told(promise, receipt));
        pause = FIRST_PAUSE;
      } catch (error) {
        const isFinal = error instanceof LopeError && error.status >= 400 && error.status < 500 && ![401, 403, 408, 429].includes(error.status);
        if (isFinal) {
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

  #told(promise, receipt) {
    if (receipt.error) promise.failed(Object.assign(new Error(receipt.error.message), receipt.error));
    else promise.done(receipt);
  }

  async #learn(id) {
    const promise = this.#promises.get(id);
    if (!promise) return;
    this.#promises.delete(id);
    try { this.#told(promise, await this.#post(promise.kept)); } catch (error) { promise.failed(error); }
  }

  #settle(id, how) {
    this.#storage.removeItem(PREFIX + id);
    const promise = this.#promises.get(id);
    this.#promises.delete(id);
    if (promise) how(promise);
    this.#tell();
  }

  async #ask(method, path, body) {
    const headers = { accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
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

  #listen() {
    this.#source?.close();
    this.#source = null;
    if (this.#watched.size === 0 || globalThis.document?.hidden) return;
    const url = new URL("api/cells/events", this.#base);
    for (const address of this.#watched.keys()) url.searchParams.append("cell", address);
    if (this.#lastEvent) url.searchParams.set("after", this.#lastEvent);
    const source = new EventSource(url);
    this.#source = source;
    source.onopen = () => { this.#live(true); this.flush(); };
    source.addEventListener("value", (event) => {
      this.#lastEvent = event.lastEventId;
      const { cell, value, present } = JSON.parse(event.data);
      const known = this.#watched.get(cell);
      if (!known) return;
      known.has = true;
      known.value = present ? value : undefined;
      for (const told of known.told) told(known.value);
    });
    // A browser may give up, or wait long: a fresh stream is opened as soon as the server is back.
    source.onerror = async () => {
      this.#live(false);
      source.close();
      await sleep(FIRST_PAUSE * 2);
      if (this.#source === source) this.#listen();
    };
  }
}
