// The page of examples/reactive/form.yaml: what is submitted starts a durable run, and the cell
// `order` shows how far it is.
import { Lope } from "../../lope.js";

const lope = new Lope();
const $ = (selector) => document.querySelector(selector);

const told = (order) => {
  if (!order || order.requestHash === undefined) return "Nothing was asked for yet.";
  const why = order.error?.message;
  if (order.pending) return why ? `It waits: ${why}` : "The workflow is at work…";
  if (order.error) return `It failed: ${why}`;
  return String(order.result);
};

lope.watch("home/form/order", (order) => { $("#order").textContent = told(order); });
lope.status(({ live, pending }) => {
  $("#status").textContent = `${live ? "live" : "offline"} · ${pending ? "not sent yet" : "saved"}`;
});
$("#submit").addEventListener("submit", (event) => {
  event.preventDefault();
  lope.send("home/form/submit", { name: new FormData(event.target).get("who") });
  event.target.reset();
});
