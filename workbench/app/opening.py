"""Opening the inspector on folders of runs: one store a process, one page a session."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import panel as pn

from workbench.app import annotations
from workbench.app.look import TEXT_CSS
from workbench.app.shell import session
from workbench.app.store import Store
from workbench.errors import InputError
from workbench.pictures.texts import esc

_stores: dict[tuple[str, ...], Store] = {}
_lock = Lock()


def store_of(folders: Sequence[str]) -> Store:
    """The store of these folders, shared by all sessions of the process.

    Raises
    ------
    InputError : one of them is not a folder.
    """
    key = tuple(map(str, folders))
    with _lock:
        if key not in _stores:
            _stores[key] = Store(key, readers=[annotations.columns])
        return _stores[key]


def open_inspector(folders: Sequence[str]) -> Any:
    """The page of this session, or a sentence about why there is none."""
    try:
        return session(store_of(folders)).__panel__()
    except InputError as error:
        return pn.pane.HTML(f"<section>{esc(error)}</section>", stylesheets=[TEXT_CSS], margin=20)
