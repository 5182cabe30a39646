"""Files of the chosen runs over HTTP, with Range, and nothing else.

An address is `wb-files/{store}/{run token}/{path in the run}`. The path must name a file of a run's own
folders with a known suffix; `..`, absolute paths, hidden files, and links that lead out of the run are
refused. When the server asks people to log in, so do these addresses.
"""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.web import Application, HTTPError

from workbench.app.store import Store
from workbench.errors import InputError

ROUTE = "wb-files"
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

_MOUNTED: weakref.WeakSet = weakref.WeakSet()
"""Application contexts whose server has the route; finding the server walks the heap, so once is enough."""


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


def address(store: Store, run: str, relative: str) -> str:
    """The address of a file, relative to the page, so that it holds behind any prefix or proxy."""
    return f"{ROUTE}/{store.token}/{store.runs[run].token}/{quote(relative)}"


def _handler() -> type:
    # Imported late: Panel's server is not needed (and slow to import) in notebooks and tests of this module.
    from panel.io.server import AuthenticatedStaticFileHandler

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

    return RunFileHandler


def patterns(prefix: str = "") -> list[tuple[str, Any]]:
    """Tornado routes, for `pn.serve(..., extra_patterns=patterns())`."""
    return [(rf"{re.escape(prefix)}/{ROUTE}/(.*)", _handler())]


def mount(store: Store, document: Any = None) -> bool:
    """Serve the store's files from the server that this session runs on; True when there is one.

    `panel serve` offers an app no way to add a route, so the server's Tornado application is looked up
    through the application context of the session, which it holds.
    """
    STORES[store.token] = store
    context = getattr(getattr(document, "session_context", None), "server_context", None)
    context = getattr(context, "application_context", None)
    if context is None:
        return False
    if context in _MOUNTED:
        return True
    server = _server_of(context)
    if server is None:
        return False
    if not getattr(server, "_workbench_files", False):
        server.add_handlers(r".*", patterns(getattr(server, "prefix", "") or ""))
        server._workbench_files = True
    _MOUNTED.add(context)
    return True


def _server_of(context: Any) -> Application | None:
    for table in gc.get_referrers(context):
        if not isinstance(table, dict):
            continue
        for owner in gc.get_referrers(table):
            if isinstance(owner, Application):
                return owner
            if isinstance(owner, dict):  # the instance's __dict__, on interpreters that show it
                found = next((each for each in gc.get_referrers(owner) if isinstance(each, Application)), None)
                if found is not None:
                    return found
    return None
