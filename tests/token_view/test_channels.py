"""Channels: what the color of a token shows, for a run of GTPO and for one of plain GRPO."""

import dataclasses

import pytest

from tests.token_view.driving import completion, details, group, press, style, token, tokens
from tests.token_view.example_group import example_group


def plain_group():
    """A group of plain GRPO: both completions begin with the same token, which GTPO would not push down."""
    good = completion(
        ["same", "good"],
        1.0,
        prefix=1,
        token_weight=[2.0, 1.0],
        token_logp=[-0.05, -7.5],
        token_entropy=[0.05, 4.0],
        token_advantage=[1.0, 0.25],
    )
    bad = completion(["same", "bad"], -1.0, prefix=1, token_ids=[0, 2], token_weight=[0.0, 1.0], truncated=True)
    return dataclasses.replace(group(good, bad), method="grpo", reason="spread", entropy_threshold=None)


def classes(browser):
    return [element.get_attribute("class").split()[1] for element in tokens(browser)]


def legend(browser):
    return browser.find_element("id", "legend").text


def test_every_channel_colors_the_tokens_by_its_own_values(opened):
    browser = opened(plain_group())
    assert classes(browser) == ["plus-4", "plus-4", "minus-4", "minus-4"]
    numbers = ["−1", "−0.75", "−0.50", "−0.25", "0", "+0.25", "+0.50", "+0.75", "+1"]
    assert legend(browser).split("\n")[1:] == numbers
    browser.find_element("id", "channel-credit").click()
    assert classes(browser) == ["plus-4", "plus-1", "minus-4", "minus-4"]
    browser.find_element("id", "channel-logp").click()
    assert classes(browser) == ["heat-0", "heat-5", "unknown", "unknown"]
    assert "≥ −0.1\np ≥ 0.9" in legend(browser)
    assert "< −6.9\np < 0.001" in legend(browser)
    browser.find_element("id", "channel-entropy").click()
    assert classes(browser) == ["heat-0", "heat-5", "heat-2", "heat-2"]
    assert browser.find_element("id", "channel-entropy").get_attribute("aria-pressed") == "true"
    browser.find_element("id", "channel-gtpo").click()
    assert classes(browser) == ["amplified", "up", "skipped", "down"]


def test_number_keys_choose_the_channel_and_the_focused_token_stays(opened):
    browser = opened(plain_group())
    token(browser, 0, 1).click()
    shown = []
    for key in "12345":
        press(browser, key)
        shown.append(classes(browser)[1])
    assert shown == ["plus-4", "plus-1", "heat-5", "heat-5", "up"]
    assert browser.switch_to.active_element == token(browser, 0, 1)


def test_the_details_have_the_value_of_every_channel_for_mouse_and_keyboard(opened):
    from selenium.webdriver import ActionChains

    browser = opened(plain_group())
    ActionChains(browser).move_to_element(token(browser, 0, 1)).perform()
    values = ("advantage +1", "credit +0.25", "log p −7.5", "entropy 4 nats", "λ with GTPO 1")
    assert all(value in details(browser) for value in values)
    assert "pushed up: made more likely" in details(browser)
    press(browser, "\ue014", "\ue015")  # → ↓
    values = ("advantage −1", "credit −1", "log p –", "entropy 0.5 nats", "λ with GTPO 0", "completion #2")
    assert all(value in details(browser) for value in values)


def test_plain_grpo_shows_gtpo_only_on_request(opened):
    browser = opened(plain_group())
    page = browser.find_element("css selector", "main")
    assert "GTPO" not in page.text
    assert "push amplified" not in legend(browser)
    assert "push" not in browser.find_element("id", "completions").text
    assert not browser.find_element("id", "changes").is_displayed()
    press(browser, "5")
    assert "GTPO, arXiv:2508.03772" in page.text
    assert "What would GTPO have changed?" in page.text
    token(browser, 1, 0).click()
    effect = "the good completion #1 has the same token in this position, so its penalty would be skipped"
    assert effect in details(browser)
    press(browser, "1")
    assert "GTPO" not in page.text


def test_why_a_group_was_recorded_is_next_to_its_kinds_and_not_in_the_prompt(opened):
    browser = opened(plain_group())
    assert browser.find_element("id", "about").text == "recorded for: spread · trained with GRPO · mixed · truncated"
    titles = "return [...document.querySelectorAll('#about span')].map((e) => e.title)"
    assert browser.execute_script(titles)[::2] == [
        "the largest spread of rewards in its step",
        "good and bad completions",
    ]
    after_heading = "return document.querySelector('#prompt-box h2').nextElementSibling.id"
    assert browser.execute_script(after_heading) == "prompt"


def test_another_credit_scheme_is_shown_by_its_credit(opened):
    browser = opened(dataclasses.replace(plain_group(), method="lead"))
    assert browser.find_element("id", "channel-credit").get_attribute("aria-pressed") == "true"
    assert "trained with LEAD" in browser.find_element("id", "about").text


def test_a_channel_without_data_is_disabled_with_its_reason(opened):
    browser = opened(example_group())  # without log-probabilities
    button = browser.find_element("id", "channel-logp")
    assert not button.is_enabled()
    assert button.get_attribute("title") == "log p: not recorded"
    assert "log p: not recorded" in legend(browser)
    press(browser, "3")
    assert tokens(browser, ".amplified")
    press(browser, "\ue014")
    assert "log p not recorded" in details(browser)
    assert "λ 2" in details(browser)


def test_a_chosen_channel_stays_for_the_groups_that_have_it(opened):
    without = [dataclasses.replace(c, token_entropy=None) for c in plain_group().completions]
    browser = opened(plain_group(), dataclasses.replace(plain_group(), completions=without, step=2), plain_group())
    press(browser, "4")
    assert classes(browser)[0] == "heat-0"
    press(browser, "n")
    assert classes(browser)[0] == "plus-4"
    press(browser, "n")
    assert classes(browser)[0] == "heat-0"


def test_completions_from_files_have_an_advantage_and_no_credit(opened):
    plain = dataclasses.replace(example_group().completions[0], entropy=None, token_entropy=None)
    browser = opened(group(plain), rollouts=True, notes=["Built from text."])
    assert browser.find_element("id", "notes").text == "Built from text."
    assert classes(browser)[0] == "plus-4"
    assert not browser.find_element("id", "channel-entropy").is_enabled()
    assert "credit: these files do not have it" in legend(browser)
    press(browser, "5")
    assert "What would GTPO have changed?" in browser.find_element("id", "changes").text
    assert "completion filtered" not in legend(browser)


def test_untrained_tokens_are_marked_in_every_channel(opened):
    browser = opened(group(completion(["tool", "x"], 1.0, trained=[False, True], token_advantage=[0.0, 1.0])))
    for key in "124":
        press(browser, key)
        assert len(tokens(browser, ".untrained")) == 1
        assert "not trained" in legend(browser)


def test_records_without_texts_show_positions(opened):
    plain = plain_group()
    without = [dataclasses.replace(c, token_ids=None, pieces=None) for c in plain.completions]
    browser = opened(dataclasses.replace(plain, prompt=None, completions=without))
    assert [element.text for element in tokens(browser)] == ["1", "2", "1", "2"]
    assert browser.find_element("id", "prompt").text == "not recorded"
    press(browser, "5")
    token(browser, 1, 0).click()
    assert "Shared prefix: a good completion has the same token in this position" in details(browser)
    assert browser.get_log("browser") == []


def luminance(color):
    """The relative luminance of WCAG 2."""
    text = color[color.index("(") + 1 : color.index(")")].replace("srgb", "").replace(",", " ")
    parts = [float(part) for part in text.split()[:3]]
    parts = parts if color.startswith("color(") else [part / 255 for part in parts]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_every_color_is_readable(opened, theme):
    browser = opened(plain_group(), fragment=f"#theme={theme}")
    names = [*(f"{side}-{level}" for side in ("plus", "minus") for level in range(1, 5))]
    names += [*(f"heat-{level}" for level in range(6)), "amplified", "skipped", "up", "down", "worsened"]
    for name in names:
        browser.execute_script(f"arguments[0].className = 'token {name}'", token(browser, 0, 0))
        ink, paper = (luminance(style(token(browser, 0, 0), key)) for key in ("color", "background-color"))
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast >= 4.5, name
