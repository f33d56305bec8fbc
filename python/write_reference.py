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
import textwrap
from collections.abc import Collection

INTRODUCTION = "Made from the type stubs of the package; `./ex site` writes this page."
TITLES = {
    "nn": "Layers in Python", "optim": "Optimizers in Python", "data": "Data in Python", "autograd": "Gradients in Python",
    "linalg": "Linear algebra in Python", "models": "Models in Python", "train": "Training in Python",
    "onnx": "ONNX in Python", "fft": "Fourier transforms in Python",
}  # fmt: skip

SEE = {
    "nn": "[Layers](../reference/layers.md) and [losses](../reference/losses.md) describe the same classes in C++.",
    "optim": "[Optimizers](../optimizers.md) shows their use; [operations](../ops.md#optimizer-steps) has the formulas.",
    "data": "[Data](../reference/data.md) describes the readers in C++.",
    "fft": "[Operations](../ops.md#fourier-transforms) has the definitions and the gradients.",
    "linalg": "[Linear algebra](../linear-algebra.md) shows their use; [operations](../ops.md#linalg) has the gradients.",
}  # fmt: skip

Definition = ast.ClassDef | ast.FunctionDef


class Module:
    """The definitions of one file, with the overloads of a function together."""

    def __init__(self, path: pathlib.Path) -> None:
        self.tree = ast.parse(path.read_text("utf-8").replace("builtins.", ""))
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


def without_cpp(text: str) -> str:
    """A docstring without indented lines of C++, which comments of headers have."""
    return re.sub(r"^  .*(;|\{|\}|//.*)$\n?", "", text, flags=re.M)


def prose(text: str) -> str:
    """A docstring as Markdown: examples become blocks of code, but those of C++ are left out."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", without_cpp(text).strip()):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{paragraph}\n```")
        else:
            pieces = re.split(r"(`[^`]*`)", paragraph.replace("``", "`"))
            pieces[::2] = [re.sub(r"([\\*_<\[\]|])", r"\\\1", piece) for piece in pieces[::2]]
            parts.append("".join(pieces))
    return "\n\n".join(parts)


def split_parameters(text: str) -> list[str]:
    """The parameters of a list of them: text between commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if character in "'\"":
            quote = "" if quote == character else quote or character
        depth += 0 if quote else (character in "([{") - (character in ")]}")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def signature(node: ast.FunctionDef, name: str | None = None, method: bool = False) -> str:
    parameters = split_parameters(ast.unparse(node.args))
    # Spaces around the default of an annotated parameter, which ast.unparse omits.
    parameters = [re.sub(r"^(\w+: .*?[\w\])])=(?!=)", r"\1 = ", part) for part in parameters]
    if method and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    result = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    text = f"{name or node.name}({', '.join(parameters)}){result}"
    if len(text) <= 100:
        return text
    lines = "".join(f"    {part},\n" for part in parameters)
    return f"{name or node.name}(\n{lines}){result}"


def code(lines: list[str]) -> str:
    return "```python\n" + "\n".join(lines) + "\n```\n"


def commented(node: ast.FunctionDef) -> list[str]:
    text = without_cpp(ast.get_docstring(node) or "")
    return [f"# {part}".rstrip() for line in text.splitlines() for part in textwrap.wrap(line, 96) or [""]]


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def class_entry(node: ast.ClassDef, level: str = "###", functions: Collection[str] = ()) -> str:
    """`functions` are described elsewhere; members of that name are only listed."""
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
    listed = dict.fromkeys(member.name for member in members if member.name in functions)
    for member in members:
        if member.name in listed:
            continue
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
    text += code(lines) + "\n" if lines else ""
    if listed:
        text += "[Functions](functions.md) that are members, with the tensor as their first argument: "
        text += ", ".join(f"`{name}`" for name in listed) + ".\n\n"
    return text


def function_entry(nodes: list[Definition], level: str = "###") -> str:
    lines = [signature(node) for node in nodes if isinstance(node, ast.FunctionDef)]
    documentation = ast.get_docstring(nodes[0])
    text = f"{level} {nodes[0].name}\n\n{code(lines)}\n"
    return text + (prose(documentation) + "\n\n" if documentation else "")


def with_gradients(functions: dict[str, list[Definition]]) -> dict[str, list[Definition]]:
    """The functions in alphabetical order, each with its gradients."""
    result: dict[str, list[Definition]] = {}
    for name in sorted(functions):
        base = re.sub(r"(_double)?_backward$", "", name)
        result.setdefault(base if base in functions else name, []).extend(functions[name])
    return result


# ---- pages


def sections_of_ops(page: str) -> dict[str, dict[str, tuple[list[str], str]]]:
    """section → the op that heads an entry → the functions that the entry declares, and its formula."""
    sections: dict[str, dict[str, tuple[list[str], str]]] = {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        entries = re.split(r"^### ", section, flags=re.M)
        for text in entries[1:]:
            name = text.split("\n", 1)[0].strip()
            declared = [name]
            for block in re.findall(r"```cpp\n(.*?)```", text, re.S):
                declared += re.findall(r"(\w+)\(", block)
            declared += [f"{name}_double_backward"]
            formula = re.search(r"```\n\n([^-\n].*)", text)
            place = sections.setdefault(entries[0].split("\n", 1)[0].strip(), {})
            place[name] = list(dict.fromkeys(declared)), formula[1] if formula else ""
    return sections


def functions_page(functions: dict[str, list[Definition]], ops_page: str) -> str:
    text = (
        f"# Functions in Python\n\n`import extensor as ex`, then `ex.softmax(x, 1)`. [Operations](../ops.md) has the "
        f"gradient, edge cases and dtypes of each. {INTRODUCTION}\n\n"
    )
    rest = dict(functions)
    data = [name for name in ("tensor", "asarray", "from_dlpack") if name in rest]
    text += "## From data\n\n" + "".join(function_entry(rest.pop(name)) for name in data)
    for section, entries in sections_of_ops(ops_page).items():
        if section in ("fourier transforms", "linalg"):
            continue  # modules, with pages of their own
        here = ""
        for op, (names, formula) in entries.items():
            present = [name for name in names if name in rest]
            if not present:
                continue
            nodes = [node for name in present for node in rest.pop(name)]
            here += f"### {op}\n\n{code([signature(node) for node in nodes])}\n"  # type: ignore[arg-type]
            documentation = ast.get_docstring(nodes[0])
            if formula and not (documentation or "").startswith(formula[:20]):
                here += f"{formula}\n\n"
            here += prose(documentation) + "\n\n" if documentation else ""
            here += f"[Gradient and details](../ops.md#{op})\n\n"
        if here:
            text += f"## {section[:1].upper()}{section[1:]}\n\n{here}"
    text += "## Other functions\n\nOther names of functions above, and functions without a formula.\n\n"
    return text + "".join(function_entry(nodes) for nodes in with_gradients(rest).values())


def module_page(package: Package, name: str) -> str:
    module = package.file(name)
    assert module is not None
    public = package.public(name)
    classes = {key: nodes for key, nodes in public.items() if isinstance(nodes[0], ast.ClassDef)}
    functions = {key: nodes for key, nodes in public.items() if key not in classes}
    title = TITLES.get(name, f"{name} in Python")
    text = f"# {title}\n\n`from extensor import {name}`. {SEE.get(name, '')} {INTRODUCTION}\n\n"
    text += prose(module.documentation) + "\n\n"
    if classes:
        text += "## Classes\n\n" + "".join(class_entry(nodes[0]) for nodes in classes.values())  # type: ignore[arg-type]
    if functions:
        text += "## Functions\n\n" + "".join(function_entry(nodes) for nodes in with_gradients(functions).values())
    return text


def main() -> None:
    package = Package(pathlib.Path(sys.argv[1]))
    ops_page = pathlib.Path(sys.argv[2]).read_text("utf-8")
    output = pathlib.Path(sys.argv[3])
    output.mkdir(parents=True, exist_ok=True)
    public = package.public("__init__")
    classes = {name: nodes for name, nodes in public.items() if isinstance(nodes[0], ast.ClassDef)}
    functions = {name: nodes for name, nodes in public.items() if name not in classes}
    elsewhere = package.public("autograd")
    order = ["Tensor", *(name for name in classes if name != "Tensor" and name not in elsewhere)]
    text = f"# Tensor and other classes in Python\n\nClasses of the package `extensor`. {INTRODUCTION}\n\n"
    text += "".join(class_entry(classes[name][0], "##", functions) for name in order)  # type: ignore[arg-type]
    pages = {"functions": functions_page(functions, ops_page), "classes": text}
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
