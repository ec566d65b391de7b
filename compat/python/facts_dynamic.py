"""facts_dynamic.py: names that code makes: globals()[...], setattr on a class of the module."""
import ast

_MARKS = ("globals()", "vars()", "locals()", "setattr(", "exec(", "._convert")  # no module does it without one
_TABLES = ("globals", "vars", "locals")


def _is_table(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TABLES and not node.args


def _is_module(node):
    """sys.modules[__name__]."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id == "__name__"


_PLAIN = (ast.Name, ast.Constant, ast.Attribute)


def _parts(tree):
    """All statements and calls; a module's __setattr__ only changes what is there."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _PLAIN) and getattr(child, "name", "") != "__setattr__":
                stack.append(child)


def made_names(tree, text):
    """({name: line} written with their text, whether there are others). Looks into functions too: they are there to be
    called."""
    names, others = {}, False
    if not any(mark in text for mark in _MARKS):
        return names, others
    for node in _parts(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Subscript) and _is_table(target.value):
                key = target.slice
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    names.setdefault(key.value, node.lineno)
                else:
                    others = True
        if isinstance(node, ast.Assign) and _is_table(node.value):
            others = True
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in ("update", "setdefault", "_convert_", "_convert"):
                others = others or _is_table(func.value) or func.attr.startswith("_convert")
            elif isinstance(func, ast.Name) and func.id in ("setattr", "exec") and node.args:
                first = node.args[0]
                others = others or _is_module(first) or (func.id == "exec" and (len(node.args) == 1 or
                                                                                _is_table(node.args[1])))
    return names, others


def slots(node):
    """The names in __slots__ of a class body, with their line."""
    for inside in node.body:
        targets = inside.targets if isinstance(inside, ast.Assign) else \
            [inside.target] if isinstance(inside, ast.AnnAssign) else []
        if any(isinstance(t, ast.Name) and t.id == "__slots__" for t in targets) and inside.value is not None:
            value = inside.value
            items = value.elts if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else \
                value.keys if isinstance(value, ast.Dict) else [value]
            for item in items:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value, inside.lineno


def outside_assignment(node):
    """(class name, attribute or None for a computed one, value) of `Cls.x = v` or setattr(Cls, "x", v); else None."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return target.value.id, target.attr, node.value
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "setattr" and len(call.args) == 3 and \
            isinstance(call.args[0], ast.Name):
        name = call.args[1]
        known = isinstance(name, ast.Constant) and isinstance(name.value, str)
        return call.args[0].id, name.value if known else None, call.args[2]
    return None
