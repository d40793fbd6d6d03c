"""The report in a real browser: long names, small screens, and the colour of a verdict."""

import pytest

from gtpo.report.page import report_page
from gtpo.runs.run import load_run
from tests.runs.making import make_run, rows

LONG = "eval_" + "reward" * 30


@pytest.fixture
def shown(browser, tmp_path):
    """Open the report of a run with long names, recorded steps and too few steps to be judged."""

    def show(width):
        folder = tmp_path / "a-run-with-a-rather-long-name-seed1"
        make_run(folder, [*rows(8, reward=0.5, accuracy=0.25, format=0.5, entropy=0.5), {"step": 4, LONG: 1.0}])
        (folder / "groups.jsonl").write_text('{"step": 1}\n{"step": 8}\n')
        (folder / "inspect.html").write_text("")
        page = folder / "report.html"
        page.write_text(report_page([load_run(folder)], folder), encoding="utf-8")
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        return browser

    return show


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_do_not_widen_the_page(shown, width):
    browser = shown(width)
    assert LONG in browser.page_source
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")


def test_a_phone_can_show_the_figures_the_links_and_the_verdict(shown):
    browser = shown(390)
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    scale = browser.execute_script(box, "svg")["width"] / 460
    font = browser.find_element("css selector", ".tick").value_of_css_property("font-size")
    assert float(font.removesuffix("px")) * scale >= 11
    assert browser.execute_script(box, ".room")["width"] >= 24
    assert browser.execute_script(box, "td.health b")["right"] <= 390
    overlaps = """
        const texts = [...document.querySelector('svg').querySelectorAll('.tick')];
        const boxes = texts.map((text) => text.getBoundingClientRect());
        return boxes.some((a, n) => boxes.slice(n + 1).some((b) =>
            a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom))"""
    assert not browser.execute_script(overlaps)


def test_an_unknown_verdict_does_not_look_healthy(shown):
    browser = shown(1280)
    verdict = browser.find_element("css selector", "td.health b")
    assert verdict.text == "unknown"
    assert verdict.value_of_css_property("color").startswith("rgba(107, 110, 118")  # the gray of captions
