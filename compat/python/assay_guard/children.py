"""children.py: what a Python program starts and does not look after: processes whose exit status nobody asks for,
workers of a pool that die, exceptions that do not survive the way back."""
import atexit
import os
import signal
import sys
import weakref

from assay_guard import log, lost, record, source

_NOBODY = "exit %s of %s, which nobody looked at"
_unseen = {}  # id of a result: (weak reference, what a finding says)


def _caller(depth=2):
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
        if value and self.own and not _inner():
            log.guarded(lambda: _watch(thing, rule="child_status", message=_NOBODY % (value, _command(thing.args)),
                                       **_caller(4)))


def _subprocess(module):
    completed, popen = module.CompletedProcess, module.Popen
    plain_init = completed.__init__
    plain_wait, plain_poll = popen.wait, popen.poll

    def init(self, args, returncode, *rest, **names):
        plain_init(self, args, returncode, *rest, **names)
        if returncode:
            log.guarded(lambda: _watch(self, rule="child_status", message=_NOBODY % (returncode, _command(args)),
                                       **_caller(4)))

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
        if _outside():
            _unseen.pop(id(self), None)
        return result

    def poll(self):
        result = plain_poll(self)
        if _outside():
            _unseen.pop(id(self), None)
        return result

    plain_check = completed.check_returncode
    for new, plain in ((init, plain_init), (check_returncode, plain_check), (wait, plain_wait), (poll, plain_poll)):
        new.__doc__, new.__qualname__ = plain.__doc__, plain.__qualname__
    completed.returncode, popen.returncode = _Status(False), _Status(True)
    completed.__init__, completed.check_returncode = init, check_returncode
    popen.wait, popen.poll = wait, poll


def _inner():
    """The Popen that run(), call() and check_output() use themselves: they look."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("subprocess", __name__):
        if frame.f_code.co_name in ("run", "call", "check_call", "check_output", "getstatusoutput"):
            return True
        frame = frame.f_back
    return False


# ---- multiprocessing ----

_processes = []


def _worker_errors(module):
    """traceback: a worker's error is printed by its _bootstrap() alone, and seen there without a frame in its trace."""
    plain = module.print_exc

    def print_exc(*args, **names):
        if sys._getframe(1).f_code.co_name == "_bootstrap":
            error = sys.exc_info()[1]
            log.guarded(lambda: record.found("worker_error", error))
        return plain(*args, **names)

    module.print_exc = print_exc


def _process(module):
    kind = module.BaseProcess
    plain_start, plain_code, plain_bootstrap = kind.start, kind.exitcode, kind._bootstrap

    def start(self):
        result = plain_start(self)
        _processes.append((self, log.guarded(_caller, 3) or {}))
        return result

    def exitcode(self):
        value = plain_code.fget(self)
        if value is not None and sys._getframe(1).f_globals.get("__name__") != module.__name__:
            self.__dict__["_assay_seen"] = True
        return value

    def _bootstrap(self, *args, **names):
        _processes.clear()
        try:
            return plain_bootstrap(self, *args, **names)
        finally:
            log.guarded(lost.at_end)

    kind.start, kind._bootstrap = start, _bootstrap
    kind.exitcode = property(exitcode, doc=plain_code.__doc__)


@log.never_raises
def _at_end():
    """Registered first, called last: multiprocessing has joined what was left."""
    for key in list(_unseen):
        _report(key)
    for process, where in _processes:
        popen = getattr(process, "_popen", None)
        code = popen.poll() if popen is not None else None
        if code == -signal.SIGTERM and process.daemon:
            continue  # by multiprocessing itself, at the end of the program
        if code and not process.__dict__.get("_assay_seen") and not process.__dict__.get("_assay_ended"):
            record.plain("child_status", _NOBODY % (code, "process " + process.name),
                         child=process.pid, **where)


def _ended_by(module):
    """terminate() and kill(): that status is the program's own doing."""
    for name in ("terminate", "kill"):
        plain = getattr(module.BaseProcess, name)

        def end(self, plain=plain):
            self.__dict__["_assay_ended"] = True
            return plain(self)

        setattr(module.BaseProcess, name, end)


def _processes_of(module):
    _process(module)
    _ended_by(module)


def _survives(error):
    """None, or how the exception that arrives differs from the one that left."""
    pickle = sys.modules["pickle"]  # multiprocessing has it; a file of the program's may have its name
    try:
        back = pickle.loads(pickle.dumps(error))
    except Exception as problem:
        return "%s: %s" % (type(problem).__name__, str(problem)[:200])
    return None if type(back) is type(error) else "it arrives as %s" % record.type_name(back)


def _carrier(kind):
    plain = kind.__init__

    def init(self, exc, tb, *rest):
        if isinstance(exc, BaseException):
            how = log.guarded(_survives, exc)
            if how is not None:
                log.guarded(lambda: record.found("pickle", exc.with_traceback(exc.__traceback__ or tb
                                                 if not isinstance(tb, str) else None), where=how))
        plain(self, exc, tb, *rest)

    kind.__init__ = init


def _pool(module):
    _carrier(module.ExceptionWithTraceback)
    plain = module.Pool._join_exited_workers

    def join(pool):
        before = list(pool)
        result = plain(pool)
        # Looked at afterwards: one may end between a look and the call that takes it off the list.
        for worker in before:
            code = worker.exitcode if worker not in pool else None
            if code is not None and code < 0:
                log.guarded(lambda w=worker, c=code: record.plain(
                    "worker_died", "worker %s of a pool ended by signal %d" % (w.name, -c), child=w.pid))
        return result

    module.Pool._join_exited_workers = staticmethod(join)


def _executor(module):
    _carrier(module._ExceptionWithTraceback)


def install():
    source.after("subprocess", _subprocess)
    source.after("traceback", _worker_errors)
    source.after("multiprocessing.process", _processes_of)
    source.after("multiprocessing.pool", _pool)
    source.after("concurrent.futures.process", _executor)
    atexit.register(_at_end)
