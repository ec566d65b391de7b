"""main.py: the main script. The interpreter compiles it itself, before any import hook; but first it asks sys.path_hooks
whether the script's path is something to import __main__ from, as a folder or a zip file is. The answer here is yes,
once, for a plain script with a handler to instrument; what runs then finds its module as a plain start leaves it:
__file__, __spec__, __loader__, sys.argv, sys.path[0], and tracebacks that begin with the script's own frame."""
import builtins
import importlib.machinery
import os
import sys

from assay_guard import log, source

_OPTIONS_WITH_WORD = "WX"


def words():
    words = getattr(sys, "orig_argv", None)
    if words is None:
        with open("/proc/self/cmdline", "rb") as file:
            words = [os.fsdecode(w) for w in file.read().split(b"\0")[:-1]]
    return list(words[1:])


def asked(words):
    """What the interpreter was asked to run: ("script", path), ("command", None), ("module", None), ("stdin", None)."""
    while words:
        word = words.pop(0)
        if word == "--":
            return ("script", words[0]) if words else ("stdin", None)
        if word == "-":
            return "stdin", None
        if not word.startswith("-"):
            return "script", word
        if word.startswith("--check-hash"):
            words[:] = words[1:] if "=" not in word else words
            continue
        for at, letter in enumerate(word[1:], 1):
            if letter in "cm":
                return "command" if letter == "c" else "module", None
            if letter in _OPTIONS_WITH_WORD:
                if at + 1 == len(word):
                    words[:] = words[1:]
                break
    return "stdin", None


def trim_traces(code):
    """An error that ends the program is shown from the script's first frame on."""
    plain = sys.excepthook

    def hook(kind, error, tb):
        if sys.excepthook is hook:
            sys.excepthook = plain
        start = tb
        while start is not None and start.tb_frame.f_code is not code:
            start = start.tb_next
        if start is not None:
            tb = start
            error.__traceback__ = tb
        plain(kind, error, tb)

    sys.excepthook = hook


class _MainLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, path, code, hook):
        super().__init__("__main__", path)
        self.code, self.hook = code, hook

    def get_code(self, fullname):
        builtins.__assay_run__ = self.run
        return compile("__assay_run__(globals())", "<assay guard>", "exec")

    def run(self, names):
        del builtins.__assay_run__
        sys.path_hooks.remove(self.hook)
        loader = importlib.machinery.SourceFileLoader("__main__", self.path)
        names.update(__file__=self.path, __spec__=None, __package__=None, __cached__=None, __loader__=loader)
        folder = os.path.dirname(os.path.realpath(self.path))
        if sys.path and sys.path[0] == self.path:
            sys.path[:1] = [] if getattr(sys.flags, "safe_path", False) else [folder]
        try:
            exec(self.code, names)
        except SystemExit:
            raise
        except BaseException:
            log.guarded(trim_traces, self.code)
            raise


class _MainFinder:
    """Knows one module."""

    def __init__(self, loader):
        self.loader = loader

    def find_spec(self, name, target=None):
        if name != "__main__":
            return None
        spec = importlib.machinery.ModuleSpec(name, self.loader, origin=self.loader.path)
        spec.has_location = True
        sys.path_importer_cache.pop(self.loader.path, None)
        return spec


def _script(script):
    if not os.path.isfile(script):
        return
    with open(script, "rb") as file:
        data = file.read()
    where = script if os.path.isabs(script) else os.path.join(os.getcwd(), script)
    code = source.instrument(data, where)
    if code is None:
        return

    def hook(path):
        if os.path.abspath(path) != os.path.abspath(script):
            raise ImportError
        return _MainFinder(_MainLoader(path, code if path == where else source.instrument(data, path), hook))

    sys.path_hooks.insert(0, hook)


def install():
    kind, script = asked(words())
    if kind == "script":
        _script(script)
    elif kind in ("command", "stdin"):
        from assay_guard import command
        command.install(kind)
