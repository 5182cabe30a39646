"""Files of the chosen runs over HTTP, with Range, and nothing else.

This module is a plugin of Panel's server: `ROUTES` is what `panel serve ... --plugins workbench.app.files` adds,
and `workbench inspect` passes on. An address is `wb-files/{store}/{run token}/{path in the run}`. The path
must name a file of a run's own folders with a known suffix; `..`, absolute paths, hidden files, and links that
lead out of the run are refused. When the server asks people to log in, so do these addresses.
"""

from __future__ import annotations

import re
from pathlib import Path

from panel.io.server import AuthenticatedStaticFileHandler
from tornado.web import HTTPError

from workbench.app.store import ROUTE, Store
from workbench.errors import InputError

TYPES = {
    ".wav": "audio/wav", ".flac": "audio/flac", ".json": "application/json", ".jsonl": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8", ".parquet": "application/octet-stream", ".txt": "text/plain; charset=utf-8",
    ".textgrid": "text/plain; charset=utf-8", ".rttm": "text/plain; charset=utf-8",
}  # fmt: skip
_FOLDERS = {"episodes", "scores", "spans", "judgements"}
_TOP = {"run.json", "cases.jsonl", "annotations.jsonl"}
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+ -]{0,199}")

STORES: dict[str, Store] = {}
"""Stores whose runs are served by this process, by token."""


def safe_path(folder: Path, relative: str) -> Path:
    """The file below a run folder that an address names.

    Raises
    ------
    InputError : the path is absolute, climbs, is hidden, has an unknown kind, leads out, or is no file.
    """
    parts = relative.split("/")
    if relative.startswith("/") or any(not _PART.fullmatch(part) or ".." in part for part in parts):
        raise InputError(f"{relative!r} is not a path inside a run; take the link from the inspector.")
    if Path(relative).suffix.lower() not in TYPES:
        raise InputError(f"{relative!r} is not of a kind that is served ({', '.join(TYPES)}).")
    if parts[0] not in (_FOLDERS if len(parts) > 1 else _TOP):
        raise InputError(f"{relative!r} is not a file of a run.")
    path = (folder / relative).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"{relative!r} leads out of the run's folder through a link.")
    if not path.is_file():
        raise InputError(f"{relative!r} does not exist in this run.")
    return path


class RunFileHandler(AuthenticatedStaticFileHandler):
    """Serves `safe_path` and lets Tornado do Range, ETag and 304."""

    def initialize(self) -> None:
        super().initialize(path="/")

    def parse_url_path(self, url_path: str) -> str:
        return url_path

    def get_absolute_path(self, root: str, path: str) -> str:
        token, _, rest = path.partition("/")
        run_token, _, relative = rest.partition("/")
        store = STORES.get(token)
        run = store.by_token(run_token) if store else None
        if run is None:
            raise HTTPError(404, reason="No such run is open here")
        try:
            return str(safe_path(run.folder, relative))
        except InputError:
            raise HTTPError(404, reason="Not a file of this run") from None

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        return absolute_path  # `safe_path` has checked it; Tornado's own check wants one fixed root

    def get_content_type(self) -> str:
        return TYPES.get(Path(self.absolute_path or "").suffix.lower(), "application/octet-stream")

    def set_extra_headers(self, path: str) -> None:
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "sandbox; default-src 'none'; media-src 'self'")
        self.set_header("Cache-Control", "private, no-cache")


ROUTES = [(rf"/{ROUTE}/(.*)", RunFileHandler, {})]
