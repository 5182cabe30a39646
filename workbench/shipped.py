"""Where the authored data of the project lies: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from workbench.errors import InputError

_PACKAGE = Path(__file__).parent


def data_path(*parts: str) -> Path:
    """Path of a shipped data file or folder, such as data_path('judges', 'red_team.yaml')."""
    inside = _PACKAGE / "_data"
    root = inside if inside.is_dir() else _PACKAGE.parent / "data"
    return root.joinpath(*parts)


def read_yaml(path: Path) -> Any:
    """Read one YAML document.

    Raises
    ------
    InputError : naming the file, and the line where the parser gives one.
    """
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, where a YAML file is needed.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8."
        ) from None
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
