"""The page and its JSON, as an ASGI app over a warehouse. What is asked of the warehouse stands in ``answers``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
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

from holderlake.contract.chains import normalise_address
from holderlake.contract.times import parse_when
from holderlake.explorer import answers
from holderlake.explorer.guard import Guard
from holderlake.explorer.published import Published, Question
from holderlake.warehouse.warehouse import Warehouse, WarehouseError

STATIC: Final = Path(__file__).with_name("static")
"""The page as it was built from ``page/``."""

_LONGEST: Final = Query(max_length=1_000)
_Text = Annotated[str, _LONGEST]
_Token = Annotated[str, _LONGEST, AfterValidator(normalise_address)]
_When = Annotated[datetime, Query(), BeforeValidator(parse_when)]

routes = APIRouter(prefix="/api")


def create_app(warehouse: Warehouse, names: Collection[str] = ()) -> FastAPI:
    """The app. It answers to localhost, to bare addresses, and to the host ``names``."""
    published = Published(warehouse)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        published.close()

    app = FastAPI(
        openapi_url=None,  # and so no docs page, whose scripts are elsewhere
        lifespan=lifespan,
        middleware=[Middleware(Guard, names=names)],
    )
    app.state.published = published
    app.add_exception_handler(WarehouseError, _unanswered)
    app.include_router(routes)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


@routes.get("/tokens")
def tokens(request: Request, q: _Text = "") -> Response:
    """Tokens to choose from."""
    return _answered(request, lambda question: answers.tokens(question, q))


@routes.get("/history")
def history(request: Request, chain: _Text, token: _Token) -> Response:
    """A token and its instants."""
    return _answered(request, lambda question: answers.history(question, chain, token))


@routes.get("/map")
def token_map(request: Request, chain: _Text, token: _Token, at: _When) -> Response:
    """One map."""
    return _answered(request, lambda question: answers.token_map(question, chain, token, at))


@routes.get("/compare")
def compare(request: Request, chain: _Text, token: _Token, before: _When, after: _When) -> Response:
    """Two instants beside each other."""
    return _answered(request, lambda question: answers.comparison(question, chain, token, before, after))


def _answered(request: Request, ask: Callable[[Question], Any]) -> Response:
    """As JSON, tagged with the versions of warehouse and question: what a browser has need not be sent again."""
    published: Published = request.app.state.published
    if request.headers.get("if-none-match") == _headers(published.version())["ETag"]:
        return Response(status_code=304, headers=_headers(published.version()))
    with published.question() as question:
        body = msgspec.json.encode(ask(question))
    return Response(body, headers=_headers(question.version), media_type="application/json")


def _headers(version: str) -> dict[str, str]:
    return {"Cache-Control": "no-cache", "ETag": f'"{version}-{answers.shape()}"'}


async def _unanswered(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 503)
