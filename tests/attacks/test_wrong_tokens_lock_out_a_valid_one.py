"""Wrong tokens from the address of somebody who has a valid one, such as a NAT's: they are not locked out."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import OPERATOR, ROWS, House

from sketchlearn.collector.limits import FAILURES_PER_MINUTE

WRONG = [f"skl_{number:016x}_{'A' * 43}" for number in range(FAILURES_PER_MINUTE + 1)]


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("known", [True, False])
def test_a_valid_token_works_after_wrong_ones(house, known):
    """Whether or not the collector has seen it since it was started."""
    house.collection()
    sender, reader = house.sender(), house.token("read")
    if known:
        house.ask("GET", "/collections", reader, status=200)
    else:
        house.close()
        house.open()
    statuses = [house.ask("GET", "/collections", token).status_code for token in WRONG]
    assert statuses == [401] * FAILURES_PER_MINUTE + [429]
    assert house.send(sender, OPERATOR.sketch(ROWS), "r").status_code == 201
    house.ask("GET", "/collections", reader, status=200)
    answer = house.ask("GET", "/collections", WRONG[0])  # wrong ones are still slowed down
    house.refused(answer, 429, "too many tokens")
    assert answer.headers["retry-after"] == "60"


def test_a_valid_token_opens_the_page_after_wrong_ones(house):
    house.collection()
    house.close()
    house.open()
    statuses = [house.page("/collections/c", token).status_code for token in WRONG]
    assert statuses == [401] * FAILURES_PER_MINUTE + [429]
    entered = house.client.post("/token", data={"token": WRONG[0]}, follow_redirects=False)
    assert entered.status_code == 429
    assert house.page("/collections/c", house.admin).status_code == 200
    entered = house.client.post("/token", data={"token": house.admin}, follow_redirects=False)
    assert entered.status_code == 303


def test_wrong_tokens_are_looked_up_one_after_the_other(house, monkeypatch):
    """Once there were many, they take no more than one of the threads and connections of the database."""
    import asyncio
    import threading

    from sketchlearn.collector.limits import Identification
    from sketchlearn.collector.refusals import RefusalError

    at_once, most, lock, look_up = 0, 0, threading.Lock(), house.store.token

    def counted(text):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        try:
            return look_up(text)
        finally:
            with lock:
                at_once -= 1

    async def ask(found, tokens):
        return await asyncio.gather(*(found.token(text, "192.0.2.1") for text in tokens), return_exceptions=True)

    found = Identification(house.store)
    asyncio.run(ask(found, WRONG))
    monkeypatch.setattr(house.store, "token", counted)
    *refused, token = asyncio.run(ask(found, [*WRONG, house.admin]))
    assert {error.kind for error in refused if isinstance(error, RefusalError)} == {"too fast"}
    assert token.scope == "admin"
    assert most == 1
