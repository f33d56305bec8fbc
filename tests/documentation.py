"""Fails if a page of the documentation

- links to a file or a heading that does not exist,
- is not in the navigation of the site (tools/site/mkdocs.yml), or the navigation names a page that is not there,
- has a block of C++ that no test compiles: one without a main, except in the pages of UNTESTED.

    python3 tests/documentation.py SOURCE_DIR
"""

import pathlib
import re
import sys

TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
# Pages whose blocks of C++ are not programs, with the reason.
UNTESTED = {
    "docs/ops.md": "declarations",
    "docs/reference/": "declarations and the examples of headers",
    "docs/adding-an-op.md": "lines to be added to files of the library",
}

FENCED = re.compile(r"^(```+)(\w*).*?\n(.*?)^\1$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]*)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)


def anchor(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Page:
    def __init__(self, path):
        text = path.read_text("utf-8")
        self.blocks = [(match[2], match[3]) for match in FENCED.finditer(text)]
        prose = FENCED.sub("", text)
        self.anchors = [anchor(heading) for heading in HEADING.findall(prose)]
        self.links = LINK.findall(re.sub(r"`[^`\n]*`", "", prose))


def errors_of_links(root, name, pages):
    page = pages[name]
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        file, _, part = link.partition("#")
        target = (root / name).parent / file if file else root / name
        if not target.exists():
            yield f"{name}: the link {link} leads to no file"
            continue
        if not part:
            continue
        key = target.resolve().relative_to(root).as_posix()
        if key not in pages or part not in pages[key].anchors:
            yield f"{name}: the link {link} leads to no heading"


def errors_of_page(name, page):
    if any(name.startswith(prefix) for prefix in UNTESTED):
        return
    for language, code in page.blocks:
        if language == "cpp" and "int main(" not in code:
            yield f"{name}: a block of C++ has no main, so that no test compiles it: {code.splitlines()[0]}"


def errors_of_navigation(root, pages):
    text = (root / "tools/site/mkdocs.yml").read_text("utf-8")
    named = {"docs/" + page for page in re.findall(r"[\w/-]+\.md$", text[text.index("\nnav:") :], re.M)}
    named = {name for name in named if not name.startswith("docs/python/")}
    top = {"docs/index.md", "docs/changelog.md", "docs/contributing.md"}
    written = {name for name in pages if name.startswith("docs/")}
    for name in sorted(written - named):
        yield f"{name} is not in the navigation of the site"
    for name in sorted(named - written - top):
        yield f"tools/site/mkdocs.yml names {name}, which does not exist"


def main(root):
    root = root.resolve()
    paths = [root / name for name in TOP] + sorted((root / "docs").rglob("*.md"))
    pages = {path.relative_to(root).as_posix(): Page(path) for path in paths}
    found = list(errors_of_navigation(root, pages))
    for name, page in pages.items():
        found += [*errors_of_links(root, name, pages), *errors_of_page(name, page)]
    links = sum(len(page.links) for page in pages.values())
    print("\n".join(found) if found else f"{links} links of {len(pages)} pages lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
