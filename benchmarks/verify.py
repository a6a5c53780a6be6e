"""Measure how often ``holderlake import verify`` is right: odd tokens with one to four odd calls in a block.

    python -m benchmarks.verify [--seeds 1,2]

A real node (anvil) gets a token for each way to be odd and each number of odd calls, with random holders and amounts.
Half of the blocks have ordinary moves too, and half of the tokens have a second such block. A token is right if the
report names exactly the cause that was built, unclear if it says that the blocks allow several, else wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from tests.cli.test_verify_causes import COLLECTOR, ODD, A, B, C, Calls, D, named
from tests.helpers.chain.anvil import Anvil, program

COUNTS: Final = (1, 2, 3, 4)
WAYS: Final = {name: calls[0] for name, (calls, kinds) in ODD.items() if len(calls) == 1 == len(kinds)}
"""By name of an odd token: its odd function with its arguments."""


def odd_tokens(seed: int) -> dict[str, list[Calls]]:
    """Return the blocks of each token by the name of its way and the number of odd calls in a block."""
    random, tokens = Random(seed), {}
    for name, (function, arguments) in WAYS.items():
        for count in COUNTS:
            tokens[f"{name}, {count}"] = [
                _block(function, arguments, count, random) for _ in range(random.choice((1, 2)))
            ]
    return tokens


def _block(function: str, arguments: tuple[str | int, ...], count: int, random: Random) -> Calls:
    block: Calls = []
    for _ in range(count):
        others = dict(zip((A, B, C), random.sample((A, B, C, D), 3), strict=True)) | {COLLECTOR: COLLECTOR}
        block.append((function, tuple(others.get(str(value), random.randrange(10, 150)) for value in arguments)))
    for _ in range(random.choice((0, 0, 1, 2))):
        sender, receiver = random.sample((A, B, C, D), 2)
        block.append(("move", (sender, receiver, random.randrange(1, 60))))
    return random.sample(block, len(block))


def verdict(causes: set[str], right: set[str]) -> str:
    """Return right, unclear or wrong."""
    if causes == right:
        return "right"
    return "unclear" if causes <= right | {"unclear"} and causes else "wrong"


def main() -> None:
    """Build the tokens, compare them, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1", help="numbers, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="list the tokens that are not right")
    options = parser.parse_args()
    verdicts: Counter[tuple[int, str]] = Counter()
    for seed in map(int, options.seeds.split(",")):
        tokens = odd_tokens(seed)
        with tempfile.TemporaryDirectory() as home, Anvil(program()) as anvil:
            report = named(anvil, Path(home), tokens)
        for name, blocks in tokens.items():
            way, _, count = name.rpartition(", ")
            causes = {cause["kind"] for cause in report["causes"].get(name, [])}
            result = verdict(causes, ODD[way][1])
            verdicts[int(count), result] += 1
            if options.verbose and result != "right":
                print(f"{seed}: {name}: {result}: {sorted(causes)}: {blocks}", flush=True)
    print("| odd calls in a block | tokens | right | unclear | wrong |")
    print("|---|---|---|---|---|")
    for calls in COUNTS:
        of_count = [verdicts[calls, result] for result in ("right", "unclear", "wrong")]
        print(f"| {calls} | {sum(of_count)} | {' | '.join(map(str, of_count))} |")


if __name__ == "__main__":
    main()
