# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks a document against a JSON schema: the keywords that tools/smi/schema.json uses, no others.

Python's jsonschema is not in the tool box.
"""

import re

_TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "null": lambda v: v is None,
}
_NOTES = {"$schema", "$comment", "$defs", "title"}


def problems(document, schema, root=None, where="$"):
    """What is wrong with `document`, a list of lines; empty when it fits.

    Raises ValueError for a schema with a keyword that is not known here.
    """
    root = schema if root is None else root
    found = []
    for keyword, value in schema.items():
        if keyword in _NOTES:
            continue
        check = _KEYWORDS.get(keyword)
        if check is None:
            raise ValueError(f"{where}: keyword {keyword} is not known")
        found += check(document, value, schema, root, where)
    return found


def _ref(document, value, _schema, root, where):
    return problems(document, root["$defs"][value.removeprefix("#/$defs/")], root, where)


def _any_of(document, value, _schema, root, where):
    tried = [problems(document, one, root, where) for one in value]
    if not all(tried):
        return []
    return [f"{where}: fits none of {len(value)}", *min(tried, key=len)]


def _type(document, value, _schema, _root, where):
    names = [value] if isinstance(value, str) else value
    if any(_TYPES[name](document) for name in names):
        return []
    return [f"{where}: {document!r} is no {' or '.join(names)}"]


def _enum(document, value, _schema, _root, where):
    return [] if document in value else [f"{where}: {document!r} is none of {value}"]


def _const(document, value, _schema, _root, where):
    return [] if document == value else [f"{where}: {document!r} is not {value!r}"]


def _pattern(document, value, _schema, _root, where):
    fits = not isinstance(document, str) or re.search(value, document)
    return [] if fits else [f"{where}: {document!r} does not match {value}"]


def _minimum(document, value, _schema, _root, where):
    fits = not _TYPES["number"](document) or document >= value
    return [] if fits else [f"{where}: {document} is less than {value}"]


def _maximum(document, value, _schema, _root, where):
    fits = not _TYPES["number"](document) or document <= value
    return [] if fits else [f"{where}: {document} is more than {value}"]


def _items(document, value, _schema, root, where):
    if not isinstance(document, list):
        return []
    return [p for i, v in enumerate(document) for p in problems(v, value, root, f"{where}[{i}]")]


def _required(document, value, _schema, _root, where):
    if not isinstance(document, dict):
        return []
    return [f"{where}: has no {name}" for name in value if name not in document]


def _properties(document, value, _schema, root, where):
    if not isinstance(document, dict):
        return []
    present = [name for name in value if name in document]
    return [
        p for n in present for p in problems(document[n], value[n], root, f"{where}.{n}")
    ]  # fmt: skip


def _additional(document, value, schema, root, where):
    if not isinstance(document, dict):
        return []
    others = [name for name in document if name not in schema.get("properties", {})]
    if value is False:
        return [f"{where}: {name} is not in the schema" for name in others]
    return [p for n in others for p in problems(document[n], value, root, f"{where}.{n}")]


_KEYWORDS = {
    "$ref": _ref,
    "anyOf": _any_of,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "items": _items,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
}
