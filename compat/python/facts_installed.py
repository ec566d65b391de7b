"""facts_installed.py: the files of an installed distribution, found by its metadata and never imported.

The python runs with -I -S: no .pth file of the installation is executed, so the folders are worked out here.
"""
import json
import os
import sys
import sysconfig
import urllib.parse

from facts_error import Refusal, printable
from facts_tree import Tree, folder_tree, read_file, wanted


def _environment():
    """(folder of the virtual environment, it sees the system's packages too) or (None, True)."""
    for folder in (os.path.dirname(sys.executable or ""), os.path.dirname(os.path.dirname(sys.executable or ""))):
        try:
            with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8", errors="replace") as stream:
                text = stream.read().lower().replace(" ", "")
            return folder, "include-system-site-packages=true" in text
        except OSError:
            continue
    return None, True


def search_paths():
    """Folders in which this python would look for installed packages, first first."""
    import site
    folder, system = _environment()
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if folder:
        base = {"base": folder, "platbase": folder}
        paths += [sysconfig.get_path(name, "posix_prefix", base) for name in ("purelib", "platlib")]
    if system:
        paths += [site.getusersitepackages()] + site.getsitepackages()
    return [p for p in dict.fromkeys(paths) if os.path.isdir(p)]


def _find(name):
    from importlib import metadata
    spellings = dict.fromkeys((name, name.replace("_", "-"), name.replace("-", "_"), name.replace(".", "-")))
    for spelling in spellings:
        for found in metadata.distributions(name=spelling, path=search_paths()):
            return found
    return None


def _editable(found):
    """The folder of a distribution that was installed in place, or None."""
    try:
        url = json.loads(found.read_text("direct_url.json") or "{}")
        if url.get("dir_info", {}).get("editable") and url["url"].startswith("file://"):
            return urllib.parse.unquote(urllib.parse.urlparse(url["url"]).path)
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    return None


def open_installed(name, problems):
    """(tree, name, version) of an installed distribution; None where there is none."""
    try:
        found = _find(name)
    except (OSError, ValueError) as error:
        raise Refusal("find distribution", name, printable(error), "readable metadata") from error
    if found is None:
        return None
    named, version = found.metadata["Name"], found.version
    base = os.path.realpath(str(found.locate_file("")))
    paths = []
    for file in found.files or []:
        path = str(file).replace("\\", "/")
        if not wanted(path) or path.startswith("/") or ".." in path.split("/") or ".dist-info/" in path:
            continue
        real = os.path.realpath(os.path.join(base, path))
        if real.startswith(base + "/"):
            paths.append(path)
        else:
            problems.add(path, 0, "a link out of the tree")
    folder = _editable(found)
    if folder and os.path.isdir(folder):
        return folder_tree(folder, problems), named, version
    if not any(p.endswith((".py", ".pyi")) for p in paths):
        raise Refusal("find distribution", name, "no Python files in the record of %s" % base, "a list of its files")
    return Tree(name, paths, lambda path: read_file(os.path.join(base, path)), base), named, version
