"""facts_text.py: expressions as text, the same under every python, with root names resolved.

ast.unparse differs between versions and knows no scope. Here `names` maps a root name to what it stands for.
"""
import ast

_BINARY = {ast.Add: ("+", 12), ast.Sub: ("-", 12), ast.Mult: ("*", 13), ast.Div: ("/", 13), ast.Mod: ("%", 13),
           ast.FloorDiv: ("//", 13), ast.MatMult: ("@", 13), ast.Pow: ("**", 15), ast.LShift: ("<<", 11),
           ast.RShift: (">>", 11), ast.BitAnd: ("&", 10), ast.BitXor: ("^", 9), ast.BitOr: ("|", 8)}
_UNARY = {ast.Not: ("not ", 6), ast.USub: ("-", 14), ast.UAdd: ("+", 14), ast.Invert: ("~", 14)}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
            ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
_ATOM = 20
DEPTH = 100  # nested deeper than this, an expression is shown as ...


def operator_text(op):
    return (_COMPARE.get(type(op)) or (_BINARY.get(type(op)) or _UNARY.get(type(op)) or ("?", 0))[0]).strip()


class Text:
    """`names(id)` gives the resolved dotted name, or None to keep the id."""

    def __init__(self, names=None):
        self.names = names or (lambda name: None)
        self.depth = 0

    def of(self, node, level=0):
        """Text of an expression; in parentheses where it binds looser than `level`."""
        if self.depth >= DEPTH:
            return "..."
        self.depth += 1
        try:
            text, own = getattr(self, "_" + type(node).__name__, self._other)(node)
        finally:
            self.depth -= 1
        return "(" + text + ")" if own < level else text

    def many(self, nodes):
        return ", ".join(self.of(n, 2) for n in nodes)

    def _other(self, node):
        return "<" + type(node).__name__.lower() + ">", _ATOM

    def _Name(self, node):
        return self.names(node.id) or node.id, _ATOM

    def _Constant(self, node):
        if node.value is Ellipsis:
            return "...", _ATOM
        try:
            return repr(node.value), _ATOM
        except ValueError:  # an integer of too many digits
            return "<int>", _ATOM

    def _Attribute(self, node):
        return self.of(node.value, 16) + "." + node.attr, _ATOM

    def _Call(self, node):
        parts = [self.of(a, 2) for a in node.args]
        parts += [(k.arg + "=" if k.arg else "**") + self.of(k.value, 2) for k in node.keywords]
        return self.of(node.func, 16) + "(" + ", ".join(parts) + ")", _ATOM

    def _Subscript(self, node):
        index = node.slice
        bare = isinstance(index, ast.Tuple) and index.elts
        return self.of(node.value, 16) + "[" + (self.many(index.elts) if bare else self.of(index)) + "]", _ATOM

    def _Slice(self, node):
        low, high = (self.of(n) if n else "" for n in (node.lower, node.upper))
        return low + ":" + high + (":" + self.of(node.step) if node.step else ""), _ATOM

    def _Starred(self, node):
        return "*" + self.of(node.value, 8), _ATOM

    def _Tuple(self, node):
        return "(" + self.many(node.elts) + ("," if len(node.elts) == 1 else "") + ")", _ATOM

    def _List(self, node):
        return "[" + self.many(node.elts) + "]", _ATOM

    def _Set(self, node):
        return "{" + self.many(node.elts) + "}", _ATOM

    def _Dict(self, node):
        parts = [(self.of(k, 2) + ": " if k else "**") + self.of(v, 2) for k, v in zip(node.keys, node.values)]
        return "{" + ", ".join(parts) + "}", _ATOM

    def _BinOp(self, node):
        sign, level = _BINARY[type(node.op)]
        return self.of(node.left, level) + " " + sign + " " + self.of(node.right, level + 1), level

    def _UnaryOp(self, node):
        sign, level = _UNARY[type(node.op)]
        return sign + self.of(node.operand, level), level

    def _BoolOp(self, node):
        word, level = (" and ", 5) if isinstance(node.op, ast.And) else (" or ", 4)
        return word.join(self.of(v, level + 1) for v in node.values), level

    def _Compare(self, node):
        text = self.of(node.left, 8)
        for op, right in zip(node.ops, node.comparators):
            text += " " + _COMPARE[type(op)] + " " + self.of(right, 8)
        return text, 7

    def _IfExp(self, node):
        return self.of(node.body, 4) + " if " + self.of(node.test, 4) + " else " + self.of(node.orelse, 3), 3

    def _Lambda(self, node):
        return "lambda " + ", ".join(a.arg for a in node.args.posonlyargs + node.args.args) + ": ...", 2

    def _Await(self, node):
        return "await " + self.of(node.value, 16), 15

    def _NamedExpr(self, node):
        return node.target.id + " := " + self.of(node.value, 3), 1

    def _JoinedStr(self, node):
        return "f" + repr("".join(self._piece(v) for v in node.values)), _ATOM

    def _piece(self, node):
        if isinstance(node, ast.Constant):
            return str(node.value)
        return "{" + self.of(node.value) + "}" if isinstance(node, ast.FormattedValue) else "{...}"

    def _comprehension(self, node, opening, closing, element):
        text = element
        for part in node.generators:
            text += " for " + self.of(part.target) + " in " + self.of(part.iter, 4)
            text += "".join(" if " + self.of(test, 4) for test in part.ifs)
        return opening + text + closing, _ATOM

    def _ListComp(self, node):
        return self._comprehension(node, "[", "]", self.of(node.elt, 2))

    def _SetComp(self, node):
        return self._comprehension(node, "{", "}", self.of(node.elt, 2))

    def _GeneratorExp(self, node):
        return self._comprehension(node, "(", ")", self.of(node.elt, 2))

    def _DictComp(self, node):
        return self._comprehension(node, "{", "}", self.of(node.key, 2) + ": " + self.of(node.value, 2))


def negated(text):
    """The text of a condition's opposite."""
    for this, that in ((" is not None", " is None"), (" is None", " is not None")):
        if text.endswith(this) and not any(w in text[:-len(this)] for w in (" ", "(")):
            return text[:-len(this)] + that
    if text.startswith("not ") and not any(w in text[4:] for w in (" ", "(")):
        return text[4:]
    plain = not any(c in text for c in " (")
    return "not " + text if plain else "not (" + text + ")"
