"""facts_surface.py: what one module offers."""
import ast

from facts_attrs import Attributes
from facts_class import Fields, class_facts
from facts_dynamic import made_names, outside_assignment, slots
from facts_exports import exports, star_sources
from facts_forms import class_of_call
from facts_function import function
from facts_lazy import lazy_names
from facts_scope import TRY, Scope, imported, target_names, targets_of
from facts_text import Text, negated
from facts_types import evidence, type_text, value_text

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)


def condition(test, scope):
    """The text of a test; TYPE_CHECKING plainly, wherever it comes from."""
    text = Text(scope.dotted).of(test)
    return "TYPE_CHECKING" if text in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING") else text


def branches(node, scope):
    """(conditions, statements) of the blocks of a compound statement that stays in its scope."""
    if isinstance(node, ast.If):
        test = condition(node.test, scope)
        return [([test], node.body), ([negated(test)], node.orelse)]
    if isinstance(node, TRY):
        rows = [(["try"], node.body)]
        for handler in node.handlers:
            caught = Text(scope.dotted).of(handler.type) if handler.type is not None else ""
            rows.append((["except " + caught if caught else "except"], handler.body))
        return rows + [(["try"], node.orelse), ([], node.finalbody)]
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return [([], node.body), ([], node.orelse)]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [([], node.body)]
    subject = getattr(node, "subject", None)
    if subject is not None:
        return [(["match " + Text(scope.dotted).of(subject)], case.body) for case in node.cases]
    return []


class Body:
    """Walks the statements of a module or class and files what they define under `names`."""

    def __init__(self, scope, names, library, owner=None):
        self.scope, self.names, self.library, self.owner = scope, names, library, owner

    def walk(self, body, when=()):
        for node in body:
            fields = self.owner.fields if self.owner is not None else None
            if fields is not None and fields.last is not None and isinstance(node, ast.Expr):
                if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                    fields.documented(node.value.value)
            if fields is not None:
                fields.last = None
            self.statement(node, list(when))

    def add(self, name, facts, when):
        if when:
            facts["when"] = when
        self.names.setdefault(name, []).append(facts)

    def statement(self, node, when):
        if isinstance(node, _DEFS):
            facts, inner = function(node, self.scope, self.library, self.owner is not None)
            self.add(node.name, facts, when)
            if self.owner is not None:
                self.owner.attributes.method(node, facts, inner)
        elif isinstance(node, ast.ClassDef):
            self.add(node.name, class_of(node, self.scope, self.library), when)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imported(node, when)
        elif isinstance(node, ast.Delete):
            self.deleted(node, when)
        elif self.owner is not None and self.owner.fields.take(node, when):
            return
        else:
            if not self.outside(node, when):
                self.assigned(node, when)
            for conditions, inner in branches(node, self.scope):
                self.walk(inner, when + conditions)

    def imported(self, node, when):
        for alias in node.names:
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.split(".")[0]
                to = alias.name if alias.asname else name
            else:
                name, to = alias.asname or alias.name, imported(self.scope, node, alias.name)
            if alias.name != "*":
                self.add(name, {"kind": "alias", "line": node.lineno, "to": to}, when)

    def deleted(self, node, when):
        for target in node.targets:
            if isinstance(target, ast.Name) and not when:
                self.names.pop(target.id, None)

    def assigned(self, node, when):
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        for target in targets_of(node):
            if isinstance(target, ast.Name):
                if not (isinstance(node, ast.AugAssign) and target.id in self.names):
                    self.add(target.id, self.value(node, value, target.id), when)
            else:
                for name in target_names(target):
                    self.add(name, {"kind": "value", "line": node.lineno, "type": None, "value": None}, when)

    def outside(self, node, when):
        """`Cls.x = value` after the class: a member of it."""
        found = outside_assignment(node)
        if found is None:
            return False
        name, attribute, value = found
        for facts in self.names.get(name, []):
            if facts["kind"] == "class" and attribute is None:
                facts["dynamic"] = "setattr"
            elif facts["kind"] == "class" and attribute not in facts["attrs"]:
                row = self.value(ast.Assign([], value, lineno=node.lineno), value, name)
                facts["members"].setdefault(attribute, []).append({**row, "when": when} if when else row)
        return True

    def value(self, node, value, name):
        """The DEF of `name = value`: an alias where the value is a name that leads elsewhere."""
        made = class_of_call(value, self.scope)
        if made is not None:
            return made
        to = self.scope.reference(value) if value is not None else None
        if to and to != self.scope.own(name) and not isinstance(node, ast.AnnAssign):
            return {"kind": "alias", "line": node.lineno, "to": to}
        facts = {"kind": "value", "line": node.lineno, "type": None, "value": None}
        if isinstance(node, ast.AnnAssign):
            facts["type"] = type_text(node.annotation, self.scope)
        if value is not None:
            facts["value"] = value_text(value, self.scope)
            shown, callee = evidence(value, self.scope)
            facts["type"] = facts["type"] or shown
            if callee:
                facts["call"] = callee
        return facts


class Owner:
    """The class whose body is being walked."""

    def __init__(self, node, facts, scope):
        self.fields = Fields(node, facts, scope)
        self.attributes = Attributes(facts)


def class_of(node, scope, library):
    facts = class_facts(node, scope)
    prefix = scope.own(node.name)
    inner = scope.inner(prefix)
    inner.fill(node.body)
    Body(inner, facts["members"], library, Owner(node, facts, inner)).walk(node.body)
    for name, line in slots(node):
        if name not in facts["members"]:
            facts["attrs"].setdefault(name, {"line": line, "type": None, "value": None, "in": "__slots__"})
    return facts


def empty_module(module):
    """The entry of a module without source: compiled, which may hold any name, or a folder that is a namespace."""
    anything = {"names": {}, "any": True, "deprecated": None}
    return {"file": module.path, "package": module.package, module.kind: True, "all": None, "stars": [],
            "getattr": anything if module.kind == "compiled" else None, "names": {}}


def module_facts(tree, text, module, library):
    """The entry of one module in the list; `tree` is its syntax tree."""
    scope = Scope(module.name, module.package, module.name + ":")
    scope.fill(tree.body)
    stars = star_sources(tree.body, scope)
    scope.starred = lambda name: next(filter(None, (library.star_name(s, name) for s in stars)), None)
    names = {}
    Body(scope, names, library).walk(tree.body)
    made, others = made_names(tree, text)
    for name, line in {**scope.declared, **made}.items():
        names.setdefault(name, [{"kind": "value", "line": line, "type": None, "value": None}])
    known, all_names = exports(tree.body, scope, library.all_of)
    facts = {"file": module.path, "package": module.package, "all": all_names, "stars": stars,
             "getattr": lazy_names(tree.body, scope, library.modules), "names": names}
    if not known:
        facts["all_unknown"] = True
    if others:
        facts["dynamic"] = True
    if module.kind == "stub":
        facts["stub"] = True
    return facts
