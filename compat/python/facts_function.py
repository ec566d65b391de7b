"""facts_function.py: the facts of one def."""
import ast

from facts_deprecated import doc_notice, decorator_notice, body_warnings
from facts_scope import statements
from facts_shapes import shapes
from facts_text import Text
from facts_types import TypeText, type_text
from facts_wraps import keeps

_BINDING = {"staticmethod": "static", "classmethod": "class", "property": "property",
            "abc.abstractproperty": "property", "abc.abstractclassmethod": "class",
            "abc.abstractstaticmethod": "static", "functools.cached_property": "cached_property",
            "types.DynamicClassAttribute": "property", "enum.property": "property"}
# Called on the class whether or not anybody says so.
_IMPLICIT = {"__new__": "class", "__init_subclass__": "class", "__class_getitem__": "class"}
_OVERLOAD = ("typing.overload", "typing_extensions.overload")


def parameter_rows(args):
    """The parameters of a def or lambda, in order: (argument, kind, default or None)."""
    plain = args.posonlyargs + args.args
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    rows = [(a, "pos" if i < len(args.posonlyargs) else "any", defaults[i]) for i, a in enumerate(plain)]
    rows += [(args.vararg, "star", None)] if args.vararg else []
    rows += [(a, "kw", d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    rows += [(args.kwarg, "dstar", None)] if args.kwarg else []
    return rows


def parameters(args, scope):
    """The same as facts: name, kind, and where written default and type."""
    text, types = Text(scope.dotted), TypeText(scope.dotted)
    out = []
    for arg, kind, default in parameter_rows(args):
        row = {"name": arg.arg, "kind": kind}
        if default is not None:
            row["default"] = text.of(default)
        row["type"] = types.of(arg.annotation) if arg.annotation is not None else None
        out.append(row)
    return out


def decorator_texts(node, scope):
    text = Text(scope.dotted)
    return [text.of(d) for d in node.decorator_list]


def binding(node, names, in_class):
    """(binding, setter) of a def, from the names of its decorators."""
    if not in_class:
        return "function", False
    for name in names:
        if name in _BINDING:
            return _BINDING[name], False
        last = name.rpartition(".")[2]
        if last in ("setter", "deleter", "getter"):
            return "property", last == "setter"
        if last.endswith("cached_property"):
            return "cached_property", False
        if last.endswith(("classproperty", "class_property", "abstractproperty", "lazy_property")):
            return "property", False
    return _IMPLICIT.get(node.name, "instance"), False


def local_scope(node, scope):
    """The scope inside a function: its parameters and locals hide names of the module."""
    inner = scope.inner(None)
    args = node.args
    every = args.posonlyargs + args.args + args.kwonlyargs + [a for a in (args.vararg, args.kwarg) if a]
    for arg in every:
        inner.bind(arg.arg, None)
    inner.fill(node.body)
    for inside in statements(node.body):
        if isinstance(inside, ast.Global):
            for name in inside.names:
                inner.names.pop(name, None)
                scope.declared.setdefault(name, inside.lineno)
    return inner


def is_generator(body):
    """Yields somewhere in its own statements (a yield deep inside another expression is not looked for)."""
    for node in statements(body):
        value = getattr(node, "value", None)
        value = value.value if isinstance(value, ast.Await) else value
        if isinstance(value, (ast.Yield, ast.YieldFrom)):
            return True
    return False


def function(node, scope, library, in_class=False):
    """The DEF of a def; `scope` is the one it stands in."""
    decorators = decorator_texts(node, scope)
    names = [text.partition("(")[0] for text in decorators]
    bound, setter = binding(node, names, in_class)
    params = parameters(node.args, scope)
    inner = local_scope(node, scope)
    facts = {
        "kind": "function", "line": node.lineno, "params": params, "returns": type_text(node.returns, scope),
        "decorators": decorators, "async": isinstance(node, ast.AsyncFunctionDef), "binding": bound,
        "setter": setter, "overload": any(n in _OVERLOAD for n in names),
        "abstract": any(n.startswith("abc.abstract") for n in names),
        "deprecated": decorator_notice(node) or doc_notice(node), "shapes": [],
    }
    if is_generator(node.body):
        facts["generator"] = True
    else:
        facts["shapes"] = shapes(node)
    if not all(keeps(d, n, library) for d, n in zip(node.decorator_list, names)):
        facts["wraps"] = "unknown"
    warnings = body_warnings(node)
    if warnings:
        facts["warnings"] = warnings
        always = [w["text"] for w in warnings if w["when"] is None]
        facts["deprecated"] = facts["deprecated"] or (always[0] if always else None)
    return facts, inner
