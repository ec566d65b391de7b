"""facts_error.py: refusals, the list of what could not be read, and how much is read at most."""

# A real library is far below each; an archive made to exhaust us is not.
FILE_BYTES = 2 << 20
SOURCE_BYTES = 256 << 20
FILES = 200000
TAR_BYTES = 2 << 30
RATIO = 200  # of unpacked to packed bytes, asked of members past RATIO_FROM
RATIO_FROM = 1 << 20


class Refusal(Exception):
    """The whole input cannot be used: the four parts of one line."""

    def __init__(self, what, where, found, wanted):
        super().__init__(what)
        self.parts = (what, where, found, wanted)

    def line(self):
        return printable("assay_facts: %s: %s: found %s, wanted %s" % self.parts)


class Problems:
    """What is wrong with single files; the others are still read."""

    def __init__(self):
        self.rows = []

    def add(self, file, line, what):
        self.rows.append({"file": printable(file), "line": line or 0, "what": printable(what)})


def printable(text):
    """One line of text that any stream takes."""
    text = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else "?" for c in text)[:1000]
