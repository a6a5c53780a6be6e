"""The section ``[alerts]``: the rules and the webhook that alerts are sent to. The rules' SQL is in ``alerts``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, WithJsonSchema, create_model, model_validator

from holderlake.core.setting_types import (
    Duration,
    PathSetting,
    Section,
    SettingsError,
    SigningSecret,
    TypedTokens,
    read_secret,
)

if TYPE_CHECKING:  # the settings import this module
    from holderlake.core.settings import Settings

SHARE: Final = "share of the supply"
"""Unit of a threshold that is a share: it must be below 1."""
PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]


@dataclass(frozen=True)
class RuleKind:
    """A kind of alert rule. A file ``sql/NAME.sql`` has its query, and these values as TOML.

    ``table`` is the Dagster asset that shows it as a check, ``sentence`` the event. ``options`` are the settings of a
    rule of this kind, with their defaults; the first one is the rule's limit. ``about`` describes options other than
    ``threshold``; ``unit`` is what the threshold counts. ``is_of_head``: a follower evaluates it at each new block; the
    other kinds are about the schedule and about checks.
    """

    table: str
    sentence: str
    options: Mapping[str, Any]
    about: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    is_of_head: bool = True


def _declared() -> Iterator[tuple[str, RuleKind]]:
    """Yield the name and the kind of each file in ``sql``."""
    for file in sorted(files("holderlake.operations.alerts").joinpath("sql").iterdir(), key=lambda file: file.name):
        header = file.read_text("utf-8").partition("/*")[2].partition("*/")[0]
        yield file.name.removesuffix(".sql"), RuleKind(**tomllib.loads(header))


ALERT_KINDS: Final = MappingProxyType(dict(_declared()))
"""The kinds of alert rules, by the value of the setting ``rule``."""
_UNITS: Final = ", ".join(
    f"{kind.unit} ({kind.options['threshold']:g})" for kind in ALERT_KINDS.values() if "threshold" in kind.options
)


def _option_fields() -> dict[str, Any]:
    """Return type and field of each option that a kind of rule describes, by name. The default gives the type."""
    declared: dict[str, Any] = {}
    for kind in ALERT_KINDS.values():
        for name, about in kind.about.items():
            default = kind.options[name]
            of_type = PositiveDuration if isinstance(default, str) else type(default)
            least = 0 if type(default) in {int, float} else None
            declared[name] = (of_type, Field(default=default, validate_default=True, description=about, gt=least))
    return declared


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


class _Rule(Section):
    """A rule under a name that you choose. If you write any rule, the built-in ones no longer apply."""

    rule: Annotated[str, AfterValidator(_known_kind), WithJsonSchema({"enum": list(ALERT_KINDS)})] = Field(
        description=", ".join(f"`{name}`" for name in ALERT_KINDS)
    )
    threshold: float | None = Field(
        default=None, gt=0, description=f"Value above which the rule alerts, with its default: {_UNITS}"
    )
    tokens: TypedTokens = Field(default={}, description="Only these tokens, by chain; by default every watched token")

    @model_validator(mode="after")
    def _check_options(self) -> AlertRule:
        unused = sorted(self.model_fields_set - {"rule", "tokens"} - self.kind.options.keys())
        if unused:
            raise ValueError(
                f"a rule {self.rule} has no setting {unused[0]}; use {', '.join(sorted(self.kind.options))}"
            )
        if self.kind.unit == SHARE and self.limit >= 1:
            raise ValueError(f"invalid threshold {self.limit:g}: give a share of the supply below 1; 0.1 is 10 %")
        return self

    @property
    def kind(self) -> RuleKind:
        """The rule's kind."""
        return ALERT_KINDS[self.rule]

    @property
    def options(self) -> dict[str, Any]:
        """The values of the rule's options, by name: those of the settings, or the defaults of its kind."""
        given = {name: getattr(self, name) for name in self.kind.options}
        return {name: self.kind.options[name] if value is None else value for name, value in given.items()}

    @property
    def limit(self) -> float:
        """The value of the rule's first option: its threshold, or that of its key ``top``."""
        return float(next(iter(self.options.values())))

    @property
    def parameters(self) -> dict[str, Any]:
        """The options as parameters of the query; a duration NAME is the number of seconds NAME_seconds."""
        durations = {f"{name}_seconds": value for name, value in self.options.items() if isinstance(value, timedelta)}
        return self.options | {name: int(value.total_seconds()) for name, value in durations.items()}


if TYPE_CHECKING:
    AlertRule: TypeAlias = _Rule
else:
    AlertRule = create_model(
        "AlertRule", __base__=_Rule, __module__=__name__, __doc__=_Rule.__doc__, **_option_fields()
    )


BUILT_IN: Final = MappingProxyType({name: AlertRule(rule=name) for name in ALERT_KINDS})
"""The rules that apply if the settings name none, by name."""


class AlertSettings(Section):
    """The rules, and the webhook that alerts are sent to. The webhook's address and secret come from the environment
    only, or from files that are named here."""

    TABLE: ClassVar = "alerts"

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


def alerts_database(settings: Settings) -> Path:
    """Return the file of sent alerts, which is not used if the settings name a database for the state."""
    return settings.home / "alerts.sqlite"
