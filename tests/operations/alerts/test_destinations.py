"""Destinations of alerts: messages, failures and secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from pydantic import SecretStr

from holderlake.operations.alerts.destinations import NotDelivered, Webhook, message_of, signature
from holderlake.operations.alerts.rules import Alert
from tests.helpers.receiver import Receiver

NOW = datetime(2026, 11, 20, 0, 7)
ALERT = Alert(
    "whales", "cluster_share", "eth", "0xa", datetime(2026, 11, 20), "0x1", "2026-11-20", 0.2, 0.1, {"label": "é\n"}
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def webhook(receiver: Receiver, **options: object) -> Webhook:
    return replace(Webhook(SecretStr(receiver.url), timeout=60), **options)


def test_an_alert_arrives_with_key_evidence_and_sentence(receiver: Receiver) -> None:
    webhook(receiver).send(ALERT, NOW)
    (post,) = receiver.posts
    assert post.headers["idempotency-key"] == post.headers["webhook-id"] == ALERT.fingerprint
    assert post.headers["content-type"] == "application/json"
    assert "webhook-signature" not in post.headers
    assert post.content["type"] == "holderlake.alert.cluster_share"
    assert post.content["timestamp"] == "2026-11-20T00:07:00+00:00"
    assert post.content["data"]["evidence"] == {"label": "é\n"}
    assert post.content["text"] == (
        "whales: 0xa on eth at 2026-11-20 00:00 UTC: a cluster around 0x1 holds 20.00% of the supply (more than 10.00%)"
    )


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("a secret of our own", b"a secret of our own"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
    ],
    ids=["plain", "base64"],
)
def test_messages_are_signed_with_the_secret(receiver: Receiver, secret: str, key: bytes) -> None:
    webhook(receiver, secret=SecretStr(secret)).send(ALERT, NOW)
    (post,) = receiver.posts
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode() + post.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert post.headers["webhook-signature"] == f"v1,{expected}"


def test_the_signature_matches_the_example_of_the_specification() -> None:
    message = replace(
        message_of(ALERT, NOW),
        key="msg_p5jXN8AQM9LWM0D4loKWxJek",
        body=b'{"test": 2432232314}',
    )
    secret = SecretStr("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert signature(secret, message, "1614265330") == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_failure_that_may_pass_is_transient(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    with pytest.raises(NotDelivered, match=f"HTTP {status}") as failed:
        webhook(receiver).send(ALERT, NOW)
    assert failed.value.is_transient
    assert len(receiver.posts) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_not_transient(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    with pytest.raises(NotDelivered, match=f"HTTP {status}") as refused:
        webhook(receiver).send(ALERT, NOW)
    assert not refused.value.is_transient
    assert len(receiver.posts) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    with Receiver() as elsewhere:
        receiver.statuses, receiver.headers = [status], {"Location": elsewhere.url}
        with pytest.raises(NotDelivered, match="redirect"):
            webhook(receiver).send(ALERT, NOW)
        assert (len(receiver.posts), elsewhere.posts) == (1, [])


def test_a_late_answer_is_a_transient_failure(receiver: Receiver) -> None:
    receiver.statuses = [0]
    with pytest.raises(NotDelivered, match=r"no complete answer within 0.1 s") as failed:
        webhook(receiver, timeout=0.1).send(ALERT, NOW)
    assert failed.value.is_transient


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/hook/s3cret", "http://user:s3cret@127.0.0.1:1/", "http://s3cret:x"]
)
def test_no_error_shows_the_address(url: str) -> None:
    with pytest.raises(NotDelivered) as failed:
        Webhook(SecretStr(url)).send(ALERT, NOW)
    assert "s3cret" not in repr(failed.value)
    assert (failed.value.__cause__, failed.value.__context__) == (None, None)
    assert "s3cret" not in repr(Webhook(SecretStr(url)))
