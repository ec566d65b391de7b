"""deep.py: `guard --deep`: broad handlers of installed packages that nobody named, seen while they run, by sys.monitoring
(3.12 and later). Nothing is compiled anew: the interpreter says where an exception is handled, and the handler there is
judged as in the user's own files. The standard library is left out. Whether a loop's retry succeeded and whether a
handler raises after all is told by the lines that are run, so a raise must stand on a line of its own."""
import ast
import sys

from assay_guard import judge, log, sites, source

_CODES = 50000  # looked up by their identity; a program that makes new ones for ever starts again
_files = {}  # path: {(line, column) where the first except of a try begins: _Try}
_codes = {}  # id: _Code
_others = {}  # id: code with no handler to look at; the reference keeps the identity from being used again
_monitoring = getattr(sys, "monitoring", None)
_tool = 0


class _Try:
    """A try of which at least one broad handler may lose its exception: (type expression, number or None) of each."""

    def __init__(self, handlers):
        self.handlers = handlers
        self.marks = {}  # line: [(function, argument)]
        self.frame = 0

    def mark(self, line, function, argument):
        self.marks.setdefault(line, []).append((function, argument))


class _Code:
    def __init__(self, code, tries):
        self.code, self.tries = code, tries
        self.at = {}  # offset: _Try or None
        self.marks = {}


def _first(kind):
    """The part of a type expression that is evaluated first."""
    while True:
        if isinstance(kind, ast.Tuple) and kind.elts:
            kind = kind.elts[0]
        elif isinstance(kind, (ast.Attribute, ast.Starred, ast.Subscript)):
            kind = kind.value
        elif isinstance(kind, ast.Call):
            kind = kind.func
        else:
            return kind


def _lone_lines(nodes, kinds):
    return [n.lineno for n in judge.walk(nodes) if isinstance(n, kinds)]


class _Tries(ast.NodeVisitor):
    def __init__(self, path):
        self.path, self.found, self.loops, self.function = path, {}, 0, ""

    def _scope(self, node):
        outer, self.loops, self.function = (self.loops, self.function), 0, getattr(node, "name", "")
        self.generic_visit(node)
        self.loops, self.function = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _scope

    def _loop(self, node):
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1

    visit_For = visit_AsyncFor = visit_While = _loop

    def _number(self, handler, body):
        fields = judge.site_of(handler, body, self.function)
        return sites.add(sites.Site(self.path, handler.lineno, **fields)) if fields else None

    def _mark(self, one, node, numbers):
        for handler, (_, number) in zip(node.handlers, one.handlers):
            for line in _lone_lines(handler.body, ast.Raise) if number is not None else ():
                if line > handler.lineno:
                    one.mark(line, sites.back, number)
        leaves = [s.lineno for part in (node.body, node.orelse) for s in part if isinstance(s, (ast.Break, ast.Return))]
        if self.loops and leaves:
            sites.retries(numbers)
            for line in leaves:
                one.mark(line, _through, tuple(numbers))

    def _try(self, node):
        rows = [(h.type, self._number(h, node.body)) for h in node.handlers]
        numbers = [n for _, n in rows if n is not None]
        if numbers:
            one, first = _Try(rows), node.handlers[0]
            self._mark(one, node, numbers)
            for part in (first, _first(first.type) or first):
                self.found[part.lineno, part.col_offset] = one
        self.generic_visit(node)

    visit_Try = visit_TryStar = _try


def _tries_of(path):
    if not source.is_package(path):
        return None
    if path not in _files:
        _files[path] = None
        with open(path, "rb") as file:
            data = file.read()
        if source.BROAD.search(data):
            tries = _Tries(path)
            tries.visit(compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
            _files[path] = tries.found
    return _files[path]


def _code(code):
    if len(_codes) + len(_others) > _CODES:
        _codes.clear()
        _others.clear()
    tries = log.guarded(_tries_of, code.co_filename)
    if not tries:
        _others[id(code)] = code
        return None
    return _codes.setdefault(id(code), _Code(code, tries))


def _try_at(known, offset):
    """The handler's second instruction stands where its first type, or the word `except`, does."""
    if offset not in known.at:
        place = list(known.code.co_positions())[offset // 2 + 1:offset // 2 + 2]
        one = known.tries.get((place[0][0], place[0][2])) if place else None
        known.at[offset] = one
        if one is not None and one.marks:
            for line, calls in one.marks.items():
                known.marks.setdefault(line, []).extend(calls)
            _monitoring.set_local_events(_tool, known.code, _monitoring.events.LINE)
    return known.at[offset]


def _value(kind, frame):
    """What names and attributes of modules and classes give, or None; nothing of the program's is called."""
    if isinstance(kind, ast.Name):
        for names in (frame.f_globals, frame.f_builtins):
            if kind.id in names:
                return names[kind.id]
        return frame.f_locals.get(kind.id)
    if isinstance(kind, ast.Attribute):
        owner = _value(kind.value, frame)
        return owner.__dict__.get(kind.attr) if isinstance(owner, (type, type(sys))) else None
    return None


def _fits(kind, error, frame):
    """True, False, or None: cannot be told."""
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        told = [_fits(k, error, frame) for k in kind.elts]
        return True if True in told else None if None in told else False
    value = _value(kind, frame)
    if isinstance(value, tuple) and all(isinstance(v, type) for v in value):
        return isinstance(error, value)
    return isinstance(error, value) if isinstance(value, type) else None


def _decide(one, error, frame):
    if one.frame != id(frame):  # another call: its loop begins
        one.frame = id(frame)
        sites.began([n for _, n in one.handlers if n is not None])
    for kind, number in one.handlers:
        told = _fits(kind, error, frame)
        if told is not False:
            if told and number is not None:
                sites.take(number, error, frame)
            return


def _look(code, offset, error, frame):
    known = _codes.get(id(code)) or _code(code)
    one = _try_at(known, offset) if known is not None else None
    if one is not None:
        _decide(one, error, frame)


def _handled(code, offset, error):
    if id(code) not in _others:  # this line is what most exceptions of a program cost
        log.guarded(_look, code, offset, error, sys._getframe(1))


def _through(numbers, frame):
    sites.came_through(numbers)


def _line(code, line):
    known = _codes.get(id(code))
    calls = known.marks.get(line) if known is not None else None
    if calls is None:
        return _monitoring.DISABLE
    for function, argument in calls:
        log.guarded(function, argument, sys._getframe(1))
    return None


def _free_tool():
    for number in (4, 3, 1, 2):
        if _monitoring.get_tool(number) is None:
            return number
    return None


def install():
    global _tool
    number = _free_tool() if _monitoring is not None else None
    if number is None:
        log.write({"k": "shallow", "python": "%d.%d.%d" % sys.version_info[:3]})
        return
    _tool = number
    _monitoring.use_tool_id(number, "assay guard")
    _monitoring.register_callback(number, _monitoring.events.EXCEPTION_HANDLED, _handled)
    _monitoring.register_callback(number, _monitoring.events.LINE, _line)
    _monitoring.set_events(number, _monitoring.events.EXCEPTION_HANDLED)
