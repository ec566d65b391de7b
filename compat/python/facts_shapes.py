"""facts_shapes.py: what the return statements of a function show.

Each row: "none", "list", "dict", "tuple:N", "first-of-list" (the single item of what otherwise comes back as a list),
"raise" (it never returns), "value" (anything else), with the condition under which it comes back, in terms of the
parameters as far as locals can be traced to them. `when` None: always, as far as the text shows.
"""
import ast

from facts_flow import Condition, end_conditions, guarded, leaves, text_of

_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CALLS = {"list": "list", "sorted": "list", "dict": "dict"}
_DISPLAYS = {ast.List: "list", ast.ListComp: "list", ast.Dict: "dict", ast.DictComp: "dict"}
ROWS = 12
_DEPTH = 8


def _is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def _compatible(these, those):
    return not any(a.opposite(b) for a in these for b in those)


def _joined(these, those):
    have = {c.text for c in these}
    return these + tuple(c for c in those if c.text not in have)


class _Frame:
    """Locals of one function: name -> [(value or nested def, conditions)], None for a value that is not shown."""

    def __init__(self, node, outer=None):
        self.outer, self.returns, self.locals = outer, [], {}
        args = node.args
        self.params = {a.arg for a in args.posonlyargs + args.args + args.kwonlyargs}
        for inside, conditions in guarded(node.body):
            if isinstance(inside, ast.Return):
                self.returns.append((inside, conditions))
            elif isinstance(inside, _DEFS):
                self.note(inside.name, inside, conditions)
            elif isinstance(inside, ast.Assign):
                for target in inside.targets:
                    self.note_target(target, inside.value, conditions)
            elif isinstance(inside, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
                shown = inside.value if isinstance(inside, ast.AnnAssign) else None
                self.note_target(inside.target, shown, conditions)

    def note(self, name, value, conditions):
        if not conditions and value is not None:
            self.locals[name] = []
        if name in self.params and name not in self.locals:
            self.locals[name] = [(None, ())]  # what was given, where none of the assignments runs
        self.locals.setdefault(name, []).append((value, conditions))

    def note_target(self, target, value, conditions):
        if isinstance(target, ast.Name):
            self.note(target.id, value, conditions)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self.note_target(item, None, conditions)

    def find(self, name, conditions):
        """[(value, conditions)] that may be the name's under these conditions; None: not a local that is known."""
        frame = self
        while frame:
            if name in frame.locals:
                return [row for row in frame.locals[name] if _compatible(row[1], conditions)]
            if name in frame.params:
                return None
            frame = frame.outer
        return None


class _Shapes:
    def __init__(self):
        self.rows = []

    def add(self, shape, conditions, line):
        self.rows.append((shape, conditions, line))

    def of(self, node, frame, conditions, line, depth=0):
        """Files the shapes of an expression."""
        if depth > _DEPTH or len(self.rows) > 4 * ROWS:
            self.add("value", conditions, line)
        elif isinstance(node, ast.Await):
            self.of(node.value, frame, conditions, line, depth + 1)
        elif isinstance(node, ast.IfExp):
            self.of(node.body, frame, conditions + (Condition(node.test),), line, depth + 1)
            self.of(node.orelse, frame, conditions + (Condition(node.test, False),), line, depth + 1)
        elif isinstance(node, ast.Name):
            self.of_name(node, frame, conditions, line, depth)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self.of_call(node, frame, conditions, line, depth)
        elif isinstance(node, ast.Subscript):
            self.add("first-of-list" if self.is_list(node.value, frame, conditions, depth) and
                     _is_zero(node.slice) else "value", conditions, line)
        else:
            self.add(_display(node), conditions, line)

    def is_list(self, node, frame, conditions, depth):
        """The expression is a list, however the function came here."""
        inner = _Shapes()
        inner.of(node, frame, conditions, 0, depth + 1)
        return bool(inner.rows) and all(shape == "list" for shape, _, _ in inner.rows)

    def of_name(self, node, frame, conditions, line, depth):
        found = frame.find(node.id, conditions)
        if not found or any(value is None or isinstance(value, _DEFS) for value, _ in found):
            self.add("value", conditions, line)
            return
        for value, under in found:
            self.of(value, frame, _joined(conditions, under), line, depth + 1)

    def of_call(self, node, frame, conditions, line, depth):
        """Of a local function, or of a local that holds one; others are only known by what they are called."""
        found = frame.find(node.func.id, conditions)
        if not found:
            self.add(_CALLS.get(node.func.id, "value") if found is None else "value", conditions, line)
            return
        for value, under in found:
            both = _joined(conditions, under)
            if isinstance(value, ast.FunctionDef):
                self.of_function(value, frame, both, depth)
            elif _is_identity(value) and len(node.args) == 1:
                self.of(node.args[0], frame, both, line, depth + 1)
            else:
                self.add("value", both, line)

    def of_function(self, node, outer, conditions, depth):
        """All that a function gives back."""
        frame = _Frame(node, outer)
        for returned, under in frame.returns:
            value = returned.value
            if value is None or _is_none(value):
                self.add("none", _joined(conditions, under), returned.lineno)
            else:
                self.of(value, frame, _joined(conditions, under), returned.lineno, depth + 1)
        if not leaves(node.body):
            self.add("none", _joined(conditions, end_conditions(node.body)), node.body[-1].lineno)


def _is_zero(node):
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def _is_identity(node):
    return isinstance(node, ast.Lambda) and len(node.args.args) == 1 and isinstance(node.body, ast.Name) and \
        node.body.id == node.args.args[0].arg


def _display(node):
    if _is_none(node):
        return "none"
    if isinstance(node, ast.Tuple):
        return "value" if any(isinstance(n, ast.Starred) for n in node.elts) else "tuple:%d" % len(node.elts)
    return _DISPLAYS.get(type(node), "value")


def _is_stub(body):
    """A body that only stands for one: docstring, `...`, pass."""
    return all(isinstance(n, ast.Pass) or (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)) for n in body)


def _traced(conditions, frame):
    """The conditions with locals replaced by what they hold there; None where one of them cannot hold."""
    out = ()
    for condition in conditions:
        test = condition.test
        name = test.left if isinstance(test, ast.Compare) and len(test.ops) == 1 and \
            isinstance(test.ops[0], (ast.Is, ast.IsNot)) and _is_none(test.comparators[0]) else test
        found = frame.find(name.id, conditions) if isinstance(name, ast.Name) else None
        value = found[0][0] if found and len(found) == 1 else None
        if isinstance(value, ast.Name) and isinstance(test, ast.Compare):
            condition = Condition(ast.Compare(value, test.ops, test.comparators), condition.truth)
        elif isinstance(value, ast.Constant):
            holds = (value.value is None) == isinstance(test.ops[0], ast.Is) if isinstance(test, ast.Compare) \
                else bool(value.value)
            if holds != condition.truth:
                return None
            continue
        elif isinstance(value, ast.expr) and not isinstance(test, ast.Compare) and not isinstance(value, ast.Call):
            condition = Condition(value, condition.truth)
        out = _joined(out, (condition,))
    return out


def _merged(rows):
    """Rows of the same shape and condition once; one row where every way gives the same shape."""
    if len({shape for shape, _, _ in rows}) == 1:
        return [{"shape": rows[0][0], "when": None, "line": rows[0][2]}]
    out = {}
    for shape, when, line in rows:
        out.setdefault((shape, when), {"shape": shape, "when": when, "line": line})
    if len(out) > ROWS:
        return [{"shape": s, "when": "?", "line": line} for s, line in {r[0]: r[2] for r in rows}.items()]
    return list(out.values())


def shapes(node):
    """The rows of a def; none where it gives nothing away (a generator, a stub)."""
    if _is_stub(node.body):
        return []
    found, frame = _Shapes(), _Frame(node)
    found.of_function(node, None, (), 0)
    if not found.rows:
        return [{"shape": "raise", "when": None, "line": node.lineno}] if leaves(node.body) == "raise" else []
    rows = []
    for shape, conditions, line in found.rows:
        traced = _traced(conditions, frame)
        if traced is not None and _compatible(traced, traced):
            rows.append((shape, text_of(traced), line))
    return _merged(rows) if rows else []
