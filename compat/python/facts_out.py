"""facts_out.py: JSON that any reader takes: no lone surrogates, no NUL, no number past 64 bits."""
import json
import re

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode
_PAIR = r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}"
_ODD = re.compile(r"(\\\\|%s)|\\u0000|\\ud[89a-f][0-9a-f]{2}" % _PAIR)


def dumps(value):
    text = _encode(value)
    if "\\u0000" in text or "\\ud" in text:
        text = _ODD.sub(lambda m: m.group(1) or "\\ufffd", text)
    return text


class Writer:
    """One object on the stream; each module on a line of its own, written as soon as it is known."""

    def __init__(self, stream, head):
        self.stream = stream
        self.first = True
        stream.write(dumps(head)[:-1] + ',"modules":{')

    def module(self, name, facts):
        self.stream.write(("\n" if self.first else ",\n") + dumps(name) + ":" + dumps(facts))
        self.first = False

    def end(self, tail):
        self.stream.write("\n}," + dumps(tail)[1:] + "\n")
        self.stream.flush()
