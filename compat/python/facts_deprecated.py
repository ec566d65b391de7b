"""facts_deprecated.py: notices that something goes away: decorators, warnings in a body, docstrings."""
import ast
import re

from facts_flow import guarded, text_of
from facts_text import Text

NOTICE = 400  # characters of a notice that are kept
_CATEGORY = re.compile(r"(Deprecat\w*|FutureWarning)")
_GOES = re.compile(r"\bdeprecat|\b(?:will|to) be removed\b", re.I)
_LEADS = re.compile(r"[\W_]*deprecated\b", re.I)
_DIRECTIVE = re.compile(r"\.\. +deprecated::(.*?)(?:\n\s*\n|\Z)", re.S)


def squeezed(text):
    return " ".join(text.split())[:NOTICE]


def string_of(node, locals_=None):
    """The text of a string expression, of a local that holds one, of the argument of a call around one; or None."""
    if isinstance(node, ast.Constant):
        return squeezed(node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else "{" + Text().of(v.value) + "}" for v in node.values]
        return squeezed("".join(str(p) for p in parts))
    if isinstance(node, ast.BinOp):
        sides = [string_of(side, locals_) for side in (node.left, node.right)]
        return squeezed(sides[0] + " " + (sides[1] or "")) if sides[0] else None
    if isinstance(node, ast.Name) and locals_:
        return string_of(locals_.get(node.id))
    if isinstance(node, ast.Call) and node.args:
        return string_of(node.args[0], locals_)
    return None


def notice_of(call, locals_=None):
    """The text of a call that warns of a deprecation, or None."""
    if not isinstance(call, ast.Call) or not call.args:
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if not name.startswith("warn"):
        return None
    text = string_of(call.args[0], locals_)
    others = call.args[1:] + [k.value for k in call.keywords] + [getattr(call.args[0], "func", None)]
    category = any(_CATEGORY.search(Text().of(n)) for n in others if isinstance(n, (ast.Name, ast.Attribute)))
    if category:
        return text or "deprecated"
    return text if text and name != "warn" and _GOES.search(text) else None


def body_warnings(node):
    """[{"text", "when", "line"}] of a function's own statements."""
    out, locals_ = [], {}
    for inside, conditions in guarded(node.body):
        if isinstance(inside, ast.Assign) and isinstance(inside.targets[0], ast.Name):
            locals_[inside.targets[0].id] = inside.value
        call = inside.value if isinstance(inside, ast.Expr) else None
        text = notice_of(call, locals_)
        if text:
            out.append({"text": text, "when": text_of(conditions), "line": inside.lineno})
    return out


def decorator_notice(node):
    """The message of @deprecated("..."); not of decorators that speak of single arguments."""
    for decorator in node.decorator_list:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if "deprecat" not in name.lower() or re.search(r"arg|param", name.lower()):
            continue
        parts = decorator.args + [k.value for k in decorator.keywords] if isinstance(decorator, ast.Call) else []
        texts = [string_of(p) for p in parts]
        return squeezed(" ".join(t for t in texts if t)) or name
    return None


def notice_in(text):
    """The part of a docstring that says its subject is deprecated, or None. A docstring that mentions the word while it
    speaks of something else is none."""
    directive = _DIRECTIVE.search(text)
    if directive:
        return squeezed("deprecated " + directive.group(1))
    for paragraph in text.split("\n\n")[:3]:
        if _LEADS.match(paragraph):
            return squeezed(paragraph)
    first = squeezed(text.split("\n\n")[0])
    return first if re.search(r"\b(will|to) be removed (in|from|after|with)\b", first) else None


def field_notice(text):
    """The sentence of a field's docstring that says that it goes away; the field is all that it speaks of."""
    for sentence in re.split(r"(?<=[.!])\s+", squeezed(text)):
        if re.search(r"\b(will|to) be removed\b|\bis deprecated\b|\bdeprecated (since|in|and)\b", sentence, re.I) or \
                _LEADS.match(sentence):
            return sentence
    return None


def docstring(node):
    first = node.body[0] if node.body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def doc_notice(node):
    return notice_in(docstring(node))
