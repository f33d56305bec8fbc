"""Writes op_database/functions.inc, the list of the library's public functions, from the public headers.

    python3 op_database/read_headers.py --clang clang++-16            # writes the list
    python3 op_database/read_headers.py --clang clang++-16 --verify   # fails unless it is up to date
    python3 op_database/read_headers.py --hashes                      # the same from hashes, without clang

Clang parses the headers, so the list has what the compiler sees: rows of the op tables are expanded, types
are resolved, and default values and comments are quoted from the source.

Listed are the functions of namespace extensor and of its namespaces linalg, fft, nn, models, optim, data, train and
distributed, in every header below include/extensor. Not listed are
  - namespaces detail and reflect: not for users;
  - namespace expression: the same names on the values of user-defined ops;
  - operators, which call functions that are listed, and hidden friends;
  - deleted functions, and member functions.
Structs and enumerations that the functions take or return are listed with their fields and values.
"""

import argparse
import difflib
import hashlib
import itertools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = "include/extensor/"
LIST = ROOT / "op_database/functions.inc"
NAMESPACES = ("linalg", "fft", "nn", "models", "optim", "data", "train", "distributed")

# The kind of a type, by its name without const, & and namespace extensor. Every other type is a listed
# enumeration or struct, or of the kind `other`.
KINDS = {
    "void": "nothing",
    "Tensor": "tensor",
    "Scalar": "scalar",
    "StrictInt": "integer",
    "std::int64_t": "integer",
    "std::int16_t": "integer",
    "std::uint64_t": "integer",
    "std::size_t": "integer",
    "int": "integer",
    "StrictDouble": "number",
    "double": "number",
    "float": "number",
    "StrictBool": "boolean",
    "bool": "boolean",
    "std::string": "string",
    "std::string_view": "string",
    "const char*": "string",
    "char": "string",
    "std::filesystem::path": "path",
    "Axes": "axes",
    "Dims": "shape",
    "Size2d": "size",
    "Size3d": "size",
    "Scale2d": "scale",
    "DType": "dtype",
    "Device": "device",
    "Generator": "generator",
    "Index": "index",
}
# How many values of a kind a type holds.
HOLDERS = {
    "std::optional": "optional",
    "std::vector": "list",
    "std::span": "list",
    "std::array": "list",
    "std::pair": "pair",
}


# ---- Clang's tree --------------------------------------------------------------------------------

# The parts of declarations that are read; the others, such as bodies, would fill the memory.
PARTS = ("ParmVarDecl", "FieldDecl", "EnumConstantDecl", "TypeAliasDecl", "EnumDecl", "CXXRecordDecl", "FullComment")


def with_files(lines):
    """Adds the file to every location: Clang prints it only where it differs from the previous one."""
    file, after_offset = "", False
    for line in lines:
        if after_offset:
            text = line.lstrip()
            if text.startswith('"file": '):
                file = text
            else:
                yield file
        yield line
        after_offset = line.lstrip().startswith('"offset": ')


def declarations(lines, wanted, parts, namespace="extensor", indent=0):
    """Yields (namespace, declaration) of the kinds wanted, with those of its children that are in `parts`. Only
    one declaration is in memory at a time: the whole tree has hundreds of megabytes. Clang indents by 2, which
    delimits a declaration."""
    begin, end = " " * indent + "{\n", (" " * indent + "}\n", " " * indent + "},\n")
    for line in lines:
        if line != begin:
            return  # the end of the enclosing list
        head = [line, next(lines), next(lines)]
        kind = re.search(r'"kind": "(\w+)"', head[2])[1]
        if kind == "NamespaceDecl":
            list_begin = " " * indent + '  "inner": [\n'
            name = None
            for line in lines:
                if line.startswith(" " * indent + '  "name": '):
                    name = line.split('"')[3]
                if line == list_begin and name in NAMESPACES:
                    yield from declarations(lines, wanted, parts, f"{namespace}::{name}", indent + 4)
                if line in end:
                    break
            continue
        for line in lines:
            if kind in wanted:
                head.append(line)
            if line in end:
                break
        if kind in wanted:
            node = json.loads("".join(head).rstrip().rstrip(","))
            if not kind.endswith("TemplateDecl"):
                node["inner"] = [inner for inner in node.get("inner", []) if inner["kind"] in parts]
            yield namespace, node


WANTED = ("FunctionDecl", "FunctionTemplateDecl", "CXXRecordDecl", "EnumDecl", "TypeAliasDecl")


def parse(clang, headers, wanted=WANTED, parts=PARTS):
    command = [clang, "-std=c++20", "-Iinclude", "-fsyntax-only", "-fparse-all-comments", "-Xclang", "-ast-dump=json"]
    command += ["-Xclang", "-ast-dump-filter=extensor::", "-x", "c++", "-"]
    try:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, encoding="utf-8", stdin=pipe, stdout=pipe)
    except FileNotFoundError:
        sys.exit(f"read_headers.py: there is no compiler {clang} (allowed: Clang 16 or newer)")
    process.stdin.write("".join(f'#include "{h.removeprefix("include/")}"\n' for h in headers if h.endswith(".h")))
    process.stdin.close()
    yield from declarations(with_files(process.stdout), wanted, parts)
    if process.wait() != 0:
        sys.exit(f"read_headers.py: {clang} does not accept the headers")


# ---- source text -----------------------------------------------------------------------------------

_texts = {}


def source(file):
    if file not in _texts:
        _texts[file] = (ROOT / file).read_bytes()
    return _texts[file]


def written(location):
    """Where a token is written: in a macro's definition or argument, if it comes from one."""
    return location.get("spellingLoc", location)


def expanded(location):
    return location.get("expansionLoc", location)


def quoted(node):
    """The source text of an expression."""
    begin, end = written(node["range"]["begin"]), written(node["range"]["end"])
    if begin["file"] != end["file"]:
        sys.exit(f"read_headers.py: {begin['file']}: an expression begins here and ends in {end['file']}")
    text = source(begin["file"])[begin["offset"] : end["offset"] + end["tokLen"]].decode()
    return squeezed(text).removeprefix("=").lstrip()


def squeezed(text):
    return " ".join(text.split())


def header_of(node):
    """The header that declares it; the rows of a table belong to the header that includes the table."""
    location = expanded(node["loc"])
    file = location["includedFrom"]["file"] if location["file"].endswith(".def") else location["file"]
    return file.removeprefix(HEADERS)


def plain(comment):
    lines = [line.strip().removeprefix("//").removeprefix(" ").rstrip() for line in comment.splitlines()]
    return "\n".join(lines).strip()


class Comments:
    """Finds the comments of declarations in the order of the source."""

    def __init__(self):
        self.file, self.end, self.shared = None, 0, ""

    def of(self, node):
        """The comment before the declaration or at the end of its line. A comment before several declarations
        without an empty line between them belongs to all of them. Rows of tables have none: the op
        database documents them."""
        begin, end = node["range"]["begin"], node["range"]["end"]
        if "expansionLoc" in begin or begin["file"].endswith(".def"):
            self.file = None
            return ""
        text = source(begin["file"])
        near = self.file == begin["file"] and self.end <= begin["offset"]
        if not near or re.search(rb"\n\s*\n", text[self.end : begin["offset"]]):
            self.shared = ""
        self.file, self.end = begin["file"], end["offset"]
        own = comment_before(node)
        if own:
            self.shared = own
        trailing = re.compile(rb"[^\n]*?;[ \t]*//([^\n]*)").match(text, end["offset"] + end["tokLen"])
        return own or (trailing[1].decode().strip() if trailing else self.shared)


def comment_before(node):
    """The comment that Clang attaches, unless an empty line separates it from the declaration."""
    for comment in node.get("inner", []):
        if comment["kind"] != "FullComment":
            continue
        begin, end = comment["range"]["begin"], comment["range"]["end"]
        text = source(begin["file"])
        line_end = text.index(b"\n", end["offset"])
        if begin["offset"] < node["range"]["begin"]["offset"]:
            between = text[line_end : node["range"]["begin"]["offset"]]
            if between.strip() or between.count(b"\n") > 1:
                return ""
        return plain(text[begin["offset"] : line_end].decode())
    return ""


# ---- types -----------------------------------------------------------------------------------------


def spelled(clang_type):
    """Clang's "const Tensor &" as the sources write it."""
    text = re.sub(r"\s+([&*]+)", r"\1", clang_type["qualType"])
    text = re.sub(r"(?<![*&(])\s+\((?!\*)", "(", text)
    return re.sub(r"(\w)\(\*\)", r"\1 (*)", text)


def unqualified(text):
    text = text.strip()
    if text == "const char*":
        return text
    while text.endswith("&"):
        text = text[:-1].strip()
    return text.removeprefix("const ").strip()


def arguments(text):
    """The template's name and its arguments: ("std::pair", ["Tensor", "Tensor"])."""
    name, bracket, rest = text.partition("<")
    if not bracket:
        return text, []
    parts, depth = [""], 0
    for c in rest[:-1]:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return name, [part.strip() for part in parts]


class Types:
    """Everything that namespace extensor declares, to resolve names."""

    def __init__(self):
        self.aliases, self.records, self.enumerations = {}, {}, {}

    def add(self, namespace, node):
        name = f"{namespace}::{node.get('name')}"
        if node["kind"] == "TypeAliasDecl":
            self.aliases[name] = spelled(node["type"])
        elif node["kind"] == "EnumDecl":
            self.enumerations[name] = node
        elif node.get("completeDefinition") and node.get("definitionData", {}).get("isAggregate"):
            self.records[name] = node
        for inner in node.get("inner", []) if node["kind"] == "CXXRecordDecl" else []:
            if inner["kind"] in ("TypeAliasDecl", "EnumDecl", "CXXRecordDecl") and "name" in inner:
                self.add(name, inner)

    def lookup(self, table, namespace, name):
        """The qualified name of `name`, as seen from a namespace, or None."""
        while namespace:
            if f"{namespace}::{name}" in table:
                return f"{namespace}::{name}"
            namespace = namespace.rpartition("::")[0]
        return name if name in table else None

    def classify(self, namespace, text):
        """(kind, how many, the qualified name of the struct or enumeration or "")."""
        name = unqualified(text)
        name = name.removeprefix("extensor::")
        if name in KINDS:
            return KINDS[name], "one", ""
        if record := self.lookup(self.records, namespace, name):
            return "record", "one", record
        if enumeration := self.lookup(self.enumerations, namespace, name):
            return "enumeration", "one", enumeration
        if alias := self.lookup(self.aliases, namespace, name):
            return self.classify(alias.rpartition("::")[0], self.aliases[alias])
        template, parts = arguments(name)
        if template == "std::function":
            return "function", "one", ""
        if template == "std::map" and parts[0] == "std::string":
            kind, count, named = self.classify(namespace, parts[1])
            if count == "one":
                return kind, "map", named
        if template == "std::vector" and arguments(parts[0])[1][:1] == ["std::string"]:
            return self.classify(namespace, f"std::map<{', '.join(arguments(parts[0])[1])}>")  # in order
        if template in HOLDERS:
            kind, count, named = self.classify(namespace, parts[0])
            alike = template != "std::pair" or parts[0] == parts[1]
            if count == "one" and alike:
                return kind, HOLDERS[template], named
            if count == "pair" and HOLDERS[template] == "list":
                return kind, "pairs", named
        return "other", "one", ""


# ---- the list --------------------------------------------------------------------------------------


def literal(text):
    """A C++ string literal that is also JSON."""
    return json.dumps(text, ensure_ascii=False)


def initializer(node):
    """The default value of a parameter or field as it is written, or ""."""
    if not (node.get("init") or node.get("hasInClassInitializer")):
        return ""
    return quoted([inner for inner in node["inner"] if "range" in inner and not inner["kind"].endswith("Comment")][0])


class Writer:
    def __init__(self, types):
        self.types, self.used = types, []

    def typed(self, namespace, text, default=""):
        kind, count, named = self.types.classify(namespace, text)
        if kind == "tensor" and count == "one" and default:
            count = "optional"  # an undefined tensor
        if named and named not in self.used:
            self.used.append(named)
        return f"{kind}, {count}, {literal(named)}, {literal(text)}"

    def function(self, namespace, node, head, comment):
        name, text = node["name"], spelled(node["type"])
        parameters = [inner for inner in node.get("inner", []) if inner["kind"] == "ParmVarDecl"]
        types = [spelled(parameter["type"]) for parameter in parameters]
        result = re.sub(r"\s*(noexcept)?$", "", text).removesuffix("(" + ", ".join(types) + ")").strip()
        macro = "TEMPLATE" if head else "FUNCTION"
        last = literal(head) if head else f"{result}({', '.join(types)})"
        texts = f"{literal(header_of(node))}, {literal(comment)}"
        rows = [f"{macro}({namespace}, {name}, {self.typed(namespace, result)}, {texts}, {last})"]
        for parameter, of_type in zip(parameters, types):
            default = initializer(parameter)
            typed = self.typed(namespace, of_type, default)
            rows.append(f"PARAMETER({typed}, {literal(parameter.get('name', ''))}, {literal(default)})")
        return rows

    def record(self, name):
        node = self.types.records[name]
        rows = [f"RECORD({name}, {literal(header_of(node))}, {literal(comment_before(node))})"]
        if node.get("bases"):
            sys.exit(f"read_headers.py: {name} has a base class, whose fields the list would miss")
        for field in node.get("inner", []):
            if field["kind"] == "FieldDecl":
                default = initializer(field)
                typed = self.typed(name, spelled(field["type"]), default)
                comment = literal(comment_before(field))
                rows.append(f"FIELD({typed}, {literal(field['name'])}, {literal(default)}, {comment})")
        return rows

    def enumeration(self, name):
        node = self.types.enumerations[name]
        rows = [f"ENUMERATION({name}, {literal(header_of(node))}, {literal(comment_before(node))})"]
        for value in node["inner"]:
            if value["kind"] == "EnumConstantDecl":
                rows.append(f"VALUE({name}, {value['name']}, {literal(comment_before(value))})")
        return rows


def hashes(headers):
    """One row per header, so that changes of different headers merge."""
    return [
        f'HEADER({literal(h.removeprefix(HEADERS))}, "{hashlib.sha256(source(h)).hexdigest()[:16]}")' for h in headers
    ]


def all_headers():
    files = (ROOT / HEADERS).rglob("*")
    return sorted(f.relative_to(ROOT).as_posix() for f in files if f.suffix in (".h", ".def"))


def make_list(clang):
    headers = all_headers()
    types, found, comments = Types(), [], Comments()
    seen: set[str] = set()
    for namespace, node in parse(clang, headers):
        if node["kind"] not in ("FunctionDecl", "FunctionTemplateDecl"):
            types.add(namespace, node)
            continue
        head, function = "", node
        if node["kind"] == "FunctionTemplateDecl":
            patterns = [inner for inner in node["inner"] if inner["kind"] == "FunctionDecl"]
            if not patterns:
                continue  # a deduction guide, or a member that is defined outside of its class
            function = patterns[0]
            begin, end = node["range"]["begin"], function["range"]["begin"]
            head = squeezed(source(begin["file"])[begin["offset"] : end["offset"]].decode())
        comment = comments.of(node)
        seen.add(node["id"])
        if (
            re.match(r"operator\W", node["name"])
            or function.get("explicitlyDeleted")
            # A second declaration, unless the first one was a friend in a class.
            or node.get("previousDecl") in seen
            or "parentDeclContextId" in node
        ):
            continue
        found.append((namespace, function, head, comment))
    writer = Writer(types)
    found.sort(key=lambda entry: header_of(entry[1]))
    functions = [row for entry in found for row in writer.function(*entry)]
    named = {}
    for name in writer.used:  # grows while the structs of fields are found
        named[name] = writer.record(name) if name in types.records else writer.enumeration(name)
    rows = [row for name in sorted(named) for row in named[name]]
    return hashes(headers) + rows + functions


INTRODUCTION = """\
// The public functions, and the structs and enumerations that they take or return. Generated by
// op_database/read_headers.py from the headers; `./ex docs` writes it anew. functions.cpp and
// functions.h give the meaning of the rows.
"""


def check_hashes():
    listed = [line for line in LIST.read_text("utf-8").splitlines() if line.startswith("HEADER(")]
    current = hashes(all_headers())
    changed = sorted({json.loads(f"[{row[7:-1]}]")[0] for row in set(listed) ^ set(current)})
    if changed:
        sys.exit(
            "op_database/functions.inc is older than these headers: "
            + ", ".join(HEADERS + header for header in changed)
            + "\nRun ./ex docs, which writes the list of public functions anew."
        )
    print("op_database/functions.inc is up to date")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", default="clang++-16", help="the compiler that reads the headers")
    parser.add_argument("--verify", action="store_true", help="compare with the list instead of writing it")
    parser.add_argument("--hashes", action="store_true", help="compare only the hashes of the headers")
    options = parser.parse_args()
    if options.hashes:
        return check_hashes()
    text = INTRODUCTION + "\n".join(make_list(options.clang)) + "\n"
    if not options.verify:
        LIST.write_text(text, "utf-8")
    elif LIST.read_text("utf-8") != text:
        old, new = LIST.read_text("utf-8").splitlines(), text.splitlines()
        changes = difflib.unified_diff(old, new, "op_database/functions.inc", "the headers", n=0, lineterm="")
        print("\n".join(itertools.islice(changes, 20)), file=sys.stderr)
        sys.exit("op_database/functions.inc differs from the headers. Run ./ex docs, which writes it anew.")


if __name__ == "__main__":
    main()
