"""The built site on localhost and in a browser; every visit fails on an error or a request to another host."""

import functools
import http.server
import statistics
import threading

import pytest
from playwright.sync_api import sync_playwright

import browser
import pages

SITE = pages.ROOT / "_build" / "html"
READY = """
async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
  // buttons fade into the theme's colours: what is measured on the way is neither the one nor the other
  const moving = () => document.getAnimations().filter((one) => one.playState === "running");
  while (moving().length) await Promise.allSettled(moving().map((one) => one.finished));
}
"""


@pytest.fixture(scope="package")
def address():
    """The site on localhost."""
    assert SITE.exists(), "there is no site; run make book"

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="package")
def chromium():
    path = browser.find()
    assert path, browser.ADVICE
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield running
        running.close()


@pytest.fixture
def visit(chromium):
    """Open an address and fail the test on any console error, page error, failed or outside request."""
    opened = []

    def go(url, *, width=1280, theme="light", offline_from="http://127.0.0.1", before=lambda page: None):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        problems: list[str] = []
        page.on("console", lambda m: problems.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda e: problems.append(f"script: {e}"))
        page.on("requestfailed", lambda r: problems.append(f"failed: {r.url}"))
        page.on("response", lambda r: problems.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
        page.on(
            "request",
            lambda r: (
                None if r.url.startswith((offline_from, "data:", "blob:")) else problems.append(f"outside: {r.url}")
            ),
        )
        opened.append((url, page, problems))
        before(page)
        page.goto(url, wait_until="load")
        page.evaluate(READY)
        return page

    yield go
    for url, page, problems in opened:
        page.close()
        assert not problems, f"{url}:\n" + "\n".join(problems)


VISITS = pytest.StashKey[list]()


@pytest.fixture
def report_visit(request):
    """Note what a first visit of a page cost; the end of the run shows it."""

    def note(page: str, kib: float, requests: int, ready: float, usable: float | None) -> None:
        request.config.stash.setdefault(VISITS, []).append((page, kib, requests, ready, usable))

    return note


def pytest_terminal_summary(terminalreporter, config) -> None:
    """DOM ready and first slider usable, in milliseconds on localhost with an empty cache, wanted within a second."""
    if not (visits := config.stash.get(VISITS, [])):
        return
    terminalreporter.section("first visits, localhost, empty cache")
    columns = zip(*visits, strict=True)
    names = ("page", "KiB gzipped", "requests", "DOM ready, ms", "first slider usable, ms")
    for name, column in list(zip(names, columns, strict=True))[1:]:
        numbers = [number for number in column if number is not None]
        if numbers:
            worst = visits[column.index(max(numbers))][0]
            line = f"{name}: median {statistics.median(numbers):.0f}, most {max(numbers):.0f} ({worst})"
            terminalreporter.write_line(line)
