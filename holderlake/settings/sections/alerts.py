"""The section ``[alerts]`` of the settings: which rules there are, and where alerts go.

What a rule asks stands in ``alert_sql``, a file each, and ``alerts``; the five of the issue are in force by default.
"""

from __future__ import annotations

import re
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints, model_validator

from holderlake.settings.sections import Folder, Section, TypedTokens

RuleKind = Literal["cluster_share", "score_fall", "exchange_transfer", "new_top_holder", "data_late"]

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_THRESHOLDS: Final[dict[str, float]] = {
    "cluster_share": 0.1,
    "score_fall": 5,
    "exchange_transfer": 1,
    "data_late": 2,
}
_OPTIONS: Final = {
    "cluster_share": {"threshold"},
    "score_fall": {"threshold", "within"},
    "exchange_transfer": {"threshold", "top"},
    "new_top_holder": {"top"},
    "data_late": {"threshold"},
}


def _span(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(\d{1,5}) ?([mhdw])", value.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{value!r} is no length of time; write a number and m, h, d or w, such as 12h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    _ = parts.port  # raises where it is none
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(map(str.isspace, url.get_secret_value())):
        raise ValueError("the address of a webhook is expected, such as https://example.org/hook")
    return url


def _secret(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 16:
        raise ValueError("a secret has 16 characters or more; 'openssl rand -hex 32' makes a good one")
    return secret


Span = Annotated[timedelta, BeforeValidator(_span)]
"""A length of time as people write it."""
RuleName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
WebhookUrl = Annotated[SecretStr, AfterValidator(_url)]
WebhookSecret = Annotated[SecretStr, AfterValidator(_secret)]


class AlertRule(Section):
    """A rule under a name of your own; the rules that are named here replace the five that are there by default."""

    rule: RuleKind = Field(
        description="`cluster_share`, `score_fall`, `exchange_transfer`, `new_top_holder` or `data_late`"
    )
    threshold: float | None = Field(
        default=None,
        gt=0,
        description="More than so much of the supply (0.1), points (5), transfers (1), intervals of the schedule (2)",
    )
    within: Span = Field(default=timedelta(days=1), description="The time in which the score falls: 12h, 1d, 2w")
    top: int = Field(default=10, ge=1, le=500, description="Ranks that make a top holder")
    tokens: TypedTokens = Field(default={}, description="Only these tokens, by chain; every watched one by default")

    @model_validator(mode="after")
    def _fitting(self) -> AlertRule:
        """An option that the rule would not heed is a mistake."""
        unheeded = sorted(self.model_fields_set - {"rule", "tokens"} - _OPTIONS[self.rule])
        if unheeded:
            raise ValueError(
                f"a rule {self.rule} has no {unheeded[0]}; it has {', '.join(sorted(_OPTIONS[self.rule]))}"
            )
        if self.rule == "cluster_share" and self.limit >= 1:
            raise ValueError("the threshold is a part of the supply, below 1: 0.1 is 10 %")
        return self

    @property
    def limit(self) -> float:
        """The threshold in force; that of new top holders is their last rank."""
        if self.rule == "new_top_holder":
            return self.top
        return _THRESHOLDS[self.rule] if self.threshold is None else self.threshold


BUILT_IN: Final = MappingProxyType({kind: AlertRule(rule=kind) for kind in _OPTIONS})
"""The rules where the settings name none."""


class AlertSettings(Section):
    """What is told about, and where to. The webhook's address and secret come from the environment only, or from a
    file that is named here."""

    rules: dict[RuleName, AlertRule] = Field(default={}, description="Rules by name; five by default, none if empty")
    webhook: WebhookUrl | None = Field(default=None, description="Where alerts are sent to; environment only")
    webhook_file: Folder | None = Field(default=None, description="A file that holds the webhook's address")
    secret: WebhookSecret | None = Field(default=None, description="What they are signed with; environment only")
    secret_file: Folder | None = Field(default=None, description="A file that holds the secret")
    max_age: Span = Field(
        default=timedelta(days=7), description="What is true as of an instant older than this is history, not news"
    )
    timeout_seconds: float = Field(default=10.0, gt=0, le=60, description="How long to wait for the webhook's answer")
    attempts: int = Field(default=3, ge=1, le=10, description="How often to try at a time, the first included")

    @model_validator(mode="after")
    def _one_place(self) -> AlertSettings:
        for name in ("webhook", "secret"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set; which one is meant can't be known")
        return self

    @property
    def in_force(self) -> dict[str, AlertRule]:
        """The rules by name: those of the settings, else the built-in ones."""
        return dict(self.rules if self.is_chosen else BUILT_IN)

    @property
    def is_chosen(self) -> bool:
        """Whether somebody wrote rules."""
        return "rules" in self.model_fields_set
