"""The version of the package, and of the scorer, which changes only when verdicts may."""

VERSION = "0.1.0"
SCORER = "1"
