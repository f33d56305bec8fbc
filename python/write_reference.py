#!/usr/bin/env python3
"""Writes the pages of the Python reference from the stubs and modules of an installed package.

    write_reference.py PACKAGE_DIR OPS_PAGE OUTPUT_DIR

Nothing is imported. Functions are grouped as in OPS_PAGE (docs/ops.md), which has the formulas; the other
pages are one for each public module.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys

INTRODUCTION = "Made from the type stubs of the package; `./ex site` writes this page."
TITLES = {
    "nn": "Layers and modules", "optim": "Optimizers and schedules", "data": "Data", "autograd": "Gradients",
    "linalg": "Linear algebra", "models": "Models", "train": "Training",
}  # fmt: skip

Definition = ast.ClassDef | ast.FunctionDef


class Module:
    """The definitions of one file, with the overloads of a function together."""

    def __init__(self, path: pathlib.Path) -> None:
        self.tree = ast.parse(path.read_text("utf-8"))
        self.documentation = ast.get_docstring(self.tree) or ""
        self.definitions: dict[str, list[Definition]] = {}
        for node in self.tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                self.definitions.setdefault(node.name, []).append(node)


class Package:
    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.files: dict[str, Module] = {}

    def file(self, name: str) -> Module | None:
        """The stub of a module such as "_core._linalg", or its source."""
        if name not in self.files:
            base = self.directory.joinpath(*name.split("."))
            for path in (base.with_suffix(".pyi"), base / "__init__.pyi", base.with_suffix(".py")):
                if path.exists():
                    self.files[name] = Module(path)
                    break
            else:
                return None
        return self.files[name]

    def public(self, name: str) -> dict[str, list[Definition]]:
        """What a module offers: its own definitions and those it imports for its users."""
        module = self.file(name)
        assert module is not None, name
        found = dict(module.definitions)
        for node in module.tree.body:
            if not isinstance(node, ast.ImportFrom) or not node.level or not node.module:
                continue
            source = self.file(node.module)
            if source is None:
                continue
            for alias in node.names:
                # `import a as a` says that the name is for users; so does a module's list __all__.
                if alias.name == "*":
                    for key, nodes in source.definitions.items():
                        found.setdefault(key, nodes)
                elif alias.name in source.definitions and (alias.asname or self.lists(module, alias.name)):
                    found.setdefault(alias.name, source.definitions[alias.name])
        return found

    @staticmethod
    def lists(module: Module, name: str) -> bool:
        """Whether the literal lists of __all__ contain the name."""
        for node in module.tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id == "__all__":
                if any(isinstance(c, ast.Constant) and c.value == name for c in ast.walk(node)):
                    return True
        return False


# ---- Markdown


def prose(text: str) -> str:
    """A docstring as Markdown: examples become blocks of code."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{paragraph}\n```")
        else:
            pieces = re.split(r"(`[^`]*`)", paragraph)
            pieces[::2] = [re.sub(r"([\\*_<\[\]|])", r"\\\1", piece) for piece in pieces[::2]]
            parts.append("".join(pieces))
    return "\n\n".join(parts)


def signature(node: ast.FunctionDef, name: str | None = None, method: bool = False) -> str:
    arguments = ast.unparse(node.args)
    if method:
        arguments = re.sub(r"^(self|cls)(, |$)", "", arguments)
    result = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    return wrapped(f"{name or node.name}({arguments}){result}")


def wrapped(text: str, width: int = 100) -> str:
    """Long signatures have one parameter in each line."""
    if len(text) <= width:
        return text
    start, end, depth = text.index("(") + 1, 0, 0
    parts = [""]
    for i, character in enumerate(text[start:], start):
        if character == ")" and depth == 0:
            end = i
            break
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    lines = "".join(f"    {part.strip()},\n" for part in parts)
    return f"{text[:start]}\n{lines}{text[end:]}"


def code(lines: list[str]) -> str:
    return "```python\n" + "\n".join(lines) + "\n```\n"


def commented(node: ast.FunctionDef) -> list[str]:
    text = ast.get_docstring(node) or ""
    return [f"# {line}".rstrip() for line in text.splitlines()]


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def class_entry(node: ast.ClassDef, level: str = "###") -> str:
    bases = [ast.unparse(base) for base in node.bases]
    members = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    made = [member for member in members if member.name in ("__init__", "__new__")]
    head = [signature(member, node.name, method=True) for member in made[:1]] or [node.name]
    text = f"{level} {node.name}\n\n{code(head)}\n"
    if bases and bases != ["NamedTuple"]:
        text += "Base: " + ", ".join(f"`{base}`" for base in bases) + ".\n\n"
    documentation = ast.get_docstring(node)
    text += prose(documentation) + "\n\n" if documentation else ""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    fields = [part for part in fields if not ast.unparse(part.target).startswith("_")]
    lines = [f"{ast.unparse(part.target)}: {ast.unparse(part.annotation)}" for part in fields]
    for member in members:
        if member.name.startswith("_") and member.name not in ("__call__", "__len__", "__iter__", "__getitem__"):
            continue
        if any(isinstance(d, ast.Attribute) for d in member.decorator_list):  # a setter
            continue
        lines += commented(member)
        if is_property(member):
            kind = f": {ast.unparse(member.returns)}" if member.returns else ""
            lines.append(f"{member.name}{kind}")
        else:
            lines.append(signature(member, method=True))
    return text + (code(lines) + "\n" if lines else "")


def function_entry(nodes: list[Definition], level: str = "###") -> str:
    lines = [signature(node) for node in nodes if isinstance(node, ast.FunctionDef)]
    documentation = ast.get_docstring(nodes[0])
    text = f"{level} {nodes[0].name}\n\n{code(lines)}\n"
    return text + (prose(documentation) + "\n\n" if documentation else "")


def entry(nodes: list[Definition], level: str = "###") -> str:
    first = nodes[0]
    return class_entry(first, level) if isinstance(first, ast.ClassDef) else function_entry(nodes, level)


# ---- pages


def sections_of_ops(page: str) -> dict[str, dict[str, list[str]]]:
    """section → the op that heads an entry → the functions that the entry declares."""
    sections: dict[str, dict[str, list[str]]] = {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        entries = re.split(r"^### ", section, flags=re.M)
        for text in entries[1:]:
            name = text.split("\n", 1)[0].strip()
            declared = [name]
            for block in re.findall(r"```cpp\n(.*?)```", text, re.S):
                declared += re.findall(r"(\w+)\(", block)
            names = list(dict.fromkeys(declared))
            sections.setdefault(entries[0].split("\n", 1)[0].strip(), {})[name] = names
    return sections


def operations(functions: dict[str, list[Definition]], ops_page: str) -> str:
    text = (
        f"# Functions of tensors\n\n`import extensor as ex`, then `ex.softmax(x, 1)`; functions whose first argument is "
        f"a tensor are members, too: `x.softmax(1)`. [Operations](../ops.md) has formulas, gradients, edge cases and "
        f"dtypes of each. {INTRODUCTION}\n\n"
    )
    rest = dict(functions)
    for section, entries in sections_of_ops(ops_page).items():
        if section == "linalg":
            continue  # a module, with a page of its own
        here = ""
        for op, names in entries.items():
            present = [name for name in names if name in rest]
            if not present:
                continue
            lines = [signature(node) for name in present for node in rest[name]]  # type: ignore[arg-type]
            documentation = ast.get_docstring(rest[present[0]][0])
            here += f"### {op}\n\n{code(lines)}\n"
            here += prose(documentation) + "\n\n" if documentation else ""
            here += f"[Formula and gradient](../ops.md#{op})\n\n"
            for name in present:
                del rest[name]
        if here:
            text += f"## {section}\n\n{here}"
    if rest:
        text += "## Other functions\n\n" + "".join(function_entry(nodes) for nodes in rest.values())
    return text


def module_page(package: Package, name: str) -> str:
    module = package.file(name)
    assert module is not None
    public = package.public(name)
    # Gradients of functions follow them; classes come first.
    classes = {key: nodes for key, nodes in public.items() if isinstance(nodes[0], ast.ClassDef)}
    functions = {key: nodes for key, nodes in public.items() if key not in classes}
    text = f"# {TITLES.get(name, name)}\n\n`from extensor import {name}`. {INTRODUCTION}\n\n"
    text += prose(module.documentation) + "\n\n"
    for title, part in (("Classes", classes), ("Functions", functions)):
        if part:
            text += f"## {title}\n\n" + "".join(entry(nodes) for nodes in part.values())
    return text


def main() -> None:
    package = Package(pathlib.Path(sys.argv[1]))
    ops_page = pathlib.Path(sys.argv[2]).read_text("utf-8")
    output = pathlib.Path(sys.argv[3])
    output.mkdir(parents=True, exist_ok=True)
    public = package.public("__init__")
    classes = {name: nodes for name, nodes in public.items() if isinstance(nodes[0], ast.ClassDef)}
    functions = {name: nodes for name, nodes in public.items() if name not in classes}
    tensor = f"# Tensor and other classes\n\nClasses of the package `extensor`. {INTRODUCTION}\n\n"
    tensor += "".join(class_entry(nodes[0], "##") for nodes in classes.values())  # type: ignore[arg-type]
    pages = {"classes": tensor, "functions": operations(functions, ops_page)}
    for path in sorted(package.directory.glob("*.py")):
        if not path.stem.startswith("_"):
            pages[path.stem] = module_page(package, path.stem)
    titles = {name: re.search(r"^# (.*)", text)[1] for name, text in pages.items()}  # type: ignore[index]
    index = "# Python reference\n\n[Python](../python.md) shows how to install and use the package.\n\n"
    pages["index"] = index + "".join(f"- [{title}]({name}.md)\n" for name, title in titles.items())
    for name, text in pages.items():
        (output / f"{name}.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
