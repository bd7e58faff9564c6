"""Reading one value: the fast reader gives what the standard library gives, or leaves the text to it."""

from __future__ import annotations

import json
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.store.scanning import ScanError, read_integer, read_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
NUMBERS = (
    "-0",
    "-0.0",
    "1e5",
    "1E400",
    "-1e400",
    "5e-324",
    "18446744073709551616",
    "1" * 30,
    "1" * 4300,
    "NaN",
    "-Infinity",
)
ODD = (*NUMBERS, '"\\ud800"', '"\\u0000"', '{"a":1,"a":2}', " 1 ", "[" * 900 + "]" * 900)
NO_JSON = ("", "[1,]", "01", "+1", "1.", ".5", '"a\tb"', "\ufeff1", "nul", "{'a': 1}", "[" * 100_000)


def slowly(text: str) -> str:
    """Return what the standard library alone reads, told apart to the type and the sign of zero."""
    return repr(json.JSONDecoder(parse_int=read_integer).decode(text))


class ReadValueTest(unittest.TestCase):
    """`read_value` against the standard library."""

    @settings(max_examples=300, deadline=None)
    @given(VALUES)
    def test_every_value_is_read_as_the_standard_library_reads_it(self, value: object) -> None:
        """Whatever JSON can say, NaN and lone surrogates included."""
        text = json.dumps(value)
        self.assertEqual(slowly(text), repr(read_value(text)))

    @settings(max_examples=300, deadline=None)
    @given(st.decimals(allow_nan=False, allow_infinity=False))
    def test_every_spelling_of_a_number_is_read_alike(self, number: object) -> None:
        """Digits are rounded the same way."""
        self.assertEqual(slowly(str(number)), repr(read_value(str(number))))

    def test_odd_texts_are_read_alike(self) -> None:
        """Where the fast reader refuses, the standard library takes over."""
        for text in ODD:
            with self.subTest(text[:30]):
                self.assertEqual(slowly(text), repr(read_value(text)))
        self.assertEqual(read_integer("1" * 5000), read_value("1" * 5000))

    def test_what_is_no_json_is_refused(self) -> None:
        """By both readers, with one kind of error."""
        for text in NO_JSON:
            with self.subTest(ascii(text[:30])), self.assertRaises(ScanError):
                read_value(text)


if __name__ == "__main__":
    unittest.main()
