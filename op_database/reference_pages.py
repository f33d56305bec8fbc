"""Writes docs/reference/: the layers, losses, optimizers, schedules, data, the trainer and its callbacks, from the
public headers.

    python3 op_database/reference_pages.py --clang clang++-16            # writes the pages
    python3 op_database/reference_pages.py --clang clang++-16 --verify   # fails unless they are up to date
    python3 op_database/reference_pages.py --hashes                      # the same from hashes, without clang

Clang parses the headers (see read_headers.py). A page has a section for each header, with its opening comment, and
for each public class its comment, constructors, functions and members. Options are tables; those of another header are
shown with the class that takes them. Not shown are destructors, assignments, copies, overrides and the functions by
which modules are walked.
"""

import argparse
import functools
import itertools
import re
import sys

import read_headers
from read_headers import HEADERS, ROOT, comment_before, hashes, header_of, initializer, plain, source, spelled, written

DIRECTORY = ROOT / "docs/reference"
INTRODUCTION = "Made from the public headers; `./ex docs` writes this page."

# name: (title, introduction, headers in order; a directory stands for the headers that no page names)
PAGES = {
    "layers": (
        "Layers",
        "Layers are modules: values with parameters, `forward` and the functions of `nn::Module` "
        "([getting started](../getting-started.md)). All are in namespace `extensor::nn`; calling a layer, `layer(x)`, "
        "calls its `forward`.",
        ["nn/module.h", "nn/parameter.h", "nn/"],
    ),
    "losses": (
        "Losses",
        "Losses as modules of namespace `extensor::nn`. [Operations](../ops.md#losses) has the functions that they "
        "call, with formulas and gradients.",
        ["nn/losses.h"],
    ),
    "optimizers": (
        "Optimizers",
        "In namespace `extensor::optim`. [Optimizers](../optimizers.md) shows their use; "
        "[operations](../ops.md#optimizer-steps) has the formulas.",
        ["optim/optimizer.h", "optim/"],
    ),
    "schedules": (
        "Schedules",
        "Schedules change the learning rates of an optimizer; they are in namespace `extensor::optim`. Names, defaults "
        "and numbers are PyTorch's.",
        ["optim/schedulers.h"],
    ),
    "data": (
        "Data",
        "Datasets, loaders, readers and tokenizers, in namespace `extensor::data`. [Data](../data.md) shows their use.",
        ["data/dataset.h", "data/loader.h", "data/"],
    ),
    "trainer": (
        "Trainer",
        "The training loop, evaluation, metrics, checkpoints and reports, in namespace `extensor::train`.",
        ["train/trainer.h", "train/"],
    ),
    "distributed": (
        "Distributed training",
        "Collectives between processes and data-parallel training, in namespace `extensor::distributed`. "
        "[Distributed training](../distributed.md) shows their use.",
        ["distributed/communicator.h", "distributed/data_parallel.h", "distributed/"],
    ),
    "callbacks": (
        "Callbacks",
        "Callbacks observe a run of the trainer. They are in namespace `extensor::train`.",
        ["train/callbacks.h"],
    ),
}
NOT_SHOWN = ("nn/walker.h",)  # for authors of unusual modules; the header explains it
HIDDEN_FUNCTIONS = re.compile(r"visit|visit_members|describe|describe_members|operator(?!\(\)|\[\]).*|walk")
DECLARATIONS = read_headers.WANTED + ("ClassTemplateDecl",)
MEMBERS = ("CXXConstructorDecl", "CXXMethodDecl", "AccessSpecDecl", "FunctionTemplateDecl")


def headers_of(page):
    named = {header for _, _, listed in PAGES.values() for header in listed} | set(NOT_SHOWN)
    headers = []
    for entry in PAGES[page][2]:
        if not entry.endswith("/"):
            headers.append(entry)
            continue
        files = sorted(f.removeprefix(HEADERS) for f in read_headers.all_headers())
        headers += [f for f in files if f.startswith(entry) and f not in named]
    return headers


# ---- text ----------------------------------------------------------------------------------------


def paragraphs(comment):
    """A comment as Markdown; indented lines are code."""
    out, code = [], []
    for line in comment.splitlines() + [""]:
        if line.startswith("  "):
            code.append(line.removeprefix("  "))
            continue
        if code:
            out += ["", "```cpp", *code, "```", ""]
            code = []
        out.append(line)
    text = "\n".join(out).strip()
    return re.sub(r"\n{3,}", "\n\n", text)


def opening_comment(header):
    lines = source(HEADERS + header).decode().splitlines()
    count = next((k for k, line in enumerate(lines) if not line.startswith("//")), 0)
    return plain("\n".join(lines[:count]))


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def parameters(node):
    listed = []
    for parameter in node.get("inner", []):
        if parameter["kind"] == "ParmVarDecl":
            default = initializer(parameter)
            text = f"{spelled(parameter['type'])} {parameter.get('name', '')}".strip()
            listed.append(text + (f" = {default}" if default else ""))
    return ", ".join(listed)


def signature(node, class_name):
    """The declaration of a function or constructor, or "" if it is not shown."""
    head = ""
    if node["kind"] == "FunctionTemplateDecl":
        kinds = ("CXXConstructorDecl", "CXXMethodDecl", "FunctionDecl")
        patterns = [inner for inner in node["inner"] if inner["kind"] in kinds]
        if not patterns:
            return ""
        begin, end = node["range"]["begin"], patterns[0]["range"]["begin"]
        if "offset" in begin and "offset" in end:
            head = " ".join(source(begin["file"])[begin["offset"] : end["offset"]].decode().split()) + " "
        node = patterns[0]
    is_constructor = node["kind"] == "CXXConstructorDecl"
    name = node["name"].split("<")[0] if is_constructor else node["name"]
    attributes = {inner["kind"] for inner in node.get("inner", [])}
    if node.get("isImplicit") or node.get("explicitlyDeleted") or "OverrideAttr" in attributes:
        return ""
    text = spelled(node["type"])
    given = parameters(node)
    if HIDDEN_FUNCTIONS.fullmatch(name) or (name in ("begin", "end") and not given):
        return ""
    if is_constructor:
        copies = (f"const {class_name}&", f"{class_name}&&")
        types = [spelled(p["type"]) for p in node.get("inner", []) if p["kind"] == "ParmVarDecl"]
        if len(types) == 1 and re.sub(r"<.*>", "", types[0]) in copies:
            return ""
        return f"{head}{name}({given})"
    result, rest = text.removeprefix("decltype(auto)").split("(", 1)
    result = result.strip() or "decltype(auto)"
    suffix = " const" if re.search(r"\) const\b", "(" + rest) else ""
    static = "static " if node.get("storageClass") == "static" else ""
    return f"{head}{static}{result} {name}({given}){suffix}"


def snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def op_of(node):
    """The op of docs/ops.md that a layer or loss computes: the function that its macro names, or the one of its own
    name; None if there is none."""
    location = node["loc"]
    if not header_of(node).startswith("nn/"):
        return None
    names = [snake_case(node["name"]), snake_case(node["name"]).removesuffix("_loss")]
    if "expansionLoc" in location:
        text = source(location["expansionLoc"]["file"])[location["expansionLoc"]["offset"] :].decode()
        names = re.findall(r"\w+", text.split(")")[0])[2:3] + names
    return next((name for name in names if name in op_names()), None)


@functools.cache
def op_names():
    return set(re.findall(r"^### (\w+)$", (ROOT / "docs/ops.md").read_text("utf-8"), re.M))


# ---- declarations --------------------------------------------------------------------------------


class Declarations:
    """What the headers declare, in order, by header and by name."""

    def __init__(self, nodes):
        self.by_header, self.records, self.enumerations, self.aliases = {}, {}, {}, {}
        for namespace, node in nodes:
            if "file" not in read_headers.expanded(node.get("loc", {})) or "name" not in node:
                continue
            if namespace.endswith("::detail") or node.get("isImplicit"):
                continue
            pattern = node
            if node["kind"] == "ClassTemplateDecl":
                pattern = next((inner for inner in node["inner"] if inner["kind"] == "CXXRecordDecl"), None)
            is_record = pattern is not None and pattern["kind"] == "CXXRecordDecl"
            if is_record and not pattern.get("completeDefinition"):
                continue
            self.by_header.setdefault(header_of(node), []).append((node, pattern))
            if is_record:
                self.records.setdefault(node["name"], (header_of(node), pattern))
            elif node["kind"] == "EnumDecl":
                self.enumerations.setdefault(node["name"], (header_of(node), node))
            elif node["kind"] == "TypeAliasDecl":
                self.aliases[node["name"]] = spelled(node["type"]).split("::")[-1]


def public_members(record):
    access = "private" if record.get("tagUsed") == "class" else "public"
    for inner in record.get("inner", []):
        if inner["kind"] == "AccessSpecDecl":
            access = inner["access"]
        elif access == "public" and not inner.get("isImplicit"):
            yield inner


def is_plain_struct(record):
    kinds = {inner["kind"] for inner in public_members(record)}
    return record.get("tagUsed") == "struct" and not kinds & {"CXXConstructorDecl", "FunctionTemplateDecl"}


class Page:
    def __init__(self, declarations, name):
        self.declarations, self.name = declarations, name
        self.headers, self.used, self.shown, self.lines = headers_of(name), set(), set(), []
        title, introduction, _ = PAGES[name]
        self.lines += [f"# {title}", "", f"{introduction} {INTRODUCTION}", ""]
        for header in self.headers:
            self.section(header)
        rows = hashes([HEADERS + header for header in sorted(set(self.headers) | self.used)])
        self.lines += ["<!-- " + row.replace('"', "") + " -->" for row in rows]

    def text(self):
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)) + "\n"

    def section(self, header):
        entries = self.declarations.by_header.get(header, [])
        self.lines += [f"## {header}", "", paragraphs(opening_comment(header)), ""]
        functions = []
        for node, pattern in entries:
            kind = node["kind"]
            if kind in ("FunctionDecl", "FunctionTemplateDecl"):
                functions.append(node)
            elif kind == "EnumDecl":
                self.enumeration(node)
            elif kind == "TypeAliasDecl":
                self.alias(node)
            elif pattern is not None and not self.is_options(node["name"]):
                self.record(node, pattern)
        self.functions(functions)
        for node, pattern in entries:  # options that nothing on this page takes
            if pattern is not None and pattern["kind"] == "CXXRecordDecl" and self.is_options(node["name"]):
                self.options(node["name"])

    @staticmethod
    def is_options(name):
        return name.endswith("Options")

    def functions(self, nodes):
        comments, groups = read_headers.Comments(), []
        for node in nodes:
            if node["name"].startswith("operator") or "previousDecl" in node:
                continue
            comment, text = comments.of(node), signature(node, "")
            if not text:
                continue
            if groups and groups[-1][0] == comment:
                groups[-1][1].append(text)
            else:
                groups.append((comment, [text]))
        for comment, texts in groups:
            names = list(dict.fromkeys(re.search(r"(\w+)\(", text)[1] for text in texts))
            self.lines += [f"### {', '.join(names)}", "", "```cpp", *[text + ";" for text in texts], "```", ""]
            self.lines += [paragraphs(comment), ""] if comment else []
            for text in texts:
                self.options_in(text)

    def alias(self, node):
        text, name = spelled(node["type"]), node["name"]
        optimizer = re.fullmatch(r"OptimizerOf<(\w+)>", text)
        if self.is_options(name) or ("file" not in node["range"]["begin"] and optimizer is None):
            return
        self.lines += [f"### {name}", ""]
        if optimizer:
            step = f"{name.lower()}_step"
            self.lines += [f"`using {name} = {text};` [{step}](../ops.md#{step}) has the formula.", ""]
            self.options(optimizer[1])
            return
        self.lines += [f"`using {name} = {text};`", "", paragraphs(comment_before(node)), ""]

    def enumeration(self, node):
        if node["name"] in self.shown:
            return
        self.shown.add(node["name"])
        self.lines += [f"### {node['name']}", "", paragraphs(comment_before(node)), ""]
        for value in node.get("inner", []):
            if value["kind"] == "EnumConstantDecl":
                comment = comment_before(value)
                self.lines.append(f"- `{value['name']}`" + (f": {comment}" if comment else ""))
        self.lines.append("")

    def table(self, record):
        fields = [inner for inner in public_members(record) if inner["kind"] == "FieldDecl"]
        if not fields:
            return
        self.lines += ["| field | type | default | |", "|---|---|---|---|"]
        for _, together in itertools.groupby(fields, key=lambda field: written(field["range"]["begin"])["offset"]):
            together = list(together)  # declared in one statement, with one comment
            default, comment = initializer(together[0]), comment_before(together[-1])
            names = ", ".join(f"`{field['name']}`" for field in together)
            row = [names, f"`{spelled(together[0]['type'])}`", f"`{default}`" if default else "", cell(comment)]
            self.lines.append("| " + " | ".join(row) + " |")
        self.lines.append("")
        for field in fields:
            self.values_of(spelled(field["type"]))

    def values_of(self, type_text):
        """Names the values of an enumeration of another header, once."""
        for word in re.findall(r"\w+", type_text):
            if word not in self.declarations.enumerations or word in self.shown or word == "DType":
                continue
            header, node = self.declarations.enumerations[word]
            if header in self.headers:
                continue
            self.shown.add(word)
            self.used.add(header)
            values = [value["name"] for value in node["inner"] if value["kind"] == "EnumConstantDecl"]
            self.lines += [f"`{word}`: " + ", ".join(f"`{value}`" for value in values) + ".", ""]

    def options(self, name):
        if name in self.shown or name not in self.declarations.records:
            return
        self.shown.add(name)
        header, record = self.declarations.records[name]
        self.used.add(header)
        self.lines += [f"`{name}`:", ""]
        comment = comment_before(record)
        self.lines += [paragraphs(comment), ""] if comment else []
        self.table(record)

    def options_in(self, text):
        for word in re.findall(r"\w+Options\b", text):
            self.options(self.declarations.aliases.get(word, word))

    def record(self, node, record):
        name = node["name"]
        if name in self.shown:
            return
        self.shown.add(name)
        bases = [base["type"]["qualType"] for base in record.get("bases", [])]
        bases = [base for base in bases if base != "Base" and not base.startswith("Module<")]
        comment = comment_before(node) or comment_before(record)
        self.lines += [f"### {name}", ""]
        self.lines += [paragraphs(comment), ""] if comment else []
        self.lines += [f"Base: `{', '.join(bases)}`.", ""] if bases else []
        op = op_of(node)
        self.lines += [f"Computes [{op}](../ops.md#{op}).", ""] if op else []
        if is_plain_struct(record):
            self.table(record)
        declared = []
        for inner in public_members(record):
            if inner["kind"] in MEMBERS:
                text = signature(inner, name)
            elif inner["kind"] == "FieldDecl" and not is_plain_struct(record):
                text = f"{spelled(inner['type'])} {inner['name']}"
            else:
                continue
            if not text:
                continue
            comment = comment_before(inner)
            declared += [f"// {line}".rstrip() for line in comment.splitlines()] + [text + ";"]
        if declared:
            self.lines += ["```cpp", *declared, "```", ""]
        for line in declared:
            self.options_in(line)


# ---- files ---------------------------------------------------------------------------------------


def index():
    text = "Classes and functions by subject; [operations](../ops.md) has the functions of tensors."
    lines = ["# Reference", "", f"{text} {INTRODUCTION}", ""]
    for name, (title, _, _) in PAGES.items():
        lines.append(f"- [{title}]({name}.md): " + ", ".join(f"`{header}`" for header in headers_of(name)))
    return "\n".join(lines) + "\n"


def make_pages(clang):
    parts = read_headers.PARTS + MEMBERS
    nodes = read_headers.parse(clang, read_headers.all_headers(), DECLARATIONS, parts)
    declarations = Declarations(nodes)
    return {"README": index()} | {name: Page(declarations, name).text() for name in PAGES}


def check_hashes():
    stale = set()
    for name in PAGES:
        path = DIRECTORY / f"{name}.md"
        listed = re.findall(r"<!-- HEADER\((\S+), (\w+)\) -->", path.read_text("utf-8")) if path.exists() else []
        current = {row[7:-1].replace('"', "") for row in hashes(read_headers.all_headers())}
        changed = [header for header, value in listed if f"{header}, {value}" not in current]
        if changed or not set(headers_of(name)) <= {header for header, _ in listed}:
            stale.add(f"docs/reference/{name}.md")
    if stale:
        pages = ", ".join(sorted(stale))
        sys.exit(f"These pages are older than the headers: {pages}\nRun ./ex docs, which writes them.")
    print("docs/reference is up to date")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", default="clang++-16", help="the compiler that reads the headers")
    parser.add_argument("--verify", action="store_true", help="compare with the pages instead of writing them")
    parser.add_argument("--hashes", action="store_true", help="compare only the hashes of the headers")
    options = parser.parse_args()
    if options.hashes:
        return check_hashes()
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in make_pages(options.clang).items():
        path = DIRECTORY / f"{name}.md"
        if not options.verify:
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.exit(f"docs/reference/{name}.md differs from the headers. Run ./ex docs, which writes it.")


if __name__ == "__main__":
    main()
