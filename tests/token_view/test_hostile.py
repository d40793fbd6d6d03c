"""No text of a model runs in a page, breaks it, or leads elsewhere."""

import dataclasses

import pytest

from gtpo.token_view.groups import LoadedGroups
from gtpo.token_view.page import render_pages
from tests.token_view.driving import completion, group, press, tokens
from tests.token_view.example_group import example_group

HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<!--",
    "<script>",
    "]]>",
    "<img src=x onerror=window.pwned=2>",
    "&lt;b&gt;&amp;",
    "\u202egnissap",
    "zero\u200bwidth\u2066",
    "\x00\x1b[2J",
    "\ud800",
    "\u2028\u2029",
    "x" * 1_000_000,
    "{{script}}",
    "\u0301" * 50,
    "', alert(1), '",
    "\n" * 5,
    "",
    "javascript:alert(1)",
    '" onfocus="window.pwned=3" autofocus="',
    "\x85\u061c\ufeff",
]


@pytest.mark.parametrize("view", ["aligned", "flow"])
def test_no_text_of_a_model_runs_or_breaks_the_page(opened, view):
    good = completion(
        HOSTILE, 1.0, rewards={"</script><b>": 1.0}, prefix=len(HOSTILE), token_weight=[2.0] * len(HOSTILE)
    )
    bad = completion(HOSTILE, -1.0, prefix=len(HOSTILE), token_weight=[0.0] * len(HOSTILE))
    browser = opened(group(good, bad, prompt="".join(HOSTILE)), fragment=f"#view={view}", notes=["</script><i>note"])
    assert browser.execute_script("return window.pwned") is None
    assert browser.execute_script("return document.querySelectorAll('script').length") == 3  # data, group, script
    assert browser.find_elements("css selector", "img, b[onerror], iframe, i") == []
    assert len(tokens(browser)) == 2 * len(HOSTILE)
    texts = browser.execute_script(
        "return [...document.querySelectorAll('#completions .token')].map(e => e.textContent)"
    )
    assert "</script><script>window.pwned=1</script>" in texts
    assert "&lt;b&gt;&amp;" in texts
    assert "⟦U+202E⟧gnissap" in texts
    assert "zero⟦U+200B⟧width⟦U+2066⟧" in texts
    assert "⟦U+0000⟧⟦U+001B⟧[2J" in texts
    assert "⟦U+D800⟧" in texts
    assert "x" * 120 + "… (999,880 more characters)" in texts
    page = browser.execute_script("return document.documentElement.outerHTML.length")
    assert page < 200_000
    press(browser, "\ue014", "\ue014")  # → → shows the details of hostile tokens
    assert browser.execute_script("return window.pwned") is None
    assert browser.get_log("browser") == []


def test_the_content_security_policy_blocks_other_scripts_and_the_network(opened):
    browser = opened(example_group())
    browser.execute_script(
        """
        window.blocked = [];
        document.addEventListener("securitypolicyviolation", (e) => window.blocked.push(e.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        new Image().src = "http://127.0.0.1:9/x.png";
        const box = document.createElement("div");
        box.innerHTML = "<img src=x onerror='window.pwned = 2'><style>body { display: none }</style>";
        document.body.append(box);
        """
    )
    browser.execute_async_script("fetch('http://127.0.0.1:9/').catch(() => 0).finally(arguments[0])")
    assert browser.execute_script("return window.pwned") is None
    blocked = set(browser.execute_script("return window.blocked"))
    assert {"script-src-elem", "img-src", "connect-src", "style-src-elem"} <= blocked


def test_hostile_text_is_harmless_in_the_list_the_index_and_the_title(browser, tmp_path):
    rows = [completion(HOSTILE, reward, rewards={"</script><b>": reward}) for reward in (1.0, -1.0)]
    hostile = dataclasses.replace(group(*rows, prompt="".join(HOSTILE)), reason="<img src=x onerror=window.pwned=4>")
    hostile = dataclasses.replace(hostile, method="</script><script>window.pwned=5</script>")
    source = LoadedGroups([hostile, dataclasses.replace(hostile, step=2)], ["</script><i>note"])
    title = "</title><script>window.pwned=6</script>\u202e\ud800"
    paths = []
    for page in render_pages(source, title=title, index="i.html", folder="javascript:alert(1)", max_tokens=1):
        paths.append(tmp_path / (page.name or "i.html"))
        paths[-1].write_text(page.html, encoding="utf-8")
    assert len(paths) == 3
    for path in paths:
        browser.get(path.as_uri())
        assert browser.title == "</title><script>window.pwned=6</script>⟦U+202E⟧⟦U+D800⟧ · token view"
        press(browser, "/", "gnissap")
        links = browser.execute_script("return [...document.querySelectorAll('#list a')].map((a) => a.protocol)")
        assert links == ["file:"] * (2 if path.name == "i.html" else 1)
        assert browser.execute_script("return window.pwned") is None
        assert browser.find_elements("css selector", "img, iframe, i") == []
        assert browser.get_log("browser") == []


def test_every_link_of_a_page_stays_among_the_pages(opened):
    browser = opened(group(completion(["javascript:alert(1)"], 1.0), prompt="javascript:alert(1)"))
    press(browser, "\ue014")
    links = browser.execute_script("return [...document.querySelectorAll('a[href]')].map((a) => a.protocol)")
    assert links
    assert set(links) == {"file:"}
