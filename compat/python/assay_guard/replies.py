"""replies.py: replies held against a recorded contract. Wrapped are the functions that, as recorded, give a list under
one condition and a single value under another: what they gave is held against the shapes that the arguments allow."""
import ast
import functools
import inspect
import json
import sys

from assay_guard import log, record, source

_returns = {}  # annotation of the recorded functions, by their last name


def truth(test, names):
    """True, False, or None: cannot be told from the arguments."""
    if isinstance(test, ast.Name):
        value = names.get(test.id, test)
        return bool(value) if value is None or value is True or value is False else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(test.operand, names)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts, decides = [truth(v, names) for v in test.values], isinstance(test.op, ast.Or)
        if decides in parts:
            return decides
        return None if None in parts else not decides
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name) and \
            isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None and \
            test.left.id in names and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return (names[test.left.id] is None) == isinstance(test.ops[0], ast.Is)
    return None


def _allowed(shapes, names):
    kept = set()
    for shape, when in shapes:
        try:
            told = True if when is None else truth(ast.parse(when, mode="eval").body, names)
        except (SyntaxError, ValueError):
            told = None
        if told is not False:
            kept.add("value" if shape == "first-of-list" else shape)
    return kept


def _may_be_none(names):
    """The reply is that of a method whose recorded annotation allows None, or of one that is not recorded."""
    method = names.get("method")
    return type(method) is not str or "None" in (_returns.get(method) or "None")


def breach(shapes, names, value):
    """What is wrong with the value, or None."""
    allowed = _allowed(shapes, names)
    if value is None and "none" not in allowed:
        if "value" in allowed and _may_be_none(names):
            return None
        return "None where %s was promised" % ("a value" if "value" in allowed else "a list")
    if type(value) is list:
        if "list" not in allowed:
            return "a list of %d where a value was promised" % len(value)
        if not value:
            return "an empty list"
    elif value is not None and allowed == {"list"}:
        return "a %s where a list was promised" % type(value).__name__
    return None


def _wrapped(plain, path, shapes):
    signature = inspect.signature(plain)

    def check(args, names, value):
        bound = signature.bind(*args, **names)
        bound.apply_defaults()
        wrong = breach(shapes, bound.arguments, value)
        if wrong is not None:
            frame = sys._getframe(3)
            method = bound.arguments.get("method")
            record.plain("contract", "%s%s gave %s" % (path, "(%r)" % method if type(method) is str else "", wrong),
                         file=frame.f_code.co_filename, line=frame.f_lineno, function=frame.f_code.co_name)

    @functools.wraps(plain)
    def function(*args, **names):
        try:
            value = plain(*args, **names)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # this frame is not the program's
            raise
        log.guarded(check, args, names, value)
        return value

    return function


def _patch(module, rows):
    for path, shapes in rows:
        holder, _, last = path.rpartition(".")
        owner = functools.reduce(getattr, holder.split("."), module) if holder else module
        plain = vars(owner).get(last)
        if inspect.isfunction(plain) and not inspect.iscoroutinefunction(plain):
            setattr(owner, last, _wrapped(plain, path, shapes))


def install(path):
    with open(path, encoding="utf-8") as file:
        recorded = json.load(file)
    _returns.update(recorded["returns"])
    if recorded["for"]:
        source.look_into(recorded["for"])  # the handler of what breaks may sit in the consumer
    for name, rows in recorded["modules"].items():
        source.after(name, functools.partial(lambda rows, module: _patch(module, rows), rows))
