"""instrument.py: calls in the syntax tree where exceptions may end: at the begin of each broad handler that may lose its
own, in the body of a suppress(Exception), before a return, break or continue of a finally, before the `return True` of an
__exit__(). And marks where it turns out that nothing was lost: where a handler ends by an exception itself, before a raise
that follows, and where the try of a retry loop leaves the loop. See sites.py.

    try: ...                            try: ...
    except Exception as e:              except Exception as e:
        print(f"failed: {e}")               try: __assay_caught__(7)
                                            except NameError: pass     # code that is run where no guard is
                                            try: print(f"failed: {e}")
                                            except: (__assay_raised__(7), as above); raise
Line numbers are those of the source."""
import ast

from assay_guard import judge, sites


def _placed(statement, place):
    """The same, as of the line of `place`."""
    for part in ast.walk(statement):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            part.lineno = part.end_lineno = place.lineno
            part.col_offset = part.end_col_offset = place.col_offset
    return statement


def _call(name, place, *arguments):
    """A statement that calls one of sites.CALLS; an argument is a constant or an expression."""
    words = [a if isinstance(a, ast.expr) else ast.Constant(value=a) for a in arguments]
    call = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=words, keywords=[])
    handler = ast.ExceptHandler(type=ast.Name(id="NameError", ctx=ast.Load()), name=None, body=[ast.Pass()])
    return _placed(ast.Try(body=[ast.Expr(value=call)], handlers=[handler], orelse=[], finalbody=[]), place)


class _Marks(ast.NodeTransformer):
    """Puts a call before the statements of these kinds, not inside of functions defined there."""

    def __init__(self, kinds, name, *arguments):
        self.name, self.arguments, self.kinds = name, arguments, kinds

    def _stay(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _stay

    def generic_visit(self, node):
        if isinstance(node, self.kinds):
            return [_call(self.name, node, *self.arguments), node]
        return super().generic_visit(node)

    def block(self, body):
        body[:] = self.visit(ast.Module(body=body, type_ignores=[])).body


class _Raising(_Marks):
    """Marks a raise, but for one that ends the program well."""

    def generic_visit(self, node):
        return node if judge.ends_well([node]) is node else super().generic_visit(node)


class _Leaving(_Marks):
    """Marks where a block leaves the loop around it."""

    visit_For = visit_AsyncFor = visit_While = _Marks._stay


class _Quitting(ast.NodeTransformer):
    """Marks where a finally is left before its end, each with a site of its own."""

    def __init__(self, path, lines):
        self.path, self.lines, self.loops, self.count = path, lines, 0, 0

    def _stay(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _stay

    def _loop(self, node):
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1
        return node

    visit_For = visit_AsyncFor = visit_While = _loop

    def generic_visit(self, node):
        if isinstance(node, ast.Return) or not self.loops and isinstance(node, (ast.Break, ast.Continue)):
            self.count += 1
            number = sites.add(sites.Site(self.path, node.lineno, judge.SILENT, lines=self.lines))
            return [_call("__assay_left__", node, number), node]
        return super().generic_visit(node)

    def block(self, body):
        body[:] = self.visit(ast.Module(body=body, type_ignores=[])).body
        return self.count > 0


def _leaves(body):
    return any(isinstance(s, (ast.Break, ast.Return)) for s in body)


def _ends_loop(statement, loop):
    """`done = True` in a `while not done`."""
    names = {n.id for n in ast.walk(loop.test) if isinstance(n, ast.Name)} if isinstance(loop, ast.While) else ()
    return isinstance(statement, ast.Assign) and any(getattr(t, "id", None) in names for t in statement.targets)


_ENDS_CHAIN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While)


def _chains(block, outer, where):
    """where[id of a statement] = the blocks that it is followed in, innermost first, each with the statement there that
    it is in. Those outside of the function, or of the loop, are not in it."""
    for statement in block:
        chain = where[id(statement)] = [(block, statement)] + outer
        inner = [] if isinstance(statement, _ENDS_CHAIN) else chain
        for holder in [statement] + getattr(statement, "handlers", []) + getattr(statement, "cases", []):
            for name in ("body", "orelse", "finalbody"):
                part = getattr(holder, name, None)
                if isinstance(part, list):
                    _chains(part, inner, where)


class Transformer(ast.NodeTransformer):
    def __init__(self, path, tree):
        self.path, self.changed = path, False
        self.suppressors = judge.suppressors(tree)
        self.loops = []  # of this function, innermost last: the loop, and the handlers of its retries
        self.function = ""
        self.followed = []  # statements, and which mark of which sites belongs before a raise that follows

    def _function(self, node):
        if node.name in ("__exit__", "__aexit__"):
            self._exit(node)
        return self._scope(node)

    def _scope(self, node):
        outer, self.loops, self.function = (self.loops, self.function), [], getattr(node, "name", "")
        self.generic_visit(node)
        self.loops, self.function = outer
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function
    visit_Lambda = _scope

    def _loop(self, node):
        self.loops.append((node, []))
        self.generic_visit(node)
        numbers = tuple(self.loops.pop()[1])
        if not numbers:
            return node
        _Marks(ast.Raise, "__assay_through__", numbers).block(node.orelse)
        self.followed.append((node, "__assay_through__", numbers))
        return [_call("__assay_began__", node, numbers), node]

    visit_For = visit_AsyncFor = visit_While = _loop

    def _handler(self, handler, body):
        """The number of its site, or None."""
        fields = judge.site_of(handler, body, self.function)
        if not fields:
            return None
        number = sites.add(sites.Site(self.path, handler.lineno, **fields))
        place = handler.body[0]
        again = ast.ExceptHandler(type=None, name=None, body=[_call("__assay_raised__", place, number),
                                                              ast.Raise(exc=None, cause=None)])
        inner = _placed(ast.Try(body=handler.body, handlers=[again], orelse=[], finalbody=[]), place)
        handler.body = [_call("__assay_caught__", place, number), inner]
        return number

    def _retry(self, numbers, *parts):
        loop, retried = self.loops[-1]
        for part in parts:
            ends = [s for s in part if _ends_loop(s, loop)]
            for statement in ends:
                part.insert(part.index(statement) + 1, _call("__assay_through__", statement, tuple(numbers)))
            if _leaves(part):
                _Leaving((ast.Break, ast.Return), "__assay_through__", tuple(numbers)).block(part)
            if ends or _leaves(part):
                retried.extend(numbers)
        sites.retries(retried)

    def look_at_what_follows(self, tree):
        """A raise that comes after a try, or after a retry loop, says that it came to nothing: not lost."""
        where = {}
        _chains(tree.body, [], where)
        rests = []
        for statement, name, numbers in self.followed:
            chain = where.get(id(statement), [])
            rest = [s for block, own in chain for s in block[block.index(own) + 1:]]
            ends = (None,) if name == "__assay_raised__" else (None, ast.Continue, ast.Break)
            sites.meant(numbers, judge.what_follows(rest, statement.body), ends)
            rests.append((name, numbers, chain))
        for name, numbers, chain in rests:
            for block, own in chain:
                at = block.index(own) + 1
                rest = block[at:]
                for number in numbers if name == "__assay_raised__" else [numbers]:
                    _Raising(ast.Raise, name, number).block(rest)
                block[at:] = rest

    def _finally(self, node):
        before = node.body + node.orelse + [s for h in node.handlers for s in h.body]
        lines = (node.lineno, max(s.end_lineno for s in before))
        return _Quitting(self.path, lines).block(node.finalbody)

    def _try(self, node):
        body = list(node.body)
        quits = bool(node.finalbody) and self._finally(node)
        numbers = [n for n in [self._handler(h, body) for h in node.handlers] if n is not None]
        self.changed = self.changed or bool(numbers) or quits
        if numbers:
            self.followed.append((node, "__assay_raised__", numbers))
        if numbers and self.loops:
            self._retry(numbers, node.body, node.orelse)
        self.generic_visit(node)
        return node

    visit_Try = visit_TryStar = _try

    def _suppressed(self, node, kind):
        """The body of a with as one try that sees what is going to be suppressed."""
        number = sites.add(sites.Site(self.path, node.lineno, judge.SILENT, imports=judge.only_imports(node.body)))
        if self.loops:
            self._retry([number], node.body)
        again = [_call("__assay_caught__", node, number), ast.Raise(exc=None, cause=None)]
        seen = ast.ExceptHandler(type=ast.Name(id=kind, ctx=ast.Load()), name=None, body=again)
        self.changed = True
        return [_placed(ast.Try(body=node.body, handlers=[seen], orelse=[], finalbody=[]), node)]

    def _split(self, node):
        """`with a, suppress(Exception), b:` is with a: with suppress(Exception): with b:"""
        for at, item in enumerate(node.items):
            kind = judge.suppresses(item.context_expr, self.suppressors)
            if kind:
                rest = node.items[at + 1:]
                if rest:
                    node.body = [self._split(ast.copy_location(type(node)(items=rest, body=node.body), node))]
                node.items[at + 1:] = []
                node.body = self._suppressed(node, kind)
                break
        return node

    def _with(self, node):
        self.generic_visit(node)
        return self._split(node)

    visit_With = visit_AsyncWith = _with

    def _exit(self, node):
        verdict, error = judge.exit_method(node)
        if verdict in (judge.SILENT, judge.TEXT):
            for statement in [s for s in judge.walk(node.body) if isinstance(s, ast.Return) and judge.is_true(s)]:
                number = sites.add(sites.Site(self.path, statement.lineno, verdict))
                _Before(statement, _call("__assay_exited__", statement, number, error)).generic_visit(node)
                self.changed = True


class _Before(ast.NodeTransformer):
    """Puts a statement before another."""

    def __init__(self, at, statement):
        self.at, self.statement = at, statement

    def visit(self, node):
        return [self.statement, node] if node is self.at else self.generic_visit(node)


def instrumented(source, path, flags=0):
    """A code object, or None: nothing to instrument. A SyntaxError is the interpreter's to raise."""
    tree = compile(source, path, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    transformer = Transformer(path, tree)
    tree = transformer.visit(tree)
    if not transformer.changed:
        return None
    transformer.look_at_what_follows(tree)
    return compile(tree, path, "exec", flags, dont_inherit=True)
