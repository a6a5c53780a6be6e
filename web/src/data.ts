/** Requests to the server. Answers become rows, and are cached until a new version of the warehouse is published. */
import { signal } from "@preact/signals";
import type { HolderNode, Scores, SupplyStats } from "./columns";
import { cut, name } from "./format";
import { askedFor, idOf, rows, type Columns } from "./table";

export type Token = {
  chain: string;
  token_address: string;
  name: string | null;
  symbol: string | null;
  maps: number;
  instants: number;
  latest: string | null;
  /** The largest holder that matches, if one is in the newest list of holders, with its label and share. */
  wallet: string | null;
  wallet_label: string | null;
  share: number | null;
  found: number;
};

/** Shares are parts of the supply from 0 to 1; `at` is the text of a partition, 20261101T000000Z. */
export type Instant = SupplyStats & Scores & {
  at: string;
  /** Days since the end of the source's data; null before that end. */
  days_after_data: number | null;
  /** Request options of the map; figures of maps with other options are not comparable. */
  series: string | null;
  has_map: boolean;
  top_10_share: number | null;
  holders: number | null;
  clusters: number | null;
  largest_cluster: number | null;
};

/** The last comparison of a token's transfers with a node: its result, and the last block with its time (unix). */
export type Verified = { isComplete: boolean; hasOtherBalances: boolean; block: number; asOf: number };

/** `dataEnd` is the end of the source's data in unix seconds, if maps are later; `assumedDecimals` are decimals that no source gave;
 * `hasOwners` is whether the owners of its holders were searched. */
export type History = {
  chain: string;
  address: string;
  name: string;
  symbol: string;
  dataEnd: number | null;
  assumedDecimals: number | null;
  hasOwners: boolean;
  verified: Verified | null;
  instants: Instant[];
  failures: Failure[];
};

type Details = Pick<HolderNode, "address" | "label" | "is_contract" | "is_cex" | "is_dex">;

/** A node of a map. Kind "holder" is in the list of holders, but not on the map. Amounts are exact texts. */
export type Node = Omit<HolderNode, "first_activity_date"> & {
  id: string;
  kind: "top_holder" | "magic" | "time" | "holder";
  time_node: number | null;
  first_activity: number | null;
  cluster_id: number | null;
  /** The wallets that this node stands for, if it is an owner of several. */
  owner?: Owner;
};

/** Wallets of one owner, the largest 200, and the number of all of them. */
export type Owner = { wallets: number; members: Member[] };
/** A wallet of an owner: the confidence that it belongs to it (0 to 1), and the kinds of evidence. */
export type Member = Pick<Node, "address" | "label" | "share" | "amount"> & { confidence: number; kinds: string };

/** Transfers from one node to another; dates are unix seconds. */
export type Link = {
  from: string;
  to: string;
  from_address: string;
  to_address: string;
  time_node: number | null;
  rel_type: string;
  transfer_chain: string | null;
  transfer_token: string | null;
  transfer_symbol: string | null;
  amount: string | null;
  transfers: number | null;
  first_date: number | null;
  last_date: number | null;
};

export type Cluster = {
  cluster_id: number;
  share: number;
  amount: string | null;
  holder_count: number;
  magic_node_count: number;
  /** Why the holders are together: a sentence, the numbers of the links, the strongest first, and that of the sentence's link. */
  sentence: string;
  links: number[];
  strongest: number | null;
};

export type Failure = { endpoint: string; code: string; reason: string; at: string };

export type TokenMap = {
  at: string;
  nodes: Node[];
  links: Link[];
  clusters: Cluster[];
  failures: Failure[];
  /** The sentence about the map, without its full stop, and the notes that follow it. */
  finding: [string, string];
  /** The links by their numbers in sentences and clusters. */
  numbered: Link[];
  byId: Map<string, Node>;
  linksOf: Map<string, Link[]>;
};

export type Change = Details & {
  rank_before: number | null;
  rank_after: number | null;
  share_before: number | null;
  share_after: number | null;
  amount_change: string | null;
  /** Most that an address can have while a full list lacks it. */
  unlisted_at_most: string | null;
  change: "entered" | "left" | "grew" | "shrank";
};

/** How often the warehouse was published since the page opened. */
export const renewals = signal(0);
/** The version of the warehouse that answered last. */
let version = "";

type Known = { name: string | null; symbol: string | null; data_end: number | null; assumed_decimals: number | null; has_owners: boolean; verified: boolean | null; verified_balances: string; verified_block: number; verified_as_of: number };

/** A saved page carries its answers, compressed, by request. */
const packed = document.getElementById("answers");
export const isSaved = packed !== null;
const saved = packed && unpacked(packed.textContent ?? "");

async function unpacked(text: string): Promise<Record<string, unknown>> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

const cached = new Map<string, Promise<unknown>>();
/** A map of 5,000 links takes three megabytes. */
const MAX_CACHED = 24;

export async function findTokens(text: string): Promise<Token[]> {
  if (isSaved) return [];
  return rows<Token>(await request<Columns>("tokens", { q: text }));
}

export function history(chain: string, token: string): Promise<History> {
  return once("history", { chain, token }, (answer: { token: Columns; instants: Columns; failures: Columns }) => {
    const known = rows<Known>(answer.token)[0];
    const instants = rows<Instant>(answer.instants);
    const failures = rows<Failure>(answer.failures);
    const isNamed = known?.name !== token; // a store without the token's name has its address, and the address's beginning as symbol
    const verified = !known || known.verified === null ? null : { isComplete: known.verified, hasOtherBalances: known.verified_balances === "different", block: known.verified_block, asOf: known.verified_as_of };
    return { chain, address: token, name: (isNamed && known?.name) || "", symbol: (isNamed && known?.symbol) || "", dataEnd: known?.data_end ?? null, assumedDecimals: known?.assumed_decimals ?? null, hasOwners: known?.has_owners ?? false, verified, instants, failures };
  });
}

/** Newest maps that were requested before their instant was known. */
const newest = new Map<string, Promise<TokenMap | undefined>>();

/** Requests the newest map of a token, while its history is on the way. */
export function startNewest(chain: string, token: string, add: string): void {
  const name = `${chain} ${token} ${add}`;
  if (newest.has(name)) return;
  const more = add && { add };
  const early = request<Record<string, Columns>>("map", { chain, token, ...more }).then((answer) => {
    const map = toMap(answer);
    if (map.at) void kept(askedFor("map", { chain, token, at: map.at, ...more }), async () => map);
    return map;
  });
  newest.set(name, early.catch(() => undefined).finally(() => newest.delete(name)));
}

/** Requests a map; `add` names more addresses for it, with commas between them. */
export function tokenMap(chain: string, token: string, at: string, add: string, isByOwner = false): Promise<TokenMap> {
  const asked = { chain, token, at, ...(add && { add }) };
  const plain = kept(askedFor("map", asked), async () => {
    const early = await newest.get(`${chain} ${token} ${add}`);
    return early?.at === at ? early : toMap(await request("map", asked));
  });
  if (!isByOwner) return plain;
  return kept(askedFor("map by owner", asked), async () => byOwner(await plain, await owners(chain, token, at, add)));
}

type Figures = { number: number; top_10_share: number; gini_index: number; herfindahl_hirschman_index: number; nakamoto_coefficient: number };
/** Concentration by wallet, by certain owners and by all owners; `searched` is the time of the search for owners (unix seconds). */
export type OwnerFigures = Figures & { holders: "wallets" | "certain owners" | "owners"; searched: number | null };
type ByOwner = Pick<TokenMap, "nodes" | "clusters" | "finding"> & { figures: OwnerFigures[] };

/** Requests what differs in the map by owner, whose nodes are wallets or owners of several, and the concentration. */
export function owners(chain: string, token: string, at: string, add: string): Promise<ByOwner> {
  return once("owners", { chain, token, at, ...(add && { add }) }, ({ nodes, clusters, figures, finding }: Record<string, Columns>) => ({
    nodes: toNodes(nodes),
    clusters: rows<Cluster>(clusters ?? {}),
    finding: finding as unknown as TokenMap["finding"],
    figures: rows<OwnerFigures>(figures ?? {}),
  }));
}

/** Returns a map with the wallets of each owner as one node. */
function byOwner(map: TokenMap, { nodes, clusters, finding }: ByOwner): TokenMap {
  const wallets = nodes.flatMap((node) => node.owner?.members.map(({ address }) => [address, node] as const) ?? []);
  const ownerOf = new Map(wallets);
  const end = (id: string) => ownerOf.get(id)?.id ?? id;
  const numbered = map.numbered.map((link) => ({ ...link, from: end(link.from), to: end(link.to) }));
  return linked({ ...map, nodes, clusters, finding, numbered, links: numbered.filter((link) => link.from !== link.to) }, wallets);
}

/** Requests the nodes and links of all maps of a token, which the worker of layouts reads. */
export const past = (chain: string, token: string) => request<object>("past", { chain, token });

export type Transfer = { time: number; amount: string | null; token_id: string | null; tx_hash: string | null; found: number };

/** The newest transfers behind a link, if the warehouse has those of an own store. */
export function transfersOf(link: Link, at: string): Promise<Transfer[]> {
  if (isSaved) return Promise.resolve([]);
  const asked = { chain: link.transfer_chain ?? "", token: link.transfer_token ?? "", sender: link.from_address, receiver: link.to_address, at };
  return once("transfers", asked, (answer: Columns) => rows<Transfer>(answer));
}

/** A wallet with which a holder exchanged the token, with the number of transfers in and out. */
export type Counterparty = { address: string; transfers_in: number; transfers_out: number };

/** The wallets with the most transfers from and to an address, if the warehouse has those of an own store. */
export async function counterparties(chain: string, token: string, address: string, at: string): Promise<Counterparty[]> {
  return isSaved ? [] : once("counterparties", { chain, token, address, at }, (answer: Columns) => rows<Counterparty>(answer));
}

/** What a wallet got, or sent, of the token in a month, which begins at `month` (unix seconds). */
export type Period = { month: number; is_received: boolean; amount: string | null; transfers: number };

/** What an address got and sent in each month, the newest first, if the warehouse has the transfers of an own store. */
export async function periods(chain: string, token: string, address: string, at: string): Promise<Period[]> {
  return isSaved ? [] : once("periods", { chain, token, address, at }, (answer: Columns) => rows<Period>(answer));
}

type Pages = Record<"address" | "transaction", Record<string, string>> & { can_rename: boolean };
/** Pages of block explorers from the settings, by kind and chain, and whether names can be given. */
export const pages = signal<Pages>({ address: {}, transaction: {}, can_rename: false });
export const findPages = async (): Promise<void> => void (pages.value = await request<Pages>("links", {}));

export function comparison(chain: string, token: string, before: string, after: string): Promise<Change[]> {
  return once("compare", { chain, token, before, after }, (answer: Columns) => rows<Change>(answer));
}

/** Stores a wallet's name as a label of the own store; an empty name removes it. */
export async function giveName(address: string, name: string): Promise<void> {
  const answer = await fetch("api/names", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ address, name }) });
  if (answer.ok) return;
  const body = await answer.json().catch(() => ({}));
  throw new Error(errorText(body.detail) ?? `The explorer answered ${answer.status}.`);
}

/** A difference between two sources; `what` is "equal" if there is none. `found` counts those of both sources. */
export type Difference = {
  source_a: string;
  source_b: string;
  what: string;
  subject: string;
  a: string | null;
  b: string | null;
  cause: string;
  compared_at: number;
  found: number;
};

export function sources(chain: string, token: string, at: string): Promise<Difference[]> {
  return once("sources", { chain, token, at }, (answer: Columns) => rows<Difference>(answer));
}

/** Requests a history again, which also drops cached answers of an older version. */
export async function refresh(chain: string, token: string): Promise<void> {
  cached.delete(askedFor("history", { chain, token }));
  await history(chain, token);
}

function toNodes(columns: Columns = {}): Node[] {
  const nodes = rows<Node>(columns);
  for (const one of nodes.flatMap((node) => [node, ...(node.owner?.members ?? [])])) {
    if (one.label !== null && !cut(one.label, 1).trim()) one.label = null; // without visible characters
  }
  const holders = new Map(nodes.flatMap((node) => (node.time_node === null ? [[node.address, node]] : [])));
  for (const node of nodes) {
    node.id = idOf(node.address, node.time_node);
    if (node.time_node !== null) node.label ??= holders.get(node.address)?.label ?? null;
    if (node.owner) node.label = `${node.label}: ${name(node.owner.members[0] as Member)}`;
  }
  return nodes;
}

function toMap(answer: Record<string, Columns>): TokenMap {
  const { at = "", finding = ["", ""] } = answer as unknown as Partial<TokenMap>;
  const nodes = toNodes(answer.nodes);
  const ids = new Set(nodes.map(({ id }) => id));
  const links = rows<Link>(answer.links ?? {});
  for (const link of links) {
    const end = (address: string) => {
      const inWindow = `${address}#${link.time_node}`;
      return link.time_node !== null && ids.has(inWindow) ? inWindow : address;
    };
    link.from = end(link.from_address);
    link.to = end(link.to_address);
  }
  return linked({ at, finding, nodes, links, numbered: links, clusters: rows<Cluster>(answer.clusters ?? {}), failures: rows<Failure>(answer.failures ?? {}) });
}

/** Adds the look-ups of nodes and links. `others` are more ids of nodes: of the wallets of an owner. */
function linked(map: Omit<TokenMap, "byId" | "linksOf">, others: (readonly [string, Node])[] = []): TokenMap {
  const linksOf = new Map<string, Link[]>();
  for (const link of map.links) {
    for (const id of link.from === link.to ? [link.from] : [link.from, link.to]) {
      const listed = linksOf.get(id);
      if (listed) listed.push(link);
      else linksOf.set(id, [link]);
    }
  }
  return { ...map, byId: new Map([...others, ...map.nodes.map((node) => [node.id, node] as const)]), linksOf };
}

function once<A, B>(path: string, query: Record<string, string>, read: (answer: A) => B): Promise<B> {
  return kept(askedFor(path, query), () => request<A>(path, query).then(read));
}

/** Returns the promise of that name, or makes it. */
function kept<T>(name: string, make: () => Promise<T>): Promise<T> {
  const found = cached.get(name) as Promise<T> | undefined;
  if (found) return found;
  const answer = make();
  answer.catch(() => cached.delete(name));
  cached.set(name, answer);
  const oldest = cached.keys().next().value;
  if (cached.size > MAX_CACHED && oldest !== undefined) cached.delete(oldest);
  return answer;
}

async function request<T>(path: string, query: Record<string, string>): Promise<T> {
  if (saved) {
    const answer = (await saved)[askedFor(path, query)];
    if (answer === undefined) throw new Error("This saved page does not have that. Open it in the explorer.");
    return answer as T;
  }
  const name = askedFor(path, query);
  const sent = globalThis.early?.get(name);
  globalThis.early?.delete(name);
  let answer: Response;
  try {
    answer = await (sent ?? fetch(`api/${name}`));
  } catch {
    throw new Error("The explorer no longer answers. Start 'holderlake explore' again, then reload this page.");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(errorText(body.detail) ?? `The explorer answered ${answer.status}.`);
  const tag = answer.headers.get("etag") ?? "";
  if (tag && tag !== version) {
    const isRenewed = version !== "";
    version = tag;
    if (isRenewed) {
      for (const other of cached.keys()) if (other !== name) cached.delete(other);
      renewals.value++;
    }
  }
  return body as T;
}

function errorText(detail: unknown): string | undefined {
  if (Array.isArray(detail)) return detail.map((one) => String(one.msg)).join("; ");
  return typeof detail === "string" ? detail : undefined;
}
