"""sites.py: the places that were instrumented, and what is called there at run time: the code of instrument.py holds these
as builtins. What was caught is a finding at once; it is withdrawn where it turns out that it was not lost."""
import builtins
import itertools
import sys
import threading

from assay_guard import judge, log, record

_FLOW = ("GeneratorExit", "StopIteration", "StopAsyncIteration", "CancelledError")
_sites = {}
_numbers = itertools.count()
_state = threading.local()


class Site:
    """A place where exceptions may end. `meant`: why nothing is lost by it, or None. `end`: the last statement's type where
    a handler leaves its block by it. `lines` of a finally: first and last of what it follows."""

    def __init__(self, path, line, verdict, exits=False, imports=False, meant=None, end=None, lines=None):
        self.place, self.end = {"file": path, "line": line}, end
        self.verdict, self.exits, self.imports, self.meant, self.lines = verdict, exits, imports, meant, lines
        self.retries = False


def add(site):
    """Its number."""
    number = next(_numbers)  # modules may be imported by several threads at once
    _sites[number] = site
    return number


def retries(numbers):
    for number in numbers:
        _sites[number].retries = True


def meant(numbers, reason, ends):
    """Of handlers that end so."""
    for number in numbers if reason else ():
        if _sites[number].end in ends:
            _sites[number].meant = _sites[number].meant or reason


def rule(site, error):
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


def take(number, error, frame):
    """Site `number` has caught it, in this frame."""
    site = _sites[number]
    last, since = _mine()
    kind = rule(site, error)
    extra = {"harmless": site.meant} if site.meant and kind == "swallowed" else {}
    fold = record.found(kind, error, site.place, **extra) if kind else None
    last[number] = (fold, id(frame))
    if fold is not None and site.retries:
        times = since.setdefault(number, {})
        times[fold] = times.get(fold, 0) + 1


@log.never_raises
def caught(number):
    take(number, sys.exc_info()[1], sys._getframe(2))


@log.never_raises
def raised(number):
    """The handler ends by an exception. One that ends a generator, or the program, with status 0 or after an empty text,
    changes nothing."""
    error, said = sys.exc_info()[1], _sites[number].verdict == judge.TEXT
    ends = isinstance(error, SystemExit) and (said or error.code in (0, None))
    if not ends and type(error).__name__ not in _FLOW:
        back(number, sys._getframe(2))


def back(number, frame):
    """What the site caught last, in this frame, is followed by a raise: not lost, nor are earlier rounds of a retry."""
    last, since = _mine()
    fold, where = last.pop(number, (None, 0))
    if fold is not None and where == id(frame):
        rounds = since.pop(number, None) or {fold: 1}
        for one, times in rounds.items():
            record.withdraw(one, times)


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


@log.never_raises
def left(number):
    """A finally is left by return, break or continue: the exception that it was run for, if any, ends there. It is told
    from one that is being handled further out by where it passed last: in this frame, in what the finally follows."""
    error, site = sys.exc_info()[1], _sites[number]
    tb = getattr(error, "__traceback__", None)
    first, last = site.lines
    if tb is not None and tb.tb_frame is sys._getframe(2) and first <= tb.tb_lineno <= last and rule(site, error):
        record.found("finally", error, site.place)


@log.never_raises
def exited(number, error):
    """An __exit__() says that its exception is dealt with."""
    if isinstance(error, BaseException):
        take(number, error, sys._getframe(2))


CALLS = {"__assay_caught__": caught, "__assay_raised__": raised, "__assay_began__": began,
         "__assay_through__": came_through, "__assay_left__": left, "__assay_exited__": exited}
for _name, _function in CALLS.items():
    setattr(builtins, _name, _function)
