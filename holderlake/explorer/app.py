"""The explorer's ASGI app: the files of the page, and its JSON routes under ``/api``. ``answers`` has their queries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator, BeforeValidator
from starlette.middleware import Middleware

from holderlake.contract.chains import explorer_pages, normalise_address
from holderlake.contract.times import parse_when
from holderlake.explorer import answers
from holderlake.explorer.guard import Guard
from holderlake.explorer.published import Published, Reader
from holderlake.warehouse.warehouse import Warehouse, WarehouseError

STATIC: Final = Path(__file__).with_name("static")
"""Folder of the page's HTML, CSS and JavaScript, built from ``web/``."""

_LONGEST: Final = Query(max_length=1_000)
_Text = Annotated[str, _LONGEST]
_Token = Annotated[str, _LONGEST, AfterValidator(normalise_address)]
_Addresses = Annotated[str, Query(max_length=10_000)]
_When = Annotated[datetime, Query(), BeforeValidator(parse_when)]

Links = Mapping[str, dict[str, str]]
_NO_LINKS: Final[Links] = {"address": {}, "transaction": {}}

routes = APIRouter(prefix="/api")


def create_app(warehouse: Warehouse, names: Collection[str] = (), links: Links = _NO_LINKS) -> FastAPI:
    """Return the explorer's app.

    It accepts requests for localhost, for IP addresses and for the host names ``names``. ``links`` has the pages of
    block explorers by kind (``address``, ``transaction``) and chain, with ``{value}`` in the place of the value. Known
    chains have pages without them.
    """
    published = Published(warehouse)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        published.close()

    app = FastAPI(
        openapi_url=None,  # this also disables the docs page, whose scripts are on other hosts
        lifespan=lifespan,
        middleware=[Middleware(Guard, names=names)],
    )
    app.state.published = published
    app.state.links = {
        "address": explorer_pages("address") | links["address"],
        "transaction": explorer_pages("transaction") | links["transaction"],
    }
    app.add_exception_handler(WarehouseError, _unavailable)
    app.include_router(routes)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


@routes.get("/tokens")
def tokens(request: Request, q: _Text = "") -> Response:
    """Return the tokens that contain all words of ``q``."""
    return _answer(request, lambda reader: answers.tokens(reader, q))


@routes.get("/history")
def history(request: Request, chain: _Text, token: _Token) -> Response:
    """Return a token's name, its instants with concentration figures, and its last failures."""
    return _answer(request, lambda reader: answers.history(reader, chain, token))


@routes.get("/map")
def token_map(request: Request, chain: _Text, token: _Token, at: _When, add: _Addresses = "") -> Response:
    """Return a token's map as of the instant ``at``. ``add`` names more addresses, with commas between them."""
    addresses = [normalise_address(address) for address in add.split(",") if address.strip()]
    return _answer(request, lambda reader: answers.token_map(reader, chain, token, at, addresses))


@routes.get("/past")
def past(request: Request, chain: _Text, token: _Token) -> Response:
    """Return the nodes and links of all maps of a token, from which the page computes positions."""
    return _answer(request, lambda reader: answers.past(reader, chain, token))


@routes.get("/transfers")
def transfers(request: Request, chain: _Text, token: _Token, sender: _Token, receiver: _Token, at: _When) -> Response:
    """Return the newest transfers of a token from ``sender`` to ``receiver`` up to the instant ``at``."""
    return _answer(request, lambda reader: answers.transfers(reader, chain, token, (sender, receiver), at))


@routes.get("/links")
def links(request: Request) -> Response:
    """Return the pages of block explorers: ``address`` and ``transaction``, by chain."""
    return JSONResponse(request.app.state.links, headers={"Cache-Control": "no-cache"})


@routes.get("/compare")
def compare(request: Request, chain: _Text, token: _Token, before: _When, after: _When) -> Response:
    """Return a token's holders at two instants, with their changes."""
    return _answer(request, lambda reader: answers.comparison(reader, chain, token, before, after))


@routes.get("/sources")
def sources(request: Request, chain: _Text, token: _Token, at: _When) -> Response:
    """Return the differences between sources about a token as of the instant ``at``."""
    return _answer(request, lambda reader: answers.sources(reader, chain, token, at))


def _answer(request: Request, read: Callable[[Reader], Any]) -> Response:
    """Return the result of ``read`` as JSON, or a 304 if the browser has the current answer.

    The ETag contains the versions of the warehouse file and of the SQL files.
    """
    published: Published = request.app.state.published
    if request.headers.get("if-none-match") == _headers(published.version())["ETag"]:
        return Response(status_code=304, headers=_headers(published.version()))
    with published.reader() as reader:
        body = msgspec.json.encode(read(reader))
    return Response(body, headers=_headers(reader.version), media_type="application/json")


def _headers(version: str) -> dict[str, str]:
    return {"Cache-Control": "no-cache", "ETag": f'"{version}-{answers.queries_hash()}"'}


async def _unavailable(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 503)
