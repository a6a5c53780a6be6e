"""Text from untrusted sources, made safe to print on terminals, in logs and on pages."""

from __future__ import annotations


def printable(text: str, exempt: str = "") -> str:
    r"""Return the text with every character that is not printable written as an escape such as ``\x1b``.

    Not printable are control characters, escape sequences, line breaks, marks that change the direction of text, and
    halves of surrogate pairs. Characters in ``exempt`` are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in exempt else letter.encode("unicode_escape").decode()
        for letter in text
    )
