"""A partition that lacks a part of what it was asked for is not shown as materialised, and its run fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus

from holderlake.core.workspace import Workspace
from holderlake.pipelines.definitions import build_defs
from tests.end_to_end.faulty_provider import FaultyProvider
from tests.helpers.filling import MakeWorkspace
from tests.helpers.misbehaving import Misbehaving, Received, Step, answer, scripted

CHAIN = "eth"
TOKENS = [f"0x{number:040x}" for number in (1, 2)]
DAY = "2026-05-01"


def test_x(instance):
    pass
