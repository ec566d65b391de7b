"""facts_flow.py: statements of a function with the conditions they stand under."""
import ast

from facts_scope import TRY, statements
from facts_text import Text, negated

_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NESTING = 40  # levels of blocks that are followed


class Condition:
    """A test and whether it held; `test` is a syntax node, or a text for what is no test ("except ValueError")."""

    __slots__ = ("test", "truth", "_plain")

    def __init__(self, test, truth=True):
        self.test, self.truth, self._plain = test, truth, None

    @property
    def plain(self):
        """The text of the test itself."""
        if self._plain is None:
            self._plain = self.test if isinstance(self.test, str) else Text().of(self.test)
        return self._plain

    @property
    def text(self):
        return self.plain if self.truth else negated(self.plain)

    def opposite(self, other):
        """One of them holds exactly when the other does not."""
        if self.truth == other.truth:
            return self.plain == negated(other.plain)
        return self.plain == other.plain


def leaves(body):
    """"return" or "raise" where the end of a block is never reached ("return" also for break and continue)."""
    last = body[-1] if body else None
    if isinstance(last, ast.Raise):
        return "raise"
    if isinstance(last, (ast.Return, ast.Continue, ast.Break)):
        return "return"
    if isinstance(last, ast.If) and leaves(last.body) and leaves(last.orelse):
        return "return" if "return" in (leaves(last.body), leaves(last.orelse)) else "raise"
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return leaves(last.body)
    if isinstance(last, TRY):
        ways = [leaves(last.body + last.orelse)] + [leaves(h.body) for h in last.handlers]
        return leaves(last.finalbody) or (all(ways) and ("return" if "return" in ways else "raise")) or None
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return None if any(isinstance(n, ast.Break) for n in statements(last.body)) else "return"
    cases = getattr(last, "cases", None)
    if cases and getattr(cases[-1].pattern, "pattern", cases) is None and cases[-1].guard is None:
        return "return" if all(leaves(c.body) for c in cases) else None
    return None


def after(node, conditions):
    """The conditions that stand once a statement is passed."""
    if not isinstance(node, ast.If):
        return conditions
    if leaves(node.body) == "return":
        return conditions + (Condition(node.test, False),)
    if node.orelse and leaves(node.orelse) == "return":
        return conditions + (Condition(node.test),)
    return conditions


def end_conditions(body):
    """The conditions under which the end of a function is reached."""
    conditions = ()
    for node in body:
        conditions = after(node, conditions)
    return conditions


def guarded(body, conditions=(), depth=0):
    """(statement, conditions) in source order, nested functions not entered. What follows `if x: return` stands under
    `not x`; what follows `if x: raise` is not narrowed, since then nothing comes back at all."""
    if depth > _NESTING:
        return
    for node in body:
        yield node, conditions
        if isinstance(node, _OWN):
            continue
        if isinstance(node, ast.If):
            yield from guarded(node.body, conditions + (Condition(node.test),), depth + 1)
            yield from guarded(node.orelse, conditions + (Condition(node.test, False),), depth + 1)
            conditions = after(node, conditions)
        elif isinstance(node, TRY):
            yield from guarded(node.body + node.orelse, conditions, depth + 1)
            for handler in node.handlers:
                caught = "except " + Text().of(handler.type) if handler.type is not None else "except"
                yield from guarded(handler.body, conditions + (Condition(caught),), depth + 1)
            yield from guarded(node.finalbody, conditions, depth + 1)
        elif isinstance(node, _LOOPS):
            inside = () if isinstance(node, ast.While) else (Condition("in a loop"),)
            yield from guarded(node.body, conditions + inside, depth + 1)
            yield from guarded(node.orelse, conditions, depth + 1)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            yield from guarded(node.body, conditions, depth + 1)
        else:
            for case in getattr(node, "cases", None) or []:
                yield from guarded(case.body, conditions + (Condition("match " + Text().of(node.subject)),), depth + 1)


def text_of(conditions):
    """The conditions as one text, None where there are none."""
    parts = dict.fromkeys(c.text for c in conditions)
    return " and ".join("(" + p + ")" if " or " in p or " if " in p else p for p in parts) or None
