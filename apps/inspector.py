"""The inspector: `panel serve apps/inspector.py --plugins workbench.app.files --args RUNS_FOLDER [MORE ...]`.

Without arguments the folders come from WORKBENCH_RUNS (separated as in PATH), else `runs`. With
`--basic-auth` or another of Panel's ways to log in, the audio and the files are behind it as well. Without
`--plugins` sound still plays, but whole recordings go through the page (see docs/inspector.md).
"""

import os
import sys

from workbench.app.shell import open_inspector

folders = sys.argv[1:] or os.environ.get("WORKBENCH_RUNS", "runs").split(os.pathsep)
open_inspector(folders).servable(title="Duplex Workbench")
