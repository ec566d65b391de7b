"""judge.py: what a broad handler makes of its exception, as far as its syntax tree tells.

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


def _walk(nodes):
    """Nodes below, without those of functions and classes that are only defined here."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
        elif any(isinstance(n, ast.Name) for n in ast.walk(node)):
            stack.extend(n for n in ast.walk(node) if isinstance(n, ast.Name))


def always_raises(body):
    """Every way through these statements ends in a raise."""
    for statement in body:
        if isinstance(statement, ast.Raise):
            return True
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            return False
        if isinstance(statement, ast.If) and always_raises(statement.body) and always_raises(statement.orelse):
            return True
        if isinstance(statement, (ast.With, ast.AsyncWith)) and always_raises(statement.body):
            return True
        if isinstance(statement, ast.Try) and always_raises(statement.finalbody):
            return True
        if any(isinstance(n, (ast.Return, ast.Continue, ast.Break)) for n in _walk([statement])):
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


def ends_well(body):
    """A call that ends the process with status 0, or None."""
    for node in _walk(body):
        if isinstance(node, ast.Call) and call_name(node) in _EXITS and not node.keywords:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if owner is not None and getattr(owner, "id", "") not in ("sys", "os"):
                continue
            if not node.args or isinstance(node.args[0], ast.Constant) and node.args[0].value in (0, None, False):
                return node
    return None


def _parents(body):
    above = {}
    for node in _walk(body):
        for child in ast.iter_child_nodes(node):
            above[child] = node
    return above


def _as_text(use, above):
    """This use of the name takes no more of the exception than its text."""
    node, parent = use, above.get(use)
    if isinstance(parent, ast.FormattedValue):
        return parent.conversion in (-1, 115)
    if isinstance(parent, ast.Attribute):
        return False
    if isinstance(parent, ast.Tuple):
        node, parent = parent, above.get(parent)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod):
        form = parent.left
        return not (isinstance(form, ast.Constant) and isinstance(form.value, (str, bytes)) and "%r" in str(form.value))
    if not isinstance(parent, ast.Call) or node is parent.func:
        return False
    form = parent.args[0] if parent.args else None
    if call_name(parent) == "format":
        form = parent.func.value if isinstance(parent.func, ast.Attribute) else None
    if isinstance(form, ast.Constant) and isinstance(form.value, str) and re.search(r"%r|![ra]", form.value):
        return False
    return call_name(parent) in _TEXTS


def judge(handler):
    """SAID, TEXT or SILENT."""
    if always_raises(handler.body):
        return SAID
    if any(_traces(node) for node in _walk(handler.body)):
        return SAID
    if handler.name is None:
        return SILENT
    above, verdict = _parents(handler.body), SILENT
    for node in _walk(handler.body):
        if isinstance(node, ast.Name) and node.id == handler.name and isinstance(node.ctx, ast.Load):
            if isinstance(above.get(node), ast.Raise):
                continue
            if not _as_text(node, above):
                return SAID
            verdict = TEXT
    return verdict


def only_imports(body):
    return all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in body)
