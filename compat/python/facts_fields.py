"""facts_fields.py: the annotated fields of a class body, from which a constructor may be generated."""
import ast

from facts_text import Text
from facts_types import TypeText, parsed, typing_word

# Calls that describe a field rather than being its default, by the last part of their name.
_SPECIFIERS = ("field", "Field", "ib", "attrib", "mapped_column", "PrivateAttr")
_FACTORIES = ("default_factory", "factory")
_WRAPPERS = ("ClassVar", "InitVar", "Final", "Required", "NotRequired", "ReadOnly")
_MISSING = ("MISSING", "NOTHING", "NODEFAULT", "PydanticUndefined", "Undefined")


def _word(text):
    """"InitVar" for dataclasses.InitVar and typing.ClassVar alike."""
    word = typing_word(text) or text.rpartition(".")[2]
    return word if word in _WRAPPERS else None


def unwrapped(node, scope):
    """(inner annotation or None, wrapper words, metadata calls) of `ClassVar[Annotated[int, Field(gt=0)]]`."""
    text, words, meta = Text(scope.dotted), [], []
    while node is not None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = parsed(node.value) or node
        head = node.value if isinstance(node, ast.Subscript) else node
        if not isinstance(head, (ast.Name, ast.Attribute)):
            break
        name = text.of(head)
        if typing_word(name) == "Annotated" and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            meta += node.slice.elts[1:]
            node = node.slice.elts[0]
            continue
        word = _word(name)
        if not word:
            break
        words.append(word)
        node = node.slice if isinstance(node, ast.Subscript) else None
    return node, words, meta


def _is_specifier(node):
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return last in _SPECIFIERS


def _truth(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _missing(node):
    """`...`, MISSING and their like: no default."""
    if isinstance(node, ast.Constant):
        return node.value is Ellipsis
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
    return name in _MISSING


def specified(call, row, scope):
    """What field(...) says goes into `row`; anything else is the default itself."""
    if not _is_specifier(call):
        _plain_default(call, row, Text(scope.dotted))
        return
    text = Text(scope.dotted)
    default = call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None
    for keyword in call.keywords:
        key, value = keyword.arg, keyword.value
        if key == "default":
            default = value
        elif key in _FACTORIES and not _missing(value):
            row["default"], row["factory"] = text.of(value), True
        elif key in ("init", "kw_only") and _truth(value) is not None:
            row[key] = value.value
        elif key in ("alias", "validation_alias") and isinstance(value, ast.Constant) and isinstance(value.value, str):
            row["alias"] = value.value
        elif key == "deprecated" and isinstance(value, ast.Constant) and value.value:
            row["deprecated"] = str(value.value)
    if default is not None and not _missing(default):
        _plain_default(default, row, text)
    if "PrivateAttr" in text.of(call.func):
        row["init"] = False


def _plain_default(value, row, text):
    """attr.Factory(list) is a factory; anything else is the default itself."""
    if isinstance(value, ast.Call) and text.of(value.func) in ("attr.Factory", "attrs.Factory") and value.args:
        row["default"], row["factory"] = text.of(value.args[0]), True
    else:
        row["default"] = text.of(value)


def is_kw_only_marker(node, scope):
    """`_: KW_ONLY`: every field after it is keyword-only."""
    return Text(scope.dotted).of(node.annotation).rpartition(".")[2] == "KW_ONLY"


def field(node, scope, kw_only):
    """The row of one annotated name in a class body; `kw_only`: after a marker, or so said by the class."""
    inner, words, meta = unwrapped(node.annotation, scope)
    row = {"name": node.target.id, "type": TypeText(scope.dotted).of(inner) if inner is not None else None,
           "line": node.lineno, "factory": False, "init": True, "kw_only": kw_only,
           "initvar": "InitVar" in words, "classvar": "ClassVar" in words}
    if "NotRequired" in words:
        row["optional"] = True
    for item in meta:
        if _is_specifier(item):
            specified(item, row, scope)
    if node.value is None:
        return row
    specified(node.value, row, scope)
    return row


def bare_specifier(node, scope):
    """`x = attr.ib(...)` without annotation: a field too, in attrs. None where it is none."""
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
        return None
    if not (_is_specifier(node.value) and Text(scope.dotted).of(node.value.func).startswith(("attr.", "attrs."))):
        return None
    row = {"name": node.targets[0].id, "type": None, "line": node.lineno, "factory": False, "init": True,
           "kw_only": False, "initvar": False, "classvar": False}
    specified(node.value, row, scope)
    return row
