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
