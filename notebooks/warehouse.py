"""The warehouse from Python, for analysts: ``make notebook`` opens it over what a demo or a run has fetched.

A marimo notebook is plain Python. Each cell is a function of the names that it reads, and runs again when they change.
"""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="The warehouse from Python")


@app.cell
def open_the_warehouse():
    import math

    import marimo as mo
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    import holderlake
    from holderlake.core.contract.figures import FIGURES, share_text

    def percent(share):
        return "" if share is None or math.isnan(share) else share_text(share)

    def exact(amount):
        return "" if amount is None else f"{amount:f}".rstrip("0").rstrip(".")  # it has 18 decimals

    warehouse = holderlake.open_warehouse()
    try:
        warehouse.arrow("SELECT 1")
    except holderlake.errors.WarehouseError as error:
        advice = "`make demo` makes one of the sample world in a minute, without a key. Then run this cell again."
        mo.stop(True, mo.md(f"**This notebook needs a warehouse.** {error}. {advice}"))
    mo.md(
        """
        # The warehouse from Python

        One line queries it, into pandas, Polars or Arrow. Each query reads the published file and never waits for a
        load. All views and macros are in `docs/sql.md`, and in the file itself, as comments.
        """
    )
    return warehouse, mo, plt, FIGURES, PercentFormatter, percent, exact


@app.cell
def choose_a_token(warehouse, mo):
    tokens = warehouse.pandas(
        """
        SELECT symbol, chain, token_address
        FROM maps JOIN symbols USING (chain, token_address)
        GROUP BY ALL
        ORDER BY max(bundles) DESC NULLS LAST, symbol, chain
        """
    )
    mo.stop(tokens.empty, mo.md("**The warehouse has no map yet.** Run `make demo` or `holderlake ingest`."))
    keys = {f"{row.symbol} on {row.chain}": [row.chain, row.token_address] for row in tokens.itertuples()}
    token = mo.ui.dropdown(keys, value=next(iter(keys)), label="Token")
    mo.vstack([mo.md("## Choose a token"), mo.md("Those with the largest clusters come first."), token])
    return (token,)


@app.cell
def draw_the_map(warehouse, mo, token):
    from holderlake.presentation.pictures.drawing.draw import Theme, TokenTitle, draw_map

    where = "WHERE chain = ? AND token_address = ?"
    newest = warehouse.arrow(f"SELECT max(timestamp) AS as_of FROM maps {where}", token.value)["as_of"][0].as_py()
    tables = {
        name: warehouse.arrow(f"FROM {name} {where} AND timestamp = ?", [*token.value, newest])
        for name in ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")
    }
    title = TokenTitle(token.selected_key.partition(" on ")[0], "", token.value[0], newest)
    picture = draw_map(tables, title, width=1_000, theme=Theme.LIGHT, form="svg")
    mo.vstack([mo.md("## Who holds it, and who belongs together?"), mo.Html(picture.decode())])
    return (picture,)


@app.cell
def concentration_over_time(warehouse, mo, plt, FIGURES, PercentFormatter, percent, token):
    concentration = warehouse.pandas(
        """
        SELECT timestamp, service_score, top_10_adjusted, bundles, cexs, dexs
        FROM concentration_history
        WHERE chain = ? AND token_address = ?
        ORDER BY timestamp
        """,
        token.value,
    )
    figure, shares = plt.subplots(figsize=(8, 3.2), layout="constrained")
    for column in concentration.columns[2:]:
        shares.plot(concentration["timestamp"], concentration[column], marker="o", label=FIGURES[column].title)
    shares.set(ylabel="share of supply", ylim=(0, 1), title=f"{token.selected_key}: who holds how much")
    shares.yaxis.set_major_formatter(PercentFormatter(1))
    shares.legend()
    _titles = {column: FIGURES[column].title for column in concentration.columns[1:]}
    _named = concentration.rename(columns=_titles)
    _table = mo.ui.table(_named, format_mapping=dict.fromkeys(list(_titles.values())[1:], percent))
    mo.vstack([mo.md("## How concentrated is it, and since when?"), figure, _table])
    return concentration, figure


@app.cell
def holders_between_two_dates(warehouse, concentration, mo, percent, token):
    first, last = concentration["timestamp"].min(), concentration["timestamp"].max()
    changes = warehouse.pandas(
        """
        SELECT change, count(*) AS holders, sum(share_before) AS share_before, sum(share_after) AS share_after
        FROM holder_changes(?, ?)
        WHERE chain = ? AND token_address = ?
        GROUP BY change
        ORDER BY change
        """,
        [first.to_pydatetime(), last.to_pydatetime(), *token.value],
    )
    _table = mo.ui.table(changes, format_mapping=dict.fromkeys(["share_before", "share_after"], percent))
    mo.vstack([mo.md(f"## Which holders entered and left, from {first:%Y-%m-%d} to {last:%Y-%m-%d}?"), _table])
    return (changes,)


@app.cell
def history_of_clusters(warehouse, mo, percent, token):
    lineage = warehouse.polars(
        """
        SELECT timestamp, event, members, share, merged_from, split_from
        FROM cluster_lineage
        WHERE chain = ? AND token_address = ? AND event IN ('born', 'merged', 'split', 'died')
        ORDER BY timestamp, members DESC
        """,
        token.value,
    )
    _table = mo.ui.table(lineage, format_mapping={"share": percent})
    mo.vstack([mo.md("## How did its clusters form? (a Polars frame)"), _table])
    return (lineage,)


@app.cell
def flows_to_exchanges(warehouse, concentration, mo, exact):
    flows = warehouse.arrow(
        """
        SELECT symbol, exchange, sum(deposits) AS deposits, sum(withdrawals) AS withdrawals
        FROM exchange_flows(?) JOIN symbols USING (chain, token_address)
        WHERE transfer_token = token_address
        GROUP BY symbol, exchange
        ORDER BY symbol, exchange
        """,
        [concentration["timestamp"].max().to_pydatetime()],
    )
    mo.vstack(
        [
            mo.md("## How much went to exchanges, and how much came back? (an Arrow table with exact amounts)"),
            mo.ui.table(flows, format_mapping=dict.fromkeys(["deposits", "withdrawals"], exact)),
        ]
    )
    return (flows,)


if __name__ == "__main__":
    app.run()
