/** Columns of an answer's objects, made by `python -m docs.reference.pages` from holderlake/core/contract/models.py. */
export type HolderNode = {
  address: string;
  degree: number | null;
  inward_relations: number | null;
  outward_relations: number | null;
  is_supernode: boolean | null;
  is_contract: boolean | null;
  is_cex: boolean | null;
  is_dex: boolean | null;
  label: string | null;
  entity_id: string | null;
  first_activity_date: number | null;
  is_paid_label: boolean | null;
  is_shown_on_map: boolean | null;
  amount: string | null;
  rank: number | null;
  share: number | null;
};
export type SupplyStats = {
  cexs: number | null;
  dexs: number | null;
  contracts: number | null;
  fresh_wallets: number | null;
  top_10_adjusted: number | null;
  bundles: number | null;
};
export type Scores = {
  service_score: number | null;
  gini_index: number | null;
  herfindahl_hirschman_index: number | null;
  nakamoto_coefficient: number | null;
};

/** The figures of a map, from holderlake/core/contract/figures.py. */
export const FIGURES = {
  service_score: {"title": "Score", "short": "Score", "unit": "score", "explanation": "0 concentrated to 100 decentralised"},
  top_10_share: {"title": "10 largest holders", "short": "Top 10 holders", "unit": "share", "explanation": "Share of supply of the 10 largest holders, exchanges, pools and contracts included"},
  top_10_adjusted: {"title": "10 largest groups", "short": "Top 10 groups", "unit": "share", "explanation": "Share of supply of the 10 largest groups: clusters, and holders outside of them, without exchanges, pools and contracts"},
  bundles: {"title": "10 largest clusters", "short": "Top 10 clusters", "unit": "share", "explanation": "Share of supply of the 10 largest clusters"},
  cexs: {"title": "Exchanges", "short": "Exchanges", "unit": "share", "explanation": "Share of supply held by centralised exchanges"},
  dexs: {"title": "Pools", "short": "Pools", "unit": "share", "explanation": "Share of supply held by pools of decentralised exchanges"},
  contracts: {"title": "Contracts", "short": "Contracts", "unit": "share", "explanation": "Share of supply held by contracts, without exchanges and pools"},
  fresh_wallets: {"title": "Fresh wallets", "short": "Fresh wallets", "unit": "share", "explanation": "Share of supply held by wallets under 10 days old"},
  gini_index: {"title": "Gini index", "short": "Gini", "unit": "index", "explanation": "Inequality among groups, 0 equal to 1"},
  herfindahl_hirschman_index: {"title": "Herfindahl–Hirschman index", "short": "HHI", "unit": "index", "explanation": "Concentration among groups, 0 to 1"},
  nakamoto_coefficient: {"title": "Nakamoto coefficient", "short": "Nakamoto", "unit": "groups", "explanation": "Smallest number of groups that together hold half"},
} as const;
export type FigureName = keyof typeof FIGURES;
/** The figures above a map. */
export const HEADLINE = ["service_score", "top_10_adjusted", "bundles", "cexs", "dexs"] as const;
/** Colours of clusters, from pictures/drawing/colours.py. A cluster's number is always shown too. */
export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#8c564b"] as const;
/** What the marks of a map mean, from pictures/drawing/legend.py. */
export const LEGEND = {"size": "Area: share of supply", "cluster": "Cluster", "alone": "Outside clusters", "magic": "Linking wallet", "time": "Shared exchange or pool", "line": "Transfers, as the arrow points"} as const;
/** The names of known chains, from holderlake/core/contract/chains. */
export const CHAINS: ReadonlyMap<string, string> = new Map([["eth", "Ethereum"], ["base", "Base"], ["solana", "Solana"], ["tron", "TRON"], ["bsc", "BNB Smart Chain"], ["sonic", "Sonic"], ["ton", "TON"], ["avalanche", "Avalanche"], ["polygon", "Polygon"], ["monad", "Monad"], ["hyperevm", "HyperEVM"], ["arbitrum", "Arbitrum One"], ["robinhood", "Robinhood Chain"], ["arc", "Arc"], ["optimism", "OP Mainnet"], ["gnosis", "Gnosis"]]);
/** Addresses without an owner, to which burnt tokens go. */
export const BURN_ADDRESSES: readonly string[] = ["0x0000000000000000000000000000000000000000", "0x000000000000000000000000000000000000dead", "0xdead000000000000000042069420694206942069", "1nc1nerator11111111111111111111111111111111"];
