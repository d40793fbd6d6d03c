"""The page in a frame, as a notebook embeds it: it has no address of its own there."""

import html

from tests.token_view.driving import details, press, token
from tests.token_view.example_group import example_group


def details_of_the_next_token(browser):
    from selenium.webdriver.common.keys import Keys

    token(browser, 0, 1).click()
    press(browser, Keys.ARROW_RIGHT)
    return details(browser)


def test_the_details_follow_the_keys_in_a_frame_too(opened, tmp_path):
    browser = opened(example_group())
    expected = details_of_the_next_token(browser)
    page = html.escape((tmp_path / "page.html").read_text(encoding="utf-8"))
    notebook = tmp_path / "notebook.html"
    frame = f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="1200" height="800"></iframe>'
    notebook.write_text(f'<meta charset="utf-8">{frame}', encoding="utf-8")
    browser.get(notebook.as_uri())
    browser.switch_to.frame(0)
    assert details_of_the_next_token(browser) == expected
