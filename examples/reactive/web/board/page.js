// A board of agents' tasks in thirty lines: the list once, then each change as it comes.
const $ = (selector) => document.querySelector(selector);
const api = new URL("../../api/", location.href);
const tasks = new Map();
let late; // what changes while the list is on its way

const draw = () => {
  const states = Map.groupBy([...tasks.values()], (task) => task.status);
  const parts = [...states].flatMap(([state, all]) => {
    const title = document.createElement("h2");
    const list = document.createElement("ul");
    title.textContent = `${state} (${all.length})`;
    for (const task of all) {
      const line = document.createElement("li");
      line.textContent = task.question && !task.answer ? `${task.title} — ${task.question}` : task.title;
      list.append(line);
    }
    return [title, list];
  });
  $("#board").replaceChildren(...parts);
};

const read = async () => {
  const mine = (late = []);
  const answer = await (await fetch(new URL("tasks?limit=1000", api))).json();
  if (late !== mine) return; // another list is on its way
  tasks.clear();
  for (const task of answer.tasks) tasks.set(task.id, task);
  for (const change of mine) change();
  late = undefined;
  draw();
};

const changed = (change) => { late?.push(change); change(); draw(); };

const source = new EventSource(new URL("tasks/events", api));
source.onopen = () => { $("#status").textContent = "live"; read(); };
source.onerror = () => { $("#status").textContent = "offline"; };
source.addEventListener("reset", read);
source.addEventListener("task", (event) => { const task = JSON.parse(event.data); changed(() => tasks.set(task.id, task)); });
source.addEventListener("removed", (event) => { const { id } = JSON.parse(event.data); changed(() => tasks.delete(id)); });
