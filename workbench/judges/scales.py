"""Types for a judge's answer: scores that are read or refused, never rescaled."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_NUMERAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class Answer(BaseModel):
    """Base of every judge's answer: all keys required, extra keys ignored, strings never coerced."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def Score(low: float, high: float, description: str) -> Any:
    """A number on the scale [low, high], as an annotated type for an answer's field.

    A number, or a string that is a plain numeral ('85.5'), is read as it stands. Everything else is
    refused: fractions, percentages, NaN, booleans, values off the scale. On a scale that reaches 10
    or more, a decimal above 0 and up to 1 (0.8, 1.0) is refused as well: it may be meant on a scale
    of 0 to 1, and neither reading can be known.
    """

    def read(value: Any) -> float:
        if isinstance(value, str):
            text = value.strip()
            if not _NUMERAL.fullmatch(text):
                raise ValueError(f"{text[:40]!r} is not a plain number")
            value = float(text) if "." in text else int(text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number is needed, not {type(value).__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a number on a scale")
        if not low <= value <= high:
            raise ValueError(f"{_short(value)} is outside {low:g} to {high:g}")
        if high >= 10 and isinstance(value, float) and 0 < value <= 1:
            raise ValueError(f"{value} may be meant on a scale of 0 to 1, so it can't be read on {low:g} to {high:g}")
        return float(value)

    bounds = {"type": "number", "minimum": low, "maximum": high}
    return Annotated[float, BeforeValidator(read), Field(description=description, json_schema_extra=bounds)]


def _short(value: float) -> str:
    text = str(value) if isinstance(value, float) or abs(value) < 10**20 else "a number of that size"
    return text[:40]
