"""A real browser, where one is installed."""

import shutil
import warnings

import pytest

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium driven by Selenium; the tests are skipped loudly without one."""
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if program is None or driver is None:
        note = "NO BROWSER: the token view is not tested in one. Debian: apt-get install chromium chromium-driver"
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
    """The browser at 1280 × 900 in light colours, with an empty console."""
    for command, settings in (
        (
            "Emulation.setDeviceMetricsOverride",
            {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        ),
        ("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}),
    ):
        chromium.execute_cdp_cmd(command, settings)
    chromium.get("about:blank")
    chromium.get_log("browser")
    return chromium
