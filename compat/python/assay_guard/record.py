"""record.py: an exception as a finding, and how often: occurrences with the same place of raise, place of handler and
type are one record with a count."""
import itertools
import os
import sys
import threading

from assay_guard import log, source, values

_FRAMES = 40
_PLACES = 2000  # that are told apart; a program that makes new ones for ever is not followed past it
NOTES = ("text_only", "worker_error")  # lost only where something else says so: a line, an exit status
_EVERY = 64  # counts up to this one are written one by one, then at each doubling
_lock = threading.RLock()
_folds = {}
_numbers = itertools.count(1)
_HERE = os.path.dirname(os.path.abspath(__file__))


def _forked():
    global _lock
    _lock = threading.RLock()
    _folds.clear()


os.register_at_fork(after_in_child=_forked)


def message_of(error):
    """str(error), which may be the program's own code; a short text in any case."""
    try:
        return values.cut(str(error), 500)
    except Exception:
        return "<its __str__ fails>"


def type_name(error):
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)


def entries(tb):
    """The frames of a trace that are not the guard's."""
    rows = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_HERE):
            rows.append(tb)
        tb = tb.tb_next
    return rows


def _lines(error, seen):
    """A trace as texts, what caused it first."""
    if error is None or id(error) in seen or len(seen) > 8:
        return []
    seen.add(id(error))
    cause = error.__cause__
    context = None if cause is not None or error.__suppress_context__ else error.__context__
    lines = _lines(cause, seen) + _lines(context, seen)
    if lines:
        lines.append("-- which led to" if cause is not None else "-- while that was handled")
    rows = entries(error.__traceback__)
    if len(rows) > _FRAMES:
        lines.append("...(%d frames)" % (len(rows) - _FRAMES))
    for tb in rows[-_FRAMES:]:
        code = tb.tb_frame.f_code
        lines.append("%s:%d in %s" % (code.co_filename, tb.tb_lineno, code.co_name))
    lines.append("%s: %s" % (type_name(error), message_of(error)))
    return lines


def describe(error):
    """The fields of a finding that the exception itself gives."""
    rows = entries(error.__traceback__)
    last = rows[-1] if rows else None
    fields = {"type": type_name(error), "message": message_of(error), "trace": _lines(error, set()), "locals": {},
              "file": None, "line": 0, "function": None, "process": " ".join(getattr(sys, "argv", [""]))[:200],
              "thread": threading.current_thread().name}
    if last is not None:
        fields.update(file=last.tb_frame.f_code.co_filename, line=last.tb_lineno,
                      function=last.tb_frame.f_code.co_name)
        users = [tb for tb in rows if source.is_users(tb.tb_frame.f_code.co_filename)]
        for frame in {id(tb.tb_frame): tb.tb_frame for tb in users[:1] + [last]}.values():
            where = "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_code.co_firstlineno)
            fields["locals"]["%s (%s)" % (frame.f_code.co_name, where)] = values.frame_locals(frame)
    return fields


class Fold:
    """One finding that may happen again."""

    def __init__(self, rule, error, handler, extra):
        self.id, self.count, self.gone, self.written = "%d-%d" % (os.getpid(), next(_numbers)), 1, 0, 1
        record = {"k": "note" if rule in NOTES else "finding", "id": self.id, "rule": rule, "handler": handler, "count": 1}
        record.update(describe(error))
        record.update(extra)
        log.write(record, sync=True)

    def changed(self, now=False):
        live = self.count - self.gone
        if now or live == 0 or self.count <= _EVERY or self.count & (self.count - 1) == 0:
            if live != self.written:
                self.written = live
                log.write({"k": "count", "id": self.id, "count": live})


def _place(error):
    tb = error.__traceback__
    if tb is None:
        return None
    while tb.tb_next is not None:
        tb = tb.tb_next
    return (tb.tb_frame.f_code, tb.tb_lineno)


def found(rule, error, handler=None, **extra):
    """Writes or counts a finding; returns its fold."""
    where = (handler["file"], handler["line"]) if handler else None
    key = (rule, where, type(error), _place(error))
    with _lock:
        fold = _folds.get(key)
        if fold is None:
            if len(_folds) >= _PLACES:
                return None
            fold = _folds[key] = Fold(rule, error, handler, extra)
        else:
            fold.count += 1
            fold.changed()
    return fold


def withdraw(fold, times=1):
    """The last occurrences were not lost after all."""
    with _lock:
        fold.gone = min(fold.count, fold.gone + times)
        fold.changed()


def flush():
    """Writes the counts as they are."""
    with _lock:
        for fold in list(_folds.values()):
            fold.changed(now=True)


def plain(rule, message, **fields):
    """A finding without an exception at hand."""
    record = {"k": "finding", "id": "%d-%d" % (os.getpid(), next(_numbers)), "rule": rule, "type": None,
              "message": message, "trace": [], "handler": None, "locals": {}, "file": None, "line": 0,
              "function": None, "process": " ".join(getattr(sys, "argv", [""]))[:200],
              "thread": threading.current_thread().name, "count": 1}
    record.update(fields)
    log.write(record, sync=True)
