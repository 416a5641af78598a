// What every sandbox starts with: no clock, no chance, no compiler, frozen built-ins, and cells.
// Evaluates to a function of the host that gives `invoke` and `show`.
(function (host, charge, elementsMax) {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { isArray } = Array, { keys: objectKeys } = Object, NativeSet = Set;

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

  // Goes through what is to become JSON as that does: a part that stands in many places is gone through as
  // often. It ends where something leads back to itself.
  function weigh(value, open) {
    if (typeof value !== "object" || value === null || open.has(value)) return;
    if (typeof value.toJSON === "function") return;
    open.add(value);
    const keys = isArray(value) ? undefined : objectKeys(value);
    const length = keys === undefined ? value.length : keys.length;
    for (let at = 0; at < length; at++) weigh(value[keys === undefined ? at : keys[at]], open);
    open.delete(value);
  }

  // JSON of a value; a part that contains itself says where it leads back to.
  function show(value) {
    weigh(value, new NativeSet());
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
    unpaid = 0;
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

  // Loops inside the engine cannot be interrupted, so they are paid for before they begin: by the steps
  // that they take at most, eight of which count as one.
  let unpaid = 0;
  function pay(steps) {
    unpaid += steps / 8;
    if (unpaid < 1000) return;
    const due = unpaid;
    unpaid = 0;
    if (!charge(due)) throw new RangeError("the script used up its fuel");
  }

  function bounded(length) {
    if (length > elementsMax) throw new RangeError(`more than ${elementsMax} elements`);
    return length;
  }

  // How many elements a loop over something goes through. A length that is computed might be another one
  // by then, except that of a typed array.
  const typed = getPrototypeOf(Uint8Array);
  const typedLength = getOwnPropertyDescriptor(typed.prototype, "length").get;
  function lengthOf(list) {
    if (isArray(list) || typeof list === "string") return bounded(list.length);
    if (list === null || list === undefined) return 0;
    for (let at = Object(list); at !== null; at = getPrototypeOf(at)) {
      const found = getOwnPropertyDescriptor(at, "length");
      if (found === undefined) continue;
      const length = found.get === typedLength ? apply(typedLength, list, []) : found.value;
      const isFixed = found.get === typedLength || "value" in found;
      if (!isFixed || (typeof length === "object" && length !== null) || typeof length === "function") {
        throw new TypeError("the length of what is gone through has to be a number");
      }
      return bounded(+length || 0);
    }
    return 0;
  }

  function sorting(list) {
    const length = lengthOf(list);
    return length * (2 + Math.log2(length + 1));
  }

  // `native` in the place where it is found, paid for by what `cost` says of its list and arguments.
  function paid(owner, key, cost) {
    const { value: native } = getOwnPropertyDescriptor(owner, key) ?? {};
    if (typeof native !== "function") return;
    const { method } = { method(...given) { pay(cost(this, given)); return apply(native, this, given); } };
    defineProperty(owner, key, { value: method });
  }
  function replace(owner, key, make) {
    const { value: native } = getOwnPropertyDescriptor(owner, key) ?? {};
    if (typeof native === "function") defineProperty(owner, key, { value: make(native) });
  }
  function methodsOf(owner) {
    return ownKeys(owner).filter((key) => typeof key === "string" && key !== "constructor");
  }
  function together(lists) {
    let steps = 0;
    for (let at = 0; at < lists.length; at++) {
      if (typeof lists[at] === "object") steps += lengthOf(lists[at]);
    }
    return steps;
  }
  for (const key of methodsOf(Array.prototype)) {
    const isSorting = key === "sort" || key === "toSorted";
    const cost = isSorting ? sorting : (list) => lengthOf(list);
    paid(Array.prototype, key, key === "concat" ? (list, given) => cost(list) + together(given) : cost);
  }
  for (const key of methodsOf(typed.prototype)) {
    const isSorting = key === "sort" || key === "toSorted";
    const cost = isSorting ? sorting : (list) => lengthOf(list);
    paid(typed.prototype, key, key === "set" ? (list, given) => cost(list) + together(given) : cost);
  }
  // Lists in lists: each may be long.
  function flatten(to, from, depth) {
    const length = lengthOf(from);
    for (let at = 0; at < length; at++) {
      if (!(at in from)) continue;
      if (depth > 0 && isArray(from[at])) flatten(to, from[at], depth - 1);
      else to[to.length] = from[at];
    }
    return to;
  }
  replace(Array.prototype, "flat", () => ({
    method(depth = 1) { return flatten([], Object(this), +depth || 0); },
  }).method);
  replace(Array.prototype, "flatMap", () => ({
    method(made, self) {
      const list = Object(this), length = lengthOf(list), to = [];
      if (typeof made !== "function") throw new TypeError("not a function");
      for (let at = 0; at < length; at++) {
        if (at in list) flatten(to, [apply(made, self, [list[at], at, list])], 1);
      }
      return to;
    },
  }).method);

  // What is looked for in a text may be long, too. Short texts are paid for by the call itself.
  const shortText = 128;
  function isShort(text, what) {
    return typeof text === "string" && typeof what === "string" && text.length < shortText;
  }
  function seeking(text, what) {
    const length = text.length, sought = what.length;
    return sought > 32 ? length + Math.max(0, length - sought + 1) * sought / 16 : length;
  }
  const texts = String.prototype;
  for (const key of ["indexOf", "lastIndexOf", "includes"]) {
    replace(texts, key, (native) => ({
      method(what, from) {
        if (isShort(this, what) || this === null || this === undefined || what instanceof RegExp) {
          return apply(native, this, [what, from]);
        }
        const text = `${this}`, sought = `${what}`;
        pay(seeking(text, sought));
        return apply(native, text, [sought, from]);
      },
    }).method);
  }
  for (const [key, symbol] of [["split", Symbol.split], ["replace", Symbol.replace], ["replaceAll", Symbol.replace]]) {
    replace(texts, key, (native) => ({
      method(what, more) {
        if (isShort(this, what) || this === null || this === undefined || what === undefined || what instanceof RegExp) {
          return apply(native, this, [what, more]);
        }
        const own = what === null || typeof what === "string" ? undefined : what[symbol];
        if (own !== undefined && own !== null) return apply(own, what, [this, more]);
        const text = `${this}`, sought = `${what}`;
        pay(seeking(text, sought));
        return apply(native, text, [sought, more]);
      },
    }).method);
  }
  for (const key of [
    "localeCompare", "normalize", "toLowerCase", "toUpperCase", "toLocaleLowerCase", "toLocaleUpperCase",
    "trim", "trimStart", "trimEnd", "isWellFormed", "toWellFormed", "match", "matchAll", "search",
  ]) {
    replace(texts, key, (native) => ({
      method(one, other) {
        if (isShort(this, "") || this === null || this === undefined) return apply(native, this, [one, other]);
        const text = `${this}`;
        pay(text.length);
        return apply(native, text, [one, other]);
      },
    }).method);
  }
  replace(JSON, "parse", (native) => ({
    method(text, ...given) {
      const source = `${text}`;
      pay(4 * source.length);
      return native(source, ...given);
    },
  }).method);

  replace(JSON, "stringify", (native) => ({
    method(value, ...given) {
      if (typeof given[0] !== "function") weigh(value, new NativeSet());
      return native(value, ...given);
    },
  }).method);

  // What goes through a list by itself goes through it step by step here.
  function gathered(list) {
    const to = [];
    for (const part of list) to[to.length] = part;
    return to;
  }
  function entry(part) {
    if (Object(part) !== part) throw new TypeError("an entry expected");
    return part;
  }
  function gathering(Native, adder, parts) {
    const made = function (list) {
      if (new.target === undefined) throw new TypeError("constructor requires 'new'");
      const filled = construct(Native, [], new.target);
      if (list === undefined || list === null) return filled;
      const add = filled[adder];
      if (typeof add !== "function") throw new TypeError("not a function");
      for (const part of list) apply(add, filled, parts(part));
      return filled;
    };
    for (const key of ownKeys(Native)) defineProperty(made, key, getOwnPropertyDescriptor(Native, key));
    defineProperty(Native.prototype, "constructor", { value: made });
    defineProperty(globalThis, Native.name, { value: made });
  }
  const whole = (part) => [part], halves = (part) => [entry(part)[0], part[1]];
  for (const key of methodsOf(Set.prototype)) {
    if (!/^(union|is|intersection|difference|symmetric)/.test(key)) continue;
    replace(Set.prototype, key, (native) => ({
      method(other) {
        if (Object(other) !== other) return apply(native, this, [other]);
        const others = new NativeSet();
        if (typeof other.keys !== "function") throw new TypeError("not a function");
        for (const part of { [Symbol.iterator]: () => other.keys() }) others.add(part);
        pay(4 * others.size);
        return apply(native, this, [others]);
      },
    }).method);
  }
  gathering(Set, "add", whole);
  gathering(WeakSet, "add", whole);
  gathering(Map, "set", halves);
  gathering(WeakMap, "set", halves);
  replace(Object, "fromEntries", () => ({
    method(list) {
      const made = {};
      for (const part of list) {
        const value = entry(part)[1];
        defineProperty(made, part[0], { value, writable: true, enumerable: true, configurable: true });
      }
      return made;
    },
  }).method);
  replace(Math, "sumPrecise", (native) => ({ method(list) { return native(gathered(list)); } }).method);
  paid(globalThis.Iterator.prototype, "drop", (list, [count]) => 8 * bounded(+count || 0));

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
