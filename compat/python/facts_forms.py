"""facts_forms.py: classes that a call makes: NamedTuple("P", ...), Enum("E", ...), make_dataclass("D", ...)."""
import ast

from facts_fields import specified
from facts_text import Text
from facts_types import TypeText

_NAMED_TUPLES = ("typing.NamedTuple", "collections.namedtuple")
_ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag")
_DICTS = ("typing.TypedDict", "typing_extensions.TypedDict")
_DATACLASS = "dataclasses.make_dataclass"


def _string(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _row(name, line, annotation, scope):
    kind = TypeText(scope.dotted).of(annotation) if annotation is not None else None
    return {"name": name, "type": kind, "line": line, "factory": False, "init": True, "kw_only": False,
            "initvar": False, "classvar": False}


def _names(node):
    """Names of "a b, c" or of ["a", "b"]; None where they are not written there."""
    text = _string(node)
    if text is not None:
        return text.replace(",", " ").split()
    if isinstance(node, (ast.List, ast.Tuple)):
        names = [_string(i.elts[0] if isinstance(i, ast.Tuple) and i.elts else i) for i in node.elts]
        return names if all(names) else None
    if isinstance(node, ast.Dict):
        names = [_string(k) for k in node.keys]
        return names if all(names) else None
    return None


def _typed(node, scope):
    """Rows of [("a", int), "b", ("c", int, field(...))], of {"a": int} or of plain names."""
    names = _names(node)
    if names is None:
        return None
    rows = []
    items = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [None] * len(names))
    for name, item in zip(names, items):
        parts = item.elts if isinstance(item, ast.Tuple) else [None, item] if isinstance(node, ast.Dict) else []
        row = _row(name, node.lineno, parts[1] if len(parts) > 1 else None, scope)
        if len(parts) > 2:
            specified(parts[2], row, scope)
        rows.append(row)
    return rows


def _defaults(call, rows, scope):
    """namedtuple(..., defaults=[...]): those of the last fields."""
    for keyword in call.keywords:
        if keyword.arg == "defaults" and isinstance(keyword.value, (ast.List, ast.Tuple)):
            texts = [Text(scope.dotted).of(v) for v in keyword.value.elts]
            for row, text in zip(rows[len(rows) - len(texts):], texts):
                row["default"] = text


def _class(line, base, scope, rows):
    return {"kind": "class", "line": line, "bases": [base] if base else [], "keywords": {}, "decorators": [],
            "deprecated": None, "fields": rows, "members": {}, "attrs": {}}


def class_of_call(call, scope):
    """The DEF of the class that a call makes, or None where it makes none that is known."""
    if not (isinstance(call, ast.Call) and call.args and _string(call.args[0]) is not None):
        return None
    name = Text(scope.dotted).of(call.func)
    if name == "type" and len(call.args) == 3:
        return _of_type(call, scope)
    if name not in _NAMED_TUPLES + _ENUMS + _DICTS + (_DATACLASS,) or len(call.args) < 2:
        return None
    if name in _ENUMS:
        names = _names(call.args[1])
        facts = _class(call.lineno, name, scope, []) if names else None
        for member in names or []:
            facts["members"][member] = [{"kind": "value", "line": call.lineno, "type": None, "value": None}]
        return facts
    rows = _typed(call.args[1], scope)
    if rows is None:
        return None
    if name == _DATACLASS:
        facts = _class(call.lineno, None, scope, rows)
        words = [k.arg + "=" + Text(scope.dotted).of(k.value) for k in call.keywords if k.arg]
        facts["decorators"] = ["dataclasses.dataclass(" + ", ".join(words) + ")"]
        return facts
    _defaults(call, rows, scope)
    facts = _class(call.lineno, name if name in _DICTS else "typing.NamedTuple", scope, rows)
    if name in _DICTS:
        facts["keywords"] = {k.arg or "**": Text(scope.dotted).of(k.value) for k in call.keywords}
    return facts


def _of_type(call, scope):
    """type("X", (Base,), {...})."""
    bases, body = call.args[1:]
    facts = _class(call.lineno, None, scope, [])
    if isinstance(bases, ast.Tuple):
        facts["bases"] = [TypeText(scope.dotted).of(b) for b in bases.elts]
    names = _names(body) if isinstance(body, ast.Dict) else None
    for member in names or []:
        facts["members"][member] = [{"kind": "value", "line": call.lineno, "type": None, "value": None}]
    if names is None or not isinstance(bases, ast.Tuple):
        facts["dynamic"] = "type() with what is not written there"
    return facts


def lend_bases(node, facts, scope):
    """class P(namedtuple("P", "x y")): the fields of the base that a call makes become the class's own."""
    for i, base in enumerate(node.bases):
        made = class_of_call(base, scope)
        if made is not None:
            facts["bases"][i:i + 1] = made["bases"]
            facts["fields"] += made["fields"]
            return
