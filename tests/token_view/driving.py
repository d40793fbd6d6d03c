"""Small groups for the tests of the page, and what a reader does with it in a browser."""

import dataclasses
import math

from gtpo.records import CompletionRecord, GroupRecord


def completion(pieces, advantage, **overrides):
    size = len(pieces)
    record = CompletionRecord(
        token_ids=list(range(size)),
        pieces=pieces,
        rewards={"reward": advantage},
        advantage=advantage,
        push=advantage,
        entropy=0.5,
        kept=True,
        valid=True,
        prefix=0,
        suffix=0,
        token_weight=[1.0] * size,
        token_advantage=[advantage] * size,
        token_entropy=[0.5] * size,
        trained=[True] * size,
    )
    return dataclasses.replace(record, **overrides)


def group(*completions, step=1, prompt="p"):
    return GroupRecord(step, prompt, list(completions), math.log(2), 0.4)


def tokens(browser, selector=""):
    return browser.find_elements("css selector", f"#completions .token{selector}")


def token(browser, row, place):
    return browser.find_element("css selector", f'#completions [data-row="{row}"][data-place="{place}"]')


def style(element, name):
    return element.value_of_css_property(name).replace("rgba(", "rgb(").replace(", 1)", ")")


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def details(browser):
    return browser.find_element("id", "details").text
