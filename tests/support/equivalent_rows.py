"""Tables of equivalents: rows in a file of macros, their table in a page, and numbers in a file for C++."""

import json
import re

BEGIN, END = "<!-- rows: {script} writes them -->", "<!-- end of rows -->"
LITERAL = r'"((?:[^"\\]|\\.)*)"'


def read_rows(path, texts):
    """(macro, texts …, C++) of every row; of a section (SECTION, heading, "", …)."""
    source = re.sub(r"^//.*$", "", path.read_text("utf-8"), flags=re.M)
    for match in re.finditer(r"^(SECTION|VALUES|SHAPES|RUNS)\((.*?)\)\n(?=\n|\Z|[A-Z]+\()", source, re.M | re.S):
        macro, body = match[1], match[2]
        if macro == "SECTION":
            yield (macro, json.loads(body), *[""] * texts)
            continue
        parts = re.match(rf"{LITERAL},\s*" * texts + r"(.*)$", body, re.S)
        yield (macro, *[json.loads(f'"{part}"') for part in parts.groups()[:texts]], " ".join(parts[texts + 1].split()))


def code(text):
    return f"`{escaped(text)}`"


def escaped(text):
    return text.replace("|", "\\|")


def write_table(page, script, lines):
    text = page.read_text("utf-8")
    begin = BEGIN.format(script=script)
    head, rest = text.split(begin)
    page.write_text(head + begin + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1], "utf-8")


def number_row(key, text, numbers):
    """A row of a file of numbers."""
    listed = ", ".join(f"{number:.9g}" for number in numbers)
    listed = listed.replace("inf", "INFINITY").replace("nan", "NAN")
    return f"NUMBERS({json.dumps(key)}, {json.dumps(text)}, {{{listed}}})"
