"""sitecustomize.py: found first through PYTHONPATH in every Python below `assay guard`. Starts the guard and steps out
of the way: its folder leaves sys.path, and a sitecustomize of the user's own is run as if this one were not there.
Written so that any Python, however old, gets through it."""
import os
import sys


def _start():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        from importlib.util import module_from_spec, spec_from_file_location
        spec = spec_from_file_location("assay_guard", os.path.join(root, "__init__.py"),
                                       submodule_search_locations=[root])
        package = module_from_spec(spec)
        sys.modules["assay_guard"] = package
        spec.loader.exec_module(package)
        package.start()
    except Exception:  # the program runs as it would without a guard
        pass


def _chain():
    mine = sys.modules.pop("sitecustomize", None)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    try:
        import sitecustomize
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        if mine is not None:
            sys.modules.setdefault("sitecustomize", mine)


if sys.version_info >= (3, 9) and os.environ.get("ASSAY_GUARD_LOG"):
    _start()
_chain()
