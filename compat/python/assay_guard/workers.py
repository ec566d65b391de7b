"""workers.py: workers of multiprocessing and of pools: how they end, errors that nobody reads, exceptions that do not
survive the way back."""
import atexit
import signal
import sys

from assay_guard import children, log, lost, record, source

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
        _processes.append((self, log.guarded(children.caller, 3) or {}))
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
    """Registered early, called late: multiprocessing has joined what was left."""
    for process, where in _processes:
        popen = getattr(process, "_popen", None)
        code = popen.poll() if popen is not None else None
        if code == -signal.SIGTERM and process.daemon:
            continue  # by multiprocessing itself, at the end of the program
        if code and not process.__dict__.get("_assay_seen") and not process.__dict__.get("_assay_ended"):
            record.plain("child_status" if code > 0 else "worker_died",
                         children.NOBODY % (code, "process " + process.name), child=process.pid, **where)


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
    _results(module)
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


def _results(module):
    """apply_async(), map_async(): an error that arrives and that nobody asks for."""
    for kind in (module.ApplyResult, module.MapResult):
        plain_set = kind._set

        def _set(self, i, obj, plain_set=plain_set):
            # Before others see it: they may ask at once. Of a map, the first error is kept.
            if not obj[0] and self._error_callback is None and getattr(self, "_success", True):
                log.guarded(lost.remember, self, obj[1])
            plain_set(self, i, obj)

        kind._set = _set
    kind = module.ApplyResult
    for name in ("get", "successful"):
        plain = getattr(kind, name)

        def ask(self, *args, plain=plain, **names):
            try:
                return plain(self, *args, **names)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next  # this frame is not the program's
                raise
            finally:
                if self.ready():
                    lost.read(self)

        ask.__name__, ask.__doc__, ask.__qualname__ = name, plain.__doc__, plain.__qualname__
        setattr(kind, name, ask)


def _executor(module):
    _carrier(module._ExceptionWithTraceback)


def install():
    source.after("traceback", _worker_errors)
    source.after("multiprocessing.process", _processes_of)
    source.after("multiprocessing.pool", _pool)
    source.after("concurrent.futures.process", _executor)
    atexit.register(_at_end)
