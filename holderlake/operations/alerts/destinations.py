"""Destinations of alerts: the log, and a webhook. ``destinations_of`` returns those of the settings.

A message to the webhook has id, time and signature in headers as in the Standard Webhooks specification. The webhook's
address may contain a secret, so no error and no log shows it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

import httpx
from pydantic import SecretStr

from holderlake.core.contract import exact_json
from holderlake.core.contract.text import printable
from holderlake.core.contract.times import to_unix, utc_now
from holderlake.core.http import MEGABYTE, HttpClient, HttpError, HttpResponse
from holderlake.core.settings import Settings
from holderlake.operations.alerts.rules import Alert
from holderlake.operations.alerts.settings import AlertSettings

LOGGER: Final = logging.getLogger("holderlake.operations.alerts")

_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how the specification marks secrets in base64
_TRANSIENT: Final = frozenset({408, 425, 429})


class NotDelivered(Exception):
    """A destination did not accept an alert. The text gives the reason, without secrets.

    ``is_transient``: the destination does not work now, for this alert and others.
    """

    def __init__(self, reason: str, *, is_transient: bool) -> None:
        super().__init__(reason)
        self.is_transient = is_transient


class Destination(Protocol):
    """A place that alerts are sent to."""

    @property
    def description(self) -> str:
        """The destination in a few words, without secrets."""

    def send(self, alert: Alert, found_at: datetime) -> None:
        """Send an alert that was found at ``found_at`` (naive UTC).

        After a crash an alert may be sent again; its ``fingerprint`` is then the same. Raises ``NotDelivered``.
        """


def destinations_of(settings: Settings) -> dict[str, Callable[[], Destination]]:
    """Return a function for each destination of the settings that opens it.

    The keys are the destinations' names in the outbox. The functions read files of secrets, and raise ``SettingsError``
    if they cannot.
    """
    destinations: dict[str, Callable[[], Destination]] = {"log": Log}
    if settings.section(AlertSettings).has_webhook:
        destinations["webhook"] = partial(webhook_of, settings)
    return destinations


class Log:
    """The log ``holderlake.operations.alerts``, with one line for each alert."""

    description = "log"

    def send(self, alert: Alert, found_at: datetime) -> None:
        """Write an alert to the log."""
        # JSON keeps the evidence in one line: anyone may have chosen the labels in it.
        LOGGER.warning("%s %s", alert.sentence, printable(exact_json.encode(alert.evidence).decode()))


@dataclass(frozen=True)
class Message:
    """A message to a webhook: ``body`` is its JSON, ``key`` an idempotency key that is the same in all attempts."""

    key: str
    body: bytes


@dataclass(frozen=True)
class Webhook:
    """A webhook, with its address and secret. ``timeout`` of a message is in seconds."""

    url: SecretStr
    secret: SecretStr | None = None
    timeout: float = 10.0

    @property
    def description(self) -> str:
        """The word webhook, and whether the messages lack a signature."""
        return "webhook" if self.secret else "webhook, not signed"

    def send(self, alert: Alert, found_at: datetime) -> None:
        """Send an alert once. Raises ``NotDelivered``."""
        asyncio.run(self._post(message_of(alert, found_at)))

    async def _post(self, message: Message) -> None:
        """Send a message once. Raises ``NotDelivered``; no error or cause of it contains the address."""
        failure: NotDelivered | None
        try:
            url = httpx.URL(self.url.get_secret_value())
            http = HttpClient(url, headers=self._headers(message), timeout=self.timeout, response_bytes=MEGABYTE)
            try:
                response = await http.send("POST", str(url), content=message.body)
            finally:
                await http.close()
        except httpx.InvalidURL:
            failure = NotDelivered("the webhook's address is not a valid URL", is_transient=False)
        except HttpError as error:
            if error.response is None:
                reason = str(error) if error.cause == "timeout" else f"it cannot be reached ({error.kind})"
                failure = NotDelivered(f"the webhook gave no answer: {reason}", is_transient=True)
            else:  # the status is enough; the body is not read
                failure = _refusal(error.response)
        else:
            failure = _refusal(response)
        if failure is not None:
            raise failure

    def _headers(self, message: Message) -> dict[str, str]:
        now = str(to_unix(utc_now()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "holderlake",
            "Idempotency-Key": message.key,
            "webhook-id": message.key,
            "webhook-timestamp": now,
        }
        if self.secret is not None:
            headers["webhook-signature"] = signature(self.secret, message, now)
        return headers


def webhook_of(settings: Settings) -> Webhook:
    """Return the webhook of the settings. Raises ``SettingsError`` if there is none, or its file has no address."""
    alert_settings = settings.section(AlertSettings)
    return Webhook(
        alert_settings.webhook_address(),
        alert_settings.signing_secret(),
        timeout=alert_settings.timeout_seconds,
    )


def message_of(alert: Alert, found_at: datetime) -> Message:
    """Return the webhook message about an alert; the same alert and ``found_at`` (UTC) give the same bytes."""
    content: dict[str, Any] = {
        "type": f"holderlake.alert.{alert.rule}",
        "timestamp": _utc(found_at),
        "text": alert.sentence,
        "data": {
            "fingerprint": alert.fingerprint,
            "name": alert.name,
            "rule": alert.rule,
            "chain": alert.chain,
            "token_address": alert.token_address,
            "timestamp": _utc(alert.timestamp),
            "subject": alert.subject,
            "measured": alert.measured,
            "threshold": alert.threshold,
            "evidence": alert.evidence,
        },
    }
    return Message(alert.fingerprint, exact_json.encode(content))


def signature(secret: SecretStr, message: Message, timestamp: str) -> str:
    """Return the header ``webhook-signature``: ``v1,`` and the HMAC-SHA256 of key, timestamp and body in base64.

    ``timestamp`` is in Unix seconds. A secret with the prefix ``whsec_`` is decoded from base64, any other is used as
    text. Raises ``NotDelivered`` for a secret that is not base64.
    """
    text = secret.get_secret_value()
    key = text.encode()
    if text.startswith(_SECRET_PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(_SECRET_PREFIX), validate=True)
        except binascii.Error:
            reason = "alerts.secret begins with whsec_ but is not base64: copy it again from the receiver"
            raise NotDelivered(reason, is_transient=False) from None
    signed = f"{message.key}.{timestamp}.".encode() + message.body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _refusal(response: HttpResponse) -> NotDelivered | None:
    status = response.status
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return NotDelivered(
            f"the webhook answers with a redirect (HTTP {status}), which is not followed; set the redirect's target as "
            "the webhook's address",
            is_transient=False,
        )
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "unknown status"
    is_transient = status >= 500 or status in _TRANSIENT
    return NotDelivered(f"the webhook answers HTTP {status} ({phrase})", is_transient=is_transient)


def _utc(instant: datetime) -> str:
    return instant.replace(tzinfo=UTC).isoformat()
