"""values.py: local variables as short texts that give no secret away and run no code of the program's."""
import re
import sys

TEXT = 160
ITEMS = 8
NAMES = 24
_SECRET = re.compile(r"passw|passphrase|secret|auth|credential|cookie", re.I)
_MAYBE = re.compile(r"key|token", re.I)  # also the names of ids and of dict keys: only texts are hidden
_ARRAYS = ("torch", "numpy", "jax", "jaxlib", "tensorflow", "cupy")
HIDDEN = "<hidden>"


def cut(text, most=TEXT):
    return text if len(text) <= most else text[:most] + "...(%d)" % len(text)


def _holds_text(value, depth=2):
    if type(value) in (int, float, bool, complex, type(None)):
        return False
    if type(value) in (list, tuple, set, frozenset) and depth and len(value) < 10000:
        return any(_holds_text(v, depth - 1) for v in value)
    return _array(value) is None


def hides(name, value):
    name = str(name) if type(name) is str else ""
    return bool(_SECRET.search(name)) or bool(_MAYBE.search(name)) and _holds_text(value)


def _array(value):
    """Type, shape and dtype of a tensor; None for what is none. Its values are never looked at."""
    kind = type(value)
    if (kind.__module__ or "").partition(".")[0] not in _ARRAYS:
        return None
    try:
        shape = tuple(int(n) for n in value.shape)
        return "%s(shape=%s, dtype=%s)" % (kind.__name__, list(shape), cut(str(value.dtype), 32))
    except Exception:
        return None


def _items(value, depth):
    shown = []
    for item in value:
        if len(shown) == ITEMS:
            shown.append("...(%d)" % len(value))
            break
        shown.append(show(item, depth - 1))
    return shown


def _pairs(value, depth):
    shown = []
    for key in value:
        if len(shown) == ITEMS:
            shown.append("...(%d)" % len(value))
            break
        item = HIDDEN if hides(key, value[key]) else show(value[key], depth - 1)
        shown.append("%s: %s" % (show(key, 0), item))
    return shown


def show(value, depth=2):
    """A bounded text of a value. Only the types of the language itself are looked into, and only by their exact type:
    a subclass may have a __repr__ or an __iter__ of its own."""
    kind = type(value)
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() < 400 else "<int of %d bits>" % value.bit_length()
    if kind in (str, bytes, bytearray):
        return repr(value[:TEXT]) + ("...(%d)" % len(value) if len(value) > TEXT else "")
    if kind in (list, tuple, set, frozenset):
        opening, closing = {list: "[]", tuple: "()"}.get(kind, "{}")
        return opening + (", ".join(_items(value, depth)) if depth else "...(%d)" % len(value)) + closing
    if kind is dict:
        return "{" + (", ".join(_pairs(value, depth)) if depth else "...(%d)" % len(value)) + "}"
    if kind.__module__ in ("pathlib", "pathlib._local") or kind.__module__ == "datetime":
        return cut(str(value))
    return _array(value) or "<%s.%s>" % (kind.__module__, kind.__qualname__)


def frame_locals(frame):
    """{name: text} of a frame's own variables."""
    module = frame.f_code.co_name == "<module>"
    shown = {}
    for name, value in list(frame.f_locals.items()):
        if len(shown) == NAMES:
            break
        if name.startswith("__") or module and type(value) in (type(sys), type, type(show), type(len)):
            continue
        try:
            shown[name] = HIDDEN if hides(name, value) else cut(show(value), 400)
        except Exception:
            shown[name] = "<unreadable>"
    return shown
