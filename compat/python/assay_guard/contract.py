"""contract.py: the contract, where one was given: see replies.py."""
import os


def install():
    path = os.environ.get("ASSAY_GUARD_CONTRACT", "")
    if path:
        from assay_guard import replies
        replies.install(path)
