"""facts_suppress.py: comments `# assay: ignore[REASON]`."""
import io
import re
import tokenize

_COMMENT = re.compile(r"#.*?\bassay:\s*ignore\[([^\]]*)\]")


def suppressions(text):
    """line -> REASON, as written; of comments, not of strings that look like one."""
    if "assay:" not in text:
        return {}
    out = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                match = _COMMENT.search(token.string)
                if match:
                    out[token.start[0]] = match.group(1).strip()
    except (tokenize.TokenError, SyntaxError):
        pass
    return out
