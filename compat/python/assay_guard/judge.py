"""judge.py: what a broad handler makes of its exception, as far as its syntax tree tells; the same of other places where
exceptions end: suppress(Exception), __exit__() that returns True.

SAID     it raises on every path, hands on the object, its type or its trace: nothing is lost, nothing is instrumented
TEXT     only str(e) or the like is used: lost where the text is empty
SILENT   the exception is not used at all
A raise on some paths only, and what a retry does, is told at run time by marks (see instrument.py)."""
import ast
import re

SAID, TEXT, SILENT = "said", "text", "silent"
_BROAD = {"Exception", "BaseException"}
_TRACES = re.compile(r"exc_info|traceback|print_exc|format_exc|print_exception|format_exception|print_stack"
                     r"|handle_?(an_?)?(error|exc)|report_?(error|exc)|capture_(exception|error)|exception$", re.I)
_TEXTS = {"str", "print", "format", "warn", "write", "debug", "info", "warning", "error", "critical", "log", "fatal",
          "echo", "secho"}
_EXITS = {"exit", "_exit", "quit"}


def _names(kind):
    for node in kind.elts if isinstance(kind, ast.Tuple) else [kind]:
        yield node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_broad(handler):
    return handler.type is None or any(name in _BROAD for name in _names(handler.type))


def walk(nodes):
    """Nodes below, without those of functions and classes that are only defined here."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
        elif any(isinstance(n, ast.Name) for n in ast.walk(node)):
            stack.extend(n for n in ast.walk(node) if isinstance(n, ast.Name))


def _raises_by_name(statement):
    """A call of reraise() and the like."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and "raise" in call_name(call).lower()


def always_raises(body):
    """Every way through these statements ends in a raise."""
    for statement in body:
        if isinstance(statement, ast.Raise) or _raises_by_name(statement):
            return True
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            return False
        if isinstance(statement, ast.If) and always_raises(statement.body) and always_raises(statement.orelse):
            return True
        if isinstance(statement, (ast.With, ast.AsyncWith)) and always_raises(statement.body):
            return True
        if isinstance(statement, ast.Try) and always_raises(statement.finalbody):
            return True
        if any(isinstance(n, (ast.Return, ast.Continue, ast.Break)) for n in walk([statement])):
            return False
    return False


def call_name(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _traces(node):
    """A call that prints, logs or keeps the whole exception, with or without its name."""
    if not isinstance(node, ast.Call):
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if getattr(owner, "id", "") == "traceback" or _TRACES.search(call_name(node)):
        return True
    return any(k.arg == "exc_info" and not (isinstance(k.value, ast.Constant) and not k.value.value)
               for k in node.keywords)


def _status_0(words):
    return not words or isinstance(words[0], ast.Constant) and words[0].value in (0, None, False)


def _ends_well(node):
    if isinstance(node, ast.Raise):
        call = node.exc
        return getattr(call, "id", "") == "SystemExit" or \
            isinstance(call, ast.Call) and call_name(call) == "SystemExit" and _status_0(call.args)
    if not isinstance(node, ast.Call) or call_name(node) not in _EXITS or node.keywords:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return (owner is None or getattr(owner, "id", "") in ("sys", "os")) and _status_0(node.args)


def ends_well(body):
    """A call or a raise that ends the process with status 0, or None."""
    return next((node for node in walk(body) if _ends_well(node)), None)


def _parents(body):
    above = {}
    for node in walk(body):
        for child in ast.iter_child_nodes(node):
            above[child] = node
    return above


def _shown_as(form, place, percent):
    """How the argument at this place of a format is shown: "r" and "a" give its type away. None: not told."""
    if not isinstance(form, ast.Constant) or not isinstance(form.value, str):
        return None
    if percent:
        kinds = [k for k in re.findall(r"%(?:\(\w*\))?[-#0 +]*[\d.*]*(.)", form.value) if k != "%"]
    else:
        kinds = [f.partition("!")[2][:1] or "s" for f in re.findall(r"{([^{}]*)}", form.value)]
    return kinds[place] if place < len(kinds) else "r" if set("ra").intersection(kinds) else None


def _place(node, items):
    return next((at for at, item in enumerate(items) if item is node), len(items))


def _as_text(use, above):
    """This use of the name takes no more of the exception than its text."""
    node, parent = use, above.get(use)
    if isinstance(parent, ast.FormattedValue):
        return parent.conversion in (-1, 115)
    if isinstance(parent, ast.Attribute):
        return False
    place = 0
    if isinstance(parent, ast.Tuple):
        place, node, parent = _place(node, parent.elts), parent, above.get(parent)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod):
        return _shown_as(parent.left, place, True) not in ("r", "a")
    if not isinstance(parent, ast.Call) or node is parent.func:
        return False
    if call_name(parent) == "format":
        form = parent.func.value if isinstance(parent.func, ast.Attribute) else None
        shown = _shown_as(form, _place(node, parent.args), False)
    else:
        shown = _shown_as(parent.args[0] if parent.args else None, _place(node, parent.args[1:]), True)
    return shown not in ("r", "a") and call_name(parent) in _TEXTS


def judge(handler):
    """SAID, TEXT or SILENT."""
    if always_raises(handler.body):
        return SAID
    if any(_traces(node) for node in walk(handler.body)):
        return SAID
    if handler.name is None:
        return SILENT
    above, verdict = _parents(handler.body), SILENT
    for node in walk(handler.body):
        if isinstance(node, ast.Name) and node.id == handler.name and isinstance(node.ctx, ast.Load):
            if isinstance(above.get(node), ast.Raise):
                continue
            if not _as_text(node, above):
                return SAID
            verdict = TEXT
    return verdict


def only_imports(body):
    return all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in body)


def site_of(handler, body, function):
    """What sites.Site() is to know of a handler of a try of `body` in a function of that name; None: nothing is lost."""
    if not is_broad(handler):
        return None
    verdict, exits = judge(handler), ends_well(handler.body) is not None
    if verdict == SAID and not exits:
        return None
    end = type(handler.body[-1]) if isinstance(handler.body[-1], (ast.Return, ast.Continue, ast.Break)) else None
    return {"verdict": verdict, "exits": exits, "imports": only_imports(body), "end": end,
            "meant": meant(handler, body, function)}


# ---- handlers that are meant ----

# Pieces of names; no patterns, which would be compiled at each start.
_TIDY = ("close", "shutdown", "clean", "teardown", "__del__", "__exit__", "stop", "terminate", "kill", "destroy", "unlink",
         "remove", "rmtree", "release", "cancel", "disconnect", "flush", "unregister", "exit", "join", "empty_cache",
         "finalize", "dispose", "detach")
_TIDY_FUNCTION = ("__del__", "__exit__", "__aexit__", "close", "shutdown", "clean", "teardown", "destroy", "dispose",
                  "finalize")
_TELLS = ("fail", "err", "invalid", "bad", "broken", "missing", "unavailable", "unsupported", "skip", "unknown",
          "unreadable")
_PLAIN = {"dict", "list", "set", "tuple", "str", "int", "float", "len", "bool", "defaultdict", "bytes", "frozenset"}


def _holds(name, pieces):
    name = name.lower()
    return any(piece in name for piece in pieces)


def _tidies(body):
    """All that is tried is to put something away."""
    for s in body:
        if isinstance(s, (ast.If, ast.For, ast.With, ast.AsyncWith)) and _tidies(s.body):
            continue
        call = s.value.value if isinstance(s, ast.Expr) and isinstance(s.value, ast.Await) else getattr(s, "value", None)
        if not isinstance(s, (ast.Delete, ast.Pass)) and \
                not (isinstance(s, ast.Expr) and isinstance(call, ast.Call) and _holds(call_name(call), _TIDY)):
            return False
    return True


def _tells(statement):
    """It gives a value that tells its reader of a failure: False, a status of 1, a number below 0, words like "error"."""
    value = statement.value
    for node in ast.walk(value) if value is not None else ():
        if isinstance(node, ast.Constant):
            status = isinstance(statement, ast.Return) and node is value and type(node.value) is int and node.value == 1
            if node.value is False or status:
                return True
            if isinstance(node.value, str) and _holds(node.value, _TELLS):
                return True
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return True
        elif _holds(getattr(node, "id", "") or getattr(node, "attr", "") or "", _TELLS):
            return True
    return False


def _computes(value):
    """It calls something that can fail itself, or makes something of what it has."""
    return value is not None and any(isinstance(n, ast.Call) and (n.args or call_name(n) not in _PLAIN)
                                     for n in ast.walk(value))


def _gives(body):
    """What the statements give: names and attributes as they are dumped, "return"."""
    given = set()
    for node in walk(body):
        if isinstance(node, ast.Return) and node.value is not None:
            given.add("return")
        for target in node.targets if isinstance(node, ast.Assign) else ():
            given.add(ast.dump(target))
    return given


def _one_value(body):
    return len(body) == 1 and isinstance(body[0], ast.Assign) and _computes(body[0].value)


def _second_way(body, handler):
    """The same value is computed; or one value was tried for, and another one is."""
    if _one_value(body) and _one_value(handler.body):
        return True
    for node in walk(handler.body):
        if isinstance(node, (ast.Return, ast.Assign)) and _computes(node.value):
            targets = ["return"] if isinstance(node, ast.Return) else [ast.dump(t) for t in node.targets]
            if _gives(body).intersection(targets):
                return True
    return False


def _always_tells(body):
    """Every value that the handler returns or assigns tells, there is one, and that is all that it says."""
    given = [n for n in walk(body) if isinstance(n, (ast.Return, ast.Assign))]
    says = any(isinstance(n, ast.Call) and call_name(n) in _TEXTS - {"str", "format"} for n in walk(body))
    return isinstance(body[-1], (ast.Return, ast.Assign)) and not says and all(_tells(n) for n in given)


def _asked(handler):
    """`if errors == "raise": raise`: who wants it raised has it raised."""
    words = [n for i in walk(handler.body) if isinstance(i, ast.If) for n in ast.walk(i.test) if isinstance(n, ast.Constant)]
    return any(w.value == "raise" for w in words)


def what_follows(rest, body):
    """Why it is not lost that `body` failed in silence, from what is done after it; or None."""
    if always_raises(rest):
        return "what follows raises"
    if any(isinstance(n, ast.Return) and n.value is not None for n in walk(body)):
        for s in rest:
            inner = isinstance(s, (ast.Try, ast.With, ast.AsyncWith))
            for node in walk([s]):
                if isinstance(node, ast.Return) and (_computes(node.value) or inner and _varies(node.value)):
                    return "what failed is done in another way"
    return None


def _varies(value):
    return value is not None and any(isinstance(n, ast.Name) for n in ast.walk(value))


def meant(handler, body, function):
    """Why nobody misses what this handler catches in silence, or None."""
    if _asked(handler):
        return "who asked for it gets it raised"
    if _tidies(body) or _holds(function, _TIDY_FUNCTION):
        return "what failed only puts something away"
    if _second_way(body, handler):
        return "what failed is done in another way"
    if _always_tells(handler.body):
        return "the value that the handler gives tells of it"
    return None


# ---- suppress(Exception) ----

def suppressors(tree):
    """What this module calls contextlib.suppress: names, and names of contextlib itself with the attribute."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "contextlib" and not node.level:
            found.update(a.asname or a.name for a in node.names if a.name == "suppress")
        if isinstance(node, ast.Import):
            found.update((a.asname or a.name) + ".suppress" for a in node.names if a.name == "contextlib")
    return found


def suppresses(call, names):
    """"Exception" or "BaseException", the widest that this expression suppresses, or None."""
    if not isinstance(call, ast.Call):
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = call_name(call) if owner is None else "%s.%s" % (getattr(owner, "id", ""), call_name(call))
    wide = [n for a in call.args for n in _names(a) if n in _BROAD] if name in names else []
    return "BaseException" if "BaseException" in wide else "Exception" if wide else None


# ---- __exit__() ----

def is_true(statement):
    value = statement.value
    return isinstance(value, ast.Constant) and value.value is True


def _asks_whether(use, above):
    """Is there an exception at all? No more of it is asked."""
    parent = above.get(use)
    if isinstance(parent, ast.Compare):
        return all(isinstance(o, (ast.Is, ast.IsNot)) for o in parent.ops) and \
            all(isinstance(c, ast.Constant) and c.value is None for c in parent.comparators)
    return isinstance(parent, (ast.BoolOp, ast.UnaryOp)) or isinstance(parent, (ast.If, ast.IfExp)) and parent.test is use


def _exception_of(function):
    """The names of type, value and trace, and an expression for the value; or None."""
    names = [a.arg for a in function.args.posonlyargs + function.args.args]
    if len(names) >= 4:
        return names[1:4], ast.Name(id=names[2], ctx=ast.Load())
    if len(names) == 1 and function.args.vararg is not None:
        rest = function.args.vararg.arg
        value = ast.Subscript(value=ast.Name(id=rest, ctx=ast.Load()), slice=ast.Constant(value=1), ctx=ast.Load())
        return [None, rest, None], value
    return None, None


def exit_method(function):
    """The verdict on an __exit__(), and an expression for its exception. SAID also where it looks at the type."""
    names, value = _exception_of(function)
    if names is None or not any(isinstance(s, ast.Return) and is_true(s) for s in walk(function.body)):
        return SAID, None
    if any(_traces(node) for node in walk(function.body)):
        return SAID, None
    above, verdict = _parents(function.body), SILENT
    for node in walk(function.body):
        if isinstance(node, ast.Name) and node.id in names and not _asks_whether(node, above):
            if node.id != names[1] or not _as_text(node, above):
                return SAID, None
            verdict = TEXT
    return verdict, value
