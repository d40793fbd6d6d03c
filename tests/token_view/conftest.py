"""A real browser, where one is installed."""

import shutil
import warnings

import pytest

from gtpo.token_view.groups import LoadedGroups
from gtpo.token_view.page import render_page

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium driven by Selenium. Without one, the tests are skipped with a warning."""
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if program is None or driver is None:
        note = "No browser: the page of the token view is not tested. Debian: apt-get install chromium chromium-driver"
        warnings.warn(note, stacklevel=1)
        pytest.skip(note)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_page_load_timeout(60)
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium):
    """The browser at 1280 × 900 in the light theme, with an empty console."""
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
    chromium.get("about:blank")
    chromium.get_log("browser")
    return chromium


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page with these groups."""

    def open_page(*groups, fragment="", notes=(), **options):
        page = tmp_path / "page.html"
        page.write_text(
            render_page(LoadedGroups(list(groups), list(notes)), title="a run", **options), encoding="utf-8"
        )
        browser.get(page.as_uri() + fragment)
        return browser

    return open_page
