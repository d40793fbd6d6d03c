"""A recording that is too large for one page: an index, and pages of groups that are complete and linked."""

import dataclasses
import json
import re

import pytest

from gtpo.token_view import page as page_module
from gtpo.token_view.groups import LoadedGroups, load_groups
from gtpo.token_view.page import render_pages
from tests.token_view.driving import completion, group, press, token
from tests.token_view.example_group import save_groups

STEPS = (1, 1, 11, 21, 21, 31)


def groups():
    """Six groups of 200 tokens."""
    rows = [completion([f" w{n}" for n in range(100)], reward) for reward in (1.0, -1.0)]
    return [group(*rows, step=step, prompt=f"Question {number}") for number, step in enumerate(STEPS, start=1)]


def written(folder, source, index="index.html", pages="pages"):
    """The pages in a folder, as `gtpo inspect` writes them."""
    (folder / pages).mkdir()
    for page in render_pages(source, title="a run", index=index, folder=pages, max_tokens=400):
        path = folder / index if page.name is None else folder / pages / page.name
        path.write_text(page.html, encoding="utf-8")
    return folder / index


def group_data(page):
    text = page.read_text(encoding="utf-8")
    return [json.loads(part) for part in re.findall(r'class="group">(.*?)</script>', text)]


@pytest.fixture
def index(tmp_path):
    return written(tmp_path, LoadedGroups(groups(), ["A note."]))


def test_every_group_is_in_exactly_one_page_and_in_the_index(index):
    pages = sorted((index.parent / "pages").iterdir())
    assert [page.name for page in pages] == ["page-001.html", "page-002.html", "page-003.html"]
    shown = [(data["step"], data["number"], data["prompt"]) for page in pages for data in group_data(page)]
    assert [place[:2] for place in shown] == [(1, 1), (1, 2), (11, 1), (21, 1), (21, 2), (31, 1)]
    assert [place[2] for place in shown] == [f"Question {number}" for number in range(1, 7)]
    data = json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', index.read_text())[1])
    assert [(row["step"], row["number"], row["prompt"]) for row in data["summaries"]] == shown
    assert [row["page"] for row in data["summaries"]] == [f"pages/page-00{n}.html" for n in (1, 1, 2, 2, 3, 3)]


def test_the_index_shows_and_searches_the_question_after_a_long_system_prompt(browser, tmp_path):
    system = "system: " + "Think step by step. " * 60
    numbered = enumerate(groups(), start=1)
    records = [dataclasses.replace(record, prompt=f"{system}user: Add {n} and 7.") for n, record in numbered]
    records[4] = dataclasses.replace(records[4], prompt=f"{system}user: {'word ' * 200}Which word?")
    browser.get(written(tmp_path, LoadedGroups(records, [])).as_uri())
    prompts = [element.text for element in browser.find_elements("css selector", ".group-prompt")]
    assert prompts[:3] == [f"… Add {n} and 7." for n in (1, 2, 3)]
    press(browser, "/", "step which word?")  # the first word is in the start that is not shown
    assert [link.text.split("\n")[0] for link in browser.find_elements("css selector", "#list a")] == [
        "step 21, group 2"
    ]


def test_a_large_group_is_a_page_of_its_own():
    blocks = LoadedGroups(groups(), []).blocks(150)
    assert [len(block) for block in blocks] == [1] * 6


@pytest.mark.parametrize(
    ("fragment", "place", "prompt"),
    [
        ("#step-21", "page-002.html#step-21-group-1", "Question 4"),
        ("#step-20", "page-002.html#step-11-group-1", "Question 3"),
        ("#step-0", "page-001.html#step-1-group-1", "Question 1"),
        ("#step-21-group-2", "page-003.html#step-21-group-2", "Question 5"),
        ("#step-31-group-1-completion-2-token-7", "page-003.html#step-31-group-1-completion-2-token-7", "Question 6"),
    ],
)
def test_links_to_the_index_lead_on_to_the_page_that_has_the_place(browser, index, fragment, place, prompt):
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get(index.as_uri() + fragment)
    WebDriverWait(browser, 10).until(lambda driver: driver.current_url.endswith(place))
    assert browser.find_element("id", "prompt").text == prompt
    if "token" in fragment:
        assert browser.switch_to.active_element == token(browser, 1, 6)
        stable = browser.find_element("css selector", "#details a").get_attribute("href")
        assert stable == index.as_uri() + fragment
    assert browser.get_log("browser") == []


def test_the_index_searches_prompts_and_opens_a_group_by_keys(browser, index):
    browser.get(index.as_uri())
    assert browser.title == "a run · token view"
    assert browser.find_element("id", "notes").text == "A note."
    assert "What did GTPO change?" in browser.find_element("id", "changes").text
    press(browser, "/", "question 3")
    links = browser.find_elements("css selector", "#list a")
    assert [link.text.split("\n")[0] for link in links] == ["step 11"]
    links[0].send_keys("\ue007")  # Enter
    assert browser.find_element("id", "prompt").text == "Question 3"
    assert browser.current_url.endswith("pages/page-002.html#step-11-group-1")
    browser.find_element("id", "all-groups").click()
    assert browser.current_url == index.as_uri()


def test_paging_goes_on_in_the_next_page_and_back(browser, index):
    browser.get((index.parent / "pages" / "page-001.html").as_uri() + "#step-1-group-2")
    press(browser, "n")
    assert browser.find_element("id", "prompt").text == "Question 3"
    press(browser, "p")
    assert browser.find_element("id", "prompt").text == "Question 2"
    press(browser, "]")
    assert browser.find_element("id", "prompt").text == "Question 3"
    browser.get((index.parent / "pages" / "page-003.html").as_uri() + "#step-31")
    assert not browser.find_element("id", "group-on").is_enabled()


def test_links_work_whatever_the_file_is_called(browser, tmp_path):
    index = written(tmp_path, LoadedGroups(groups(), []), index="a: 50% #1?.html", pages="a: 50% #1?_groups")
    browser.get(index.as_uri())
    browser.find_elements("css selector", "#list a")[2].click()
    assert browser.find_element("id", "prompt").text == "Question 3"
    browser.find_element("id", "all-groups").click()
    assert browser.current_url == index.as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_index_fits_the_screen(browser, index, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(index.as_uri())
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")


def test_processes_give_the_same_pages_and_notes(tmp_path, monkeypatch):
    run = save_groups(tmp_path / "run", *groups())
    with (run / "groups.jsonl").open("a") as file:
        file.write('{"step": 31, "prompt": 1}\n{"step": 41, "torn')
    pages = {}
    for name, fewest in (("serial", 99), ("parallel", 1)):
        monkeypatch.setattr(page_module, "_FEWEST_PARALLEL", fewest)
        (tmp_path / name).mkdir()
        source = load_groups(run)
        index = written(tmp_path / name, source)
        pages[name] = [path.read_text() for path in (index, *sorted((tmp_path / name / "pages").iterdir()))]
        notes = " ".join(source.notes)
        assert "1 of the records in groups.jsonl skipped: not schema" in notes
        assert "1 of the records in groups.jsonl skipped: not a complete JSON line" in notes
    assert pages["serial"] == pages["parallel"]
    assert "not a complete JSON line" in pages["serial"][0]


def test_records_are_decoded_one_at_a_time(tmp_path):
    run = save_groups(tmp_path, *groups())
    iterator = iter(load_groups(run))
    first = next(iterator)
    (run / "groups.jsonl").write_bytes(b"")  # what was not read yet is gone
    assert first.prompt == "Question 1"
    assert list(iterator) == []


def test_a_page_whose_records_are_all_damaged_says_so(browser, tmp_path):
    run = save_groups(tmp_path, *groups())
    lines = (run / "groups.jsonl").read_text().splitlines()
    broken = [json.dumps({**json.loads(line), "completions": []} | {"pad": "x" * 9000}) for line in lines[:2]]
    (run / "groups.jsonl").write_text("\n".join([*broken, *lines[2:]]) + "\n")
    index = written(tmp_path, load_groups(run))
    browser.get((index.parent / "pages" / "page-001.html").as_uri())
    assert "This page has no group" in browser.find_element("id", "notes").text
    browser.get(index.as_uri())
    assert len(browser.find_elements("css selector", "#list a")) == 4


def test_numbers_are_compact():
    rows = [completion(["x"] * 1000, 1.0, token_entropy=[0.123456] * 1000, token_logp=[-0.5] * 1000)] * 8
    options = {"title": "r", "index": "i", "folder": "f"}
    page, _ = render_pages(LoadedGroups([group(*rows)] * 10, []), **options)
    empty, _ = render_pages(LoadedGroups([group(completion([], 1.0))], []), **options)
    assert len(page.html) - len(empty.html) < 10 * 80_000  # three numbers per token, 2.7 bytes each


def test_the_same_id_can_have_several_texts():
    first = completion(["a", "b"], 1.0, token_ids=[7, 7])
    again = dataclasses.replace(first, pieces=["b", "a"])
    page, _ = render_pages(LoadedGroups([group(first, again)], []), title="r", index="i", folder="f")
    data = json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', page.html)[1])
    assert (data["ids"], data["texts"]) == ([7, 7], ["a", "b"])
