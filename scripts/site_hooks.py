"""Hooks of the documentation site (mkdocs.yml): files from outside docs/, the links between them, and llms.txt.

Pages are written for GitHub, where `../SECURITY.md` is a file of the repository. In the site it is a page next to the
others, so relative links are rewritten. A link to a file that the site does not have becomes the name of the file.
"""

import posixpath
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify_unicode
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
INCLUDED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "experiments/README.md",
    "recipes/README.md",
    "recipes/*/README.md",
    "benchmarks/figures/*.svg",
)
"""Files outside docs/ that the site contains, under the same path."""
RENAMED = {"README.md": "index.md"}
"""The README of the repository is not a page: the home page of the site takes its place."""
LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")

_state: dict[str, Navigation] = {}


def on_config(config: Any, **_: Any) -> None:
    """Make the anchors of headings those of GitHub: letters such as γ stay."""
    config["mdx_configs"]["toc"]["slugify"] = slugify_unicode


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the files from outside docs/, and the pages of the gallery."""
    for pattern in INCLUDED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    build_gallery = runpy.run_path(str(ROOT / "scripts" / "gallery.py"))["build"]
    with tempfile.TemporaryDirectory() as folder:
        for page in build_gallery(Path(folder)):
            uri = f"gallery/{page.relative_to(folder).as_posix()}"
            files.append(File.generated(config, uri, content=page.read_text(encoding="utf-8")))
    return files


def on_nav(nav: Navigation, **_: Any) -> None:
    """Remember the navigation for llms.txt."""
    _state["nav"] = nav


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Rewrite links between files of the repository into links between pages of the site."""
    own = page.file.src_uri
    source = own if page.file.generated_by else f"docs/{own}"

    def rewrite(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        uri = RENAMED.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(uri) is not None:
            return f"[{link['text']}]({posixpath.relpath(uri, posixpath.dirname(own) or '.')}{link['anchor'] or ''})"
        if not (ROOT / path).exists():
            return link[0]  # the strict build reports it
        return f"`{path}`" if path in link["text"] else f"{link['text']} (`{path}`)"

    return LINK.sub(rewrite, markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Write llms.txt, with one line per page of the navigation, and the Markdown of the pages, which it links to."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    section = ""
    for page in _state["nav"].pages:
        if page.parent is not None and page.parent.title != section:
            section = page.parent.title
            lines += ["", f"## {section}", ""]
        uri, markdown = page.file.src_uri, page.markdown or ""
        lines.append(f"- [{page.title}]({uri}): {first_sentence(markdown)}")
        (site / uri).parent.mkdir(parents=True, exist_ok=True)
        (site / uri).write_text(markdown, encoding="utf-8")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_sentence(markdown: str) -> str:
    """The first sentence after the title, without links."""
    blocks = [block for block in markdown.split("\n\n") if block.strip()]
    text = next((block for block in blocks if not block.startswith(("#", "<", "!", "|"))), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return re.split(r"(?<=[.!?]) ", text)[0]
