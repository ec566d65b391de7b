"""facts_source.py: the bytes of a file as text and syntax tree, whatever is in it."""
import ast
import codecs
import io
import re
import sys
import tokenize

from facts_error import printable

# Text encodings that a coding line may name. Others are codecs with a life of their own (punycode, unicode_escape).
_CODINGS = re.compile(r"utf-8(-sig)?|ascii|latin-1|iso-?8859-\d+|cp\d+|mac-\w+|koi8-[ru]|gbk|gb2312|gb18030|big5|"
                      r"shift_jis|euc[_-](jp|kr)")


class Unreadable(Exception):
    """Why one file cannot be used, and the line."""

    def __init__(self, line, what):
        super().__init__(what)
        self.line, self.what = line, what


def decoded(data):
    """The text of a source file by its coding line or byte order mark, utf-8 without."""
    try:
        coding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        name = codecs.lookup(coding).name
    except (SyntaxError, LookupError, ValueError) as error:
        try:
            data.decode("utf-8")
        except ValueError:
            coding = name = "utf-8"
        else:
            raise Unreadable(1, "no coding that is known: %s" % printable(error)) from error
    if not _CODINGS.fullmatch(name):
        raise Unreadable(1, "the coding %s is not read" % printable(coding))
    try:
        text = data.decode(coding)
    except ValueError as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise Unreadable(line, "not %s, which it is by its coding line or for the lack of one" % coding) from error
    if "\0" in text:
        raise Unreadable(text.count("\n", 0, text.index("\0")) + 1, "a NUL byte")
    return text


def parsed_source(text):
    """The syntax tree of a module."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        what = "syntax error: %s (read by python %d.%d)" % (printable(error.msg), *sys.version_info[:2])
        raise Unreadable(error.lineno or 0, what) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable(0, "nested too deeply") from error
    except ValueError as error:
        raise Unreadable(0, printable(error)) from error
