"""facts_lazy.py: names that a module's __getattr__ gives."""
import ast

from facts_deprecated import notice_of
from facts_scope import TRY, statements

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _string(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


class _Tables:
    """Literal dicts and lists of a module, as name -> target."""

    def __init__(self, body, scope, known):
        self.scope, self.known, self.values = scope, known, {}
        for node in statements(body):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.values[target.id] = node.value

    def module(self, text):
        """The module that a table's text means: relative with a dot, a submodule, or an absolute one."""
        package = self.scope.module if self.scope.package else self.scope.module.rpartition(".")[0]
        if text.startswith("."):
            for _ in range(len(text) - len(text.lstrip(".")) - 1):
                package = package.rpartition(".")[0]
            return (package + "." + text.lstrip(".")).strip(".")
        return package + "." + text if package + "." + text in self.known else text

    def target(self, key, value):
        """What one entry leads to, or None."""
        text = _string(value)
        if text is not None:
            module, colon, name = text.partition(":")
            if not colon and not all(part.isidentifier() for part in module.strip(".").split(".")):
                return None
            return self.module(module) + ":" + (name if colon else key) if module.strip(".") else None
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == 2:
            first, second = (_string(item) for item in value.elts)
            if first is not None and second is not None:
                return self.module(first) + ":" + second
        return None

    def inverted(self, node):
        """{module: [names]} as name -> module:name; None where it is not of that form."""
        out = {}
        for key, value in zip(node.keys, node.values):
            if _string(key) is None or not isinstance(value, (ast.List, ast.Tuple, ast.Set)):
                return None
            for item in value.elts:
                if _string(item) is not None:
                    out[item.value] = self.module("." + key.value.lstrip(".")) + ":" + item.value
        return out

    def names(self, node, depth=0):
        """name -> target of a dict, list or the name of one; None where it cannot be known."""
        if isinstance(node, ast.Name) and depth < 4:
            return self.names(self.values.get(node.id), depth + 1)
        if isinstance(node, ast.Dict):
            pairs = [(k, v) for k, v in zip(node.keys, node.values) if _string(k) is not None]
            lists = [v for _, v in pairs if isinstance(v, (ast.List, ast.Set)) or
                     (isinstance(v, ast.Tuple) and len(v.elts) != 2)]
            if pairs and len(lists) == len(pairs):
                return self.inverted(node)
            out = {k.value: self.target(k.value, v) for k, v in pairs}
            for key, value in zip(node.keys, node.values):
                if key is None:
                    out.update(self.names(value, depth + 1) or {})
            return out
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return {item.value: None for item in node.elts if _string(item) is not None}
        if isinstance(node, ast.DictComp) and depth < 4:
            source = node.generators[0].iter
            source = source.func.value if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) \
                else source
            found = self.values.get(source.id) if isinstance(source, ast.Name) else source
            return self.inverted(found) if isinstance(found, ast.Dict) else None
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("set", "frozenset", "list", "tuple", "dict"):
            return self.names(node.args[0], depth + 1) if len(node.args) == 1 else None
        return None


class _Getattr:
    """Reads one module __getattr__(name)."""

    def __init__(self, node, tables, scope):
        self.tables, self.names, self.any, self.notices = tables, {}, False, {}
        args = node.args.posonlyargs + node.args.args
        self.parameter = args[0].arg if args else ""
        self.scope = scope.inner(None)
        self.scope.fill(node.body)
        self.scope.bind(self.parameter, None)
        self.locals = {}
        self.guarded = False  # a lookup that fails for other names lies behind
        self.walk(node.body, ())

    def is_name(self, node):
        return isinstance(node, ast.Name) and node.id == self.parameter

    def tested(self, test):
        """(names -> target that a test asks for, True where it asks that they are not there); None: another test."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            parts = [self.tested(t) for t in test.values]
            known = all(p and not p[1] for p in parts)
            return ({k: v for p in parts for k, v in p[0].items()}, False) if known else None
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return None
        left, op, right = test.left, test.ops[0], test.comparators[0]
        if isinstance(op, (ast.Eq, ast.NotEq)):
            text = _string(right) if self.is_name(left) else _string(left) if self.is_name(right) else None
            return ({text: None}, isinstance(op, ast.NotEq)) if text is not None else None
        if not (isinstance(op, (ast.In, ast.NotIn)) and self.is_name(left)):
            return None
        if isinstance(right, ast.Call) and getattr(right.func, "id", "") in ("globals", "vars", "dir"):
            return {}, isinstance(op, ast.NotIn)
        names = self.tables.names(right)
        return (names, isinstance(op, ast.NotIn)) if names is not None else None

    def walk(self, body, asked):
        """`asked`: the names for which these statements run, () for any."""
        for node in body:
            self.lookups(node)
            if isinstance(node, ast.If):
                self.branch(node, asked)
            elif isinstance(node, ast.Return) and node.value is not None:
                self.returned(node.value, asked)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.locals[node.targets[0].id] = node.value
            elif isinstance(node, ast.Expr):
                text = notice_of(node.value, self.locals)
                if text:
                    for name in asked or ("",):
                        self.notices[name] = text
            for block in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, block, None) if not isinstance(node, (ast.If,) + _DEFS) else None
                for part in inner or []:
                    self.walk(part.body if isinstance(part, ast.ExceptHandler) else [part], asked)

    def branch(self, node, asked):
        found = self.tested(node.test)
        if found is None:
            self.walk(node.body, asked)
            self.walk(node.orelse, asked)
            return
        names, absent = found
        self.names.update({k: v for k, v in names.items() if v or k not in self.names})
        here, other = (node.orelse, node.body) if absent else (node.body, node.orelse)
        guarded = self.guarded
        self.guarded = True
        self.walk(here, tuple(names))
        self.guarded = guarded
        self.walk(other, asked)
        if absent and node.body and isinstance(node.body[-1], ast.Raise):
            self.guarded = True

    def lookups(self, node):
        """TABLE[name] and TABLE.get(name)."""
        for part in ast.walk(node) if not isinstance(node, (ast.If,) + TRY + _DEFS) else ():
            table = None
            if isinstance(part, ast.Subscript) and self.is_name(part.slice):
                table = part.value
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "get" and \
                    part.args and self.is_name(part.args[0]):
                table = part.func.value
            names = self.tables.names(table) if table is not None else None
            if names is not None:
                self.names.update({k: v for k, v in names.items() if v or k not in self.names})
                self.guarded = True

    def returned(self, value, asked):
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Call) and \
                getattr(value.value.func, "id", "") == "globals":
            return
        if asked:
            target = self.scope.reference(value)
            for name in asked:
                if target and self.names.get(name) is None and len(asked) == 1:
                    self.names[name] = target
        elif not self.guarded:
            self.any = True


def _attached(call, tables):
    """lazy.attach(__name__, submodules=..., submod_attrs={...}): names, or None."""
    words = {k.arg: k.value for k in call.keywords}
    attrs = words.get("submod_attrs") or (call.args[2] if len(call.args) > 2 else None)
    modules = words.get("submodules") or (call.args[1] if len(call.args) > 1 else None)
    names = {}
    if isinstance(attrs, ast.Name):
        attrs = tables.values.get(attrs.id)
    if isinstance(attrs, ast.Dict):
        names.update(tables.inverted(attrs) or {})
    names.update({k: None for k in (tables.names(modules) or {})} if modules is not None else {})
    return names or None


def _replaced(node):
    """`sys.modules[__name__] = ...`: the module is another object."""
    for target in node.targets if isinstance(node, ast.Assign) else []:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute) and \
                target.value.attr == "modules" and isinstance(target.slice, ast.Name) and target.slice.id == "__name__":
            return True
    return False


def lazy_names(body, scope, known):
    """{"names", "any", "deprecated"} or None. `known`: names of the library's modules."""
    out, tables = None, None
    for node in statements(body):
        found = None
        targets = [n for t in (node.targets if isinstance(node, ast.Assign) else [])
                   for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
        if isinstance(node, _DEFS) and node.name == "__getattr__":
            tables = tables or _Tables(body, scope, known)
            read = _Getattr(node, tables, scope)
            found = {"names": read.names, "any": read.any, "deprecated": next(iter(read.notices.values()), None)}
            if len(read.notices) > 1:
                found["notices"] = read.notices
        elif any(isinstance(t, ast.Name) and t.id == "__getattr__" for t in targets) or _replaced(node):
            tables = tables or _Tables(body, scope, known)
            names = _attached(node.value, tables) if isinstance(node.value, ast.Call) else None
            found = {"names": names or {}, "any": names is None, "deprecated": None}
        if found:
            out = found if out is None else {"names": {**out["names"], **found["names"]},
                                             "any": out["any"] or found["any"],
                                             "deprecated": out["deprecated"] or found["deprecated"]}
    return out
