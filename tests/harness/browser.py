"""Chromium, used through Playwright like a person's browser."""

import contextlib
import shutil

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

# Other tests may keep the machine busy.
expect.set_options(timeout=20_000)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "there is no chromium; install it: scripts/install-system-packages test"
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


@contextlib.contextmanager
def chromium():
    """Yields the browser. Its sandbox is off, because root in a container lacks the rights for it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A console page of one server. `errors` collects the errors that the page logs."""

    def __init__(self, browser, address, *, scheme="light", size=DESKTOP, motion="reduce"):
        self.context = browser.new_context(
            base_url=f"http://{address}", color_scheme=scheme, viewport=size, reduced_motion=motion
        )
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def open(self, view=""):
        """Opens a view by its address behind the "#/", and waits until its content has loaded."""
        self.page.goto(f"/console/#/{view}")
        expect(self.page.locator("header .badge")).to_contain_text("ready")
        expect(self.page.locator("main")).not_to_contain_text("Loading")
        return self.page

    def violations(self):
        """Returns the violations that axe finds, as a list of texts."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]

    def overflow(self):
        """Returns by how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
