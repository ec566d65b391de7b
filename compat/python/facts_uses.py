"""facts_uses.py: one module of a consumer as a slim syntax tree. Nothing is resolved."""
import ast
import re

from facts_function import parameter_rows
from facts_suppress import suppressions
from facts_text import operator_text
from facts_types import parsed

# Levels of nesting that are kept; readers of the JSON have limits of their own (two levels of JSON for each).
DEPTH = 400


class Tree:
    """Turns syntax nodes into plain objects. `problem(line, what)` is told what is left out."""

    def __init__(self, problem, text):
        self.problem, self.suppress = problem, suppressions(text)
        self.lines = text.split("\n")
        self.depth = 0

    # Statements

    def body(self, nodes):
        out = []
        for node in nodes:
            out.append(self.statement(node))
        return out

    def statement(self, node):
        facts = {"s": "pass", "line": node.lineno}
        if self.depth >= DEPTH:
            self.problem(node.lineno, "nested too deeply")
            return facts
        self.depth += 1
        try:
            getattr(self, "_s_" + type(node).__name__, self._s_other)(node, facts)
        finally:
            self.depth -= 1
        if self.suppress:
            self.suppressed(node, facts)
        return facts

    def suppressed(self, node, facts):
        """Comments on the lines of a statement, of a compound one on those before its body."""
        first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())])
        body = getattr(node, "body", None)
        last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno
        for line in range(first, last + 1):
            if line == node.lineno and line in self.suppress:
                facts["suppress"] = self.suppress[line]
            elif line in self.suppress:
                facts.setdefault("suppress_lines", {})[str(line)] = self.suppress[line]

    def _s_other(self, node, facts):
        if not isinstance(node, ast.Pass):
            self.problem(node.lineno, "a statement that is not known: " + type(node).__name__)

    def _s_Pass(self, node, facts):
        pass

    def _s_Break(self, node, facts):
        facts["s"] = "break"

    def _s_Continue(self, node, facts):
        facts["s"] = "continue"

    def _s_Import(self, node, facts):
        facts.update(s="import", names=[[a.name, a.asname] for a in node.names])

    def _s_ImportFrom(self, node, facts):
        lines = self.name_lines(node)
        facts.update(s="from", module=node.module or "", level=node.level,
                     names=[[a.name, a.asname, line] for a, line in zip(node.names, lines)])

    def name_lines(self, node):
        """The line of each imported name; python 3.9 does not tell, so they are looked for in the text."""
        if hasattr(node.names[0], "lineno"):
            return [a.lineno for a in node.names]
        text = "\n".join(line.partition("#")[0] for line in self.lines[node.lineno - 1:node.end_lineno])
        at, out = re.search(r"\bimport\b", text).end(), []
        for alias in node.names:
            found = re.compile(r"(?<![\w.])" + re.escape(alias.name) + r"(?!\w)").search(text, at)
            at = found.end() if found else at
            out.append(node.lineno + text.count("\n", 0, at))
            if alias.asname and found:
                at = text.find(alias.asname, at) + len(alias.asname)
        return out

    def _s_Assign(self, node, facts):
        facts.update(s="assign", targets=self.many(node.targets), value=self.of(node.value), type=None)

    def _s_AnnAssign(self, node, facts):
        facts.update(s="assign", targets=[self.of(node.target)], value=self.maybe(node.value),
                     type=self.annotation(node.annotation))

    def _s_AugAssign(self, node, facts):
        facts.update(s="augassign", target=self.of(node.target), op=operator_text(node.op), value=self.of(node.value))

    def _s_TypeAlias(self, node, facts):
        facts.update(s="assign", targets=[self.of(node.name)], value=self.of(node.value), type=None)

    def _s_Expr(self, node, facts):
        facts.update(s="expr", value=self.of(node.value))

    def _s_Return(self, node, facts):
        facts.update(s="return", value=self.maybe(node.value))

    def _s_If(self, node, facts):
        facts.update(s="if", test=self.of(node.test), body=self.body(node.body))
        facts["else"] = self.body(node.orelse)

    def _s_While(self, node, facts):
        self._s_If(node, facts)
        facts["s"] = "while"

    def _s_For(self, node, facts):
        facts.update(s="for", target=self.of(node.target), iter=self.of(node.iter), body=self.body(node.body))
        facts["else"] = self.body(node.orelse)
        facts["async"] = isinstance(node, ast.AsyncFor)

    _s_AsyncFor = _s_For

    def _s_Try(self, node, facts):
        handlers = [{"type": self.maybe(h.type), "as": h.name, "body": self.body(h.body), "line": h.lineno}
                    for h in node.handlers]
        facts.update(s="try", body=self.body(node.body), handlers=handlers)
        facts["else"] = self.body(node.orelse)
        facts["finally"] = self.body(node.finalbody)

    _s_TryStar = _s_Try

    def _s_With(self, node, facts):
        items = [[self.of(i.context_expr), self.maybe(i.optional_vars)] for i in node.items]
        facts.update(s="with", items=items, body=self.body(node.body))
        facts["async"] = isinstance(node, ast.AsyncWith)

    _s_AsyncWith = _s_With

    def _s_FunctionDef(self, node, facts):
        facts.update(s="def", name=node.name, params=self.parameters(node.args),
                     decorators=self.many(node.decorator_list), returns=self.annotation(node.returns))
        facts["async"] = isinstance(node, ast.AsyncFunctionDef)
        facts["body"] = self.body(node.body)

    _s_AsyncFunctionDef = _s_FunctionDef

    def _s_ClassDef(self, node, facts):
        facts.update(s="class", name=node.name, bases=self.many(node.bases),
                     keywords=[[k.arg, self.of(k.value)] for k in node.keywords],
                     decorators=self.many(node.decorator_list), body=self.body(node.body))

    def _s_Raise(self, node, facts):
        facts.update(s="raise", value=self.maybe(node.exc), cause=self.maybe(node.cause))

    def _s_Assert(self, node, facts):
        facts.update(s="assert", test=self.of(node.test), message=self.maybe(node.msg))

    def _s_Delete(self, node, facts):
        facts.update(s="del", targets=self.many(node.targets))

    def _s_Global(self, node, facts):
        facts.update(s="global", names=list(node.names), nonlocal_=False)
        facts["nonlocal"] = facts.pop("nonlocal_")

    def _s_Nonlocal(self, node, facts):
        facts.update(s="global", names=list(node.names))
        facts["nonlocal"] = True

    def _s_Match(self, node, facts):
        cases = []
        for case in node.cases:
            names = [n.name for n in ast.walk(case.pattern) if getattr(n, "name", None)]
            values = [self.of(n) for n in self._pattern_values(case.pattern)]
            cases.append({"names": names, "values": values, "guard": self.maybe(case.guard),
                          "body": self.body(case.body)})
        facts.update(s="match", value=self.of(node.subject), cases=cases)

    @staticmethod
    def _pattern_values(pattern):
        """Expressions that a pattern names: values and classes."""
        for node in ast.walk(pattern):
            for name in ("value", "cls"):
                value = getattr(node, name, None)
                if isinstance(node, getattr(ast, "pattern", ())) and isinstance(value, ast.expr):
                    yield value

    def parameters(self, args):
        out = []
        for arg, kind, default in parameter_rows(args):
            row = {"name": arg.arg, "kind": kind}
            if default is not None:
                row["default"] = self.of(default)
            if arg.annotation is not None:
                row["type"] = self.annotation(arg.annotation)
            out.append(row)
        return out

    # Expressions

    def many(self, nodes):
        return [self.of(n) for n in nodes]

    def maybe(self, node):
        return self.of(node) if node is not None else None

    def annotation(self, node):
        """A quoted annotation as the expression in the quotes, where it is one."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = parsed(node.value)
            for part in ast.walk(inner) if inner is not None else ():
                if hasattr(part, "lineno"):
                    part.lineno = part.end_lineno = node.lineno
            node = inner or node
        return self.maybe(node)

    def of(self, node):
        facts = {"e": "other", "line": node.lineno}
        if self.depth >= DEPTH:
            self.problem(node.lineno, "an expression nested too deeply")
            facts["parts"] = []
            return facts
        self.depth += 1
        try:
            getattr(self, "_e_" + type(node).__name__, self._e_other)(node, facts)
        finally:
            self.depth -= 1
        return facts

    def _e_other(self, node, facts):
        facts["parts"] = [self.of(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]

    def _e_Name(self, node, facts):
        facts.update(e="name", id=node.id)

    def _e_Attribute(self, node, facts):
        facts.update(e="attr", value=self.of(node.value), name=node.attr)
        facts["end"] = node.end_lineno

    def _e_Call(self, node, facts):
        facts.update(e="call", func=self.of(node.func), args=self.many(node.args),
                     kw=[[k.arg, self.of(k.value)] for k in node.keywords])

    def _e_Subscript(self, node, facts):
        facts.update(e="sub", value=self.of(node.value), index=self.of(node.slice))

    def _e_Constant(self, node, facts):
        value = node.value
        if isinstance(value, str):
            facts.update(e="str", v=value)
        elif value is None or isinstance(value, bool):
            facts.update(e="const", v=value)
        elif isinstance(value, int) and abs(value) < 1 << 63:
            facts.update(e="const", v=value)
        elif isinstance(value, float) and abs(value) < float("inf"):
            facts.update(e="const", v=value)
        else:
            facts["parts"] = []

    def _e_JoinedStr(self, node, facts):
        parts = [self.shown(v) if isinstance(v, ast.FormattedValue) else self.of(v) for v in node.values]
        for part in parts:
            if part["e"] == "str":
                part["line"] = node.lineno  # before 3.12 all pieces have it
        facts.update(e="fstr", parts=parts)

    def shown(self, node):
        """What stands in braces; {x!r} as the call repr(x) that it is."""
        facts = self.of(node.value)
        if node.conversion in (ord("r"), ord("a")):
            name = {"e": "name", "line": facts["line"], "id": "repr" if node.conversion == ord("r") else "ascii"}
            facts = {"e": "call", "line": facts["line"], "func": name, "args": [facts], "kw": []}
        return facts

    def _items(self, node, facts, kind):
        facts.update(e=kind, items=self.many(node.elts))

    def _e_List(self, node, facts):
        self._items(node, facts, "list")

    def _e_Tuple(self, node, facts):
        self._items(node, facts, "tuple")

    def _e_Set(self, node, facts):
        self._items(node, facts, "set")

    def _e_Dict(self, node, facts):
        facts.update(e="dict", keys=[self.maybe(k) for k in node.keys], values=self.many(node.values))

    def _e_Starred(self, node, facts):
        facts.update(e="star", value=self.of(node.value))

    def _e_Compare(self, node, facts):
        facts.update(e="compare", left=self.of(node.left), ops=[operator_text(op) for op in node.ops],
                     right=self.many(node.comparators))

    def _e_BoolOp(self, node, facts):
        facts.update(e="bool", op="and" if isinstance(node.op, ast.And) else "or", values=self.many(node.values))

    def _e_UnaryOp(self, node, facts):
        operand = node.operand
        if isinstance(node.op, ast.Not):
            facts.update(e="not", value=self.of(operand))
        elif isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant) and \
                type(operand.value) in (int, float):
            self._e_Constant(ast.Constant(-operand.value), facts)
        else:
            self._e_other(node, facts)

    def _e_BinOp(self, node, facts):
        facts.update(e="binop", op=operator_text(node.op), left=self.of(node.left), right=self.of(node.right))

    def _e_IfExp(self, node, facts):
        facts.update(e="ifexp", test=self.of(node.test), then=self.of(node.body))
        facts["else"] = self.of(node.orelse)

    def _e_Lambda(self, node, facts):
        facts.update(e="lambda", params=self.parameters(node.args), body=self.of(node.body))

    def _e_Yield(self, node, facts):
        facts.update(e="yield", value=self.maybe(node.value))

    _e_YieldFrom = _e_Yield

    def _e_Await(self, node, facts):
        facts.update(e="await", value=self.of(node.value))

    def _comprehension(self, node, facts, kind, elements):
        loops = [{"target": self.of(g.target), "iter": self.of(g.iter), "ifs": self.many(g.ifs)}
                 for g in node.generators]
        facts.update(e="comp", kind=kind, elements=self.many(elements))
        facts["for"] = loops

    def _e_ListComp(self, node, facts):
        self._comprehension(node, facts, "list", [node.elt])

    def _e_SetComp(self, node, facts):
        self._comprehension(node, facts, "set", [node.elt])

    def _e_GeneratorExp(self, node, facts):
        self._comprehension(node, facts, "generator", [node.elt])

    def _e_DictComp(self, node, facts):
        self._comprehension(node, facts, "dict", [node.key, node.value])

    def _e_NamedExpr(self, node, facts):
        facts.update(e="walrus", target=self.of(node.target), value=self.of(node.value))

    def _e_Slice(self, node, facts):
        facts.update(e="slice", low=self.maybe(node.lower), high=self.maybe(node.upper), step=self.maybe(node.step))


def module_uses(tree, text, file, problems):
    """The entry of one module in the list."""
    def problem(line, what):
        problems.add(file, line, what)
    nodes = Tree(problem, text)
    facts = {"file": file, "body": nodes.body(tree.body)}
    if nodes.suppress:
        facts["comments"] = {str(line): reason for line, reason in sorted(nodes.suppress.items())}
    return facts
