"""The list of groups: search, sort and filter, and links that lead to a step, a group or a token."""

import dataclasses

import pytest

from tests.token_view.driving import completion, details, group, press, token, tokens

STEPS = {
    1: (("red apples", 1.0), ("green apples", -1.0)),
    5: (("one pear", 0.0), ("one pear", 0.0)),
    12: (("a long text about plums", 3.0), ("short", -3.0)),
}


def recorded():
    """Three groups: mixed; tied and repeated; mixed and truncated with the largest spread."""
    groups = []
    for step, rows in STEPS.items():
        completions = [completion([f" {word}" for word in text.split()], reward) for text, reward in rows]
        completions = [dataclasses.replace(c, token_ids=[hash(p) % 999 for p in c.pieces]) for c in completions]
        groups.append(group(*completions, step=step, prompt=f"Question of step {step}"))
    truncated = [dataclasses.replace(c, truncated=True) for c in groups[2].completions]
    groups[2] = dataclasses.replace(groups[2], completions=truncated, reason="spread")
    return groups


def listed(browser):
    return browser.execute_script("return [...document.querySelectorAll('#list .where')].map((e) => e.textContent)")


def choose(browser, name):
    browser.find_element("xpath", f"//select[@id='sort']/option[starts-with(., '{name}')]").click()


def test_the_list_opens_by_key_and_searches_prompts_and_completions(opened):
    browser = opened(*recorded())
    assert not browser.find_element("id", "groups-box").is_displayed()
    press(browser, "/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    assert listed(browser) == ["step 1", "step 5", "step 12"]
    press(browser, "APPLES green")
    assert listed(browser) == ["step 1"]
    assert browser.find_element("id", "num-found").text == "1 of 3 groups"
    browser.find_element("id", "search").clear()
    browser.find_element("id", "search").send_keys("of step 5")
    assert listed(browser) == ["step 5"]
    press(browser, "\ue00c")  # Escape
    assert not browser.find_element("id", "groups-box").is_displayed()


def test_the_list_is_sorted_and_filtered(opened):
    browser = opened(*recorded())
    browser.find_element("id", "groups").click()
    choose(browser, "reward spread")
    assert listed(browser) == ["step 12", "step 1", "step 5"]
    choose(browser, "mean length, longest")
    assert listed(browser) == ["step 12", "step 1", "step 5"]
    choose(browser, "step")
    kinds = {button.text.split()[0]: button for button in browser.find_elements("css selector", "#kinds button")}
    assert [button.text for button in kinds.values()] == ["tied 1", "mixed 2", "truncated 1", "repeated 1"]
    kinds["mixed"].click()
    assert listed(browser) == ["step 1", "step 12"]
    kinds["truncated"].click()
    assert listed(browser) == ["step 12"]
    kinds["mixed"].click()
    kinds["truncated"].click()
    kinds["repeated"].click()
    assert listed(browser) == ["step 5"]
    entry = browser.find_element("css selector", ".figures").text.replace("\n", " ")
    assert entry == "mean reward 0 spread 0 tokens 2 completions 2 tied repeated"


def test_files_of_completions_cannot_be_filtered_by_what_they_do_not_have(opened):
    browser = opened(*recorded(), rollouts=True)
    browser.find_element("id", "groups").click()
    buttons = browser.find_elements("css selector", "#kinds button")
    assert [button.text.split()[0] for button in buttons] == ["tied", "mixed", "repeated"]


def test_a_group_is_opened_from_the_list_by_keys_alone(opened):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    browser = opened(*recorded())
    browser.execute_script("document.querySelector('#groups').focus()")
    press(browser, Keys.ENTER, Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB)
    assert browser.switch_to.active_element.text.startswith("step 1\n")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda driver: not driver.find_element("id", "groups-box").is_displayed())
    assert browser.find_element("id", "prompt").text == "Question of step 12"
    assert browser.current_url.endswith("#step-12-group-1")


def test_tab_alone_reaches_the_controls_the_tokens_and_the_filters(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened(*recorded())
    reached = []
    for _ in range(20):
        press(browser, Keys.TAB)
        element = browser.switch_to.active_element
        reached.append(element.get_attribute("id") or element.get_attribute("class").partition(" ")[0])
    order = ["step", "groups", "channel-advantage", "view-aligned", "theme", "prompt", "token"]
    assert [name for name in dict.fromkeys(reached) if name in order] == order
    press(browser, "/", Keys.TAB, Keys.TAB, Keys.TAB, Keys.SPACE)
    assert browser.switch_to.active_element.text == "mixed 2"
    assert listed(browser) == ["step 1", "step 12"]


def test_a_link_to_a_step_leads_to_the_nearest_group_at_or_before_it(opened):
    for step, shown in ((12, 12), (11, 5), (4, 1), (99, 12), (0, 1), (-3, 1)):
        browser = opened(*recorded(), fragment=f"#step-{step}")
        assert browser.find_element("id", "prompt").text == f"Question of step {shown}"


def test_a_link_leads_to_one_token_and_the_address_follows_the_reader(opened):
    browser = opened(*recorded(), fragment="#step-12-group-1-completion-2-token-1")
    assert browser.switch_to.active_element == token(browser, 1, 0)
    assert "current" in token(browser, 1, 0).get_attribute("class")
    assert "completion #2 token 1 of 1" in details(browser).replace("\n", " ")
    press(browser, "\ue013", "\ue014")  # ↑ →
    assert browser.current_url.endswith("#step-12-group-1-completion-1-token-2")
    link = browser.find_element("css selector", "#details a").get_attribute("href")
    assert link == browser.current_url
    press(browser, "p")
    assert browser.current_url.endswith("#step-5-group-1")


def test_a_link_marks_its_token_in_a_page_without_focus(opened, browser):
    without_focus = {"source": "HTMLElement.prototype.focus = () => {}"}  # as in a tab in the background
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", without_focus)
    opened(*recorded(), fragment="#step-12-group-1-completion-2-token-1")
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    assert "current" in token(browser, 1, 0).get_attribute("class")
    assert "completion #2 token 1 of 1" in details(browser).replace("\n", " ")


def test_the_layout_changes_without_losing_the_token(opened):
    browser = opened(*recorded(), fragment="#step-12-group-1-completion-1-token-3")
    press(browser, "v")
    assert len(browser.find_elements("css selector", "article")) == 2
    assert "current" in token(browser, 0, 2).get_attribute("class")
    assert browser.switch_to.active_element == token(browser, 0, 2)
    assert browser.current_url.endswith("#step-12-group-1-completion-1-token-3")


@pytest.mark.parametrize(
    ("fragment", "step"),
    [
        ("#step-5-group-9", 5),
        ("#step-5-group-1-completion-7-token-1", 5),
        ("#step-5-group-1-completion-1-token-99", 5),
        ("#step-x", 1),
        ("#step-5-group-1-completion-<img src=x>-token-1", 1),
    ],
)
def test_links_that_lead_nowhere_show_the_nearest_place(opened, fragment, step):
    browser = opened(*recorded(), fragment=fragment)
    assert browser.find_element("id", "prompt").text == f"Question of step {step}"
    assert browser.get_log("browser") == []


def test_a_long_list_is_drawn_in_parts(opened):
    browser = opened(*[group(completion(["x"], 1.0), step=step) for step in range(250)])
    press(browser, "/")
    assert len(listed(browser)) == 200
    browser.find_element("id", "more").click()
    assert len(listed(browser)) == 250
    assert not browser.find_element("id", "more").is_displayed()
    assert browser.switch_to.active_element.text.startswith("step 200\n")


def test_a_token_far_into_a_long_completion_can_be_linked_and_is_in_view(opened):
    words = [f" w{number}" for number in range(3000)]
    browser = opened(group(completion(words, 1.0)), fragment="#step-1-group-1-completion-1-token-1900")
    assert token(browser, 0, 1899) == browser.switch_to.active_element
    in_view = "const r = arguments[0].getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight"
    assert browser.execute_script(in_view, token(browser, 0, 1899))
    assert len(tokens(browser)) < 3000


@pytest.mark.parametrize("view", ["aligned", "flow"])
def test_scrolling_draws_the_rest_of_a_long_completion(opened, view):
    from selenium.webdriver.support.wait import WebDriverWait

    words = [f" w{number}" for number in range(1000)]
    browser = opened(group(completion(words, 1.0)), fragment=f"#view={view}")
    texts = "return [...document.querySelectorAll('#completions .token')].map((e) => e.textContent)"
    assert browser.execute_script(texts) == words[:300]

    def is_complete(driver):
        driver.execute_script("document.querySelector('.rest').scrollIntoView()")
        return browser.execute_script(texts) == words

    WebDriverWait(browser, 20, poll_frequency=0.05).until(is_complete)
