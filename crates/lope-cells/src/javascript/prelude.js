// What every sandbox starts with: no clock, no chance, no compiler, frozen built-ins, and cells.
// Evaluates to a function of the host that gives `invoke` and `show`.
(function (host, elementsMax) {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;

  // A cell of the space. It becomes a link when it is part of a result.
  class Cell {
    #index;
    constructor(index) {
      this.#index = index;
      Object.freeze(this);
    }
    get() { return ask("get", this.#index); }
    set(value) { ask("set", this.#index, value); }
    update(values) { ask("update", this.#index, values); }
    push(...values) { ask("push", this.#index, values); }
    addUnique(value) { ask("addUnique", this.#index, value); }
    removeValue(value) { ask("removeValue", this.#index, value); }
    increment(by = 1) { ask("increment", this.#index, by); }
    send(event = null) { ask("send", this.#index, event); }
    key(name) { return new Cell(ask("key", this.#index, String(name))); }
    toJSON() { return ask("link", this.#index); }
  }

  // JSON of a value; a part that contains itself says where it leads back to.
  function show(value) {
    try {
      return stringify(value);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    const open = [], keys = [];
    return stringify(value, function (key, part) {
      while (open.length > 0 && open[open.length - 1] !== this) {
        open.pop();
        keys.pop();
      }
      if (typeof part !== "object" || part === null) return part;
      const at = open.indexOf(part);
      const shown = at < 0 ? part : { "/": { "cycle@1": keys.slice(1, at + 1) } };
      open.push(shown);
      keys.push(key);
      return shown;
    });
  }

  function ask(verb, index, value) {
    const text = value === undefined ? undefined : show(value);
    if (value !== undefined && text === undefined) throw new TypeError("the value is no JSON");
    const answer = host(verb, index, text ?? "");
    if (answer === "") return undefined;
    if (answer[0] === "!") throw new TypeError(answer.slice(1));
    return parse(answer.slice(1));
  }

  // Calls the function that `factory` makes, with cells put where `places` says. No iterators: what
  // a script sees must not depend on anything that another one could have reached.
  function invoke(factory, argumentsText, placesText) {
    const holder = { arguments: parse(argumentsText) };
    const places = parse(placesText);
    for (let place = 0; place < places.length; place++) {
      const { path, index } = places[place];
      let at = holder, key = "arguments";
      for (let depth = 0; depth < path.length; depth++) { at = at[key]; key = path[depth]; }
      at[key] = new Cell(index);
    }
    const made = factory();
    if (typeof made !== "function") throw new TypeError("the source is no function");
    return apply(made, undefined, holder.arguments);
  }

  // A request to run a recipe, to be part of a result.
  function run(recipe, argument = {}, key) {
    return { "/": { "run@1": key === undefined ? { recipe, argument } : { recipe, argument, key } } };
  }

  // Loops inside the engine cannot be interrupted, so they may not be told to be endless.
  function bounded(native) {
    return {
      method(...given) {
        if (this !== null && this !== undefined && this.length > elementsMax) {
          throw new RangeError(`more than ${elementsMax} elements`);
        }
        return apply(native, this, given);
      },
    }.method;
  }
  for (const key of ownKeys(Array.prototype)) {
    const { value } = getOwnPropertyDescriptor(Array.prototype, key);
    if (typeof value === "function" && key !== "constructor" && typeof key === "string") {
      defineProperty(Array.prototype, key, { value: bounded(value) });
    }
  }

  const functions = [function () {}, async function () {}, function* () {}, async function* () {}];
  for (const made of functions) {
    defineProperty(getPrototypeOf(made), "constructor", { value: undefined });
  }
  // Built-ins that no name leads to: the prototypes of what scripts can make.
  const { Iterator } = globalThis;
  const wrapped = Iterator.from({ next() { return { done: true }; } });
  const instances = [
    [].values(), new Map().values(), new Set().values(), ""[Symbol.iterator](), "".matchAll(/a/g),
    wrapped, wrapped.map((part) => part), functions[2](), functions[3](),
    Promise.resolve(), /a/, (function () { return arguments; })(),
  ];
  if (Iterator.concat !== undefined) instances.push(Iterator.concat());
  defineProperty(Iterator.prototype, "constructor", { value: undefined });
  // What is set there is kept by the engine, not by the object.
  delete Error.prepareStackTrace;
  delete Error.stackTraceLimit;
  const forbidden = [
    "eval", "Function", "Date", "performance", "WeakRef", "FinalizationRegistry", "Iterator",
    "BigInt", "BigInt64Array", "BigUint64Array", "Atomics", "SharedArrayBuffer", "gc",
  ];
  for (const name of forbidden) delete globalThis[name];
  delete Math.random;
  for (const name of ["getBigInt64", "getBigUint64", "setBigInt64", "setBigUint64"]) {
    delete DataView.prototype[name];
  }
  defineProperty(globalThis, "run", { value: run });

  const frozen = new Set();
  const open = [globalThis, Cell, Iterator, ...functions.map(getPrototypeOf), ...instances];
  while (open.length > 0) {
    const next = open.pop();
    const isObject = (typeof next === "object" && next !== null) || typeof next === "function";
    if (!isObject || frozen.has(next)) continue;
    frozen.add(next);
    open.push(getPrototypeOf(next));
    for (const key of ownKeys(next)) {
      const { value, get, set } = getOwnPropertyDescriptor(next, key);
      open.push(value, get, set);
    }
    Object.freeze(next);
  }
  return { invoke, show };
})
