#!/usr/bin/env python3
"""Writes the Python bindings of the public functions: C++ files with one small function for each
overload, from op_database/functions.inc, which read_headers.py writes from the public headers.

    generate_bindings.py SOURCE_DIR OUTPUT_DIR FILES

An options record becomes keyword arguments, a record in a result becomes a named tuple, and an
enumeration becomes a string. A function that cannot be bound must match OMITTED, which gives the
reason; any other one is an error here, so that a new function is never lost silently.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys

from binding_rules import (
    KEYWORDS,
    OMITTED,
    OMITTED_NAMES,
    OTHER_TYPES,
    TYPES,
    UNSIGNED,
    WALKS_GRAPH,
    WITHOUT_EFFECT,
    WRAPPED,
)
from function_list import Database, Function, Record, Type, Variable


def literal(text: str) -> str:
    """A C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def short(name: str) -> str:
    return name.rsplit("::", 1)[-1]


class Generator:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.result_records: dict[str, Record] = {}
        self.argument_records: dict[str, Record] = {}
        self.omitted: list[str] = []

    # ---- selection

    def reason_to_omit(self, function: Function) -> str | None:
        if function.template:
            return "a template: another overload has its arguments"
        if function.name in OMITTED_NAMES:
            return OMITTED_NAMES[function.name]
        texts = [p.type.text for p in function.parameters] + [function.result.text]
        for pattern, reason in OMITTED:
            if any(re.search(pattern, text) for text in texts):
                return reason
        return None

    def overloads(self) -> dict[tuple[str, str], list[Function]]:
        """The functions by namespace and name, with records expanded and duplicates removed."""
        groups: dict[tuple[str, str], list[Function]] = {}
        for function in self.database.functions:
            reason = self.reason_to_omit(function)
            if reason:
                self.omitted.append(f"{function.space}::{function.name}: {reason}")
                continue
            groups.setdefault((function.space, function.name), []).append(self.expanded(function))
        for key, group in groups.items():
            kept: list[Function] = []
            for function in group:
                if not any(o is not function and covers(o, function) for o in group):
                    kept.append(function)
            for function in kept:
                share_defaults(function, group)
            groups[key] = kept
        return groups

    def expanded(self, function: Function) -> Function:
        """Options records become keyword arguments; what follows them is keyword-only, too."""
        names = {p.name for p in function.parameters}
        result: list[Variable] = []
        keyword_only = False
        for position, parameter in enumerate(function.parameters):
            if parameter.type.kind == "record" and parameter.name in ("options", "bounds"):
                keyword_only = True
                for field in self.database.records[parameter.type.named].fields:
                    if field.name not in names:  # conv2d has an argument and an option `bias`
                        result.append(
                            dataclasses.replace(field, keyword_only=True, field_of=position)
                        )
            elif parameter.type.text == "const char*" and parameter.default:
                continue  # the name of the operation in messages
            else:
                result.append(dataclasses.replace(parameter, keyword_only=keyword_only))
        expanded = dataclasses.replace(function, parameters=result)
        expanded.original = function  # type: ignore[attr-defined]
        return expanded

    # ---- types

    def argument(self, variable: Variable) -> tuple[str, str]:
        """The type object and the expression that reads the argument {i}."""
        kind, count, bare = variable.type.kind, variable.type.count, variable.type.bare
        if kind == "tensor" and variable.type.text == "Tensor&":
            return "types::written", "call.written({i})"
        if variable.name == "diagonal":  # beyond int64 it is as far outside as at its ends
            return "types::integer", "call.clamped_integer({i})"
        if kind == "enumeration":
            name = short(variable.type.named)
            return f"{name}_type", f"{name}_values[call.enumeration({{i}})]"
        if kind == "size":
            base = bare.removeprefix("std::optional<").removesuffix(">").lower()
            return f"types::{base}" + ("_or_none" if count == "optional" else ""), (
                f"call.{base}({{i}})"
            )
        if OTHER_TYPES.get(bare, (None,))[0] is not None:
            name, expression, _ = OTHER_TYPES[bare]
            return f"types::{name}", expression
        if kind == "function":
            getter = {"UnaryFunction": "unary_function", "TensorFunction": "tensors_function",
                      "std::function<Tensor(const Tensor&)>": "unary_function",
                      "std::function<Tensor(const Tensor&, const Tensor&)>": "binary_function",
                      }[bare]  # fmt: skip
            return "types::function", f"call.{getter}({{i}})"
        if kind == "record":
            record = self.database.records[variable.type.named]
            self.argument_records[record.name] = record
            return "types::record", f"read_{short(record.name)}(call.object({{i}}))"
        if kind == "integer" and bare in UNSIGNED:
            return "types::integer", "call.unsigned_integer({i})"
        if kind == "integer" and bare == "int":
            return "types::integer", "static_cast<int>(call.integer({i}))"
        if kind == "string" and bare == "char":
            return "types::string", "call.string({i})[0]"
        name, expression, _ = TYPES[kind, count]
        if name is None:
            raise KeyError((kind, count))
        return f"types::{name}", expression

    def result(self, result: Type) -> str:
        if result.kind == "record":
            self.add_result_record(result.named)
            name = short(result.named)
            return f"list[{name}]" if result.count == "list" else name
        if result.bare in OTHER_TYPES:
            return str(OTHER_TYPES[result.bare][2])
        annotation = TYPES[result.kind, result.count][2]
        if annotation is None:
            raise KeyError(result)
        return annotation

    def add_result_record(self, name: str) -> None:
        record = self.database.records[name]
        for field in record.fields:
            if field.type.kind == "record":
                self.add_result_record(field.type.named)
        self.result_records[name] = record

    def field_annotation(self, field: Variable) -> str:
        if field.type.kind == "record":
            name = short(field.type.named)
            return f"list[{name}]" if field.type.count == "list" else name
        if field.type.bare in OTHER_TYPES:
            return str(OTHER_TYPES[field.type.bare][2])
        annotation = TYPES[field.type.kind, field.type.count][2] or "Any"
        return f"{annotation} | None" if field.type.kind == "tensor" else annotation

    # ---- code

    def default_text(self, variable: Variable) -> str | None:
        """The default as Python shows it, or None if the argument is required."""
        value = variable.default
        if not value:
            return None
        if variable.type.kind == "enumeration" and "::" in value:
            return f"'{short(value)}'"
        if value in ("true", "false"):
            return value.capitalize()
        if value == "{}" or value.startswith("default_generator"):
            return "None"
        if re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value):
            return value
        if re.fullmatch(r"\{[-0-9., ]+\}", value):
            return f"({value[1:-1]})"
        return "..."  # a constant of the library

    def code(self, function: Function, number: int) -> tuple[str, str]:
        """The C++ function of an overload and its row."""
        rows, lines, arguments = [], [], []
        original: Function = function.original  # type: ignore[attr-defined]
        positions = {}
        for i, variable in enumerate(function.parameters):
            type_object, expression = self.argument(variable)
            default = self.default_text(variable)
            name = python_name(keyword_of(function, variable))
            alias = python_name(variable.name)
            rows.append(
                f"    {{{literal(name)}, &{type_object}, "
                f"{literal(default) if default is not None else 'nullptr'}, "
                f"{'true' if variable.keyword_only else 'false'}"
                f"{', ' + literal(alias) if alias != name else ''}}},"
            )
            positions[variable.name, variable.field_of] = i
        for name, default in WITHOUT_EFFECT.get(function.name, {}).items():
            rows.append(f"    {{{literal(name)}, &types::boolean, {literal(default)}, true}},")
        if function.takes_dtype_none:
            rows.append('    {"dtype", &types::none, "None", true},')
        for position, parameter in enumerate(original.parameters):
            if parameter.type.kind == "record" and parameter.name in ("options", "bounds"):
                lines.append(f"  {parameter.type.bare} options{position}{{}};")
                for i, variable in enumerate(function.parameters):
                    if variable.field_of != position:
                        continue
                    read = self.argument(variable)[1].format(i=i)
                    lines.append(
                        f"  if (call.has({i})) options{position}.{variable.name} = {read};"
                    )
                arguments.append(f"options{position}")
                continue
            if parameter.type.text == "const char*" and parameter.default:
                arguments.append(parameter.default)
                continue
            i = positions[parameter.name, -1]
            variable = function.parameters[i]
            read = self.argument(variable)[1].format(i=i)
            bare = parameter.type.bare
            if bare == "std::string_view":
                bare = "std::string"
            if parameter.type.kind == "tensor" and parameter.type.count in ("one", "optional"):
                mutable = parameter.type.text == "Tensor&"
                lines.append(f"  {'' if mutable else 'const '}Tensor& a{i} = {read};")
            elif parameter.type.kind == "other" and parameter.type.text.endswith("&"):
                lines.append(f"  const auto& a{i} = {read};")
            elif parameter.type.kind == "generator":
                lines.append(
                    f"  Generator& a{i} = call.has({i}) ? {read} : {variable.default or read};"
                )
            elif variable.default:
                fallback = f"{bare}{{}}" if variable.default == "{}" else f"{bare}({variable.default})"
                lines.append(
                    f"  const {bare} a{i} = call.has({i}) ? {bare}({read}) : {fallback};"
                )
            elif parameter.type.kind in ("axes",) or parameter.type.count == "optional":
                lines.append(
                    f"  const {bare} a{i} = call.has({i}) ? {bare}({read}) : {bare}{{}};"
                )
            else:
                lines.append(f"  const {bare} a{i} = {read};")
            arguments.append(f"a{i}")
        target = f"{function.space}::{function.name}({', '.join(arguments)})"
        if function.name in WALKS_GRAPH:
            lines.append("  call.set_large();")
        if function.result.text == "Tensor&":
            lines.append(f"  run(call, [&] {{ {target}; }});")
            lines.append("  Py_INCREF(call.object(0));\n  return call.object(0);")
        else:
            lines.append(f"  return run(call, [&] {{ return {target}; }});")
        result = self.result(function.result)
        text = (
            f"constexpr Parameter parameters{number}[] = {{\n" + "\n".join(rows) + "\n};\n"
            if rows
            else f"constexpr std::span<const Parameter> parameters{number};\n"
        )
        text += f"PyObject* call{number}([[maybe_unused]] Call& call) {{\n" + "\n".join(lines)
        text += "\n}\n"
        return text, f"{{parameters{number}, {literal(result)}, call{number}}}"


def python_name(name: str) -> str:
    return name + "_" if name in ("lambda", "from", "in", "is") else name


def keyword_of(function: Function, variable: Variable) -> str:
    """The name of a parameter in Python."""
    if variable.type.kind == "axes" and variable.name == "axes" and short(function.space) != "fft":
        return "axis"
    return KEYWORDS.get(function.name, {}).get(variable.name, variable.name)


def covers(wide: Function, narrow: Function) -> bool:
    """Whether every call of `narrow` is also one of `wide`."""
    by_name = {p.name: p for p in wide.parameters}
    if not all(p.name in by_name for p in narrow.parameters):
        return False
    kinds = lambda p: p.type.kind  # noqa: E731
    if not all(kinds(by_name[p.name]) == kinds(p) for p in narrow.parameters):
        return False
    names = {p.name for p in narrow.parameters}
    extra = [p for p in wide.parameters if p.name not in names]
    return bool(extra) and all(p.default for p in extra)


def share_defaults(function: Function, group: list[Function]) -> None:
    """sum(x, axes, keepdims, dtype) takes the defaults that sum(x, axes={}, keepdims=false) has:
    C++ has none there only because the dtype or options follow. The others take dtype=None."""
    if not any(p.type.kind == "dtype" and not p.default or p.field_of >= 0 for p in function.parameters):
        return
    for other in group:
        other.takes_dtype_none = other.takes_dtype_none or not any(p.name == "dtype" for p in other.parameters)
        for theirs in other.parameters:
            for ours in function.parameters:
                if ours.name == theirs.name and not ours.default and theirs.default:
                    ours.default = theirs.default
    seen_default = False
    for parameter in function.parameters:
        seen_default = seen_default or bool(parameter.default)
        if seen_default and not parameter.default:
            parameter.keyword_only = True


HEAD = """// Generated by generate_bindings.py from op_database/functions.inc.
#include "bindings.h"

"""


def member_names(tables: pathlib.Path) -> list[str]:
    """The functions that are also members of Tensor, as tensor.h declares them."""
    names: list[str] = []
    for name in re.findall(r"^EXTENSOR_MEMBER\([^,]+(?:<\w+>)?, (\w+),", (tables / "members.def").read_text(), re.M):
        names.append(name)
    for row, name in re.findall(r"^([A-Z_0-9]+)\s*\(\s*(\w+),", (tables / "unary.def").read_text(), re.M):
        names += [name, name + "_"] if row.startswith("UNARY") else []
    for row, name in re.findall(r"^([A-Z_0-9]+)\s*\(\s*(\w+),", (tables / "binary.def").read_text(), re.M):
        names += [name, name + "_"] if row.startswith("BINARY") else []
    names += re.findall(r"^(?:COMPARE|PREDICATE|BITWISE|BITWISE_UNARY)\s*\(\s*(\w+),",
                        (tables / "logical.def").read_text(), re.M)  # fmt: skip
    names += ["squeeze", "unsqueeze", "flatten", "broadcast_to"]  # members without a table
    return sorted(set(names))


def main() -> None:
    source, output, files = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    output.mkdir(parents=True, exist_ok=True)
    generator = Generator(Database(source / "op_database/functions.inc"))
    parts: list[list[str]] = [[] for _ in range(files)]
    tables: list[list[tuple[str, str]]] = [[] for _ in range(files)]
    number = 0
    for k, ((space, name), group) in enumerate(generator.overloads().items()):
        rows = []
        for function in group:
            text, row = generator.code(function, number)
            parts[k % files].append(text)
            rows.append(row)
            number += 1
        comments = [f.comment for f in group if f.comment]
        documentation = "\n\n".join(dict.fromkeys(comments))
        parts[k % files].append(
            f"constexpr Overload overloads_{number}[] = {{{', '.join(rows)}}};\n"
        )
        tables[k % files].append(
            (
                space,
                f"{{{literal(name)}, {literal(documentation)}, overloads_{number}"
                f"{', true' if name in WRAPPED else ''}}}",
            )
        )
    spaces = sorted({space for table in tables for space, _ in table})

    # The records and enumerations that all files use.
    header = ["// Generated by generate_bindings.py: the records and enumerations of arguments.",
              "#pragma once", '#include "function.h"', "namespace extensor::python {",
              "using namespace extensor;", "using namespace extensor::data;",
              "using namespace extensor::fft;", "using namespace extensor::linalg;",
              "using namespace extensor::models;", "using namespace extensor::train;"]  # fmt: skip
    for name, values in generator.database.enumerations.items():
        alias = short(name)
        header.append(f"inline constexpr const char* {alias}_names[] = {{")
        header.append("    " + ", ".join(literal(v) for v in values) + ", nullptr};")
        header.append(f"[[maybe_unused]] inline constexpr {name} {alias}_values[] = {{")
        header.append("    " + ", ".join(f"{name}::{v}" for v in values) + "};")
        annotation = "Literal[" + ", ".join(f"'{v}'" for v in values) + "]"
        header.append(
            f"[[maybe_unused]] inline const ArgumentType {alias}_type{{{literal(annotation)}, "
            f'"a name", types::matches_name, {alias}_names}};'
        )
    header.append("// The names of an enumeration by its type.\ntemplate <class E>\nstruct Names;")
    for name in generator.database.enumerations:
        alias = short(name)
        header.append(
            f"template <>\nstruct Names<{name}> {{\n"
            f"  static constexpr const ArgumentType* type = &{alias}_type;\n"
            f"  static constexpr std::span<const {name}> values{{{alias}_values}};\n}};"
        )
    for name in generator.result_records:
        header.append(f"PyObject* to_python(const {name}& record);")
    for name in generator.argument_records:
        header.append(f"{name} read_{short(name)}(PyObject* object);")
    header.append("}  // namespace extensor::python")

    body = [HEAD, "namespace extensor::python {", "namespace {"]
    body.append("template <class... T>\nPyObject* pack(PyTypeObject* type, T&&... fields) {")
    body.append("  Owned result(checked(PyStructSequence_New(type)));\n  Py_ssize_t k = 0;")
    body.append("  (PyStructSequence_SET_ITEM(result.get(), k++, checked(to_python(fields))), ...);")
    body.append("  return result.release();\n}")
    for name, record in generator.result_records.items():
        alias = short(name)
        # An annotation and a comment, separated by a line break: the stubs contain both.
        fields = "".join(
            f"    {{{literal(f.name)}, {literal(generator.field_annotation(f) + chr(10) + f.comment)}}},\n"
            for f in record.fields
        )
        body.append(
            f"PyTypeObject* {alias}_class;\nPyStructSequence_Field {alias}_fields[] = {{\n{fields}"
            "    {nullptr, nullptr}};\n"
            f"PyStructSequence_Desc {alias}_description{{\"extensor.{alias}\", "
            f"{literal(record.comment or alias)}, {alias}_fields, {len(record.fields)}}};"
        )
    body.append("}  // namespace")
    for name, record in generator.result_records.items():
        fields = ", ".join(f"record.{f.name}" for f in record.fields)
        body.append(
            f"PyObject* to_python(const {name}& record) {{\n"
            f"  return pack({short(name)}_class, {fields});\n}}"
        )
    for name, record in generator.argument_records.items():
        lines = [f"{name} read_{short(name)}(PyObject* object) {{", f"  {name} record{{}};",
                 f'  const Arguments fields(object, "{short(name)}", {len(record.fields)});',
                 "  [[maybe_unused]] Call call = fields.call();"]  # fmt: skip
        for i, field in enumerate(record.fields):
            if field.type.kind == "record" and field.type.named.endswith("RandomState"):
                lines.append(f"  if (call.has({i})) record.{field.name} = read_random_state(call.object({i}));")
            else:
                read = generator.argument(field)[1].format(i=i)
                lines.append(f"  if (call.has({i})) record.{field.name} = {read};")
        body += [*lines, "  return record;\n}"]
    body.append("void add_records(PyObject* module) {")
    for name in generator.result_records:
        alias = short(name)
        body.append(f"  {alias}_class = PyStructSequence_NewType(&{alias}_description);")
        body.append(f"  if ({alias}_class == nullptr || PyModule_AddObjectRef(module, \"{alias}\", "
                    f"reinterpret_cast<PyObject*>({alias}_class)) != 0) throw PythonError();")  # fmt: skip
    body.append("}")
    body.append("const char* const member_names[] = {")
    body.append("    " + ", ".join(literal(n) for n in member_names(source / "include/extensor/tables")))
    body.append("    , nullptr};")
    for i in range(files):
        body.append(f"void add_functions_{i}(const Modules& modules);")
    body.append("void add_generated_functions(const Modules& modules) {")
    body += [f"  add_functions_{i}(modules);" for i in range(files)]
    body.append("}\n}  // namespace extensor::python\n")

    write(output / "generated_types.h", "\n".join(header) + "\n")
    write(output / "records.cpp", "\n".join(body))
    for i in range(files):
        text = [HEAD, "namespace extensor::python {", "namespace {", *parts[i]]
        adds = []
        for space in spaces:
            rows = [row for where, row in tables[i] if where == space]
            if rows:
                alias = short(space)
                text.append(f"constexpr FunctionRow {alias}_rows[] = {{\n    " + ",\n    ".join(rows) + "};")
                adds.append(f"  modules.add(\"{space}\", {alias}_rows);")
        text += ["}  // namespace", f"void add_functions_{i}(const Modules& modules) {{", *adds, "}",
                 "}  // namespace extensor::python\n"]  # fmt: skip
        write(output / f"functions_{i}.cpp", "\n".join(text))
    write(output / "omitted.txt", "\n".join(generator.omitted) + "\n")


def write(path: pathlib.Path, text: str) -> None:
    """Leaves an unchanged file alone, so that nothing is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    main()
