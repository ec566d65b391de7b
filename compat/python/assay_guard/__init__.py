"""assay_guard: what `assay guard` puts into the Pythons of a command, through the environment alone. It sees exceptions
that a program loses and writes them to the guard's log; it prints nothing, and no mistake of its own reaches the
program.

Not covered: code given by -c or on standard input (its own handlers; what it imports is covered), modules without
source, Pythons started with -E, -I or -S, and what runs under exec() from a string."""


def start():
    """Installs all hooks; each failing alone."""
    from assay_guard import children, contract, log, lost, source, stacks
    log.hello()
    for install in (stacks.install, source.install, lost.install, children.install,
                    contract.install):
        log.guarded(install)
