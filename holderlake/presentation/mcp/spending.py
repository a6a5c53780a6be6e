"""Tools that would cost credits: they return a plan, and fetch only when called again with the plan's number."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, Field

from holderlake.presentation.mcp.sandbox import Refused

_MOST_SECONDS: Final = 3_600.0


class FetchPlan(BaseModel):
    """The most that a fetch of past instants would cost. Credits are in hundredths."""

    number: str = Field(description="Give it to fetch_planned, after the user has agreed to the cost.")
    calls: int
    credits_hundredths: int
    minutes: float
    finished: bool = Field(description="True if all data is there already.")
    month_left_hundredths: int | None
    left_out: list[dict[str, Any]]
    next_step: str


@dataclass(frozen=True)
class _Planned:
    arguments: tuple[str, ...]
    credits: int


class Spending:
    """Plans that this server made, by number. ``command`` starts Holderlake's command line.

    ``is_allowed`` is False unless the server was started with ``--allow-spending``.
    """

    def __init__(self, command: Sequence[str], is_allowed: bool) -> None:
        self._command = tuple(command)
        self.is_allowed = is_allowed
        self._plans: dict[str, _Planned] = {}

    async def plan(self, token: str, chain: str, since: str, until: str, every: str) -> FetchPlan:
        """Return the plan to fetch a token's instants from ``since`` to ``until``. It sends no request.

        Raises ``Refused`` if the command line refuses.
        """
        arguments = ("--chain", chain, "--token", token, "--from", since, "--to", until, "--every", every)
        return await self._plan(arguments)

    async def fetch(self, number: str) -> dict[str, Any]:
        """Fetch what the plan ``number`` says, within its credits. Return the report of the run.

        Raises ``Refused`` if spending is not allowed, the number is unknown, the plan costs more by now, or the run
        fails.
        """
        if not self.is_allowed:
            raise Refused("this server does not spend: its owner starts it with --allow-spending")
        planned = self._plans.get(number)
        if planned is None:
            raise Refused(f"there is no plan {number}: call plan_fetch first, and ask the user")
        now = await self._plan(planned.arguments)
        if now.credits_hundredths > planned.credits:
            raise Refused(f"the plan costs {_text(now.credits_hundredths)} credits by now: ask about {now.number}")
        del self._plans[number]  # a number spends once
        return await self._run("backfill", *planned.arguments, "--max-credits", _text(planned.credits))

    async def _plan(self, arguments: tuple[str, ...]) -> FetchPlan:
        plan = await self._run("plan", *arguments)
        credits = plan["credits_hundredths"]
        number = hashlib.sha256(repr((arguments, credits, plan["calls"])).encode()).hexdigest()[:12]
        self._plans[number] = _Planned(arguments, credits)
        step = f"ask the user, then call fetch_planned with {number}"
        return FetchPlan(
            number=number,
            calls=plan["calls"],
            credits_hundredths=credits,
            minutes=plan["minutes"],
            finished=plan["finished"],
            month_left_hundredths=plan["month_left_hundredths"],
            left_out=plan["left_out"],
            next_step=step if self.is_allowed else "this server does not spend; the user can run 'holderlake backfill'",
        )

    async def _run(self, *arguments: str) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            "--json",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), _MOST_SECONDS)
        except BaseException:
            process.terminate()
            await process.wait()
            raise
        if process.returncode:
            raise Refused((err.decode(errors="replace").strip() or out.decode(errors="replace").strip())[-1_000:])
        output: dict[str, Any] = json.loads(out)
        return output


def _text(credits: int) -> str:
    """Return credits, given in hundredths, as a decimal text."""
    return f"{credits // 100}.{credits % 100:02d}"
