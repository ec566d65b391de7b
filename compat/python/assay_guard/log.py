"""log.py: the guard's log, one JSON object a line. Every record is one write() to a file opened for it with O_APPEND:
no descriptor stays open that a program could close or inherit, and what was written outlives a kill."""
import os
import sys
import time

_PATH = os.environ.get("ASSAY_GUARD_LOG", "")
_OWN = 20
_own = 0
_BYTES = 60000  # of a record; the reader's line is longer


def write(record, sync=False):
    """Appends a record; a log that cannot be written is not the program's trouble."""
    record["pid"] = os.getpid()
    record["time"] = time.time()
    try:
        data = _line(record)
        if len(data) > _BYTES:
            record = dict(record, locals={}, trace=record.get("trace", [])[-8:])
            data = _line(record)
        _append(data, sync)
    except Exception:
        pass


_ESCAPES = {i: "\\u%04x" % i for i in range(32)}
_ESCAPES.update({0: "?", ord('"'): '\\"', ord("\\"): "\\\\"})


def _json(value):
    """Its JSON. Not by json: a program may have a file of that name, which is not ours to import, nor to hide."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (_json(str(k)), _json(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(_json, value))
    return '"%s"' % str(value).translate(_ESCAPES)


def _line(record):
    """Bytes that any reader takes: half a surrogate pair, as file names may hold, is no text."""
    return _json(record).encode("utf-8", "replace") + b"\n"


def _append(data, sync=False):
    fd = os.open(_PATH, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def hello():
    """A Python has begun."""
    line = '{"k": "hello", "ppid": %d, "python": "%d.%d.%d", "pid": %d, "time": %.6f}\n'
    try:
        _append((line % ((os.getppid(),) + sys.version_info[:3] + (os.getpid(), time.time()))).encode())
    except OSError:
        pass


def own(error):
    """A mistake of the guard's own; the first ones are enough."""
    global _own
    _own += 1
    if _own <= _OWN:
        write({"k": "own", "what": "%s: %s" % (type(error).__name__, str(error)[:300])})


def guarded(function, *args):
    """function(*args), or None where it fails."""
    try:
        return function(*args)
    except Exception as error:
        own(error)
        return None


def never_raises(function):
    """For hooks: the same function, whose own failures go to the log."""
    def hook(*args, **names):
        try:
            return function(*args, **names)
        except Exception as error:
            own(error)
            return None
    return hook
