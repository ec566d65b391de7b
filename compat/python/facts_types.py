"""facts_types.py: annotations, and what a value shows of its own type."""
import ast

from facts_text import Text

_UNION, _OPTIONAL, _LITERAL, _ANNOTATED = "Union", "Optional", "Literal", "Annotated"
_TYPING = ("typing.", "typing_extensions.")
_PLAIN = {"List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set", "FrozenSet": "frozenset", "Type": "type",
          "Text": "str"}
VALUE_TEXT = 160  # characters; a longer value is not shown

_LITERAL_TYPES = {ast.List: "list", ast.ListComp: "list", ast.Dict: "dict", ast.DictComp: "dict", ast.Set: "set",
                  ast.SetComp: "set", ast.Tuple: "tuple", ast.JoinedStr: "str"}


class TypeText(Text):
    """Text of an annotation: strings unquoted, Optional and Union as `|`, typing.List as list, Annotated stripped."""

    def __init__(self, names):
        super().__init__(names)
        self.literal = 0

    def _Constant(self, node):
        if isinstance(node.value, str) and not self.literal:
            inner = parsed(node.value)
            if inner is not None:
                return self.of(inner), 8
        return super()._Constant(node)

    def _Name(self, node):
        return self._plain(super()._Name(node)[0]), 20

    def _Attribute(self, node):
        return self._plain(super()._Attribute(node)[0]), 20

    def _plain(self, text):
        word = typing_word(text)
        return _PLAIN.get(word, text) if word else text

    def _Subscript(self, node):
        word = typing_word(self.of(node.value, 16))
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if word == _OPTIONAL and len(items) == 1:
            return union([self.of(items[0], 9), "None"]), 8
        if word == _UNION:
            return union([self.of(i, 9) for i in items]), 8
        if word == _ANNOTATED and items:
            return self.of(items[0]), 8
        if word != _LITERAL:
            return super()._Subscript(node)
        self.literal += 1
        try:
            return super()._Subscript(node)
        finally:
            self.literal -= 1


def union(parts):
    return " | ".join(dict.fromkeys(parts))


def typing_word(text):
    """"Optional" for typing.Optional, or None."""
    for prefix in _TYPING:
        if text.startswith(prefix):
            return text[len(prefix):]
    return None


def parsed(text):
    """The expression of a quoted annotation, or None where it is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def type_text(node, scope):
    return TypeText(scope.dotted).of(node) if node is not None else None


def value_text(node, scope):
    text = Text(scope.dotted).of(node)
    return text if len(text) <= VALUE_TEXT else None


def literal_type(node):
    """The type of a literal, or None."""
    if isinstance(node, ast.Constant):
        return "None" if node.value is None else None if node.value is Ellipsis else type(node.value).__name__
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return "bool" if isinstance(node.op, ast.Not) else type(node.operand.value).__name__
    if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return "bool"
    return _LITERAL_TYPES.get(type(node))


def evidence(node, scope, params=None):
    """(type, callee): what a value shows of its type. `params`: name -> annotation text of the function around it.
    A call's type is not known from here, but what is called is."""
    if isinstance(node, ast.Name) and params and node.id in params:
        return params[node.id], None
    if isinstance(node, ast.Call):
        callee = scope.reference(node.func)
        dotted = callee.replace(":", ".") if callee else node.func.id if isinstance(node.func, ast.Name) else None
        if dotted and typing_word(dotted) == "cast" and len(node.args) == 2:
            return type_text(node.args[0], scope), None
        return None, dotted
    if isinstance(node, ast.IfExp):
        sides = [evidence(side, scope, params)[0] for side in (node.body, node.orelse)]
        return (union(sides), None) if all(sides) else (None, None)
    return literal_type(node), None
