"""facts_class.py: the facts of one class."""
import ast

from facts_deprecated import decorator_notice, doc_notice, field_notice
from facts_fields import bare_specifier, field, is_kw_only_marker
from facts_forms import lend_bases
from facts_function import decorator_texts
from facts_text import Text
from facts_types import TypeText


def _says_kw_only(node):
    """kw_only=True among the arguments of a decorator, or of the class statement."""
    calls = [d.keywords for d in node.decorator_list if isinstance(d, ast.Call)]
    return any(k.arg == "kw_only" and isinstance(k.value, ast.Constant) and k.value.value is True
               for keywords in calls + [node.keywords] for k in keywords)


def class_facts(node, scope):
    """The DEF of a class without what its body defines; `scope` is the one it stands in."""
    types, text = TypeText(scope.dotted), Text(scope.dotted)
    facts = {"kind": "class", "line": node.lineno, "bases": [types.of(b) for b in node.bases],
             "keywords": {k.arg or "**": text.of(k.value) for k in node.keywords},
             "decorators": decorator_texts(node, scope),
             "deprecated": decorator_notice(node) or doc_notice(node),
             "fields": [], "members": {}, "attrs": {}}
    lend_bases(node, facts, scope)
    return facts


class Fields:
    """Collects the fields of a class body in order."""

    def __init__(self, node, facts, scope):
        self.facts, self.scope = facts, scope
        self.kw_only = _says_kw_only(node)
        self.last = None  # the field that the statement before was

    def take(self, node, when):
        """True when the statement is a field and was taken."""
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if is_kw_only_marker(node, self.scope):
                self.kw_only = True
                return True
            row = field(node, self.scope, self.kw_only)
        else:
            row = bare_specifier(node, self.scope)
        if row is None:
            return False
        if when:
            row["when"] = when
        self.facts["fields"].append(row)
        self.last = row
        return True

    def documented(self, text):
        """The string that follows a field."""
        notice = field_notice(text)
        if notice and self.last is not None:
            self.last.setdefault("deprecated", notice)
