"""source.py: which files are the user's, and how they come to be compiled with their handlers instrumented: whatever
goes through SourceFileLoader (imports, -m, editable installs), the main script, and the main script of a spawned
multiprocessing child."""
import importlib.machinery
import os
import re
import runpy
import sys

from assay_guard import log

# Quick: most files have nothing to instrument, and take their ordinary way with its cache.
BROAD = re.compile(rb"except\s*:|except\*?[ (][^:#\n]*(?:\n[^:#]*)?\b(?:Base)?Exception\b"
                    rb"|\bsuppress\b|\bfinally\s*:|\b__a?exit__\b")
_ALSO = [name for name in os.environ.get("ASSAY_GUARD_ALSO", "").split(":") if name]
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_AFTER = {}
GIVEN = ("<string>", "<stdin>")  # what -c and standard input are called


def after(name, patch):
    """Runs patch(module) when the module has been imported, or now."""
    if name in sys.modules:
        log.guarded(patch, sys.modules[name])
    else:
        _AFTER[name] = patch


def look_into(package):
    """As if named by --also; of a distribution's name, the package's is made."""
    _ALSO.append(package.replace("-", "_"))


def _named_also(path):
    rest = _INSTALLED.split(path)[-1].replace("\\", "/")
    return any(rest == name + ".py" or rest.startswith(name + "/") for name in
               (n.replace(".", "/") for n in _ALSO))


def is_users(path):
    if path.startswith("<"):
        return path in GIVEN
    path = os.path.abspath(path)
    if path.startswith(_OWN):
        return False
    if _INSTALLED.search(path):
        return _named_also(path)
    return not path.startswith(_STDLIB)


def is_package(path):
    """An installed package's, and not named by --also."""
    return bool(_INSTALLED.search(path)) and not _named_also(path) and not path.startswith(_OWN)


def to_instrument(data, path):
    return is_users(path) and bool(BROAD.search(data))


def instrument(data, path):
    """Code of a user's file, or None: take the ordinary way."""
    from assay_guard.instrument import instrumented
    if not to_instrument(data, path):
        return None
    try:
        return instrumented(data, path)
    except (SyntaxError, ValueError):
        return None
    except Exception as error:
        log.own(error)
        return None


def _as_importlib(function):
    """So that tracebacks leave its frame out, as they do with those of the import system."""
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


def _patch_loader():
    loader = importlib.machinery.SourceFileLoader
    plain_code, plain_exec = loader.get_code, loader.exec_module

    def get_code(self, fullname):
        code = None
        try:
            path = self.get_filename(fullname)
            if is_users(path):
                code = instrument(self.get_data(path), path)
        except Exception:
            pass
        return plain_code(self, fullname) if code is None else code

    def exec_module(self, module):
        plain_exec(self, module)
        patch = _AFTER.pop(module.__name__, None)
        if patch is not None:
            log.guarded(patch, module)

    loader.get_code, loader.exec_module = _as_importlib(get_code), _as_importlib(exec_module)


def _patch_runpy():
    """run_path(): the main script of a spawned child."""
    plain = runpy._get_code_from_file

    def get_code(*args):
        result = plain(*args)
        path = os.fspath(args[-1])
        try:
            with open(path, "rb") as file:
                code = instrument(file.read(), path)
        except OSError:
            code = None
        if code is None:
            return result
        return (code,) + result[1:] if isinstance(result, tuple) else code

    runpy._get_code_from_file = get_code


def install():
    # Now, while the script's own folder is not yet in sys.path.
    from assay_guard import instrument as _, main
    _patch_loader()
    _patch_runpy()
    main.install()
