"""Screenshots of maps. The URL of a picture is charged; the picture itself is free and needs no key."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from holderlake.core.contract.models import Address, ChainId, PlainInteger, Screenshot
from holderlake.core.contract.requests import ScreenshotRequest
from holderlake.presentation.pictures.drawing.colours import Theme
from holderlake.service.api.backend import BackendDependency
from holderlake.service.api.metering import MeterDependency, MeteredRoute
from holderlake.service.api.parameters import PathToken
from holderlake.service.api.screenshots import MEDIA_TYPES, PICTURES, Form, Picture, Width, draw_picture, screenshot
from holderlake.service.cache import matches
from holderlake.service.errors import ServiceError
from holderlake.service.output.openapi import ANY_REQUEST, described, error_responses, headers, invalid, unchanged

router = APIRouter(tags=["tokens"])
metered = APIRouter(tags=["tokens"], route_class=MeteredRoute)

_HEADERS = {
    "Cache-Control": "public, max-age=3600",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
_OF_ONE_TOKEN = ("unsupported_token", "no_holders", "unknown_token")
_IMAGE = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()}


@metered.get(
    "/v0/tokens/screenshot/{chain}/{token_address}",
    response_model=Screenshot,
    responses=described("screenshot", *_OF_ONE_TOKEN),
)
async def token_screenshot(token: PathToken, meter: MeterDependency) -> Response:
    """The URL of a picture of the token's current map: a PNG; the same path with `.svg` is an SVG."""
    base_url = meter.backend.settings.public_url or str(meter.http.base_url)
    request = ScreenshotRequest(chain=token.chain, token_address=token.address)
    compute = partial(screenshot, base_url=base_url, secret=meter.backend.keys.secret)
    return await meter.answer(request, compute, cacheable=True, vary_on=base_url)


async def _picture(
    chain: ChainId, token_address: Address, as_of: Annotated[int, Path(ge=0, le=253_402_300_799), PlainInteger]
) -> Picture:
    return Picture(chain, token_address, as_of)


@router.get(
    PICTURES + "/{chain}/{token_address}/{as_of}/{signature}.{form}",
    response_class=Response,
    responses={
        200: {"content": _IMAGE, "description": "The picture.", "headers": headers("X-Request-Id", "ETag")},
        **unchanged(),
        **error_responses("not_found", *_OF_ONE_TOKEN, *ANY_REQUEST),
        **invalid(),
    },
)
async def picture(
    request: Request,
    backend: BackendDependency,
    map_picture: Annotated[Picture, Depends(_picture)],
    signature: Annotated[str, Path(pattern="^[0-9a-f]{32}$")],
    form: Form,
    width: Annotated[Width, Query(description="Pixels; the height follows.")] = 1200,
    theme: Annotated[Theme, Query(description="Light or dark.")] = Theme.LIGHT,
) -> Response:
    """The picture at a URL that a screenshot returned. Needs no key."""
    if not map_picture.is_signed(signature, backend.keys.secret):
        raise ServiceError("not_found", "No picture has this URL: use 'image_url' of a screenshot")
    key = (map_picture, width, theme, form)
    answer = backend.cache.find(key)
    if answer is None:
        work = partial(draw_picture, backend.store, map_picture, width, theme, form)
        answer = await backend.workers.run(work, "pictures", key)
        backend.cache.keep(key, answer, None)
    headers = _HEADERS | {"ETag": answer.etag}
    if matches(request.headers.get("If-None-Match"), answer):
        return Response(status_code=304, headers=headers)
    return Response(answer.body, headers=headers, media_type=answer.media_type)
