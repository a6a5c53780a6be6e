"""Make ``home-0.3.0.tar.xz``, a small home of version 0.3.0: ``python -m tests.operations.maintenance.make_home``.

Its data are of the sample world, fetched over HTTP: two tokens, one of them unknown, and an address set, at three
instants, of which one was fetched again; and three imported transfers. Until version 0.3.0 is released, run this again
after each change of a format.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holderlake.cli.exit_codes import ExitCode
from holderlake.sources.sample_world import sample_world
from tests.helpers.processes import HOLDERLAKE, ROOT

ARCHIVE: Final = Path(__file__).with_name("home-0.3.0.tar.xz")
HOME: Final = "home-0.3.0"
_UNKNOWN: Final = "0x" + 38 * "0" + "aa"
_SETTINGS: Final = """
[watchlist]
{chain} = ["{token}", "{unknown}"]

[address_sets.few]
chain = "{chain}"
addresses = ["0x00000000000000000000000000000000000000bb", "0x00000000000000000000000000000000000000cc"]

[provider]
direct = false

[addresses]
top = 0
"""
_TRANSFERS: Final = "\n".join(
    [
        "chain,token_address,from_address,to_address,value,block_time,block_number,tx_hash,log_index",
        *(
            f"eth,0x{0xDD:040x},0x{sender:040x},0x{receiver:040x},{value},{1767225600 + block},{block},0x{block:064x},0"
            for block, (sender, receiver, value) in enumerate([(0, 1, 100), (1, 2, 30), (2, 3, 10)])
        ),
    ]
)


def main() -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        token = next(token for token in sample_world().tokens if token.chain == "eth")
        settings = _SETTINGS.format(chain=token.chain, token=token.address, unknown=_UNKNOWN)
        (root / "holderlake.toml").write_text(settings)
        (root / "transfers.csv").write_text(_TRANSFERS)
        for arguments in (
            ("import", "files", "transfers.csv"),
            ("backfill", "--from", "2026-05-01", "--to", "2026-05-02"),
            ("ingest", "--at", "2026-05-03"),
            ("ingest", "--at", "2026-05-01", "--refresh"),
        ):
            _holderlake(root, *arguments)
        shutil.rmtree(root / HOME / "sample-world")  # large, and made again where it is missing
        with tarfile.open(ARCHIVE, "w:xz") as tar:
            tar.add(root / HOME, HOME)


def _holderlake(root: Path, *arguments: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
    env |= {"HOLDERLAKE_HOME": str(root / HOME), "PYTHONPATH": str(ROOT)}
    code = subprocess.run([sys.executable, "-c", HOLDERLAKE, *arguments], cwd=root, env=env, check=False).returncode
    if code not in {ExitCode.LANDED, ExitCode.SOME_FAILED}:  # the unknown token fails
        raise SystemExit(f"{arguments} ended with {code}")


if __name__ == "__main__":
    main()
