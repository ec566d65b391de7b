"""lost.py: exceptions that end where nobody catches them and nobody asks: threads, __del__ and atexit, futures, tasks."""
import atexit
import sys
import threading
import weakref

from assay_guard import log, record, source

_unread = {}  # id of a future or the like: (weak reference, its exception)


def _threads():
    plain = threading.excepthook

    def hook(args):
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            log.guarded(record.found, "thread", args.exc_value)
        plain(args)

    threading.excepthook = hook


def _unraisable():
    plain = sys.unraisablehook

    def hook(args):
        if args.exc_value is not None:
            where = args.err_msg or "in %s" % getattr(args.object, "__qualname__", type(args.object).__name__)
            log.guarded(lambda: record.found("unraisable", args.exc_value, where=where))
        plain(args)

    sys.unraisablehook = hook


@log.never_raises
def _dropped(key):
    reference, error = _unread.pop(key, (None, None))
    if error is not None:
        record.found("future", error)


def remember(owner, error):
    """It holds an error, and is asked for it, or is not."""
    key = id(owner)
    _unread[key] = (weakref.ref(owner, lambda _: _dropped(key)), error)


def read(owner):
    _unread.pop(id(owner), None)


def _futures(module):
    """concurrent.futures._base: an exception that was set and never asked for."""
    future = module.Future
    plain_set, plain_result, plain_exception = future.set_exception, future.result, future.exception

    def set_exception(self, exception):
        if isinstance(exception, BaseException) and not isinstance(exception, module.CancelledError):
            log.guarded(remember, self, exception)
        return plain_set(self, exception)

    def result(self, timeout=None):
        try:
            return plain_result(self, timeout)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # this frame is not the program's
            raise
        finally:
            if self.done():
                read(self)

    def exception(self, timeout=None):
        try:
            return plain_exception(self, timeout)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if self.done():
                read(self)

    for new, plain in ((set_exception, plain_set), (result, plain_result), (exception, plain_exception)):
        new.__doc__, new.__qualname__ = plain.__doc__, plain.__qualname__
    future.set_exception, future.result, future.exception = set_exception, result, exception


def _tasks(module):
    """asyncio.base_events: what reaches a loop's exception handler has been retrieved by nobody."""
    plain = module.BaseEventLoop.call_exception_handler

    def call_exception_handler(self, context):
        error = context.get("exception")
        if isinstance(error, Exception):
            log.guarded(lambda: record.found("task", error, where=str(context.get("message"))[:200]))
        return plain(self, context)

    module.BaseEventLoop.call_exception_handler = call_exception_handler


def at_end():
    """What was never read until the end."""
    for key in list(_unread):
        _dropped(key)
    record.flush()


def install():
    _threads()
    _unraisable()
    source.after("concurrent.futures._base", _futures)
    source.after("asyncio.base_events", _tasks)
    atexit.register(log.never_raises(at_end))
