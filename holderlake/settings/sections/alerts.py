"""The section ``[alerts]``: the rules and the webhook that alerts are sent to. The rules' SQL is in ``alerts``."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, model_validator

from holderlake.settings.fields import Duration, Folder, Section, SigningSecret, TypedTokens

RuleKind = Literal[
    "cluster_share", "score_fall", "exchange_transfer", "new_top_holder", "data_late", "incomplete_source"
]

_THRESHOLDS: Final[dict[str, float]] = {
    "cluster_share": 0.1,
    "score_fall": 5,
    "exchange_transfer": 1,
    "data_late": 2,
    "incomplete_source": 1,
}
_OPTIONS: Final = {
    "cluster_share": {"threshold"},
    "score_fall": {"threshold", "within"},
    "exchange_transfer": {"threshold", "top"},
    "new_top_holder": {"top"},
    "data_late": {"threshold"},
    "incomplete_source": {"threshold"},
}


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
    """A rule under a name that you choose. If you write any rule, the six default ones no longer apply."""

    rule: RuleKind = Field(
        description=(
            "`cluster_share`, `score_fall`, `exchange_transfer`, `new_top_holder`, `data_late` or `incomplete_source`"
        )
    )
    threshold: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Value above which the rule alerts: share of the supply (0.1), points (5), transfers (1), intervals of the "
            "schedule (2) or wrong rows and blocks (1)"
        ),
    )
    within: PositiveDuration = Field(
        default=timedelta(days=1), description="Period in which the score falls: 12h, 1d, 2w"
    )
    top: int = Field(default=10, ge=1, le=500, description="Last rank of a top holder")
    tokens: TypedTokens = Field(default={}, description="Only these tokens, by chain; by default every watched token")

    @model_validator(mode="after")
    def _check_options(self) -> AlertRule:
        unused = sorted(self.model_fields_set - {"rule", "tokens"} - _OPTIONS[self.rule])
        if unused:
            raise ValueError(
                f"a rule {self.rule} has no setting {unused[0]}; use {', '.join(sorted(_OPTIONS[self.rule]))}"
            )
        if self.rule == "cluster_share" and self.limit >= 1:
            raise ValueError(f"invalid threshold {self.limit:g}: give a share of the supply below 1; 0.1 is 10 %")
        return self

    @property
    def limit(self) -> float:
        """Return the rule's threshold, or its default; for a rule ``new_top_holder`` the value of its key ``top``."""
        if self.rule == "new_top_holder":
            return self.top
        return _THRESHOLDS[self.rule] if self.threshold is None else self.threshold


BUILT_IN: Final = MappingProxyType({kind: AlertRule(rule=kind) for kind in _OPTIONS})
"""The rules that apply if the settings name none, by name."""


class AlertSettings(Section):
    """The rules, and the webhook that alerts are sent to. The webhook's address and secret come from the environment
    only, or from files that are named here."""

    rules: dict[RuleName, AlertRule] = Field(
        default={}, description="Rules by name; by default the six built-in ones, no rule if you leave it empty"
    )
    webhook: WebhookUrl | None = Field(default=None, description="Address that alerts are sent to; environment only")
    webhook_file: Folder | None = Field(default=None, description="A file that contains the webhook's address")
    secret: SigningSecret | None = Field(
        default=None, description="Secret that alerts are signed with; environment only"
    )
    secret_file: Folder | None = Field(default=None, description="A file that contains the secret")
    max_age: PositiveDuration = Field(
        default=timedelta(days=7), description="Age of an instant above which it makes no alerts"
    )
    timeout_seconds: float = Field(default=10.0, gt=0, le=60, description="Longest wait for the webhook's answer")
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts of one delivery, the first one included")

    @model_validator(mode="after")
    def _one_place(self) -> AlertSettings:
        for name in ("webhook", "secret"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set: remove one of them")
        return self

    @property
    def in_force(self) -> dict[str, AlertRule]:
        """Return the rules that apply, by name: those of the settings, or the built-in ones."""
        return dict(self.rules if self.is_chosen else BUILT_IN)

    @property
    def is_chosen(self) -> bool:
        """Return whether the settings specify rules, even an empty list of them."""
        return "rules" in self.model_fields_set
