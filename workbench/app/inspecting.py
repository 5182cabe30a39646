"""Serving the inspector: `workbench inspect`, and in a notebook on a port of its own, in a frame of the cell.

A frame, since the page listens to keys (j, k, space ...) that JupyterLab uses too; within it they belong to
the inspector while it has the focus. Audio is served with Range as everywhere.
"""

from __future__ import annotations

import html
import os
import secrets
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.errors import InputError


class Inspector:
    """A running inspector. `url` opens it in a browser; `stop()` ends it."""

    def __init__(self, url: str, server: Any, height: int):
        self.url, self.height, self._server = url, height, server

    def stop(self) -> None:
        """Free the port; a frame that shows it goes dead."""
        self._server.stop()

    def _repr_html_(self) -> str:
        address = html.escape(self.url, quote=True)
        return (
            f'<iframe src="{address}" width="100%" height="{self.height}" style="border: 1px solid #8886" '
            f'allow="autoplay; clipboard-write"></iframe><div><a href="{address}" target="_blank" rel="noopener">'
            "open in a tab</a></div>"
        )

    def __repr__(self) -> str:
        return f"Inspector at {self.url}"


def serve(runs: Any, *, port: int, slug: str = "inspector", **options: Any) -> Any:
    """Serve the inspector with its files.

    Parameters
    ----------
    runs : a run, a path (of a run or a folder of runs), or several of them.
    slug : the page's name in its address.
    options : as `panel.serve` takes them, such as address, websocket_origin, basic_auth, show, threaded.

    Returns
    -------
    Panel's server, or its thread with threaded=True; otherwise only once the server was stopped.

    Raises
    ------
    InputError : not a folder, or a port that is taken.
    """
    import panel as pn

    from workbench.app.files import ROUTES
    from workbench.app.shell import open_inspector, store_of

    folders = folders_of(runs)
    store_of(folders)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((options.get("address") or "", port))
        except OSError as error:
            raise InputError(f"Port {port} cannot be used ({error.strerror}); give another.") from None
    if options.get("basic_auth"):
        options["cookie_secret"] = secrets.token_hex(32)
    return pn.serve({slug: lambda: open_inspector(folders)}, port=port, extra_patterns=ROUTES,
                    title="Duplex Workbench", **options)  # fmt: skip


def inspect(
    runs: Any, *, height: int = 900, port: int | None = None, base_url: str | None = None, **state: Any
) -> Inspector:
    """Open runs in the inspector; the last value of a notebook cell shows it.

    runs : as for `serve`. state : what to open, by the
    names of the workspace, such as view="sweep", case="R1_C2_i1_L1" or together=["a", "b"]. The server
    listens on this machine alone, under a name that cannot be guessed. Where the notebook runs on another
    machine, forward `port`, or give `base_url`, the address under which the browser reaches that port (by
    jupyter-server-proxy, say); a JupyterHub is taken to have this proxy.

    Raises
    ------
    InputError : not a folder, no such state, or a port that is taken.
    """
    from workbench.app.shell import store_of
    from workbench.app.workspace import Workspace, to_query

    workspace = Workspace(store_of(folders_of(runs)))
    try:
        workspace.param.update(**state)
    except (TypeError, ValueError) as error:
        raise InputError(f"The inspector cannot open that: {error}") from None
    chosen = port or _free_port()
    slug = f"inspector-{secrets.token_hex(8)}"
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    outside = (base_url or (f"{prefix}proxy/{chosen}" if prefix else f"http://localhost:{chosen}")).rstrip("/")
    # Behind a proxy the page's host is not known here; the name that cannot be guessed stands in for it.
    origins = ["*"] if base_url or prefix else [f"localhost:{chosen}", f"127.0.0.1:{chosen}"]
    server = serve(runs, port=chosen, slug=slug, address="127.0.0.1", websocket_origin=origins, threaded=True,
                   show=False, verbose=False)  # fmt: skip
    _await(chosen, server)
    return Inspector(f"{outside}/{slug}{to_query(workspace)}", server, height)


def folders_of(runs: Any) -> tuple[str, ...]:
    """The folders of runs, or of paths, one or several."""
    many = [runs] if hasattr(runs, "folder") or isinstance(runs, str | os.PathLike) else runs
    if not isinstance(many, Iterable):
        raise InputError(f"{runs!r} is neither a run nor a folder of runs.")
    found = tuple(str(Path(getattr(each, "folder", each)).resolve()) for each in many)
    if not found:
        raise InputError("There is no run to inspect; give a run or a folder of runs.")
    return found


def _await(port: int, server: Any, patience_s: float = 20.0) -> None:
    """The server starts in a thread of its own; a frame shown before it listens would stay empty."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with socket.socket() as visitor:
            if visitor.connect_ex(("127.0.0.1", port)) == 0:
                return
        if not server.is_alive():
            break
        time.sleep(0.05)
    raise InputError(f"The inspector did not start on port {port}; give another as port=.")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
