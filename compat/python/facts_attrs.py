"""facts_attrs.py: attributes that the methods of a class assign."""
import ast

from facts_scope import statements, targets_of
from facts_types import evidence, type_text, union, value_text


def _first_parameter(node):
    args = node.args.posonlyargs + node.args.args
    return args[0].arg if args else None


def _attributes(target, owner):
    """Names x of every `owner.x` in a target."""
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == owner:
        yield target.attr
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _attributes(item, owner)
    elif isinstance(target, ast.Starred):
        yield from _attributes(target.value, owner)


def _is_owner(node, owner):
    return isinstance(node, ast.Name) and node.id == owner


def _is_table(node, owner):
    """self.__dict__ or vars(self)."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__" and _is_owner(node.value, owner)
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "vars" and len(node.args) == 1 and \
        _is_owner(node.args[0], owner)


class Attributes:
    """Files self.x = ... under facts["attrs"]."""

    def __init__(self, facts):
        self.facts = facts
        self.said = set()  # names whose type an annotation gives

    def method(self, node, facts, scope):
        owner = _first_parameter(node)
        if owner is None or facts["binding"] == "static":
            return
        params = {p["name"]: p["type"] for p in facts["params"] if p["type"] and p["kind"] not in ("star", "dstar")}
        for inside in statements(node.body):
            for target in targets_of(inside):
                whole = isinstance(target, ast.Attribute)
                if _is_table(target, owner) or (isinstance(target, ast.Subscript) and _is_table(target.value, owner)):
                    self.facts["dynamic"] = "__dict__"
                    continue
                for name in _attributes(target, owner):
                    self.add(name, inside, whole, node.name, scope, params)
            self.set_by_name(inside, owner, node.name)

    def set_by_name(self, node, owner, method):
        """setattr(self, "x", value), self.__dict__.update(...), self.__dict__ = ..."""
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return
        if isinstance(call.func, ast.Attribute) and _is_table(call.func.value, owner):
            self.facts["dynamic"] = "__dict__"
        if getattr(call.func, "id", "") != "setattr" or len(call.args) != 3 or not _is_owner(call.args[0], owner):
            return
        name = call.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.facts["attrs"].setdefault(name.value, {"line": node.lineno, "type": None, "value": None,
                                                        "in": method})
        else:
            self.facts["dynamic"] = "setattr"

    def add(self, name, node, whole, method, scope, params):
        row = {"line": node.lineno, "type": None, "value": None, "in": method}
        value = node.value if whole and isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(node, ast.AnnAssign):
            row["type"] = type_text(node.annotation, scope)
        if value is not None:
            row["value"] = value_text(value, scope)
            shown, callee = evidence(value, scope, params)
            row["type"] = row["type"] or shown
            if callee:
                row["call"] = callee
        if not isinstance(node, ast.AugAssign):
            self.merge(name, row, isinstance(node, ast.AnnAssign))

    def merge(self, name, row, said):
        """One row for each name: an annotation wins, otherwise the type is whatever any assignment shows."""
        have = self.facts["attrs"].get(name)
        if said and name not in self.said:
            self.said.add(name)
            self.facts["attrs"][name] = row
        elif have is None:
            self.facts["attrs"][name] = row
        elif name not in self.said:
            known = have["type"] and row["type"]
            have["type"] = union([have["type"], row["type"]]) if known else None
            if row.get("call") != have.get("call"):
                have.setdefault("calls", [have.get("call")]).append(row.get("call"))
