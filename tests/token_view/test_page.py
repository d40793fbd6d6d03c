"""The page in a real browser: what it shows and how it is used."""

import math

import pytest

from tests.token_view.driving import completion, details, group, press, style, token, tokens
from tests.token_view.example_group import example_group


@pytest.mark.parametrize("view", ["aligned", "flow"])
def test_every_token_is_drawn_once_with_its_text(opened, view):
    example = example_group()
    browser = opened(example, fragment=f"#view={view}")
    expected = {}
    for row, record in enumerate(example.completions):
        for place, piece in enumerate(record.pieces):
            expected[row, place] = piece
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('#completions .token')].map(e => "
        "[+e.dataset.row, +e.dataset.place, e.textContent])"
    )
    assert len(drawn) == len(expected)
    assert {(row, place): text.replace("↵", "\n") for row, place, text in drawn} == expected
    assert browser.get_log("browser") == []


def test_each_fate_has_a_color_and_a_second_cue(opened):
    browser = opened(example_group())
    fates = [token(browser, row, 0).get_attribute("class").split()[1] for row in range(5)]
    assert fates == ["amplified", "amplified", "skipped", "skipped", "filtered"]
    by_fate = {name: tokens(browser, f".{name}") for name in ("amplified", "skipped", "up", "down", "filtered")}
    assert list(map(len, by_fate.values())) == [12 + 13, 9 + 11, 21 + 14, 18 + 14, 19]
    colors = {name: style(elements[0], "background-color") for name, elements in by_fate.items()}
    assert colors["amplified"] == "rgb(11, 95, 165)"
    assert colors["up"] == "rgb(220, 235, 248)"
    assert colors["down"] == "rgb(251, 228, 213)"
    assert colors["skipped"] == "rgb(226, 244, 236)"
    assert style(by_fate["skipped"][0], "border-top-style") == "dashed"
    assert style(by_fate["down"][0], "text-decoration-style") == "dotted"
    assert "repeating-linear-gradient" in style(by_fate["filtered"][0], "background-image")
    assert int(style(by_fate["amplified"][0], "font-weight")) > int(style(by_fate["up"][0], "font-weight"))
    legend = browser.find_element("id", "legend").text
    assert "penalty skipped" in legend
    assert "shared with a good completion" in legend
    assert "not trained" not in legend


def test_rare_fates_are_in_the_legend_where_they_occur(opened):
    browser = opened(
        group(
            completion(["tool"], 1.0, trained=[False], token_weight=[0.0], token_advantage=[0.0]),
            completion(["small"], 0.01, prefix=1, push=-0.04, token_weight=[2.0], token_advantage=[-0.08]),
            completion(["tied"], 0.0, push=0.0, token_advantage=[0.0]),
            completion(["excluded"], 0.0, valid=False, kept=False, rewards={"reward": None}),
        )
    )
    fates = [token(browser, row, 0).get_attribute("class").split()[1] for row in range(4)]
    assert fates == ["untrained", "worsened", "still", "invalid"]
    assert style(token(browser, 1, 0), "background-color") == "rgb(168, 67, 15)"
    legend = browser.find_element("id", "legend").text
    assert all(words in legend for words in ("not trained", "pushed down harder", "no push", "no reward"))
    completions = browser.find_element("id", "completions").text
    assert "excluded: no reward, or masked" in completions
    assert "= neutral" in completions  # not tied: the others have an advantage


def test_shared_prefixes_and_suffixes_are_aligned_in_columns(opened):
    example = example_group()
    browser = opened(example)
    left, right = max(c.prefix for c in example.completions), max(c.suffix for c in example.completions)
    assert (left, right) == (7, 8)
    for place in range(left):
        assert len({token(browser, row, place).rect["x"] for row in range(5)}) == 1
    for back in range(1, right + 1):
        assert len({token(browser, n, len(c.pieces) - back).rect["x"] for n, c in enumerate(example.completions)}) == 1
    assert "shared prefix" in browser.find_element("css selector", "thead").text


def test_no_token_is_drawn_twice_in_a_completion_shorter_than_the_runs(opened):
    words = list("abcdef")
    good = completion(words, 1.0, prefix=4, suffix=3, token_weight=[2.0] * 6)
    bad = completion(["a", "b", "f"], -1.0, prefix=2, suffix=1, token_weight=[0.0] * 3)
    browser = opened(group(good, bad, completion([], -1.0)))
    assert [element.text for element in tokens(browser)] == ["a", "b", "c", "d", "e", "f", "a", "b", "f"]
    assert token(browser, 1, 2).rect["x"] == token(browser, 0, 5).rect["x"]
    assert "empty completion" in browser.find_element("id", "completions").text


def test_completions_have_rewards_advantage_push_and_entropy_next_to_them(opened):
    browser = opened(example_group())
    facts = [element.text.replace("\n", " ") for element in browser.find_elements("css selector", "tbody .facts")]
    assert "#1 ▲ good advantage +9.70" in facts[0]
    assert "format 10 correct 10 push +9.67 tokens 33" in facts[0]
    assert "⟨H⟩ 0.31 below ln 2" in facts[0]
    assert "#5 filtered" in facts[4]
    assert "⟨H⟩ 1.06 above ln 2" in facts[4]
    track = browser.find_elements("css selector", ".track")[4].rect
    fill = browser.find_elements("css selector", ".fill")[4].rect
    mark = browser.find_elements("css selector", ".mark")[4].rect
    assert fill["width"] / track["width"] == pytest.approx(1.06 / (2 * math.log(2)), abs=0.02)
    assert mark["x"] - track["x"] == pytest.approx(track["width"] / 2, abs=1)
    counts = browser.find_element("id", "changes").text
    assert "20 of 131" in counts
    assert "1 of 5" in counts


def test_hovering_shows_the_entropy_and_why_a_token_is_protected(opened):
    from selenium.webdriver import ActionChains

    example = example_group()
    browser = opened(example)
    assert "Hover over a token" in details(browser)
    ActionChains(browser).move_to_element(token(browser, 2, 0)).perform()
    text = details(browser)
    assert f"id {example.completions[2].token_ids[0]}" in text
    assert "token 1 of 27" in text
    assert f"entropy {example.completions[2].token_entropy[0]:.3f} nats" in text
    assert "λ 0" in text
    assert "the good completions #1, #2 have the same token in this position, so its penalty is skipped" in text
    partners = [element.get_attribute("data-row") for element in tokens(browser, ".partner")]
    assert partners == ["0", "1"]


def test_arrow_keys_move_between_tokens_and_completions(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened(example_group())
    focused = "return [document.activeElement.dataset.row, document.activeElement.dataset.place]"
    press(browser, Keys.ARROW_RIGHT)
    assert browser.execute_script(focused) == ["0", "0"]
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.execute_script(focused) == ["2", "2"]
    assert "completion #3" in details(browser)
    press(browser, Keys.ARROW_LEFT)
    assert browser.execute_script(focused) == ["2", "1"]
    press(browser, Keys.END, Keys.ARROW_UP)
    assert browser.execute_script(focused) == ["1", "26"]
    assert "<|end|>" in details(browser)
    press(browser, "v")
    assert len(browser.find_elements("css selector", "article")) == 5


def test_buttons_and_keys_page_through_steps_and_groups(opened):
    groups = [group(completion([f"s{s}g{g}"], 1.0), step=s, prompt=f"prompt {s} {g}") for s in (1, 11) for g in (1, 2)]
    browser = opened(*groups)

    def where():
        return [tokens(browser)[0].text, browser.find_element("id", "group-number").text]

    assert where() == ["s1g1", "group 1 of 2"]
    assert not browser.find_element("id", "group-back").is_enabled()
    browser.find_element("id", "group-on").click()
    assert where() == ["s1g2", "group 2 of 2"]
    assert browser.find_element("id", "prompt").text == "prompt 1 2"
    press(browser, "n")
    assert where() == ["s11g1", "group 1 of 2"]
    assert browser.find_element("id", "step").get_attribute("value") == "11"
    browser.find_element("id", "step-back").click()
    assert where()[0] == "s1g1"
    press(browser, "]", "n", "n", "p")
    assert where()[0] == "s11g1"
    press(browser, "[")
    assert where()[0] == "s1g1"
    opened(*groups, opened=3)
    assert where() == ["s11g2", "group 2 of 2"]
    assert not browser.find_element("id", "step-on").is_enabled()


def test_the_theme_follows_the_system_and_the_button(opened):
    browser = opened(example_group())
    body = browser.find_element("css selector", "body")
    light = style(body, "background-color"), style(token(browser, 0, 0), "background-color")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    dark = style(body, "background-color"), style(token(browser, 0, 0), "background-color")
    assert dark == ("rgb(20, 22, 26)", "rgb(108, 182, 240)")
    browser.find_element("id", "theme").click()
    assert (style(body, "background-color"), style(token(browser, 0, 0), "background-color")) == light


@pytest.mark.parametrize(("view", "width"), [("aligned", 1280), ("aligned", 390), ("flow", 390)])
def test_long_completions_stay_usable_at_any_width(opened, browser, view, width):
    words = [f" word{n}" if n % 17 else ".\n" for n in range(300)]
    good = completion(words, 1.0, prefix=12, suffix=9, token_weight=[2.0] * 12 + [1.0] * 279 + [2.0] * 9)
    bad = completion(words, -1.0, prefix=12, suffix=9, token_weight=[0.0] * 12 + [1.0] * 279 + [0.0] * 9)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    opened(group(*[good, bad] * 4), fragment=f"#view={view}")
    assert len(tokens(browser)) == 8 * 300
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    press(browser, "\ue014", "\ue010")  # → End
    last = token(browser, 0, 299)
    assert browser.switch_to.active_element == last
    in_view = "const r = arguments[0].getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth"
    assert browser.execute_script(in_view, last)


def test_a_long_middle_is_wide_and_fades_out_in_a_picture(opened):
    rows = [completion([f" word{n}" for n in range(size)], 1.0) for size in (600, 12)]
    browser = opened(group(*rows), fragment="#picture&view=aligned")
    long, short = browser.find_elements("css selector", ".middle .box")
    assert long.value_of_css_property("mask-image").startswith("linear-gradient")
    assert short.value_of_css_property("mask-image") == "none"
    assert 300 < long.size["height"] < 400
    assert long.size["width"] > 700


def test_a_long_prompt_shows_its_end_where_the_question_is(opened):
    browser = opened(group(completion(["x"], 1.0), prompt="Think step by step. " * 200 + "What is 2 + 2?"))
    prompt = browser.find_element("id", "prompt")
    above, shown, total = (prompt.get_property(name) for name in ("scrollTop", "clientHeight", "scrollHeight"))
    assert total > 2 * shown
    assert above + shown >= total - 1


@pytest.mark.parametrize(("view", "width"), [("aligned", 1280), ("flow", 390)])
def test_no_token_reached_by_keys_is_behind_the_header_or_the_details(opened, browser, view, width):
    size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    rows = [completion([f" word{n}" for n in range(60)], advantage) for advantage in range(12, 0, -1)]
    opened(group(*rows), fragment=f"#view={view}")
    covered = """
        const of = (selector) => document.querySelector(selector).getBoundingClientRect();
        const [token, top, bottom] = [of('.token.current'), of('header'), of('#details')];
        return token.top < top.bottom || token.bottom > bottom.top"""
    for key in ["\ue015"] * 12 + ["\ue013"] * 11:  # ↓ and back ↑
        press(browser, key)
        assert not browser.execute_script(covered)


def test_the_fixed_parts_leave_most_of_a_phone_to_the_tokens(opened, browser):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    opened(example_group())
    press(browser, "\ue014")  # →
    height = "return document.querySelector(arguments[0]).offsetHeight"
    assert style(browser.find_element("css selector", "header"), "position") == "static"
    assert browser.execute_script(height, "#details") + browser.execute_script(height, "header") < 844 / 3
