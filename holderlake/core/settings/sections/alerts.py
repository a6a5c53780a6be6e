"""The section ``[alerts]``: the rules and the webhook that alerts are sent to. The rules' SQL is in ``alerts``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, WithJsonSchema, model_validator

from holderlake.core.settings.fields import (
    Duration,
    PathSetting,
    Section,
    SettingsError,
    SigningSecret,
    TypedTokens,
    read_secret,
)


@dataclass(frozen=True)
class RuleKind:
    """A kind of alert rule; ``alerts/sql/`` has its query.

    ``table`` is the Dagster asset that shows it as a check. ``options`` are its settings, ``threshold`` is the default
    of that setting, ``unit`` what it counts, and ``sentence`` the event. ``is_of_head``: a follower evaluates it at
    each new block; the other kinds are about the schedule and about checks.
    """

    table: str
    sentence: str
    options: frozenset[str] = frozenset({"threshold"})
    threshold: float | None = None
    unit: str = ""
    is_of_head: bool = True


ALERT_KINDS: Final = MappingProxyType(
    {
        "cluster_share": RuleKind(
            "clusters",
            "a cluster around {subject} holds {share}% of the supply (more than {limit}%)",
            threshold=0.1,
            unit="share of the supply",
        ),
        "score_fall": RuleKind(
            "maps",
            "the score fell by {measured:.2f} points ({threshold:g} or more)",
            options=frozenset({"threshold", "within"}),
            threshold=5,
            unit="points",
        ),
        "exchange_transfer": RuleKind(
            "grouped_transfers",
            "the top holder {subject} sent to an exchange, {measured:.0f} times",
            options=frozenset({"threshold", "top"}),
            threshold=1,
            unit="transfers",
        ),
        "new_top_holder": RuleKind(
            "holders",
            "{subject} is new among the first {threshold:.0f} holders, at rank {measured:.0f}",
            options=frozenset({"top"}),
        ),
        "data_late": RuleKind(
            "warehouse",
            "no data for {measured:.1f} intervals of the schedule (more than {threshold:g})",
            threshold=2,
            unit="intervals of the schedule",
            is_of_head=False,
        ),
        "incomplete_source": RuleKind(
            "warehouse",
            "transfers differ from the node's in {measured:.0f} rows or blocks ({threshold:g} or more)",
            threshold=1,
            unit="wrong rows and blocks",
            is_of_head=False,
        ),
    }
)
"""The kinds of alert rules, by the value of the setting ``rule``."""
_UNITS: Final = ", ".join(
    f"{kind.unit} ({kind.threshold:g})" for kind in ALERT_KINDS.values() if kind.threshold is not None
)


def _known_kind(name: str) -> str:
    if name not in ALERT_KINDS:
        raise ValueError(f"there is no rule {name!r}; use {', '.join(ALERT_KINDS)}")
    return name


def _url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    _ = parts.port  # raises ValueError if invalid
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(map(str.isspace, url.get_secret_value())):
        raise ValueError("the address of a webhook is expected, such as https://example.org/hook")
    return url


RuleName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
WebhookUrl = Annotated[SecretStr, AfterValidator(_url)]
PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]


class AlertRule(Section):
    """A rule under a name that you choose. If you write any rule, the built-in ones no longer apply."""

    rule: Annotated[str, AfterValidator(_known_kind), WithJsonSchema({"enum": list(ALERT_KINDS)})] = Field(
        description=", ".join(f"`{name}`" for name in ALERT_KINDS)
    )
    threshold: float | None = Field(
        default=None, gt=0, description=f"Value above which the rule alerts, with its default: {_UNITS}"
    )
    within: PositiveDuration = Field(
        default=timedelta(days=1), description="Period in which the score falls: 12h, 1d, 2w"
    )
    top: int = Field(default=10, ge=1, le=500, description="Last rank of a top holder")
    tokens: TypedTokens = Field(default={}, description="Only these tokens, by chain; by default every watched token")

    @model_validator(mode="after")
    def _check_options(self) -> AlertRule:
        unused = sorted(self.model_fields_set - {"rule", "tokens"} - self.kind.options)
        if unused:
            raise ValueError(
                f"a rule {self.rule} has no setting {unused[0]}; use {', '.join(sorted(self.kind.options))}"
            )
        if self.rule == "cluster_share" and self.limit >= 1:
            raise ValueError(f"invalid threshold {self.limit:g}: give a share of the supply below 1; 0.1 is 10 %")
        return self

    @property
    def kind(self) -> RuleKind:
        """The rule's kind."""
        return ALERT_KINDS[self.rule]

    @property
    def limit(self) -> float:
        """The rule's threshold, or its default; for a kind without a threshold the value of its key ``top``."""
        threshold = self.kind.threshold if self.threshold is None else self.threshold
        return self.top if threshold is None else threshold


BUILT_IN: Final = MappingProxyType({name: AlertRule(rule=name) for name in ALERT_KINDS})
"""The rules that apply if the settings name none, by name."""


class AlertSettings(Section):
    """The rules, and the webhook that alerts are sent to. The webhook's address and secret come from the environment
    only, or from files that are named here."""

    rules: dict[RuleName, AlertRule] = Field(
        default={}, description="Rules by name; by default the built-in ones, no rule if you leave it empty"
    )
    webhook: WebhookUrl | None = Field(default=None, description="Address that alerts are sent to; environment only")
    webhook_file: PathSetting | None = Field(default=None, description="A file that contains the webhook's address")
    secret: SigningSecret | None = Field(
        default=None, description="Secret that alerts are signed with; environment only"
    )
    secret_file: PathSetting | None = Field(default=None, description="A file that contains the secret")
    max_age: PositiveDuration = Field(
        default=timedelta(days=7), description="Age of an instant above which it makes no alerts"
    )
    timeout_seconds: float = Field(default=10.0, gt=0, le=30, description="Longest wait for the webhook's answer")
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts of one delivery, the first one included")

    @model_validator(mode="after")
    def _one_place(self) -> AlertSettings:
        for name in ("webhook", "secret"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set: remove one of them")
        return self

    @property
    def has_webhook(self) -> bool:
        """Return whether the settings name a webhook. This does not read its file."""
        return self.webhook is not None or self.webhook_file is not None

    def webhook_address(self) -> SecretStr:
        """Return the webhook's address. Raises ``SettingsError`` if there is none, or its file contains none."""
        file, address = self.webhook_file, self.webhook
        if file is not None:
            address = read_secret(file, "the webhook of alerts", lambda text: AlertSettings(webhook=text).webhook)
        if address is None:
            raise SettingsError(
                "no webhook is set; set HOLDERLAKE_ALERTS__WEBHOOK, or alerts.webhook_file to a file with its URL"
            )
        return address

    def signing_secret(self) -> SecretStr | None:
        """Return the secret that alerts are signed with. Raises ``SettingsError`` if its file contains no secret."""
        file = self.secret_file
        if file is None:
            return self.secret
        return read_secret(file, "the secret of alerts", lambda text: AlertSettings(secret=SecretStr(text)).secret)

    @property
    def in_force(self) -> dict[str, AlertRule]:
        """Return the rules that apply, by name: those of the settings, or the built-in ones."""
        return dict(self.rules if self.is_chosen else BUILT_IN)

    @property
    def is_chosen(self) -> bool:
        """Return whether the settings specify rules, even an empty list of them."""
        return "rules" in self.model_fields_set
