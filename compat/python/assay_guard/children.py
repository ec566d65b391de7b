"""children.py: processes that a Python program starts and whose exit status nobody asks for. Asked for is a status whose
value goes somewhere: that of `p.wait()` or os.system() on a line of its own does not."""
import atexit
import functools
import opcode
import os
import signal
import sys
import weakref

from assay_guard import log, record, source

_POP, _CACHE = opcode.opmap["POP_TOP"], opcode.opmap.get("CACHE")
_ENDING = {signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
NOBODY = "exit %s of %s, which nobody looked at"
_unseen = {}  # id of a result: (weak reference, what a finding says)


def caller(depth=2):
    """The first frame outside of the standard library, as (file, line, function)."""
    frame = sys._getframe(depth)
    while frame.f_back is not None and not source.is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return {"file": frame.f_code.co_filename, "line": frame.f_lineno, "function": frame.f_code.co_name}


def _report(key):
    reference, fields = _unseen.pop(key, (None, None))
    if fields is not None:
        record.plain(**fields)


def _watch(thing, **fields):
    key = id(thing)
    _unseen[key] = (weakref.ref(thing, lambda _: log.guarded(_report, key)), fields)


def _command(args):
    words = [args] if isinstance(args, (str, bytes)) else list(args)
    return " ".join(os.fsdecode(w) if isinstance(w, (str, bytes, os.PathLike)) else "?" for w in words)[:200]


def _discarded(frame):
    """What the call that this frame is at gives goes nowhere."""
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _POP


def _outside(depth=2):
    return sys._getframe(depth).f_globals.get("__name__") != "subprocess"


class _Status:
    """An attribute `returncode` that knows whether anybody outside of subprocess has read it."""

    def __get__(self, thing, kind=None):
        if thing is None:
            return self
        if _outside():
            _unseen.pop(id(thing), None)
        try:
            return thing.__dict__["returncode"]
        except KeyError:
            raise AttributeError("returncode") from None

    def __init__(self, own):
        self.own = own

    def __set__(self, thing, value):
        thing.__dict__["returncode"] = value
        if value and self.own and not _inner() and not _ENDING.intersection(thing.__dict__.get("_assay_sent", ())):
            log.guarded(lambda: _watch(thing, rule="child_status", message=NOBODY % (value, _command(thing.args)),
                                       **caller(4)))


def _subprocess(module):
    completed, popen = module.CompletedProcess, module.Popen
    plain_init = completed.__init__
    plain_wait, plain_poll = popen.wait, popen.poll

    def init(self, args, returncode, *rest, **names):
        plain_init(self, args, returncode, *rest, **names)
        if returncode:
            log.guarded(lambda: _watch(self, rule="child_status", message=NOBODY % (returncode, _command(args)),
                                       **caller(4)))

    def check_returncode(self):
        _unseen.pop(id(self), None)
        try:
            return plain_check(self)
        except module.CalledProcessError as error:
            error.__traceback__ = error.__traceback__.tb_next  # this frame is not the program's
            raise

    def wait(self, timeout=None):
        try:
            result = plain_wait(self, timeout=timeout)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        if _outside() and not _discarded(sys._getframe(1)):
            _unseen.pop(id(self), None)
        return result

    def poll(self):
        result = plain_poll(self)
        if _outside() and not _discarded(sys._getframe(1)):
            _unseen.pop(id(self), None)
        return result

    plain_check = completed.check_returncode
    for new, plain in ((init, plain_init), (check_returncode, plain_check), (wait, plain_wait), (poll, plain_poll)):
        new.__doc__, new.__qualname__ = plain.__doc__, plain.__qualname__
    completed.returncode, popen.returncode = _Status(False), _Status(True)
    completed.__init__, completed.check_returncode = init, check_returncode
    popen.wait, popen.poll = wait, poll
    _shown(completed)
    _sent(popen)
    _call(module)


def _shown(completed):
    plain = completed.__repr__

    def __repr__(self):
        _unseen.pop(id(self), None)
        return plain(self)

    completed.__repr__ = __repr__


def _sent(popen):
    """terminate() and kill() come here: how such a process ends is the program's own doing."""
    plain = popen.send_signal

    @functools.wraps(plain)
    def send_signal(self, sig):
        self.__dict__.setdefault("_assay_sent", set()).add(sig)
        return plain(self, sig)

    popen.send_signal = send_signal


def _status_of(status, command):
    """Who called what called us has thrown it away, or not. Between us are a lambda and log.guarded()."""
    if status and _discarded(sys._getframe(4)):
        record.plain("child_status", NOBODY % (status, _command(command)), **caller(5))


def _call(module):
    plain = module.call

    @functools.wraps(plain)
    def call(*args, **names):
        try:
            status = plain(*args, **names)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        log.guarded(lambda: _status_of(status, args[0] if args else names.get("args", "?")))
        return status

    module.call = call


def _system():
    plain = os.system

    @functools.wraps(plain)
    def system(command):
        status = plain(command)
        log.guarded(lambda: _status_of(os.waitstatus_to_exitcode(status), command))
        return status

    os.system = system


def _inner():
    """The Popen that run(), call() and check_output() use themselves: they look."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("subprocess", __name__):
        if frame.f_code.co_name in ("run", "call", "check_call", "check_output", "getstatusoutput"):
            return True
        frame = frame.f_back
    return False


@log.never_raises
def _at_end():
    for key in list(_unseen):
        _report(key)


def install():
    _system()
    source.after("subprocess", _subprocess)
    atexit.register(_at_end)
