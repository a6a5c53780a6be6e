"""Answers of the API as plain data, which tests change."""

from __future__ import annotations

from typing import Any

ALICE, BOB, CAROL, DAVE = (f"0x{letter * 40}" for letter in "abcd")
TOKEN = f"0x{'7' * 40}"


def details(**changed: Any) -> dict[str, Any]:
    return {
        "degree": 3,
        "inward_relations": 2,
        "outward_relations": 1,
        "is_supernode": False,
        "is_contract": False,
        "is_cex": False,
        "is_dex": False,
        "label": None,
        "entity_id": None,
        "first_activity_date": "2024-05-06T07:08:09Z",
        "is_paid_label": False,
    } | changed


def holder(address: str, rank: int, amount: float = 10.5, share: float = 0.1, **changed: Any) -> dict[str, Any]:
    return {"address": address, "holder_data": {"amount": amount, "rank": rank, "share": share}} | changed


def transfer(sender: str, receiver: str, **changed: Any) -> dict[str, Any]:
    return {
        "from_address": sender,
        "to_address": receiver,
        "rel_type": "GROUPED_TRANSFER",
        "data": {
            "total_value": 12.5,
            "total_transfers": 2,
            "first_date": 1_700_000_000,
            "last_date": 1_700_000_100,
            "token_key": {"chain": "eth", "address": TOKEN},
        }
        | changed,
    }


def scores(**changed: Any) -> dict[str, Any]:
    return {
        "service_score": 61.25,
        "gini_index": 0.5,
        "herfindahl_hirschman_index": 0.25,
        "nakamoto_coefficient": 2,
    } | changed


def top_holder(address: str, rank: int, **changed: Any) -> dict[str, Any]:
    return holder(address, rank, address_details=details(), is_shown_on_map=True) | changed


def token_map(**changed: Any) -> dict[str, Any]:
    """Two holders, tied by a magic node, and an exchange that both used within one hour."""
    return {
        "metadata": {"dt_update": "2026-11-20T00:00:00.123456", "ts_update": 1_795_132_800},
        "metrics": {
            "supply_stats": {
                "cexs": 0.1,
                "dexs": 0.2,
                "contracts": 0.4,
                "fresh_wallets": 0.0,
                "top_10_adjusted": 0.3,
                "bundles": 0.15,
            },
            "scores": scores(),
        },
        "nodes": {
            "top_holders": [top_holder(ALICE, 1), top_holder(BOB, 2)],
            "magic_nodes": [{"address": CAROL, "address_details": details(), "is_shown_on_map": True}],
            "time_nodes": [{"address": DAVE, "relationships": [transfer(ALICE, DAVE), transfer(BOB, DAVE)]}],
        },
        "relationships": [transfer(ALICE, CAROL), transfer(CAROL, BOB)],
        "clusters": [
            {
                "share": 0.2,
                "amount": 21.0,
                "holder_count": 2,
                "holders": [ALICE, BOB],
                "magic_node_count": 1,
                "magic_nodes": [CAROL],
            }
        ],
    } | changed


def older_map(**changed: Any) -> dict[str, Any]:
    """The same map in the shape of the removed endpoint."""
    newer = token_map()
    relationships = [
        {**edge, "data": {**edge["data"], "token_ref": edge["data"]["token_key"]}} for edge in newer["relationships"]
    ]
    for edge in relationships:
        del edge["data"]["token_key"]
    return {
        "metadata": {
            **newer["metadata"],
            "identified_supply": {"share_in_cexs": 0.1, "share_in_dexs": 0.2, "share_in_other_contracts": 0.1},
        },
        "nodes": {"top_holders": newer["nodes"]["top_holders"], "magic_nodes": newer["nodes"]["magic_nodes"]},
        "relationships": relationships,
        "decentralization_score": 61.25,
        "clusters": [
            {name: item for name, item in cluster.items() if not name.startswith("magic")}
            for cluster in newer["clusters"]
        ],
    } | changed
