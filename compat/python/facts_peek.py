"""facts_peek.py: what other modules of the same library say, read when it is asked for."""
from facts_exports import exports, star_sources
from facts_scope import Scope
from facts_source import Unreadable, decoded, parsed_source
from facts_wraps import verdicts

_DEPTH = 10  # re-exports that are followed


class _Seen:
    """The little that is kept of a module: names -> references, __all__, star sources, decorators that keep."""

    def __init__(self):
        self.names, self.all, self.stars, self.keeps = {}, None, [], {}


class Library:
    """`modules`: name -> facts_library.Module."""

    def __init__(self, tree, modules):
        self.tree, self.modules = tree, modules
        self.cache = {}

    def seen(self, name):
        """_Seen of a module; an empty one where it is none of ours or cannot be read."""
        if name not in self.cache:
            self.cache[name] = _Seen()  # also what a cycle of modules finds
            module = self.modules.get(name)
            if module is not None and module.kind in ("source", "stub"):
                self.look(module, self.cache[name])
        return self.cache[name]

    def look(self, module, seen):
        try:
            body = parsed_source(decoded(self.tree.again(module.path))).body
        except (Unreadable, ValueError, OSError):
            return
        scope = Scope(module.name, module.package, module.name + ":")
        scope.fill(body)
        seen.names = scope.names
        seen.stars = star_sources(body, scope)
        seen.keeps = verdicts(body, scope)
        seen.all = exports(body, scope, self.all_of)[1]

    def all_of(self, name):
        return self.seen(name).all

    def star_name(self, module, name, depth=0):
        """The reference of a name that `from module import *` gives, or None."""
        seen = self.seen(module)
        if depth > _DEPTH or (name not in seen.all if seen.all is not None else name.startswith("_")):
            return None
        if name in seen.names:
            return seen.names[name] or module + ":" + name
        for source in seen.stars:
            found = self.star_name(source, name, depth + 1)
            if found:
                return found
        return None

    def split(self, dotted):
        """(module, rest) of a dotted name, the longest module first; (None, dotted) for none of ours."""
        parts = dotted.split(".")
        for n in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:n])
            if name in self.modules:
                return name, ".".join(parts[n:])
        return None, dotted

    def keeps_signature(self, dotted, depth=0):
        """A decorator of this library keeps the signature of what it decorates; None: it is none of ours."""
        module, rest = self.split(dotted)
        if module is None or depth > _DEPTH:
            return None
        seen = self.seen(module)
        if rest in seen.keeps:
            return seen.keeps[rest]
        first, _, more = rest.partition(".")
        ref = seen.names.get(first)
        if ref is None:
            ref = next(filter(None, (self.star_name(source, first) for source in seen.stars)), None)
        if ref is None or ref == module + ":" + first:
            return False
        return self.keeps_signature(ref.replace(":", ".") + ("." + more if more else ""), depth + 1)
