"""assay_facts.py: what Python source says, as JSON, for `assay contract`.

    assay_facts.py surface PATH|DIST    what a library offers
    assay_facts.py uses PATH|DIST       what a consumer does

PATH is a folder, a .py file, a wheel or an sdist; DIST the name of an installed distribution. Nothing of what is read
is imported or executed, nothing is unpacked to disk. One JSON object on stdout, one module a line; or one line
`assay_facts: WHAT: WHERE: found X, wanted Y` on stderr and exit 2 (3: an unfit python). This file is written so that an
old python can still say that it is too old.
"""
import sys

if sys.version_info < (3, 9):
    sys.stderr.write("assay_facts: start: %s: found python %d.%d, wanted 3.9 or newer\n"
                     % (sys.executable, sys.version_info[0], sys.version_info[1]))
    sys.exit(3)

sys.dont_write_bytecode = True
sys.path.insert(0, __file__.rpartition("/")[0] or ".")

import facts_main  # noqa: E402  (the path above leads to it)

sys.exit(facts_main.main(sys.argv[1:]))
