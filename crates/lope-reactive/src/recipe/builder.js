// What a recipe file in JavaScript is called with. Functions are taken as their source, so they
// see nothing but their arguments; an output that is not named gets a name by its place.
(build) => {
  const nodes = [], internal = {};
  const alias = (...path) => ({ $alias: { path } });
  const fresh = () => alias("internal", `node${nodes.length}`);
  const node = (type, implementation, inputs, output, more = {}) => {
    nodes.push({ module: { type, implementation, ...more }, inputs, outputs: output });
    return output;
  };
  const source = (made) => {
    if (typeof made !== "function") throw new TypeError("a function expected");
    return made.toString();
  };
  const asCells = (cells) => {
    const properties = {};
    for (const key of Object.keys(cells)) properties[key] = { asCell: true };
    return { properties };
  };
  const fields = {};
  const builder = {
    name(name) { fields.name = name; },
    argumentSchema(schema) { fields.argumentSchema = schema; },
    argument(...path) { return alias("argument", ...path); },
    internal(name, initial) {
      if (initial !== undefined) internal[name] = initial;
      return alias("internal", name);
    },
    stream(name) { return builder.internal(name, { $stream: true }); },
    compute(inputs, made, output = fresh()) { return node("javascript", source(made), inputs, output); },
    handler(stream, cells, made) {
      const more = { wrapper: "handler", argumentSchema: asCells(cells) };
      return node("javascript", source(made), { $event: stream, $ctx: cells }, {}, more);
    },
    call(name, inputs, output = fresh()) { return node("ref", name, inputs, output); },
    map(list, op, output = fresh()) { return builder.call("map", { list, op }, output); },
    filter(list, op, output = fresh()) { return builder.call("filter", { list, op }, output); },
    ifElse(condition, ifTrue, ifFalse, output = fresh()) {
      return builder.call("ifElse", { condition, ifTrue, ifFalse }, output);
    },
    effect(name, request, output = fresh()) { return builder.call("effect", { name, request }, output); },
    workflow(name, input, output = fresh()) { return node("workflow", name, input, output); },
    nested(recipe, inputs, output = fresh()) { return node("recipe", recipe, inputs, output); },
  };
  const result = build(builder);
  if (result === undefined) throw new TypeError("the function returns no result");
  return { ...fields, initial: { internal }, result, nodes };
}
