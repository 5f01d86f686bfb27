"""The line of a TOML file that a key stands on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.diagnose.where import find_line, line_of_byte

RULE = '''\
# id = "not this one"
id = "a"
explanation = """
weight = 3
[when]
"""
weight = 70
[when]
all = [
    { fact = "a", as = "{" },
    { fact = "b",
      field_min = 3 },
]
none = [{ fact = "c", same = "host" }]

[[remedies]]
text = "one"

[[remedies]]
command = "two"
text = """
[[remedies]]
three"""

[[cases]]
name = "x"
fires = true
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("id", 2),
        ("explanation", 3),
        ("weight", 7),
        ("cause", 1),
        ("when", 8),
        ("when.all", 9),
        ("when.all[0]", 10),
        ("when.all[0].fact", 10),
        ("when.all[1].fact", 11),
        ("when.all[1].field_min", 12),
        ("when.none[0].same", 14),
        ("when.any", 8),
        ("remedies[0].text", 17),
        ("remedies[1]", 19),
        ("remedies[1].command", 20),
        ("remedies[1].versions", 19),
        ("cases[0].fires", 27),
        ("cases[4].fires", 1),
    ],
)
def test_line_of_a_key(path: str, line: int) -> None:
    assert find_line(RULE, path) == line


def test_lists_of_tables_with_heads_of_their_own() -> None:
    text = '[when]\n[[when.all]]\nfact = "a"\n[[when.all]]\nfact = "b"\n'
    assert [find_line(text, f"when.all[{number}].fact") for number in (0, 1)] == [3, 5]


def test_line_of_a_byte() -> None:
    assert [line_of_byte(b"a\nb\xff\n", offset) for offset in (0, 2, 3)] == [1, 2, 2]


@given(
    text=st.text(alphabet="ab[]{}=.,#\"'\\ \n"),
    path=st.sampled_from(["a", "a.b", "a[0].b", "a[1]", "b[0].a[1].b", "c"]),
)
def test_any_text_has_a_line(text: str, path: str) -> None:
    assert 1 <= find_line(text, path) <= text.count("\n") + 1
