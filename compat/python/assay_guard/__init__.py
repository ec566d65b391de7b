"""assay_guard: what `assay guard` puts into the Pythons of a command, through the environment alone. It sees exceptions
that a program loses and writes them to the guard's log; it prints nothing, and no mistake of its own reaches the
program.

Not covered: modules without source, Pythons started with -E, -I or -S, what runs under exec() from a string, and what is
typed at a prompt (-i)."""

import os


def start():
    """Installs all hooks; each failing alone."""
    from assay_guard import children, contract, log, lost, source, stacks, workers
    log.hello()
    for part in (stacks, source, lost, workers, children, contract):
        log.guarded(part.install)
    if os.environ.get("ASSAY_GUARD_DEEP"):
        from assay_guard import deep
        log.guarded(deep.install)
