"""facts_library.py: which modules a tree holds, what they are called, and whose they are."""
import os
import re

from facts_tree import COMPILED

_PROJECT = ("pyproject.toml", "setup.cfg", "PKG-INFO")
# Folders beside the package of a source tree, which nobody installs.
_BESIDE = ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "build", "dist",
           "tools", "scripts", "ci", "csrc")
_NOT_MODULES = ("setup", "conftest", "noxfile", "tasks")


class Module:
    """One module: dotted name, path in the tree, and "source", "stub", "compiled" or "namespace"."""

    def __init__(self, name, path, package, kind="source"):
        self.name, self.path, self.package, self.kind = name, path, package, kind


class Layout:
    """Where names start. `top`: folders stripped from every path ("pkg-1.0/"); `root`: the import root below it ("src/"
    or ""); `prefix`: what stands before the first part of a name ("vllm." where the tree is the package itself)."""

    def __init__(self, tree):
        self.tree = tree
        self.top = self._top()
        below = [p[len(self.top):] for p in tree.paths if p.startswith(self.top)]
        self.project = any(name in below for name in _PROJECT)
        self.prefix = self._prefix(below)
        source = [p for p in below if p.startswith("src/") and p.endswith(".py")]
        self.root = "src/" if source and not self.prefix and "src/__init__.py" not in below else ""
        self.packages = {p.split("/")[0] for p in below if p.count("/") == 1 and p.endswith("/__init__.py")}

    def _top(self):
        """The one folder of an sdist, "NAME-VERSION/"."""
        tops = {p.split("/")[0] for p in self.tree.paths}
        if self.tree.folder is not None or len(tops) != 1:
            return ""
        top = tops.pop() + "/"
        return top if any(top + name in self.tree.paths for name in _PROJECT) else ""

    def _prefix(self, below):
        """The packages that the folder on disk lies in, itself among them."""
        folder, parts = self.tree.folder, []
        if folder is None or ("__init__.py" not in below and len(below) != 1):
            return ""
        folder = os.path.realpath(folder)
        while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder):
            parts.append(os.path.basename(folder))
            folder = os.path.dirname(folder)
        return "".join(p + "." for p in reversed(parts))

    def import_path(self, path):
        """The path below the import root, the same for a folder, a wheel and an installation of one library."""
        path = path[len(self.top):]
        if self.root and path.startswith(self.root):
            path = path[len(self.root):]
        head, _, rest = path.partition(".data/")
        if rest and "/" not in head:
            path = rest.partition("/")[2]
        return self.prefix.replace(".", "/") + path

    def offered(self, path):
        """A library offers this file: not a test, example or script that lies beside the package."""
        path = path[len(self.top):]
        if not self.project or self.prefix:
            return True
        if self.root:
            return path.startswith(self.root)
        first = path.split("/")[0]
        others = self.packages - set(_BESIDE)
        if "/" not in path:
            return first.partition(".")[0] not in _NOT_MODULES
        return first in others or (not others and first not in _BESIDE)


def _named(parts, base):
    """The dotted name of a file; `base` is its name without suffix."""
    return ".".join(parts if base == "__init__" else parts + [base])


def modules_of(layout, everything):
    """name -> Module. `everything`: scripts and tests too (a consumer's). Source goes before stub before compiled."""
    out = {}
    rank = {"source": 0, "stub": 1, "compiled": 2}
    for path in layout.tree.paths:
        kind = "source" if path.endswith(".py") else "stub" if path.endswith(".pyi") else "compiled"
        if not path.endswith((".py", ".pyi") + COMPILED) or not (everything or layout.offered(path)):
            continue
        folders = layout.import_path(path).split("/")
        base = folders.pop()
        base = base.split(".")[0] if kind == "compiled" else base.rpartition(".")[0]
        name = _named(folders, base)
        if any("-" in f or "." in f for f in folders) and not everything:
            continue
        if name and (name not in out or rank[kind] < rank[out[name].kind]):
            out[name] = Module(name, path, base == "__init__", kind)
    return out


def add_namespaces(modules):
    """Packages without a file of their own."""
    for name in list(modules):
        path = modules[name].path
        while "." in name and "/" in path:
            name, path = name.rpartition(".")[0], path.rpartition("/")[0]
            modules.setdefault(name, Module(name, path, True, "namespace"))


_HEADER = re.compile(r"^(Name|Version):[ \t]*(\S+)", re.M | re.I)
_PAIR = re.compile(r"^(name|version)[ \t]*=[ \t]*[\"']?([^\"'\s#]+)", re.M)
_VERSION = re.compile(r"^__version__\b[^#\n]*=[ \t]*[\"']([^\"'\n]+)[\"']", re.M)


def _headers(text, pattern):
    pairs = {}
    for match in pattern.finditer(text):
        pairs.setdefault(match.group(1).lower(), match.group(2))
    return pairs.get("name"), pairs.get("version")


def _section(text, name):
    """The lines of one [section] of a .toml or .cfg file."""
    _, found, rest = ("\n" + text).partition("\n[" + name + "]")
    return re.split(r"^\[", rest, maxsplit=1, flags=re.M)[0] if found else ""


def _beside(layout):
    """METADATA of the installation that a package folder belongs to, "" where it cannot be told."""
    folder, package = layout.tree.folder, layout.prefix.split(".")[0]
    if not folder or not package:
        return ""
    folder = os.path.realpath(folder)
    for _ in layout.prefix.rstrip(".").split("."):
        folder = os.path.dirname(folder)
    from facts_tree import read_file
    for entry in sorted(os.listdir(folder)):
        same = entry.partition("-")[0].lower().replace(".", "_") == package.lower()
        if same and entry.endswith((".dist-info", ".egg-info")):
            for name in ("METADATA", "PKG-INFO"):
                try:
                    return read_file(os.path.join(folder, entry, name)).decode("utf-8", "replace")
                except (OSError, ValueError):
                    continue
    return ""


def whose(layout, modules):
    """(name, version) as the metadata says; the version also as a literal __version__; None where nothing says it."""
    tree, name, version = layout.tree, None, None
    meta = [p for p in tree.paths if p.endswith((".dist-info/METADATA", ".egg-info/PKG-INFO"))
            and p[len(layout.top):].count("/") <= 2]
    texts = [tree.text(p) for p in [layout.top + "PKG-INFO"] + (meta if len(meta) == 1 else [])] + [_beside(layout)]
    for text in texts:
        found = _headers(text.partition("\n\n")[0], _HEADER)
        name, version = name or found[0], version or found[1]
    for file, section in (("pyproject.toml", "project"), ("setup.cfg", "metadata")):
        found = _headers(_section(tree.text(layout.top + file), section), _PAIR)
        name, version = name or found[0], version or (found[1] if found[1] and ":" not in found[1] else None)
    tops = sorted(m.name for m in modules.values() if "." not in m.name and m.kind != "compiled")
    if name is None and len(tops) == 1:
        name = tops[0]
    for top in tops if version is None else []:
        if len(tops) == 1 or top == (name or "").replace("-", "_"):
            for module in (top + ".version", top + "._version", top + ".__version__", top):
                match = _VERSION.search(tree.text(modules[module].path)) if module in modules else None
                version = version or (match.group(1) if match else None)
    return name, version
