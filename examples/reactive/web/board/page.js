// A board of agents' tasks in thirty lines: the list once, then each change as it comes.
const $ = (selector) => document.querySelector(selector);
const api = new URL("../../api/", location.href);
const tasks = new Map();

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
  const answer = await fetch(new URL("tasks?limit=1000", api));
  tasks.clear();
  for (const task of (await answer.json()).tasks) tasks.set(task.id, task);
  draw();
};

const source = new EventSource(new URL("tasks/events", api));
source.onopen = () => { $("#status").textContent = "live"; read(); };
source.onerror = () => { $("#status").textContent = "offline"; };
source.addEventListener("reset", read);
source.addEventListener("task", (event) => { const task = JSON.parse(event.data); tasks.set(task.id, task); draw(); });
source.addEventListener("removed", (event) => { tasks.delete(JSON.parse(event.data).id); draw(); });
