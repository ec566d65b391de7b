"""facts_scope.py: what a name stands for where it is written, from the text of its module alone.

A reference is "pkg.mod:Name.attr" (a name of a module, or a submodule of that name: from the text alone they look the
same) or "pkg.mod" (a module).
"""
import ast
import builtins

BUILTINS = frozenset(dir(builtins))


def absolute(module, package, level, name):
    """The module that `from ...name import` means inside `module`; None: above the top."""
    if level == 0:
        return name
    parts = module.split(".")
    drop = level - 1 if package else level
    if drop >= len(parts) + (1 if name else 0):
        return None
    base = parts[:len(parts) - drop] if drop else parts
    return ".".join(base + ([name] if name else [])) or None


def imported(scope, node, name):
    """The reference of one name of `from ... import name`; "?:name" from above the top. What a package takes from
    itself is a submodule."""
    source = absolute(scope.module, scope.package, node.level, node.module)
    if source == scope.module and scope.package:
        return source + "." + name
    return (source or "?") + ":" + name


def blocks(node):
    """The statement lists inside a compound statement that shares its scope."""
    for field in ("body", "orelse", "finalbody"):
        yield getattr(node, field, None) or []
    for handler in getattr(node, "handlers", None) or []:
        yield handler.body
    for case in getattr(node, "cases", None) or []:
        yield case.body


TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))
_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def statements(body):
    """All statements of a scope in source order, those of nested functions and classes not among them."""
    stack = [iter(body)]
    while stack:
        for node in stack[-1]:
            yield node
            if not isinstance(node, _OWN):
                inner = [iter(b) for b in blocks(node) if b]
                if inner:
                    stack.extend(reversed(inner))
                    break
        else:
            stack.pop()


def target_names(node):
    """Plain names that an assignment to `node` binds."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from target_names(item)
    elif isinstance(node, ast.Starred):
        yield from target_names(node.value)


def targets_of(node):
    """Target expressions of one statement."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [i.optional_vars for i in node.items if i.optional_vars is not None]
    return []


class Scope:
    """Names of one module, class or function. `prefix`: the reference that a definition here gets a name appended to;
    None inside a function, whose names nobody outside can reach."""

    def __init__(self, module, package, prefix, outer=None):
        self.module, self.package, self.prefix, self.outer = module, package, prefix, outer
        self.names = {}
        self.weak = set()
        self.declared = outer.declared if outer else {}  # name -> line of `global name` in functions
        self.starred = None  # of a module: gives the reference of a name from a star import, or None

    def inner(self, prefix):
        return Scope(self.module, self.package, prefix, self)

    def own(self, name):
        if self.prefix is None:
            return None
        return self.prefix + (name if self.prefix.endswith(":") else "." + name)

    def bind(self, name, ref, weak=False):
        """The first binding stands, but a definition or an import beats an assignment of something."""
        if name not in self.names or (name in self.weak and not weak):
            self.names[name] = ref
            (self.weak.add if weak else self.weak.discard)(name)

    def fill(self, body):
        for node in statements(body):
            if isinstance(node, _OWN):
                self.bind(node.name, self.own(node.name))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.bind(alias.asname or alias.name.split(".")[0],
                              alias.name if alias.asname else alias.name.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name != "*":
                        self.bind(alias.asname or alias.name, imported(self, node, alias.name))
            else:
                for target in targets_of(node):
                    for name in target_names(target):
                        self.bind(name, self.own(name), weak=True)
                if isinstance(node, TRY):
                    for handler in node.handlers:
                        if handler.name:
                            self.bind(handler.name, None, weak=True)

    def find(self, name):
        """(found, reference): found False means a builtin or a name that is bound nowhere here."""
        scope, inside = self, True
        while scope:
            if name in scope.names and (inside or not scope.is_class()):
                return True, scope.names[name]
            inside = False
            if scope.starred and name not in BUILTINS:
                ref = scope.starred(name)
                return ref is not None, ref
            scope = scope.outer
        return False, None

    def is_class(self):
        return self.prefix is not None and not self.prefix.endswith(":")

    def dotted(self, name):
        """For facts_text: the full dotted name, or None for builtins, locals and unknown names."""
        ref = self.find(name)[1]
        return ref.replace(":", ".") if ref else None

    def reference(self, node):
        """The reference that a Name or a chain of attributes stands for, or None."""
        chain = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        ref = self.find(node.id)[1]
        if ref is None:
            return None
        for attr in reversed(chain):
            ref += ("." if ":" in ref else ":") + attr
        return ref
