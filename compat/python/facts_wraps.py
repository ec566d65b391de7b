"""facts_wraps.py: which decorators keep the signature of what they decorate."""
import ast

from facts_scope import statements
from facts_text import Text

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators of others that hand the function on or copy its signature, by name or by all that begins so.
_KEEP = ("staticmethod", "classmethod", "property", "functools.cache", "functools.lru_cache", "functools.wraps",
         "functools.cached_property", "functools.singledispatch", "functools.singledispatchmethod", "atexit.register",
         "warnings.deprecated", "types.coroutine", "types.DynamicClassAttribute", "enum.property", "enum.member",
         "enum.nonmember")
_KEEP_FROM = ("abc.", "typing.", "typing_extensions.", "contextlib.", "torch.", "pydantic.", "pytest.", "numba.",
              "jax.jit", "overrides.", "deprecated.", "tenacity.")
# Ways in which a decorator hands on the name or the signature that it was given.
_COPY = ("functools.wraps", "functools.update_wrapper", "wraps", "update_wrapper")
_SAME = _COPY + ("functools.lru_cache", "functools.cache", "staticmethod", "classmethod", "cast", "typing.cast")
_LOCAL = ("setter", "getter", "deleter", "register", "overload")


def keeps(decorator, name, library):
    """`name`: the resolved dotted name of what decorates."""
    if name in _KEEP or name.startswith(_KEEP_FROM):
        return True
    last = name.rpartition(".")[2]
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    if last in _LOCAL and isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
        return True
    if last.endswith(("cached_property", "classproperty", "class_property", "abstractproperty", "lazy_property")):
        return True
    return bool(library is not None and library.keeps_signature(name))


def _first_parameter(node):
    args = node.args.posonlyargs + node.args.args
    names = [a.arg for a in args if a.arg not in ("self", "cls")]
    return names[0] if names else None


def _first_annotation(node):
    args = [a for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")]
    return args[0].annotation if args else None


class _Decorator:
    """Looks at one def as a decorator, or as what makes one."""

    def __init__(self, node, scope, depth=0):
        self.node, self.scope, self.depth = node, scope, depth
        self.parameter = _first_parameter(node)
        self.inner, self.values, self.returns = {}, {}, []
        for inside in statements(node.body):
            if isinstance(inside, _DEFS):
                self.inner[inside.name] = inside
            elif isinstance(inside, ast.Return) and inside.value is not None:
                self.returns.append(inside.value)
            elif isinstance(inside, ast.Assign) and isinstance(inside.targets[0], ast.Name):
                self.values[inside.targets[0].id] = inside.value

    def keeps(self):
        if self.depth > 4:
            return False
        return self.says_same() or bool(self.returns) and all(self.same(value) for value in self.returns)

    def says_same(self):
        """`def d(f: F) -> F`, and `-> Callable[[F], F]` of what makes one."""
        given, back = _first_annotation(self.node), self.node.returns
        if given is not None and isinstance(given, ast.Name) and isinstance(back, ast.Name):
            return given.id == back.id and self.is_variable(back.id)
        if isinstance(back, ast.Subscript) and isinstance(back.slice, ast.Tuple) and len(back.slice.elts) == 2:
            takes, gives = back.slice.elts
            return isinstance(takes, ast.List) and len(takes.elts) == 1 and isinstance(gives, ast.Name) and \
                isinstance(takes.elts[0], ast.Name) and takes.elts[0].id == gives.id and self.is_variable(gives.id)
        return False

    def is_variable(self, name):
        """A name that can be a TypeVar: nothing else has one name for a function that goes in and comes out."""
        return name not in ("Callable", "object", "Any", "Type", "type")

    def same(self, value, depth=0):
        if depth > 4:
            return False
        if isinstance(value, ast.Name):
            if value.id == self.parameter:
                return True
            if value.id in self.inner:
                return self.wrapper(self.inner[value.id])
            return value.id in self.values and self.same(self.values[value.id], depth + 1)
        if isinstance(value, ast.IfExp):
            return self.same(value.body, depth + 1) and self.same(value.orelse, depth + 1)
        if isinstance(value, ast.Lambda):
            first = value.args.args[0].arg if value.args.args else None
            return isinstance(value.body, ast.Name) and value.body.id == first
        return isinstance(value, ast.Call) and self.same_call(value, depth)

    def same_call(self, call, depth):
        """wraps(f)(inner), decorate(f) of an inner decorator, lru_cache(f), itself again with other arguments."""
        func = call.func
        if isinstance(func, ast.Call) and self.name_of(func.func) in _SAME:
            return True
        if isinstance(func, ast.Name) and func.id in self.inner:
            return self.wrapper(self.inner[func.id])
        name = self.name_of(func)
        if name in _SAME and call.args:
            return name in _COPY or self.same(call.args[-1], depth + 1)
        return name in ("functools.partial", "partial") and self.name_of(call.args[0] if call.args else func) in (
            self.node.name, (self.scope.own(self.node.name) or "").replace(":", "."))

    def name_of(self, node):
        return Text(self.scope.dotted).of(node)

    def wrapper(self, node):
        """An inner def that copies the signature, hands everything on, or is itself a decorator."""
        if _hands_on(node, self.parameter):
            return True
        for decorator in node.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.name_of(func) in _SAME:
                return True
        return _Decorator(node, self.scope, self.depth + 1).keeps()


def _hands_on(node, function):
    """`def inner(*args, **kwargs)` that gives both to the function, and uses them for nothing else; or that is
    annotated with P.args and P.kwargs."""
    args = node.args
    if not (args.vararg and args.kwarg) or args.args or args.posonlyargs or args.kwonlyargs:
        return False
    if [getattr(a.annotation, "attr", "") for a in (args.vararg, args.kwarg)] == ["args", "kwargs"]:
        return True
    names, uses, handed = (args.vararg.arg, args.kwarg.arg), 0, 0
    for inside in ast.walk(node):
        if isinstance(inside, ast.Name) and inside.id in names:
            uses += 1
        elif isinstance(inside, ast.Call) and isinstance(inside.func, ast.Name) and inside.func.id == function:
            whole = len(inside.args) == 1 and isinstance(inside.args[0], ast.Starred)
            handed += whole and len(inside.keywords) == 1 and inside.keywords[0].arg is None
    return handed > 0 and uses == 2 * handed


def verdicts(body, scope):
    """name -> whether it keeps signatures, of each def of a module and each method ("Class.method")."""
    out = {}
    for node in statements(body):
        if isinstance(node, _DEFS):
            keep = _Decorator(node, scope).keeps()
            out[node.name] = keep and out.get(node.name, True)
        elif isinstance(node, ast.ClassDef):
            for inside in statements(node.body):
                if isinstance(inside, _DEFS):
                    out[node.name + "." + inside.name] = _Decorator(inside, scope).keeps()
    return out
