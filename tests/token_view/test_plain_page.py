"""The page of a plain GRPO run: as it was trained, with GTPO on request, and without texts."""

import dataclasses

from tests.token_view.example_group import example_group
from tests.token_view.test_page import completion, details, group, press, token, tokens


def plain_group():
    """A group of plain GRPO: both completions begin with the same token, which GTPO would not push down."""
    good = completion(["same", "good"], 1.0, prefix=1, token_weight=[2.0, 1.0], token_logp=[-0.1, -0.25])
    bad = completion(["same", "bad"], -1.0, prefix=1, token_weight=[0.0, 1.0], truncated=True)
    return dataclasses.replace(group(good, bad), method="grpo", reason="spread", entropy_threshold=None)


def test_a_group_of_plain_grpo_is_shown_as_it_was_trained_and_with_gtpo_on_request(opened):
    browser = opened(plain_group())

    def fates():
        return [element.get_attribute("class").split()[1] for element in tokens(browser)]

    assert fates() == ["up", "up", "down", "down"]
    assert browser.find_element("id", "reason").text == "recorded for: spread"
    assert "truncated" in browser.find_element("id", "completions").text
    assert "push" not in browser.find_element("id", "completions").text
    assert "What would GTPO have changed?" in browser.find_element("id", "changes").text
    token(browser, 0, 1).click()
    assert "log p −0.25" in details(browser)
    assert "A +1" in details(browser)
    assert "λ" not in details(browser)
    browser.find_element("id", "gtpo").click()
    assert fates() == ["amplified", "up", "skipped", "down"]
    token(browser, 1, 0).click()
    assert "log p not recorded" in details(browser)
    assert "λ 0" in details(browser)
    assert "the good completion #1 has the same token in this position, so its penalty is skipped" in details(browser)
    press(browser, "g")
    assert fates() == ["up", "up", "down", "down"]


def test_a_gtpo_run_has_no_switch(opened):
    browser = opened(example_group())
    press(browser, "g")
    assert not browser.find_element("id", "gtpo").is_displayed()
    assert tokens(browser, ".amplified")


def test_records_without_texts_show_positions(opened):
    plain = plain_group()
    without = [dataclasses.replace(c, token_ids=None, pieces=None) for c in plain.completions]
    browser = opened(dataclasses.replace(plain, prompt=None, completions=without))
    assert [element.text for element in tokens(browser)] == ["1", "2", "1", "2"]
    assert browser.find_element("id", "prompt").text == "not recorded"
    press(browser, "g")
    token(browser, 1, 0).click()
    assert "Shared prefix: a good completion has the same token in this position" in details(browser)
    assert browser.get_log("browser") == []
