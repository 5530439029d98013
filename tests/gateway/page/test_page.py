"""The page in a real browser. `TOCSIN_SCREENSHOTS` names a folder for pictures of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.servers import Gateway, running
from tests.network.servers import NatsServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

TOP = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 5"
NAMES = ["Aldebaran", "Bellatrix", "Capella", "Deneb", "Electra", "Fomalhaut", "Gienah", "Hadar", "Izar"]

REMEMBER_SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("page")) as made:
        columns = {"symbol": "string", "risk": "double", "per": "double"}
        made.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": columns})
        trades = {"price": "double", "shares": "bigint"}
        made.ok("POST", "/v1/streams", {"name": "trades", "columns": trades})
        made.ok("POST", "/v1/streams", {"name": "visitors"})
        rows = [{"symbol": name, "risk": 8 * n, "per": 5 + 3.5 * n} for n, name in enumerate(NAMES)]
        made.ok("POST", "/v1/tables/stocks/rows", rows)
        ranges = [(n * 1.2, n * 1.2 + 12 + (n * 7) % 20) for n in range(40)]
        params: dict[str, list[Any]] = {"id": [f"r{n}" for n in range(40)], "lo": [lo for lo, _ in ranges]}
        params["hi"] = [hi for _, hi in ranges]
        made.ok("POST", "/v1/subscriptions", {"sql": TOP, "params": {"lo": 0, "hi": 60}, "id": "cheapest"})
        count = {"sql": "SELECT COUNT(*) FROM stocks WHERE per > 10", "id": "above-ten"}
        made.ok("POST", "/v1/subscriptions", count)
        alarm = {"sql": "SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 1000", "id": "volume"}
        made.ok("POST", "/v1/subscriptions", alarm)
        oslo = {"sql": "SELECT * FROM visitors WHERE age > 30 AND city = 'Oslo'", "id": "oslo"}
        made.ok("POST", "/v1/subscriptions", oslo)
        made.ok("POST", "/v1/subscriptions", {"sql": "SELECT * FROM visitors WHERE age < 20", "id": "young"})
        made.ok("POST", "/v1/subscriptions/bulk", {"sql": TOP, "params": params, "throttle": 0})
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, gateway: Gateway, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, signed in; a fault in its scripts fails the test."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 1000}, **getattr(request, "param", {})}
    context = browser.new_context(**options)
    context.add_init_script(REMEMBER_SOCKETS)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda fault: faults.append(str(fault)))
    opened.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    opened.goto(gateway.url)
    opened.get_by_label("Key", exact=True).fill(gateway.key)
    opened.keyboard.press("Enter")
    playwright.expect(opened.get_by_role("status").first).to_have_text("live", timeout=30_000)
    yield opened
    context.close()
    assert faults == []


def board(page: Any, name: str) -> Any:
    return page.get_by_role("article", name=f"Board {name}", exact=True)


def picture(page: Any, name: str) -> None:
    folder = os.environ.get("TOCSIN_SCREENSHOTS")
    if folder:
        page.wait_for_timeout(1500)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def publish(gateway: Gateway, symbol: str, risk: float, per: float) -> None:
    row = {"symbol": symbol, "risk": risk, "per": per}
    gateway.ok("POST", "/v1/tables/stocks/rows", [row])


def test_a_wrong_key_is_refused(browser: Any, gateway: Gateway) -> None:
    page = browser.new_page()
    page.goto(gateway.url)
    page.get_by_label("Key", exact=True).fill("tocsin_wrong")
    page.get_by_role("button", name="Sign in").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("not valid")
    assert page.locator("main").is_hidden()
    picture(page, "signin")
    page.close()


def test_rows_move_on_a_board(page: Any, gateway: Gateway) -> None:
    keys = board(page, "cheapest").locator("li .key")
    playwright.expect(keys).to_have_text(NAMES[:5], timeout=30_000)
    publish(gateway, "Capella", 16, 1)
    playwright.expect(keys).to_have_text(["Capella", "Aldebaran", "Bellatrix", "Deneb", "Electra"])
    publish(gateway, "Capella", 16, 12)
    playwright.expect(keys).to_have_text(NAMES[:5])
    playwright.expect(board(page, "above-ten").locator(".value")).to_have_text("7")
    assert page.locator("#boards > article").count() >= 2
    picture(page, "boards")


def test_an_alert_shows_how_far_it_is_and_rings(page: Any, gateway: Gateway) -> None:
    alert = page.get_by_role("article", name="Alert volume")
    gateway.ok("POST", "/v1/streams/trades/rows", [{"price": 1, "shares": 640}])
    playwright.expect(alert.get_by_role("progressbar")).to_have_attribute(
        "aria-valuenow", "64", timeout=30_000
    )
    picture(page, "alert")
    gateway.ok("POST", "/v1/streams/trades/rows", [{"price": 1, "shares": 400}])
    playwright.expect(page.get_by_text("volume rings: 1040 reached")).to_be_visible()
    playwright.expect(alert).to_contain_text("reached")
    assert alert.get_by_role("progressbar").get_attribute("aria-valuenow") == "100"


def test_matches_of_before_are_shown(page: Any, gateway: Gateway) -> None:
    oslo = board(page, "oslo")
    gateway.ok("POST", "/v1/streams/visitors/rows", [{"age": 44, "city": "Oslo"}])
    playwright.expect(oslo.locator("li .key")).to_contain_text(["44"])
    page.reload()
    playwright.expect(oslo.locator("li .key")).to_contain_text(["44"], timeout=30_000)
    playwright.expect(board(page, "young")).to_contain_text("no match yet")


def test_a_statement_is_explained_in_place(page: Any, gateway: Gateway) -> None:
    box = page.get_by_label("Standing query in SQL")
    box.fill("SELECT symbol FROM stocks WHERE riks BETWEEN :lo AND :hi ORDER BY per LIMIT 3")
    playwright.expect(page.locator("#underline mark")).to_have_text("riks")
    playwright.expect(page.locator("#sql-says")).to_contain_text("has no column 'riks'")
    picture(page, "error")
    box.fill("SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 3")
    playwright.expect(page.locator("#sql-says")).to_contain_text("This is a top-k")
    page.get_by_label(":lo").fill("8")
    page.get_by_label(":hi").fill("24")
    page.get_by_label("Name").fill("by-hand")
    box.press("Control+Enter")
    playwright.expect(board(page, "by-hand").locator("li .key")).to_have_text(NAMES[1:4])
    page.get_by_role("button", name="End by-hand").click()
    playwright.expect(board(page, "by-hand")).to_have_count(0)
    assert gateway.call("GET", "/v1/subscriptions/by-hand").status_code == 404


def test_an_event_is_tried(page: Any) -> None:
    page.get_by_label("Event as JSON").fill('{"age": 41, "city": "Oslo"}')
    page.get_by_role("button", name="Try").click()
    playwright.expect(page.locator("#matcher-says")).to_have_text("1 of 2 match", timeout=60_000)
    playwright.expect(page.locator("#verdicts > li.yes")).to_contain_text("oslo")
    assert page.locator("#verdicts > li").count() == 2


def test_the_space_is_drawn(page: Any, gateway: Gateway) -> None:
    page.get_by_label("of", exact=True).select_option("r3")
    playwright.expect(page.locator("#space-says")).to_contain_text("41 subscriptions", timeout=30_000)
    publish(gateway, "Electra", 32, 2)
    playwright.expect(page.locator("#space-says")).to_contain_text("message", timeout=30_000)
    assert page.locator("#space").bounding_box()["width"] > 300
    page.get_by_role("button", name="Try").click()
    page.locator("#space").scroll_into_view_if_needed()
    picture(page, "space")
    publish(gateway, "Electra", 32, 19)


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}], indirect=True)
def test_in_the_dark(page: Any, gateway: Gateway) -> None:
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) < 150
    page.get_by_label("of", exact=True).select_option("r3")
    page.get_by_role("button", name="Try").click()
    publish(gateway, "Electra", 32, 3)
    picture(page, "dark")
    page.get_by_role("button", name="Switch between dark and light").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    publish(gateway, "Electra", 32, 19)


PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}


@pytest.mark.parametrize("page", [PHONE], indirect=True)
def test_on_a_phone_nothing_is_cut_off(page: Any) -> None:
    playwright.expect(board(page, "cheapest").locator("li").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "phone")


def test_everything_is_reached_by_keyboard(page: Any) -> None:
    reached = set()
    page.locator("body").press("Tab")
    for _ in range(40):
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        page.keyboard.press("Tab")
    assert {"theme", "leave", "sql", "name", "subscribe", "Skip to the boards"} <= reached


def focused(page: Any) -> str:
    """What has the focus: its id, its label or its text."""
    name = "e.id || e.getAttribute('aria-label') || e.dataset.name || e.textContent.trim()"
    return str(page.evaluate(f"(e => {name})(document.activeElement)"))


def tab_to(page: Any, name: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if focused(page) == name:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_a_subscription_by_keyboard_alone(page: Any, gateway: Gateway) -> None:
    tab_to(page, "sql")
    page.keyboard.type("SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 2")
    playwright.expect(page.locator("#sql-says")).to_contain_text("This is a top-k")
    for name, text in (("lo", "8"), ("hi", "24"), ("name", "typed")):
        tab_to(page, name)
        page.keyboard.type(text)
    tab_to(page, "subscribe")
    page.keyboard.press("Enter")
    playwright.expect(board(page, "typed").locator("li .key")).to_have_text(NAMES[1:3])
    tab_to(page, "Explain typed")
    page.keyboard.press("Enter")
    playwright.expect(board(page, "typed").locator(".explained")).to_contain_text("index:")
    tab_to(page, "End typed")
    page.keyboard.press("Enter")
    playwright.expect(board(page, "typed")).to_have_count(0)
    assert focused(page).startswith("End "), "the focus goes on with the next board"
    tab_to(page, "space")
    playwright.expect(page.locator("#space-says")).to_contain_text("subscriptions", timeout=30_000)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#space-says")).to_contain_text("was ")
    picture(page, "keyboard")


def test_a_key_that_is_revoked_leads_back_to_the_form(browser: Any, gateway: Gateway) -> None:
    page = browser.new_page()
    page.goto(gateway.url)
    refused = gateway.ok("POST", "/v1/keys", {"scopes": ["publish"]})
    made = gateway.ok("POST", "/v1/keys", {"scopes": ["subscribe"]})
    for key, words in ((refused["key"], "lacks the scope subscribe"), (made["key"], "no longer valid")):
        page.get_by_label("Key", exact=True).fill(key)
        page.keyboard.press("Enter")
        if key == made["key"]:
            playwright.expect(page.get_by_role("status").first).to_have_text("live", timeout=30_000)
            gateway.ok("DELETE", f"/v1/keys/{made['id']}")
        playwright.expect(page.get_by_role("alert")).to_contain_text(words, timeout=30_000)
        assert page.locator("main").is_hidden()
    page.close()


def aside(work: Coroutine[Any, Any, None]) -> None:
    """Do something in a loop of its own: the browser's is running here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


@pytest.mark.slow
def test_a_page_that_a_job_feeds(browser: Any, tmp_path: Path) -> None:
    nats = pytest.importorskip("tests.gateway.edge.test_nats")
    server = NatsServer(tmp_path)
    server.start()
    try:
        job = nats.Job(server.address, nats.TOP, nats.LEAST)
        aside(job.begin())
        with running(tmp_path / "data", nats=server.address, root=nats.ROOT) as fed:
            page = browser.new_page()
            page.goto(fed.url)
            page.get_by_label("Key", exact=True).fill(fed.key)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="ORDER BY y").click(timeout=30_000)
            page.get_by_label(":lo").fill("0")
            page.get_by_label(":hi").fill("19")
            page.get_by_label("Name").fill("all")
            page.get_by_role("button", name="Subscribe").click()
            aside(job.change(5))
            keys = [key for key, _ in job.answer(nats.TOP, lo=0, hi=19)]
            playwright.expect(board(page, "all").locator("li .key")).to_have_text(keys, timeout=60_000)
            assert page.locator("#matcher-card").is_hidden()
            picture(page, "fed")
            page.close()
    finally:
        server.kill()


def test_a_lost_connection_comes_back(page: Any, gateway: Gateway) -> None:
    playwright.expect(board(page, "cheapest").locator("li .score").first).to_have_text("5")
    page.evaluate("sockets[0].close()")
    publish(gateway, "Aldebaran", 0, 4)
    for _ in range(600):
        # Until the page has heard of it, it says "live" of the old one.
        if page.evaluate("sockets.length") > 1:
            break
        page.wait_for_timeout(50)
    playwright.expect(page.get_by_role("status").first).to_have_text("live", timeout=30_000)
    assert page.evaluate("sockets.length") == 2
    playwright.expect(board(page, "cheapest").locator("li .score").first).to_have_text("4", timeout=30_000)
    publish(gateway, "Aldebaran", 0, 5)
