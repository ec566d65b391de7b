"""command.py: code given by -c or on standard input. The interpreter compiles it itself and asks nobody; but just before, it
raises an audit event. The hook of that event runs the code instead, instrumented, and ends by SystemExit(0): the
interpreter then leaves its own copy alone and exits as it would at the end of it. Code with nothing to instrument, and
code that does not compile, is the interpreter's own to run."""
import os
import sys

from assay_guard import log, main, source

_EVENTS = {"command": "cpython.run_command", "stdin": "cpython.run_stdin"}
_PART = 1 << 20


def _give_back(data):
    """Standard input as it was before it was read to its end."""
    file = os.memfd_create("stdin")
    for at in range(0, len(data), _PART):
        os.write(file, data[at:at + _PART])
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)


def _from_stdin():
    """The instrumented code of a program that stands on standard input, or None."""
    if os.isatty(0):
        return None
    try:
        start = os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        start = None
    parts = []
    while not parts or parts[-1]:
        parts.append(os.read(0, _PART))
    data = b"".join(parts)
    code = source.instrument(data, "<stdin>")
    if code is None and start is not None:
        os.lseek(0, start, os.SEEK_SET)
    elif code is None:
        try:
            _give_back(data)
        except OSError:
            return compile(data, "<stdin>", "exec", dont_inherit=True)
    return code


def _show_lines(code, text):
    """From 3.13 on, traces show the lines of a command."""
    import linecache
    register = getattr(linecache, "_register_code", None)
    if register is not None:
        register(code if hasattr(linecache, "_interactive_cache") else "<string>", text, "<string>")


def _run(code):
    try:
        exec(code, sys.modules["__main__"].__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        log.guarded(main.trim_traces, code)
        if isinstance(error, KeyboardInterrupt):
            # Through code that is compiled where it is run, the interpreter notes it: it will end by the signal.
            exec("raise error", {"error": error})
        raise
    raise SystemExit(0)


def install(kind):
    """A hook cannot be taken away again: none is set where there is nothing to run."""
    if sys.flags.inspect or sys.flags.interactive or os.environ.get("PYTHONINSPECT"):
        return
    if kind == "command" and not source.BROAD.search(os.fsencode("\0".join(main.words()))):
        return
    waiting = [_EVENTS[kind]]

    def hook(event, args):
        if not waiting or event != waiting[0]:
            return
        waiting.clear()
        if kind == "command":
            code = log.guarded(source.instrument, args[0].encode("utf-8", "surrogateescape"), "<string>")
        else:
            code = log.guarded(_from_stdin)
        if code is not None:
            if kind == "command" and sys.version_info >= (3, 13):
                log.guarded(_show_lines, code, args[0])
            _run(code)

    hook.__cantrace__ = True  # what it runs is the program
    sys.addaudithook(hook)
