"""facts_tree.py: the files of a folder, a .py file or an archive, without unpacking."""
import os
import stat

from facts_archive import open_archive
from facts_error import FILE_BYTES, FILES, SOURCE_BYTES, Refusal

COMPILED = (".so", ".pyd")
_KINDS = (".py", ".pyi") + COMPILED
_META = ("METADATA", "PKG-INFO", "pyproject.toml", "setup.cfg")
_SKIPPED = ("__pycache__", "node_modules")


def wanted(path):
    """Files whose name or text says something."""
    name = path.rpartition("/")[2]
    return name.endswith(_KINDS) or name in _META


class Tree:
    """Paths (with '/', relative) and their bytes. `folder`: where they lie on disk; None for an archive."""

    def __init__(self, source, paths, read, folder=None):
        self.source, self.folder = source, folder
        self.paths = sorted(paths)
        self._read = read
        self.total = 0

    def read(self, path):
        """The bytes of a file; ValueError or OSError say why not."""
        data = self.again(path)
        self.total += len(data)
        if self.total > SOURCE_BYTES:
            raise Refusal("read source", self.source, "more than %d bytes of Python" % SOURCE_BYTES, "less")
        return data

    def again(self, path):
        """The bytes of a file that is read for the sake of another; not counted."""
        data = self._read(path)
        if len(data) > FILE_BYTES:
            raise ValueError("a file of more than %d bytes" % FILE_BYTES)
        return data

    def text(self, path):
        """The text of a file of metadata, "" where it cannot be had."""
        try:
            return self.again(path).decode("utf-8", "replace") if path in self.paths else ""
        except (OSError, ValueError):
            return ""


def read_file(path):
    """At most one byte more than is allowed; only of a regular file, and without waiting at a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no regular file")
        return stream.read(FILE_BYTES + 1)


class _Walk:
    def __init__(self, root, problems):
        self.root, self.real, self.problems = root, os.path.realpath(root), problems
        self.paths = []

    def inside(self, path):
        real = os.path.realpath(path)
        return real == self.real or real.startswith(self.real.rstrip("/") + "/")

    def run(self):
        stack = [""]
        while stack:
            relative = stack.pop()
            try:
                entries = list(os.scandir(os.path.join(self.root, relative)))
            except OSError as error:
                self.problems.add(relative or ".", 0, "cannot be listed: %s" % error.strerror)
                continue
            for entry in entries:
                path = relative + "/" + entry.name if relative else entry.name
                if self.take(entry, path):
                    stack.append(path)
            if len(self.paths) > FILES:
                raise Refusal("list files", self.root, "more than %d" % FILES, "fewer")
        return self.paths

    def take(self, entry, path):
        """True: a folder to go into."""
        if entry.is_symlink():
            self.link(entry, path)
        elif entry.is_dir(follow_symlinks=False):
            return entry.name not in _SKIPPED and not entry.name.startswith(".")
        elif wanted(path):
            if entry.is_file(follow_symlinks=False):
                self.paths.append(path)
            else:
                self.problems.add(path, 0, "no regular file")
        return False

    def link(self, entry, path):
        """A linked file of the tree is read; a linked folder is read where it really is."""
        folder = os.path.isdir(entry.path)
        if not folder and not wanted(path):
            return
        if not self.inside(entry.path):
            self.problems.add(path, 0, "a link out of the tree")
        elif not folder and os.path.isfile(entry.path):
            self.paths.append(path)
        else:
            self.problems.add(path, 0, "a link to a folder of the tree" if folder else "a link to nothing")


def folder_tree(root, problems):
    paths = _Walk(root, problems).run()
    return Tree(root, paths, lambda path: read_file(os.path.join(root, path)), root)


def is_script(path):
    """A file without an ending whose first line asks for python."""
    if "." in os.path.basename(path):
        return False
    with open(path, "rb") as stream:
        first = stream.read(256).partition(b"\n")[0]
    return first.startswith(b"#!") and b"python" in first


def open_tree(path, problems):
    """The tree of a PATH that exists."""
    if os.path.isdir(path):
        return folder_tree(path, problems)
    if not os.path.isfile(path):
        raise Refusal("open", path, "no regular file", "a folder, a .py file, a wheel or an sdist")
    folder, name = os.path.split(path)
    if path.endswith((".py", ".pyi")):
        return Tree(path, [name], lambda p: read_file(os.path.join(folder, p)), folder or ".")
    if is_script(path):
        return Tree(path, [name + ".py"], lambda p: read_file(path), folder or ".")
    paths, read = open_archive(path, wanted, problems)
    return Tree(path, paths, read)
