// Graphile Worker: a queue of jobs in Postgres, worked on in this process. It has no steps: a job is a
// run of one step, and has ended when its function was called.
//
// Speaks as benches/peers/protocol does: the work and its units as arguments, `ready`, `go`, times, `done`.

import readline from "node:readline";
import { Logger, run } from "graphile-worker";

const CALLERS = 256;
const CONCURRENCY = 20;
const SETTLE = 3_000;

const [work, units] = [process.argv[2], Number(process.argv[3])];
const waiting = new Map();
const quiet = new Logger(() => () => {});

const runner = await run({
  connectionString: process.env.PEER_URL,
  concurrency: CONCURRENCY,
  maxPoolSize: CONCURRENCY + 5,
  noHandleSignals: true,
  logger: quiet,
  taskList: {
    nothing: async ({ number }) => {
      waiting.get(number)();
      waiting.delete(number);
    },
  },
});

async function one(number) {
  const ended = new Promise((resolve) => waiting.set(number, resolve));
  await runner.addJob("nothing", { number });
  await ended;
}

async function runs() {
  let next = 1;
  const caller = async () => {
    while (next <= units) await one(next++);
  };
  await Promise.all(Array.from({ length: Math.min(CALLERS, units) }, caller));
}

async function latencies() {
  for (let number = 1; number <= units; number++) {
    const began = performance.now();
    await one(number);
    console.log(`time ${(performance.now() - began).toFixed(4)}`);
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const works = { runs, latency: latencies, idle: () => pause(units * 1_000) };

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
await one(0);
if (work === "idle") await pause(SETTLE);
console.log("ready");
await lines.next();
await works[work]();
console.log("done");
await lines.next();
process.exit(0);
