"""The errors a user can cause, kept apart from faults of the program.

Every message is a sentence that names the file, the value and the remedy. The command line prints
it and exits with code 2; it never shows a traceback for one of these.
"""

from __future__ import annotations

import errno

DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EROFS: "the file system can only be read",
}
"""Faults of the disk, which end a batch: every later case would meet them too."""


class InputError(ValueError):
    """Something the user supplied cannot be used; the message says what and how to mend it."""


class ProblemsFound(InputError):
    """Several independent problems; everything good was still processed.

    Attributes
    ----------
    problems : list of str, one sentence each.
    """

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        shown = "\n".join(f"- {problem}" for problem in self.problems)
        count = len(self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} found:\n{shown}")
