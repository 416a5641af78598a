"""DBOS for Python: async workflows of this process, their steps recorded in Postgres.

Speaks as benches/peers/protocol does: the work and its units as arguments, `ready`, `go`, times, `done`.
"""

import asyncio
import os
import sys
import time

from dbos import DBOS, DBOSConfig, SetWorkflowID

CALLERS = 256
SEQUENCES = 16
WIDTH = 1_000
SETTLE = 3
NAME = "named-sequence"
CONNECTIONS = 20

work, units = sys.argv[1], int(sys.argv[2])
counted = work in ("crash", "resume")
steps_file = os.path.join(os.environ["PEER_FOLDER"], "steps")
steps = os.open(steps_file, os.O_CREAT | os.O_APPEND | os.O_WRONLY) if counted else None


@DBOS.step()
async def nothing() -> None:
    if steps is not None:
        os.write(steps, b".")


@DBOS.workflow()
async def one(number: int) -> None:
    await nothing()


@DBOS.workflow()
async def sequence(length: int) -> None:
    for _ in range(length):
        await nothing()


@DBOS.workflow()
async def fan(width: int) -> None:
    await asyncio.gather(*[nothing() for _ in range(width)])


async def runs(number: int) -> None:
    numbers = iter(range(1, number + 1))

    async def caller() -> None:
        for each in numbers:
            await one(each)

    await asyncio.gather(*[caller() for _ in range(min(CALLERS, number))])


async def named_sequence(length: int) -> None:
    with SetWorkflowID(NAME):
        await sequence(length)


async def latencies(number: int) -> None:
    for each in range(1, number + 1):
        began = time.perf_counter()
        await one(each)
        print(f"time {(time.perf_counter() - began) * 1e3:.4f}")


async def do() -> None:
    if work == "runs":
        await runs(units)
    elif work == "sequence":
        await sequence(units)
    elif work == "sequences":
        await asyncio.gather(*[sequence(units // SEQUENCES) for _ in range(SEQUENCES)])
    elif work == "fan":
        for _ in range(max(units // WIDTH, 1)):
            await fan(WIDTH)
    elif work == "latency":
        await latencies(units)
    elif work == "idle":
        await asyncio.sleep(units)
    elif work == "crash":
        await named_sequence(units)
    elif work == "resume":
        handle = await DBOS.retrieve_workflow_async(NAME)
        await handle.get_result()
    else:
        sys.exit(f"there is no work '{work}'")


def say(line: str) -> None:
    print(line, flush=True)


async def main() -> None:
    config: DBOSConfig = {
        "name": "peer",
        "system_database_url": os.environ["PEER_URL"],
        "sys_db_pool_size": CONNECTIONS,
        "application_version": "1",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    if not counted:
        await one(0)
    if work == "idle":
        await asyncio.sleep(SETTLE)
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    await do()
    say("done")
    sys.stdin.readline()
    os._exit(0)


asyncio.run(main())
