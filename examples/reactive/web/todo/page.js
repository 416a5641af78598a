import { Lope } from "../../lope.js";

const lope = new Lope();
const $ = (selector) => document.querySelector(selector);
const list = "home/todo";

const row = (item) => {
  const line = document.createElement("li");
  const label = document.createElement("label");
  const box = document.createElement("input");
  const remove = document.createElement("button");
  box.type = "checkbox";
  box.checked = item.done;
  box.addEventListener("change", () => lope.send(`${list}/toggle`, { key: item.key }));
  remove.textContent = "✕";
  remove.ariaLabel = `Remove ${item.title}`;
  remove.addEventListener("click", () => lope.send(`${list}/remove`, { key: item.key }));
  label.append(box, item.title);
  line.className = item.done ? "done" : "";
  line.append(label, remove);
  return line;
};

lope.watch(`${list}/items`, (items) => {
  $("#items").replaceChildren(...(items ?? []).map(row));
  if (!items) $("#left").textContent = "Run the recipe first: lope recipes run examples/reactive/web/todo/recipe.js --into home/todo";
});
lope.watch(`${list}/open`, (open) => {
  if (open !== undefined) $("#left").textContent = open === 1 ? "1 thing left" : `${open} things left`;
});
lope.status(({ live, pending }) => {
  const waits = pending === 0 ? "saved" : pending === 1 ? "1 change waits" : `${pending} changes wait`;
  $("#status").textContent = `${live ? "live" : "offline"} · ${waits}`;
});

$("#add").addEventListener("submit", (event) => {
  event.preventDefault();
  const title = new FormData(event.target).get("title").trim();
  if (!title) return;
  // The key is made here, once: an event that is sent again is still the same thing to do.
  const key = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  lope.send(`${list}/add`, { key, title });
  event.target.reset();
});
