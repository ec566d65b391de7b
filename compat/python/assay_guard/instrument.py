"""instrument.py: one call at the begin of each broad handler that may lose its exception, and marks where it turns out
that it was not lost: before a raise in it, and where the try of a retry loop leaves the loop.

    try: ...                            try: ...
    except Exception as e:              except Exception as e:
        print(f"failed: {e}")               try: __assay_caught__(7)
                                            except NameError: pass     # code that is run where no guard is
                                            print(f"failed: {e}")
Line numbers are those of the source."""
import ast
import builtins
import sys
import threading

from assay_guard import judge, log, record

_CALLS = {"__assay_caught__": "caught", "__assay_raised__": "raised", "__assay_began__": "began",
          "__assay_through__": "came_through"}
_FLOW = ("GeneratorExit", "StopIteration", "StopAsyncIteration", "CancelledError")
_sites = []
_state = threading.local()


class Site:
    """A handler as it was instrumented."""

    def __init__(self, path, handler, verdict, body):
        self.place = {"file": path, "line": handler.lineno}
        self.verdict = verdict
        self.exits = judge.ends_well(handler.body) is not None
        self.retries = False
        self.imports = judge.only_imports(body)


def _rule(site, error):
    """The finding's rule, or None: nothing was lost."""
    if type(error).__name__ in _FLOW or site.imports and isinstance(error, ImportError):
        return None
    if site.exits:
        return "exit_zero"
    if site.verdict == judge.SILENT:
        return "swallowed"
    if record.message_of(error).strip():
        return "text_only"
    return "empty_text"


def _mine():
    """This thread's: the last finding of each handler, and those since its loop began with how often."""
    if "last" not in _state.__dict__:
        _state.last, _state.since = {}, {}
    return _state.last, _state.since


@log.never_raises
def caught(number):
    error = sys.exc_info()[1]
    site = _sites[number]
    last, since = _mine()
    rule = _rule(site, error)
    last[number] = fold = record.found(rule, error, site.place) if rule else None
    if fold is not None and site.retries:
        times = since.setdefault(number, {})
        times[fold] = times.get(fold, 0) + 1


@log.never_raises
def raised(number):
    """The handler raises: what it caught last is not lost."""
    last, since = _mine()
    fold = last.pop(number, None)
    if fold is not None:
        record.withdraw(fold)
        if fold in since.get(number, {}):
            since[number][fold] -= 1


@log.never_raises
def began(numbers):
    since = _mine()[1]
    for number in numbers:
        since.pop(number, None)


@log.never_raises
def came_through(numbers):
    """The loop is left from its try: what its handlers caught on the way was a retry's."""
    since = _mine()[1]
    for number in numbers:
        for fold, times in since.pop(number, {}).items():
            record.withdraw(fold, times)


def _call(name, argument, place):
    """A statement that calls one of _CALLS, as of the line of `place`."""
    call = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[ast.Constant(value=argument)], keywords=[])
    handler = ast.ExceptHandler(type=ast.Name(id="NameError", ctx=ast.Load()), name=None, body=[ast.Pass()])
    statement = ast.Try(body=[ast.Expr(value=call)], handlers=[handler], orelse=[], finalbody=[])
    for part in ast.walk(statement):
        if "lineno" in part._attributes:
            part.lineno = part.end_lineno = place.lineno
            part.col_offset = part.end_col_offset = place.col_offset
    return statement


class _Marks(ast.NodeTransformer):
    """Puts a call before the statements of these kinds, not inside of functions defined there."""

    def __init__(self, name, argument, kinds):
        self.name, self.argument, self.kinds = name, argument, kinds

    def _stay(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _stay

    def generic_visit(self, node):
        if isinstance(node, self.kinds):
            return [_call(self.name, self.argument, node), node]
        return super().generic_visit(node)


class _Leaving(_Marks):
    """Marks where the body of a try leaves its loop."""

    visit_For = visit_AsyncFor = visit_While = _Marks._stay

    def __init__(self, numbers):
        super().__init__("__assay_through__", tuple(numbers), (ast.Break, ast.Return))


def _leaves(body):
    return any(isinstance(s, (ast.Break, ast.Return)) for s in body)


class Transformer(ast.NodeTransformer):
    def __init__(self, path):
        self.path, self.changed = path, False
        self.loops = []  # of this function, innermost last: the handlers of its retries

    def _function(self, node):
        loops, self.loops = self.loops, []
        self.generic_visit(node)
        self.loops = loops
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def _loop(self, node):
        self.loops.append([])
        self.generic_visit(node)
        numbers = self.loops.pop()
        return [_call("__assay_began__", tuple(numbers), node), node] if numbers else node

    visit_For = visit_AsyncFor = visit_While = _loop

    def _handler(self, handler, body):
        """The number of its site, or None."""
        if not judge.is_broad(handler):
            return None
        verdict = judge.judge(handler)
        if verdict == judge.SAID and judge.ends_well(handler.body) is None:
            return None
        number = len(_sites)
        _sites.append(Site(self.path, handler, verdict, body))
        place = handler.body[0]
        _Marks("__assay_raised__", number, ast.Raise).generic_visit(handler)
        handler.body.insert(0, _call("__assay_caught__", number, place))
        return number

    def _retry(self, numbers, node):
        for part in (node.body, node.orelse):
            if _leaves(part):
                part[:] = _Leaving(numbers).visit(ast.Module(body=part, type_ignores=[])).body
                self.loops[-1].extend(numbers)
        for number in self.loops[-1]:
            _sites[number].retries = True

    def _try(self, node):
        body = list(node.body)
        numbers = [n for n in [self._handler(h, body) for h in node.handlers] if n is not None]
        self.changed = self.changed or bool(numbers)
        if numbers and self.loops:
            self._retry(numbers, node)
        self.generic_visit(node)
        return node

    visit_Try = visit_TryStar = _try


def instrumented(source, path, flags=0):
    """A code object, or None: nothing to instrument. A SyntaxError is the interpreter's to raise."""
    tree = compile(source, path, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    transformer = Transformer(path)
    tree = transformer.visit(tree)
    if not transformer.changed:
        return None
    return compile(tree, path, "exec", flags, dont_inherit=True)


for _name, _function in _CALLS.items():
    setattr(builtins, _name, globals()[_function])
