"""The examples, as a user runs them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Iterator

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))

from lope import client  # noqa: E402


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if "LOPE_BIN" not in os.environ:
        pytest.fail("LOPE_BIN is not set: run this by `cargo xtask test`")
    monkeypatch.setenv("LOPE_HOME", str(tmp_path))
    yield
    client._stop_runners()
    client._runners.clear()


def test_an_order_is_fulfilled() -> None:
    from orders import Item, Order, Receipt, fulfil

    receipt = client.run(fulfil, Order("17", [Item("a", 3), Item("b", 4)]))
    assert receipt == Receipt("17", 7, "17-7")


def test_the_web_service_starts_asks_and_signals() -> None:
    from fastapi.testclient import TestClient
    from fastapi_app import api

    web = TestClient(api)
    made = web.post("/orders", json={"id": "18", "items": [{"sku": "a", "price": 2000}]})
    assert made.status_code == 202, made.text
    run = made.json()["run"]
    assert web.post(f"/orders/{run}/approval?approved=true").status_code == 202
    until = time.monotonic() + 60
    while (found := web.get(f"/orders/{run}").json())["status"] != "completed":
        assert time.monotonic() < until, found
        time.sleep(0.1)
    assert found["receipt"] == {"order": "18", "total": 2000, "reference": "18-2000"}
    assert web.get("/orders/01890a5d-ac96-774b-bcce-b302099a8057").status_code == 404
