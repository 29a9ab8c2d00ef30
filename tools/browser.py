"""Find a Chromium for the browser tests, install one if there is none, or say exactly what to install."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge")
PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
ADVICE = """\
The browser tests need Chromium, Chrome or Edge, and none was found. Install one:
  Debian, Ubuntu   sudo apt-get install chromium      (or chromium-browser)
  macOS, Windows   Chrome from its vendor, or: python -m playwright install chromium
or name one: CHROMIUM=/path/to/chromium make test"""


def find() -> str | None:
    """The path of a browser that Playwright can drive."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), *PATHS, _playwrights_own()]
    return next((path for path in candidates if path and os.path.exists(path)), None)


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def main() -> int:
    if find():
        return 0
    print("no browser found; trying to install one")
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], stdout=subprocess.DEVNULL, check=False)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    if find():
        return 0
    print(ADVICE, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
