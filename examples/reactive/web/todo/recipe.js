// A to-do list. Each event that is sent to `add`, `toggle` or `remove` takes effect once; `open` is
// how many are left.
//
//   lope recipes run examples/reactive/web/todo/recipe.js --into home/todo
//   lope up --app examples/reactive/web
//
// and then http://127.0.0.1:7420/app/todo/ in as many tabs as you like.
(b) => {
  b.name("todo");
  const items = b.internal("items", []);
  const add = b.stream("add");
  const toggle = b.stream("toggle");
  const remove = b.stream("remove");
  b.handler(add, { items }, (event, { items }) => {
    items.push({ key: event.key, title: event.title, done: false });
  });
  b.handler(toggle, { items }, (event, { items }) => {
    items.set(items.get().map((item) => (item.key === event.key ? { ...item, done: !item.done } : item)));
  });
  b.handler(remove, { items }, (event, { items }) => {
    items.set(items.get().filter((item) => item.key !== event.key));
  });
  const open = b.compute({ items }, ({ items }) => items.filter((item) => !item.done).length);
  return { items, open, add, toggle, remove };
}
