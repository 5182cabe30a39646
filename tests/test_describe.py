from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from workbench.datasets import describe


class Window(BaseModel):
    start_s: float
    end_s: float

    @model_validator(mode="after")
    def _order(self):
        if self.end_s < self.start_s:
            raise ValueError("end_s is before start_s")
        return self


@pytest.mark.parametrize(
    "given, words",
    [
        ({"start_s": 2, "end_s": 1}, "end_s is before start_s"),
        ({"start_s": 2, "end_s": "x"}, "field 'end_s': "),
        ({"start_s": 2}, "field 'end_s' is missing"),
        ([], "an object is needed"),
    ],
)
def test_a_fault_of_the_whole_record_is_said_without_a_prefix(given, words):
    with pytest.raises(ValidationError) as caught:
        Window.model_validate(given)
    assert describe(caught.value).startswith(words)
