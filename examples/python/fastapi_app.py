"""A web service in front of durable work: it starts runs, asks about them, and signals them.

    pip install fastapi uvicorn
    lope up --python examples/python/orders.py                 # does the work, restarts included
    LOPE_EMBEDDED=0 uvicorn --app-dir examples/python fastapi_app:api

Without `lope up` (and without LOPE_EMBEDDED=0) the service starts a runner beside itself.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException

from lope.client import Handle, LopeError, start_async
from orders import Order, fulfil

api = FastAPI()


@api.post("/orders", status_code=202)
async def create(order: Order) -> dict[str, str]:
    run = await start_async(fulfil, order)
    return {"run": run.id}


@api.get("/orders/{run}")
async def show(run: str) -> dict[str, Any]:
    handle = Handle(run, fulfil)
    try:
        status = await handle.status_async()
        receipt = await handle.result_async() if status == "completed" else None
    except LopeError as error:
        raise HTTPException(404, str(error)) from None
    return {"status": status, "receipt": receipt}


@api.post("/orders/{run}/approval", status_code=202)
async def approve(run: str, approved: bool) -> None:
    try:
        await Handle(run, fulfil).signal_async("approved", approved)
    except LopeError as error:
        raise HTTPException(404, str(error)) from None
