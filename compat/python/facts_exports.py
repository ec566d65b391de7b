"""facts_exports.py: __all__ and star imports."""
import ast

from facts_scope import absolute, statements


class Unknown(Exception):
    """A list that the text does not give."""


def _is_all(node):
    return isinstance(node, ast.Name) and node.id == "__all__"


class Exports:
    """Follows __all__ through a module's own statements. `others(module)` gives the list of another module, or None."""

    def __init__(self, body, scope, others):
        self.scope, self.others = scope, others
        self.names, self.known, self.values = None, True, {}
        for node in statements(body):
            try:
                self.statement(node)
            except Unknown:
                self.known = False

    def statement(self, node):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_all(t) for t in targets):
                self.names = self.list_of(node.value)
            elif any(_is_all(item) for t in targets if isinstance(t, ast.Tuple) for item in t.elts):
                raise Unknown
            elif isinstance(targets[0], ast.Name):
                self.values[targets[0].id] = node.value
        elif isinstance(node, ast.AugAssign) and _is_all(node.target):
            self.names = (self.names or []) + self.list_of(node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call(node.value)

    def call(self, node):
        """__all__.append(x), .extend(xs), .remove(x)."""
        if not (isinstance(node.func, ast.Attribute) and _is_all(node.func.value) and len(node.args) == 1):
            return
        have, method, argument = self.names or [], node.func.attr, node.args[0]
        if method == "append":
            self.names = have + [self.text_of(argument)]
        elif method == "extend":
            self.names = have + self.list_of(argument)
        elif method == "remove":
            gone = self.text_of(argument)
            self.names = [n for n in have if n != gone]
        else:
            raise Unknown

    def text_of(self, node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Attribute) and node.attr == "__name__":
            return self.text_of(ast.Constant(getattr(node.value, "id", None)))
        raise Unknown

    def list_of(self, node, depth=0):
        if depth > 8:
            raise Unknown
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            out = []
            for item in node.elts:
                out += self.list_of(item.value, depth + 1) if isinstance(item, ast.Starred) else [self.text_of(item)]
            return out
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.list_of(node.left, depth + 1) + self.list_of(node.right, depth + 1)
        if isinstance(node, ast.Dict) and None not in node.keys:
            return [self.text_of(k) for k in node.keys]
        if isinstance(node, ast.Call):
            return self.list_of_call(node, depth)
        if _is_all(node) and self.names is not None:
            return list(self.names)
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.list_of(self.values[node.id], depth + 1)
        return self.list_elsewhere(node)

    def list_of_call(self, node, depth):
        """list(x), sorted(x), x.keys()."""
        func = node.func
        if isinstance(func, ast.Name) and func.id in ("list", "sorted", "tuple", "set") and len(node.args) == 1:
            names = self.list_of(node.args[0], depth + 1)
            return sorted(names) if func.id == "sorted" else names
        if isinstance(func, ast.Attribute) and func.attr == "keys" and not node.args:
            return self.list_of(func.value, depth + 1)
        raise Unknown

    def list_elsewhere(self, node):
        """submodule.__all__."""
        ref = self.scope.reference(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if not ref or not ref.endswith("__all__"):
            raise Unknown
        module = ref[:-len("__all__")].rstrip(".:").replace(":", ".")
        names = self.others(module)
        if names is None:
            raise Unknown
        return list(names)


def exports(body, scope, others):
    """(known, names): names None where there is no __all__, or where it cannot be known."""
    found = Exports(body, scope, others)
    return found.known, list(dict.fromkeys(found.names)) if found.known and found.names is not None else None


def star_sources(body, scope):
    """Modules that `from ... import *` takes names from, in order."""
    out = []
    for node in statements(body):
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
            source = absolute(scope.module, scope.package, node.level, node.module)
            if source:
                out.append(source)
    return list(dict.fromkeys(out))
