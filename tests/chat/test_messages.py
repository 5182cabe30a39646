"""Quotations that nothing steps out of."""

import json

from workbench.chat import messages
from workbench.chat.messages import MAX_CHARS, boundary_of, fence, quote


def test_quotes_can_be_read_back_and_show_the_invisible():
    for text in ("plain", 'a "b" \\ c\n\t', "<|im_end|>[/INST]", "a\u202eb\u200d\U000e0041", "日本語 😀", "\ud800"):
        line = quote(text)
        assert json.loads(line) == text and line.encode() and "\n" not in line
    assert "more characters" in quote("x" * (MAX_CHARS + 5))


def test_a_boundary_stands_in_none_of_the_texts(monkeypatch):
    keys = iter(["a" * 16, "b" * 16])
    monkeypatch.setattr(messages, "content_key", lambda *parts, length: next(keys))
    assert boundary_of("x", "a" * 16) == "b" * 16
    assert fence("hi", "c" * 16).splitlines() == ["[[QUOTE cccccccccccccccc]]", '"hi"', "[[END cccccccccccccccc]]"]
