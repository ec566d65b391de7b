"""facts_main.py: the command line of assay_facts.py."""
import gc
import hashlib
import os
import sys
import threading
import warnings

from facts_error import Problems, Refusal, printable
from facts_installed import open_installed
from facts_library import Layout, add_namespaces, modules_of, whose
from facts_out import Writer
from facts_peek import Library
from facts_source import Unreadable, decoded, parsed_source
from facts_surface import empty_module, module_facts
from facts_tree import open_tree
from facts_uses import module_uses

EXTRACTOR = "1"
_KINDS = {"surface": "library", "uses": "consumer"}
_STACK_BYTES = 512 << 20  # for deep source under pythons whose parser does not count; touched only where needed


def find(path, problems):
    """(tree, name, version) of a PATH or DIST."""
    if os.path.lexists(path):
        try:
            return open_tree(path, problems), None, None
        except OSError as error:
            raise Refusal("open", path, error.strerror or str(error), "a readable input") from error
    found = open_installed(path, problems) if "/" not in path else None
    if found is None:
        raise Refusal("find", path, "no such file, and no installed distribution of that name",
                      "a folder, a .py file, a wheel, an sdist or a distribution")
    return found


class Run:
    """One run: reads module after module and writes what it says."""

    def __init__(self, mode, path, out):
        self.mode, self.path, self.problems = mode, path, Problems()
        self.tree, self.name, self.version = find(path, self.problems)
        self.layout = Layout(self.tree)
        self.modules = modules_of(self.layout, mode == "uses")
        if not self.modules:
            raise Refusal("find modules", path, "no Python files", "at least one")
        if mode == "surface":
            add_namespaces(self.modules)
        self.library = Library(self.tree, self.modules)
        self.writer = Writer(out, {"facts": 1, "kind": mode, "extractor": EXTRACTOR})
        self.digest = hashlib.sha256()

    def source(self, module):
        """(text, tree) of a module; its bytes go into the digest."""
        try:
            data = self.tree.read(module.path)
        except (ValueError, OSError) as error:
            raise Unreadable(0, getattr(error, "strerror", None) or str(error)) from error
        path = self.layout.import_path(module.path).encode("utf-8", "surrogateescape")
        self.digest.update(path + b"\0%d\0" % len(data) + data)
        text = decoded(data)
        return text, parsed_source(text)

    def facts(self, module):
        if module.kind in ("compiled", "namespace"):
            return empty_module(module)
        text, tree = self.source(module)
        if self.mode == "surface":
            return module_facts(tree, text, module, self.library)
        return module_uses(tree, text, module.path, self.problems)

    def module(self, module):
        try:
            facts = self.facts(module)
        except Unreadable as error:
            self.problems.add(module.path, error.line, error.what)
        except (RecursionError, MemoryError):
            self.problems.add(module.path, 0, "nested too deeply")
        except Refusal:
            raise
        except Exception as error:  # a mistake of ours costs one module, and is said
            what = "cannot be analysed: %s: %s" % (type(error).__name__, error)
            self.problems.add(module.path, 0, what)
        else:
            self.writer.module(module.name, facts)

    def all(self):
        for name in sorted(self.modules, key=lambda n: self.layout.import_path(self.modules[n].path)):
            if self.mode == "surface" or self.modules[name].kind == "source":
                self.module(self.modules[name])
        name, version = whose(self.layout, self.modules)
        about = {"name": self.name or name, "version": self.version or version,
                 "source": os.path.basename(os.path.abspath(self.path)), "sha256": self.digest.hexdigest()}
        self.writer.end({_KINDS[self.mode]: about, "problems": self.problems.rows})


def attempt(argv, result):
    """Runs in a thread of its own; result[0] is the exit status."""
    try:
        if len(argv) != 2 or argv[0] not in _KINDS or not argv[1]:
            raise Refusal("arguments", " ".join(argv) or "none", "%d words" % len(argv), "surface|uses PATH|DIST")
        Run(argv[0], argv[1], sys.stdout).all()
        result[0] = 0
    except Refusal as refusal:
        sys.stderr.write(refusal.line() + "\n")
    except (MemoryError, RecursionError):
        sys.stderr.write("assay_facts: read: %s: found no memory left, wanted more\n" % printable(argv[1]))
        result[0] = 3
    except OSError as error:  # a stream that is gone, a folder that goes away meanwhile
        sys.stderr.write(Refusal("read", argv[1], error.strerror or str(error), "a readable input").line() + "\n")
        result[0] = 3


def main(argv):
    warnings.simplefilter("ignore")
    gc.disable()  # syntax trees have no cycles, and the collector looks at all of them again and again
    result = [2]
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=attempt, args=(argv, result))
    thread.start()
    thread.join()
    return result[0]
