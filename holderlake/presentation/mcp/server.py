"""The MCP server: tools, resources and prompts over the warehouse, and pictures of maps from its rows.

It runs over standard input and output, or over HTTP on this machine.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import select
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import uvicorn
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.core.contract.text import printable
from holderlake.core.signals import handling, until_stopped
from holderlake.core.units import counted
from holderlake.core.warehouse.schema import quoted
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.presentation.export.token_history import Period, token_history
from holderlake.presentation.mcp import questions
from holderlake.presentation.mcp.answers import UNTRUSTED, Answer, answer_question
from holderlake.presentation.mcp.questions import token_condition
from holderlake.presentation.mcp.sandbox import Bounds, Refused, Sandbox
from holderlake.presentation.mcp.spending import FetchPlan, Spending

INSTRUCTIONS: Final = f"""
Answers about who holds tokens, from a warehouse of past instants. Tools read only.
Name a token by its symbol or its address. Instants are UTC, such as 2026-06-01 or 2026-06-01T12:00.
Every answer has its SQL, the instants of its rows (as_of), when they were received (fetched_at), the coverage of the
data and its known problems. Tell the user the instant of each figure, and every warning.
Amounts are exact decimal text; shares are parts of the total supply, 0 to 1.
For questions without a tool of their own: describe_tables, then query. The resource holderlake://docs/questions.md has
twenty questions with their SQL.
{UNTRUSTED}
""".strip()
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_PAGES: Final = ("questions", "sql", "tables", "entities", "engine", "glossary", "alerts", "backfills")

T = TypeVar("T")
Token = Annotated[str, Field(description="Symbol or address of the token", min_length=1, max_length=200)]
Instant = Annotated[str, Field(description="Instant in UTC, such as 2026-06-01", min_length=4, max_length=40)]
Chain = Annotated[str | None, Field(description="Chain, if the token is on several", max_length=40)]
Top = Annotated[int, Field(ge=1, le=1_000)]
Rows = Annotated[int, Field(ge=1, le=1_000, description="Maximum rows of the answer")]
_PICTURE_WIDTH: Final = 900
_HOST: Final = "127.0.0.1"
_TOKEN_VARIABLE: Final = "HOLDERLAKE_MCP_TOKEN"  # noqa: S105 - the name of a variable
_INPUT_BYTES: Final = 1 << 16
_COMMAND: Final = (sys.executable, "-m", "holderlake.cli.main")


class Description(BaseModel):
    """The description of a table, view or macro."""

    name: str
    description: str | None
    columns: list[list[Any]] = Field(description="Name, type and meaning of each column")


class _StrictServer(MCPServer[Any]):  # type: ignore[misc] # the types of the extra mcp are not checked
    """A server that refuses arguments which a tool does not have, instead of ignoring them."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        for tool in await self.list_tools():
            unknown = sorted(arguments.keys() - tool.input_schema["properties"].keys()) if tool.name == name else []
            if unknown:
                listed = ", ".join(tool.input_schema["properties"]) or "none"
                raise ToolError(f"{name} has no argument {printable(', '.join(unknown))}; its arguments are: {listed}")
        return await super().call_tool(name, arguments, context)


def make_server(warehouse: Warehouse, spending: Spending, bounds: Bounds | None = None) -> MCPServer[Any]:
    """Return the server of a warehouse."""
    server = _StrictServer("holderlake", instructions=INSTRUCTIONS, log_level="WARNING")
    sandbox = Sandbox(warehouse.path, bounds)
    _add_queries(server, sandbox)
    _add_tables(server, sandbox)
    _add_pictures(server, warehouse)
    _add_spending(server, spending)
    _add_resources(server)
    _add_prompts(server)
    return server


def protected(app: ASGIApp, token: str) -> ASGIApp:
    """Return an application that answers 401 to HTTP requests without ``Authorization: Bearer <token>``."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(authorization, expected):
                refusal = PlainTextResponse("The token is missing or wrong.", 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


def _add_queries(server: MCPServer[Any], sandbox: Sandbox) -> None:
    """Add the tools that answer questions with rows."""

    async def is_stored(token: str, chain: str | None) -> bool:
        return bool((await _or_error(partial(sandbox.ask_once, questions.is_stored(token, chain)))).rows)

    async def ask(sql: str, rows: int | None = None, token: str | None = None, at: Sequence[str] = ()) -> Answer:
        return await _or_error(partial(answer_question, sandbox, sql, rows, token, at))

    async def query(sql: Annotated[str, Field(max_length=20_000)], rows: Rows = 200) -> Answer:
        """Run one SELECT (DuckDB's SQL) on the warehouse. Rows, bytes, seconds and memory are bounded."""
        return await ask(sql, rows)

    async def find_tokens(text: Token) -> Answer:
        """Find tokens by a part of their symbol, name or address, with the instants of their maps."""
        return await ask(questions.find_tokens(text))

    async def holders_as_of(token: Token, at: Instant, chain: Chain = None, top: Top = 20) -> Answer:
        """The largest holders of a token: all count at the end of the instant, or the newest list (see basis)."""
        if await is_stored(token, chain):
            return await ask(questions.all_holders_as_of(token, at, chain, top), None, token)
        return await ask(questions.holders_as_of(token, at, chain, top), None, token, [at])

    async def concentration_by_period(
        token: Token, each: Literal["day", "week", "month"], first_day: Instant, last_day: Instant, chain: Chain = None
    ) -> Answer:
        """Shares of the largest, Gini index, Nakamoto coefficient by period, of all holders or of lists (see basis)."""
        return await ask(questions.concentration_by_period(token, each, first_day, last_day, chain), None, token)

    async def changes_between(
        token: Token, before: Instant, after: Instant, chain: Chain = None, rows: Rows = 50
    ) -> Answer:
        """Holders that entered, left, grew or shrank between two instants; the largest change of share first."""
        if await is_stored(token, chain):
            return await ask(questions.all_changes_between(token, before, after, chain), rows, token)
        return await ask(questions.changes_between(token, before, after, chain), rows, token, [before, after])

    async def clusters_as_of(token: Token, at: Instant, chain: Chain = None, rows: Rows = 200) -> Answer:
        """The clusters of a token's map as of an instant, with members and shares."""
        return await ask(questions.clusters_as_of(token, at, chain), rows, token, [at])

    async def cluster_reasons(
        token: Token, cluster: Annotated[int, Field(ge=1)], at: Instant, chain: Chain = None, rows: Rows = 100
    ) -> Answer:
        """Why a cluster is one: the transfers between its members, and their use of exchanges at the same time."""
        return await ask(questions.cluster_reasons(token, cluster, at, chain), rows, token, [at])

    async def cluster_history(token: Token, rows: Rows = 200) -> Answer:
        """The clusters of a token through time: births, deaths, merges, splits, and their shares."""
        return await ask(questions.cluster_history(token), rows, token)

    async def concentration_history(
        token: Token, since: Instant | None = None, until: Instant | None = None, chain: Chain = None, rows: Rows = 500
    ) -> Answer:
        """Score, Gini index, shares of the top 10, clusters and exchanges, at each map of a token."""
        sql = questions.concentration_history(token, since, until, chain)
        return await ask(sql, rows, token, [until] if until else [])

    async def address_history(address: Annotated[str, Field(max_length=200)], rows: Rows = 200) -> Answer:
        """Every token that an address held, at each instant, with rank, share, cluster and name."""
        return await ask(questions.address_history(address), rows)

    async def owners_as_of(token: Token, at: Instant, chain: Chain = None, top: Top = 20) -> Answer:
        """The largest owners of a token: wallets that probably have one owner are one row. It needs an own store."""
        if await is_stored(token, chain):
            return await ask(questions.all_owners_as_of(token, at, chain, top), None, token)
        return await ask(questions.owners_as_of(token, at, chain, top), None, token, [at])

    async def transfers_between(
        a: Annotated[str, Field(max_length=200)], b: Annotated[str, Field(max_length=200)], rows: Rows = 100
    ) -> Answer:
        """Transfers between two addresses with their hashes, newest first. It needs an own store."""
        return await ask(questions.transfers_between(a, b), rows)

    async def data_quality(
        token: Token | None = None, severity: questions.Problem | None = None, rows: Rows = 200
    ) -> Answer:
        """Known problems of the data: gaps, failures, contradictions, negative balances, the end of the source."""
        return await ask(questions.data_quality(token, severity), rows, token)

    for tool in (
        query,
        find_tokens,
        holders_as_of,
        concentration_by_period,
        changes_between,
        clusters_as_of,
        cluster_reasons,
        cluster_history,
        concentration_history,
        address_history,
        owners_as_of,
        transfers_between,
        data_quality,
    ):
        server.add_tool(tool, annotations=_READS)


def _add_tables(server: MCPServer[Any], sandbox: Sandbox) -> None:
    """Add the tools that describe tables, views and macros."""

    async def list_tables() -> list[list[Any]]:
        """All tables, views and macros: name, kind and what a row is."""
        return (await _or_error(partial(sandbox.ask, questions.TABLES))).rows

    async def describe_tables(names: Annotated[list[str], Field(min_length=1, max_length=20)]) -> list[Description]:
        """Description, example query and columns of tables, views and macros (without their parentheses)."""
        descriptions = []
        for name in names:
            comments = (await _or_error(partial(sandbox.ask, questions.described(name)))).rows
            if not comments:
                raise ToolError(f"there is no table, view or macro {name!r}: list_tables has all")
            columns = (await _or_error(partial(sandbox.ask, questions.columns_of(name)))).rows
            descriptions.append(Description(name=name, description=comments[0][0], columns=columns))
        return descriptions

    for tool in (
        list_tables,
        describe_tables,
    ):
        server.add_tool(tool, annotations=_READS)


def _add_pictures(server: MCPServer[Any], warehouse: Warehouse) -> None:
    """Add the tool that draws maps."""

    async def map_as_picture(token: Token, at: Instant, chain: Chain = None) -> list[Any]:
        """The bubble map of a token as of an instant, as a picture."""
        draw = partial(asyncio.to_thread, map_picture, warehouse, token, at, chain)
        picture, sentence = await _or_error(draw)
        return [sentence, Image(data=picture, format="png")]

    server.add_tool(map_as_picture, annotations=_READS, structured_output=False)


def _add_spending(server: MCPServer[Any], spending: Spending) -> None:
    """Add the tools for data that is not in the warehouse yet; the one that spends only if that is allowed."""

    async def plan_fetch(
        token: Token,
        chain: Annotated[str, Field(min_length=1, max_length=40)],
        since: Instant,
        until: Instant,
        every: Annotated[str, Field(pattern=r"^\d+[hdw]$", description="Time between instants: 12h, 1d, 1w")] = "1w",
    ) -> FetchPlan:
        """What it would cost to fetch past instants of a token that the warehouse lacks. It sends no request."""
        return await _or_error(partial(spending.plan, token, chain, since, until, every))

    async def fetch_planned(number: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]) -> dict[str, Any]:
        """Fetch what a plan says, and spend its credits. Call it only after the user agreed to the plan's cost."""
        return await _or_error(partial(spending.fetch, number))

    server.add_tool(plan_fetch, annotations=_READS)
    if spending.is_allowed:
        server.add_tool(fetch_planned, annotations=_SPENDS)


def _add_resources(server: MCPServer[Any]) -> None:
    """Add the pages of the docs."""
    docs = _docs()
    for path in [*(docs / f"{page}.md" for page in _PAGES), *sorted((docs / "sql").glob("*.md"))]:
        page = path.relative_to(docs).with_suffix("").as_posix()
        if path.exists():
            title = path.read_text("utf-8").partition("\n")[0].lstrip("# ")
            server.add_resource(
                FunctionResource(
                    uri=f"holderlake://docs/{page}.md",
                    name=page,
                    title=title,
                    description=f"A page of the docs: {title}",
                    mime_type="text/markdown",
                    fn=path.read_text,
                )
            )


def _docs() -> Path:
    """Return the folder of the docs: in the installed package, or in the checkout."""
    packed = Path(str(files("holderlake.presentation.mcp"))) / "docs"
    return packed if packed.exists() else Path(__file__).parents[3] / "docs"


def _add_prompts(server: MCPServer[Any]) -> None:
    """Add prompts for common tasks."""

    def token_report(token: str) -> str:
        """A short report on who holds a token."""
        return (
            f"Report on the holders of {token}. Use find_tokens, holders_as_of, clusters_as_of and "
            "concentration_history. Give the instant of each figure, and end with the known problems of the data."
        )

    def what_changed(token: str, before: str, after: str) -> str:
        """What changed among a token's holders between two instants."""
        return (
            f"What changed among the holders of {token} between {before} and {after}? Use changes_between and "
            "cluster_history. Name the largest buyers and sellers, and say which lists were compared."
        )

    def explain_cluster(token: str, cluster: str, at: str) -> str:
        """Why the members of a cluster belong together."""
        return (
            f"Explain cluster {cluster} of {token} as of {at}: its members (clusters_as_of) and the transfers that "
            "connect them (cluster_reasons). Say how sure the evidence is; a cluster is no proof of one owner."
        )

    def can_i_trust(token: str) -> str:
        """Whether the data about a token can be trusted."""
        return f"Can the data about {token} be trusted? Use data_quality and find_tokens; list gaps, errors and ages."

    for prompt in (token_report, what_changed, explain_cluster, can_i_trust):
        server.add_prompt(Prompt.from_function(prompt))


async def _or_error(ask: Callable[[], Awaitable[T]]) -> T:
    """Return what ``ask`` returns. Raises ``ToolError``, which the assistant reads, if it is refused."""
    try:
        return await ask()
    except (Refused, ValueError) as error:
        raise ToolError(str(error)) from error


def map_picture(warehouse: Warehouse, token: str, at: str, chain: str | None) -> tuple[bytes, str]:
    """Return the bubble map of a token as of an instant as PNG, and a sentence about it.

    Raises ``Refused`` if there is no map, or if it is unclear which one.
    """
    from holderlake.presentation.pictures.drawing.draw import (  # noqa: PLC0415 - a second that only pictures need
        Theme,
        TokenTitle,
        draw_map,
    )

    try:
        condition = token_condition(token, chain)
        sql = f"SELECT chain, token_address, timestamp FROM maps_as_of({quoted(at)}) WHERE {condition}"
        maps = warehouse.query(sql).to_pylist()
    except WarehouseError as error:
        raise Refused(str(error)) from error
    if not maps:
        raise Refused(f"there is no map of {token} at or before {at}")
    if len(maps) > 1:
        raise Refused(f"{token} is on {', '.join(sorted(row['chain'] for row in maps))}: name the chain")
    chain, address, timestamp = maps[0].values()
    with token_history(warehouse, Period(chain, address, timestamp, timestamp)) as history:
        tables, names = history.map_at(timestamp), history.ask("token").to_pylist()[0]
    title = TokenTitle(printable(names["name"] or ""), printable(names["symbol"] or ""), chain, timestamp)
    picture = draw_map(tables, title, width=_PICTURE_WIDTH, theme=Theme.LIGHT, form="png")
    clusters = counted(tables["clusters"].num_rows, "cluster")
    return picture, f"Map of {address} on {chain} as of {timestamp:%Y-%m-%d %H:%M} UTC: {clusters}."


def serve(warehouse: Warehouse, http: bool, port: int, allow_spending: bool, say: Callable[[str], None]) -> None:
    """Serve the warehouse until the client leaves, SIGTERM or Ctrl-C.

    Over HTTP, clients need a token: that of the variable ``HOLDERLAKE_MCP_TOKEN``, or a new one. ``say`` is called with
    lines for the user. Raises ``WarehouseError`` if there is no warehouse, and ``ValueError`` if the port is taken.
    """
    warehouse.connect().close()
    server = make_server(warehouse, Spending(_COMMAND, allow_spending))
    if not http:
        with _input_until_stopped():
            server.run("stdio")
        return
    token = os.environ.get(_TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as error:
        raise ValueError(f"cannot listen on port {port}: {error.strerror}; use --port 0 for a free port") from error
    say(f"The MCP server is at http://{_HOST}:{listening.getsockname()[1]}/mcp (stop with Ctrl-C)")
    if _TOKEN_VARIABLE not in os.environ:
        say(f"Its token is {token}; set {_TOKEN_VARIABLE} to choose one")
    app = protected(server.streamable_http_app(host=_HOST), token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    with until_stopped():
        uvicorn.Server(config).run([listening])


@contextmanager
def _input_until_stopped() -> Iterator[None]:
    """In the ``with`` block, end standard input on SIGTERM or Ctrl-C, as if the client had left.

    The server waits for a line in a thread, which no signal and no cancellation interrupts. So its input is a pipe that
    another thread fills from the client's.
    """
    if sys.platform == "win32":  # 'select' works with sockets only
        with until_stopped():
            yield
        return
    client, (reading, writing), (stopped, stop) = os.dup(0), os.pipe(), os.pipe()
    os.dup2(reading, 0)
    os.close(reading)

    def copy() -> None:
        with open(writing, "wb", buffering=0) as to:  # noqa: PTH123 - a descriptor, not a path
            while stopped not in select.select([client, stopped], [], [])[0]:
                lines = os.read(client, _INPUT_BYTES)
                if not lines:
                    break
                to.write(lines)

    threading.Thread(target=copy, name="input", daemon=True).start()
    with handling(lambda number, frame: os.write(stop, b"!")):
        yield
