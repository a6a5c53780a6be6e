"""Screenshots: signed URLs of pictures, and the pictures that they return.

The URL of a picture needs no API key. It contains token and instant, so any process of the service can draw the picture
at any time. The signature in the URL (an HMAC) proves that the service issued it for a paid screenshot.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal
from urllib.parse import quote

from holderlake.core.contract.models import OneOfIntegers
from holderlake.core.contract.requests import MapOptions, ScreenshotRequest
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.queries.balances import supported_token
from holderlake.engine.store.store import Store
from holderlake.presentation.pictures.drawing.colours import Theme
from holderlake.service.api.answers import Answer, instant_of
from holderlake.service.cache import EncodedAnswer

PICTURES: Final = "/v0/x/pictures"
MEDIA_TYPES: Final = {"png": "image/png", "svg": "image/svg+xml"}

Form = Literal["png", "svg"]
Width = Annotated[Literal[600, 1200, 1600], OneOfIntegers]


@dataclass(frozen=True)
class Picture:
    """The content of a picture: a token's map as of an instant (unix seconds)."""

    chain: str
    token_address: str
    as_of: int

    def path(self, secret: bytes, form: Form = "png") -> str:
        """Return the path of the picture's URL, signed with ``secret``. The caller adds the service's base URL."""
        chain, address = quote(self.chain, safe=""), quote(self.token_address, safe="")
        return f"{PICTURES}/{chain}/{address}/{self.as_of}/{self.signature(secret)}.{form}"

    def signature(self, secret: bytes) -> str:
        """Return the HMAC of token and instant with the service's secret, as 32 hex digits."""
        text = f"picture {self.chain}/{self.token_address}/{self.as_of}"
        return hmac.digest(secret, text.encode(), "sha256")[:16].hex()

    def is_signed(self, signature: str, secret: bytes) -> bool:
        """Return whether ``signature`` is the one that the service makes for this picture."""
        return hmac.compare_digest(self.signature(secret).encode(), signature.encode())


def screenshot(store: Store, request: ScreenshotRequest, now: datetime, *, base_url: str, secret: bytes) -> Answer:
    """Return the answer to GET /v0/tokens/screenshot: the signed URL of a picture.

    ``secret`` signs the URL, which begins with the service's ``base_url``. The map is computed first, so that a token
    without a map gets its error here and not at the URL.
    """
    as_of, _ = instant_of(None, now)
    map_as_of(store, request.chain, request.token_address, as_of, MapOptions(), computed_at=now)
    path = Picture(request.chain, request.token_address, to_unix(as_of)).path(secret)
    plain = {"image_url": f"{base_url.rstrip('/')}{path}", "updated_at": f"{as_of.isoformat()}Z"}
    return Answer(lambda: plain, as_of=as_of)


def draw_picture(store: Store, picture: Picture, width: Width, theme: Theme, form: Form) -> EncodedAnswer:
    """Draw the picture and return it as an encoded answer: a PNG or SVG (``form``), ``width`` pixels wide.

    Raises ``EngineError`` if there is no map.
    """
    # imported here, because matplotlib and networkx take half a second
    from holderlake.presentation.pictures.drawing.draw import TokenTitle, draw_map  # noqa: PLC0415

    snapshot = store.snapshot()
    as_of = from_unix(picture.as_of)
    token = supported_token(snapshot, picture.chain, picture.token_address)
    tables = map_as_of(snapshot, token.chain, token.address, as_of, MapOptions(), computed_at=as_of)
    title = TokenTitle(token.name, token.symbol, token.chain, as_of)
    body = draw_map(tables, title, width=width, theme=theme, form=form)
    return EncodedAnswer(body, MEDIA_TYPES[form], picture.as_of, snapshot.generation())
