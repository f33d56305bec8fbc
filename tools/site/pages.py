"""Writes the pages of the documentation site: the Markdown of the repository, which has to read well in
the repository, too, with

- the pages at the top of the repository (README, CHANGELOG, CONTRIBUTING) and files that pages link to,
- tabs where a block of C++ is followed at once by one of Python.

    python3 tools/site/pages.py OUTPUT_DIR

It uses nothing of the program that makes HTML from the pages (see mkdocs.yml), so that can be replaced.
"""

import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

# The front page has no siblings to list beside it.
FRONT = "---\nhide: [navigation]\n---\n\n"

LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
PAIR = re.compile(r"^```cpp\n(.*?)^```\n+```python\n(.*?)^```$", re.M | re.S)


def place(target):
    """The path of a file of the repository in the site."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    name = target.relative_to(ROOT).as_posix()
    # Browsers show a .txt file; others are offered as downloads.
    return TOP.get(name, name if name.endswith(".md") else name + ".txt")


def linked_file(link, directory):
    """The file of the repository that a link leads to, or None."""
    if "://" in link:
        return None
    target = (directory / link).resolve()
    return target if target.is_file() and target.is_relative_to(ROOT) else None


def with_places_of_links(text, source):
    def fix(match):
        target = linked_file(match[2], source.parent)
        if target is None:
            return match[0]
        path = os.path.relpath(place(target), os.path.dirname(place(source)) or ".")
        return f"{match[1]}{path}{match[3] or ''})"

    parts, at = [], 0
    for block in FENCED.finditer(text):
        parts += [LINK.sub(fix, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join(parts) + LINK.sub(fix, text[at:])


def with_tabs(text):
    def tabs(match):
        lines = []
        for title, language, code in (("C++", "cpp", match[1]), ("Python", "python", match[2])):
            lines += [f'=== "{title}"', "", f"    ```{language}"]
            lines += ["    " + line if line else "" for line in code.splitlines()]
            lines += ["    ```", ""]
        return "\n".join(lines)

    return PAIR.sub(tabs, text)


def main(output):
    pages = [ROOT / name for name in TOP] + sorted(DOCS.rglob("*.md"))
    others = {path for path in DOCS.rglob("*") if path.is_file()} - set(pages)
    for page in pages:
        text = page.read_text("utf-8")
        others |= {linked_file(match[2], page.parent) for match in LINK.finditer(FENCED.sub("", text))}
        path = output / place(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = with_tabs(with_places_of_links(text, page))
        path.write_text((FRONT if page.name == "README.md" and page.parent == ROOT else "") + text, "utf-8")
    for other in others - set(pages) - {None}:
        path = output / place(other)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(other, path)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
