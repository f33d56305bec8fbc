"""The list of public functions, op_database/functions.inc, as Python objects."""

from __future__ import annotations

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Type:
    kind: str
    count: str
    named: str
    text: str

    @property
    def bare(self) -> str:
        """The C++ type without const and reference."""
        return re.sub(r"^const |&$", "", self.text).strip().removesuffix("&")


@dataclasses.dataclass
class Variable:
    """A parameter of a function or a field of a record."""

    type: Type
    name: str
    default: str
    comment: str = ""
    keyword_only: bool = False
    field_of: int = -1  # the position of the record that a keyword belongs to


@dataclasses.dataclass
class Function:
    space: str
    name: str
    result: Type
    header: str
    comment: str
    template: bool
    parameters: list[Variable] = dataclasses.field(default_factory=list)
    takes_dtype_none: bool = False  # in Python, as an overload with a dtype exists


@dataclasses.dataclass
class Record:
    name: str
    comment: str
    fields: list[Variable] = dataclasses.field(default_factory=list)


def split_row(text: str) -> list[str]:
    """The arguments of a macro: strings in quotes, or text without a comma outside brackets."""
    parts, i = [], 0
    while i < len(text):
        if text[i] in " ,":
            i += 1
        elif text[i] == '"':
            j = i + 1
            while text[j] != '"':
                j += 2 if text[j] == "\\" else 1
            raw = text[i + 1 : j]
            parts.append(re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), raw))
            i = j + 1
        else:
            depth, j = 0, i
            while j < len(text) and (depth or text[j] != ","):
                depth += (text[j] in "(<{") - (text[j] in ")>}")
                j += 1
            parts.append(text[i:j].strip())
            i = j
    return parts


class Database:
    def __init__(self, path: pathlib.Path) -> None:
        self.functions: list[Function] = []
        self.records: dict[str, Record] = {}
        self.enumerations: dict[str, list[str]] = {}
        fields: list[Variable] = []
        for line in path.read_text().splitlines():
            match = re.fullmatch(r"([A-Z]+)\((.*)\)", line)
            if not match:
                continue
            row = split_row(match[2])
            if match[1] in ("FUNCTION", "TEMPLATE"):
                space, name, *result, header, comment, _ = row[:9]
                self.functions.append(
                    Function(space, name, Type(*result), header, comment, match[1] == "TEMPLATE")
                )
                fields = self.functions[-1].parameters
            elif match[1] == "PARAMETER":
                fields.append(Variable(Type(*row[:4]), row[4], row[5]))
            elif match[1] == "RECORD":
                self.records[row[0]] = Record(row[0], row[2])
                fields = self.records[row[0]].fields
            elif match[1] == "FIELD":
                fields.append(Variable(Type(*row[:4]), row[4], row[5], row[6]))
            elif match[1] == "ENUMERATION":
                self.enumerations[row[0]] = []
            elif match[1] == "VALUE":
                self.enumerations[row[0]].append(row[1])
