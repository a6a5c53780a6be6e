"""The API key: sent as a header, and replaced by ``***`` in all that a provider sends back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.entities import codepoint2name
from typing import Final

from pydantic import SecretStr

from holderlake.core.http import HttpResponse

_SHORTEST: Final = 8
"""A key of fewer characters could be a word of the data, so the body of a success keeps it."""


class ApiKey:
    """The key of one provider, which may be empty. Raises ``ValueError`` for a key that fits no HTTP header."""

    def __init__(self, key: str | SecretStr | None) -> None:
        text = (key.get_secret_value() if isinstance(key, SecretStr) else key or "").strip()
        if not (text.isascii() and text.isprintable()):
            raise ValueError(
                "the API key contains a character that is not allowed in an HTTP header, such as a line break or an "
                "accented letter: copy the key again"
            )
        self._secret = SecretStr(text)
        self._escaped = re.compile("".join(map(_escapes, text)).encode())

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that carry the key."""
        text = self._secret.get_secret_value()
        return {"X-ApiKey": text} if text else {}

    def redacted(self, text: str) -> str:
        """Return the text with ``***`` for the key: providers and proxies may repeat a request's headers."""
        return self._redacted(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def redacted_response(self, response: HttpResponse) -> HttpResponse:
        """Return the response with ``***`` for the key. Call this before anything is read of it or written."""
        headers = {name: self.redacted(value) for name, value in response.headers.items()}
        is_kept = 200 <= response.status < 300 and len(self._secret) < _SHORTEST
        content = response.content if is_kept else self._redacted(response.content)
        return HttpResponse(response.status, headers, content)

    def _redacted(self, raw: bytes) -> bytes:
        """Replace the key, of which each character may be escaped once or twice, for an address, JSON or HTML.

        Only bytes that begin an escape are searched for those, because that takes milliseconds for a map.
        """
        key = self._secret.get_secret_value().encode()
        if not key:
            return raw
        raw = raw.replace(key, b"***")
        return self._escaped.sub(b"***", raw) if any(mark in raw for mark in (b"\\", b"%", b"&")) else raw


def _escapes(letter: str) -> str:
    """Return a pattern of an ASCII character, plain or escaped. Each alternative begins with a fixed character."""
    code, itself = ord(letter), re.escape(letter)
    entity = rf"#0*{code}|#x0*{code:x}|{codepoint2name.get(code, 'none')}"
    forms = [itself, rf"\\\\{{0,2}}(?:u00{code:02x})", f"%(?:25)?{code:02x}", f"&(?:amp;)?(?:{entity});"]
    if not letter.isalnum():
        forms += [rf"\\\\{{0,2}}{itself}"]
    if letter == " ":
        forms += [r"\+"]
    return f"(?:{forms[0]}|(?i:{'|'.join(forms[1:])}))"
