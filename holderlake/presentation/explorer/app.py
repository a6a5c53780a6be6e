"""The explorer's web server on this machine: the files of the page, and its JSON routes under ``/api``.

``answers`` has their queries. A middleware allows known host names only, GET and HEAD only, no scripts of other
origins, and frames in the sites of the settings only.
"""

from __future__ import annotations

import ipaddress
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlencode

import uvicorn
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holderlake.core.contract import exact_json
from holderlake.core.contract.chains import explorer_pages, normalise_address, one_spelling
from holderlake.core.contract.times import parse_when
from holderlake.core.signals import until_stopped
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.engine.errors import UnusableStore
from holderlake.presentation.explorer import answers
from holderlake.presentation.explorer.published import Published, Reader
from holderlake.presentation.protocol import FirstRequestInTime

STATIC: Final = Path(__file__).with_name("static")
"""Folder of the page's HTML, CSS and JavaScript, built from ``web/``."""

_LONGEST: Final = Query(max_length=1_000)
_Text = Annotated[str, _LONGEST]
_Token = Annotated[str, _LONGEST, AfterValidator(normalise_address)]
_Addresses = Annotated[str, Query(max_length=10_000)]
_When = Annotated[datetime, Query(), BeforeValidator(parse_when)]

Links = Mapping[str, dict[str, str]]

routes = APIRouter(prefix="/api")
_POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {}; object-src 'none'"
HEADERS: Final = {
    "Content-Security-Policy": _POLICY.format("'none'"),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Security headers, added to every answer."""


def _headers_for(sites: Collection[str]) -> dict[str, str]:
    """Return the security headers of a page that ``sites`` (origins) may show in a frame."""
    if not sites:
        return HEADERS
    without_deny = {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"}
    return without_deny | {"Content-Security-Policy": _POLICY.format(" ".join(sites))}


_HEADER_BYTES: Final = 64 << 10
_NAMING_BYTES: Final = 8 << 10


@dataclass(frozen=True)
class PageOptions:
    """Options of the page.

    ``links`` has the pages of block explorers by kind (``address``, ``transaction``) and chain, with ``{value}`` in the
    place of the value; known chains have pages without them. ``sites`` are the origins that may show the page in a
    frame. ``rename`` stores the name (the second text) of an address, and removes it if it is empty; it raises
    ``UnusableStore`` if the store is locked, for example by an import. If it is None, the page only reads.
    """

    links: Links = field(default_factory=dict)
    sites: Collection[str] = ()
    rename: Callable[[str, str], None] | None = None


def create_app(warehouse: Warehouse, names: Collection[str] = (), options: PageOptions | None = None) -> FastAPI:
    """Return the explorer's app. It accepts requests for localhost, IP addresses and the host names ``names``."""
    options = options or PageOptions()
    published = Published(warehouse)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        published.close()

    app = FastAPI(
        openapi_url=None,  # this also disables the docs page, whose scripts are on other hosts
        lifespan=lifespan,
        middleware=[Middleware(Guard, names=names, options=options)],
    )
    app.state.published = published
    app.state.rename = options.rename
    kinds: tuple[Literal["address"], Literal["transaction"]] = ("address", "transaction")
    app.state.links = {kind: explorer_pages(kind) | options.links.get(kind, {}) for kind in kinds}
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(WarehouseError, _unavailable)
    app.add_exception_handler(UnusableStore, _not_stored)
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
def token_map(request: Request, chain: _Text, token: _Token, at: _When | None = None, add: _Addresses = "") -> Response:
    """Return a token's map as of ``at``, or the newest. ``add`` names more addresses, with commas between them."""
    return _answer(request, lambda reader: answers.token_map(reader, chain, token, at, _listed(chain, add)))


def _listed(chain: str, addresses: str) -> list[str]:
    return [one_spelling(chain, address.strip()) for address in addresses.split(",") if address.strip()]


@routes.get("/past")
def past(request: Request, chain: _Text, token: _Token) -> Response:
    """Return the nodes and links of all maps of a token, from which the page computes positions."""
    return _answer(request, lambda reader: answers.past(reader, chain, token))


@routes.get("/owners")
def owners(request: Request, chain: _Text, token: _Token, at: _When, add: _Addresses = "") -> Response:
    """Return what the map as of ``at`` has instead by owner, and the concentration. ``add`` is as in ``/map``."""
    return _answer(request, lambda reader: answers.owners(reader, chain, token, at, _listed(chain, add)))


@routes.get("/transfers")
def transfers(request: Request, chain: _Text, token: _Token, sender: _Token, receiver: _Token, at: _When) -> Response:
    """Return the newest transfers of a token from ``sender`` to ``receiver`` up to the instant ``at``."""
    return _answer(request, lambda reader: answers.transfers(reader, chain, token, (sender, receiver), at))


@routes.get("/counterparties")
def counterparties(request: Request, chain: _Text, token: _Token, address: _Token, at: _When) -> Response:
    """Return the wallets with the most transfers of a token from and to ``address`` up to the instant ``at``."""
    return _answer(request, lambda reader: answers.counterparties(reader, chain, token, address, at))


@routes.get("/periods")
def periods(request: Request, chain: _Text, token: _Token, address: _Token, at: _When) -> Response:
    """Return what ``address`` got and sent of a token in each month up to the instant ``at``."""
    return _answer(request, lambda reader: answers.periods(reader, chain, token, address, at))


@routes.get("/links")
def links(request: Request) -> Response:
    """Return the pages of block explorers by kind (``address``, ``transaction``) and chain, and ``can_rename``."""
    content = request.app.state.links | {"can_rename": request.app.state.rename is not None}
    return _json(content, headers={"Cache-Control": "no-cache"})


def _unicode(text: str) -> str:
    """Return the text. Raises ``ValueError`` if it has half of a surrogate pair, which no file can hold."""
    text.encode()
    return text


_Unicode = Annotated[str, AfterValidator(_unicode)]


class Naming(BaseModel):
    """The name that a person gives to an address."""

    model_config = ConfigDict(extra="forbid")

    address: Annotated[_Unicode, Field(min_length=1, max_length=1_000), AfterValidator(normalise_address)]
    name: Annotated[_Unicode, Field(max_length=200)]


@routes.post("/names", status_code=204)
def give_name(request: Request, naming: Naming) -> None:
    """Store the name of an address. An empty name removes it. The guard lets this pass only if names can be given."""
    request.app.state.rename(naming.address, naming.name.strip())


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
        answer = read(reader)
    return _json(answer, headers=_headers(reader.version))


def _headers(version: str) -> dict[str, str]:
    return {"Cache-Control": "no-cache", "ETag": f'"{version}-{answers.queries_hash()}"'}


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(exact_json.encode(content), status, headers, "application/json")


async def _invalid(_: Request, error: Exception) -> Response:
    # without the input, which may be large or half a character
    problems = [{"loc": each["loc"], "msg": each["msg"]} for each in cast(RequestValidationError, error).errors()]
    return _json({"detail": problems}, 422)


async def _unavailable(_: Request, error: Exception) -> Response:
    return _json({"detail": str(error)}, 503)


async def _not_stored(_: Request, error: Exception) -> Response:
    return _json({"detail": f"The name was not stored: {error}"}, 409)


class Guard:
    """Middleware that refuses requests for a host other than ``names``, ``localhost`` and IP addresses.

    The page of an attacker can make its own host name resolve to this machine (DNS rebinding), but not an IP address.
    So a request for an unknown host name may come from such a page.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], options: PageOptions) -> None:
        self._app = app
        self._can_write = options.rename is not None
        self._headers = _headers_for(options.sites)
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the app. Answer 421 for another host, and 405 for a request that may write."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        request = Request(scope)
        if not self._is_ours(request.headers.get("host", "")):
            text = "This page answers to localhost only; open it at the address that 'holderlake explore' prints."
            await PlainTextResponse(text, 421)(scope, receive, guarded)
        elif request.method not in ("GET", "HEAD") and not self._is_naming(request):
            await PlainTextResponse("This page is read-only.", 405, {"Allow": "GET, HEAD"})(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _is_naming(self, request: Request) -> bool:
        """Return whether a request gives a name, is allowed to, and comes from the page itself.

        A browser sends the origin with each POST, and asks first before another site sends JSON.
        """
        headers = request.headers
        return (
            self._can_write
            and (request.method, request.url.path) == ("POST", "/api/names")
            and headers.get("origin", "").partition("://")[2] == headers["host"]
            and headers.get("content-type") == "application/json"
            and int(headers.get("content-length") or _NAMING_BYTES + 1) <= _NAMING_BYTES
        )

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


def serve(
    warehouse: Warehouse,
    host: str,
    port: int,
    opening: bool,
    say: Callable[[str], None],
    options: PageOptions,
    view: Mapping[str, str] | None = None,
) -> None:
    """Serve the explorer's page until SIGTERM or Ctrl-C. Port 0 takes a free port.

    ``opening`` opens the page in the browser. ``say`` is called with a line that has the page's address. ``view``
    (chain, token, at, …) is what the page shows first. Raises ``WarehouseError`` if there is no warehouse, and
    ``ValueError`` if the port cannot be used.
    """
    warehouse.connect().close()
    listening = _listen(host, port)
    url_host = f"[{host}]" if ":" in host else host
    address = f"http://{url_host}:{listening.getsockname()[1]}/{f'?{urlencode(view)}' if view else ''}"
    access = "names can be given" if options.rename else "read-only"
    say(f"The explorer is at {address} ({access}; stop with Ctrl-C)")
    if opening:
        webbrowser.open(address)
    with until_stopped():
        uvicorn.Server(config_of(create_app(warehouse, [host], options))).run([listening])


def config_of(app: Starlette) -> uvicorn.Config:
    """Return the configuration of the server. A connection without a complete request is closed after that time."""
    return uvicorn.Config(
        app,
        http=FirstRequestInTime,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise ValueError(
            f"cannot listen on {host}, port {port}: {error.strerror}; use --port 0 for a free port"
        ) from error
