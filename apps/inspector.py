"""The inspector: `panel serve apps/inspector.py --args RUNS_FOLDER [MORE ...]`.

Without arguments the folders come from WORKBENCH_RUNS (separated as in PATH), else `runs`. With
`--basic-auth` or another of Panel's ways to log in, the audio and the files are behind it as well.
"""

import os
import sys

from workbench.app.opening import open_inspector

folders = sys.argv[1:] or os.environ.get("WORKBENCH_RUNS", "runs").split(os.pathsep)
page = open_inspector(folders)
page.servable(title="Duplex Workbench")
