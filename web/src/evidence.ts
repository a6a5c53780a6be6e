/** Why holders are a cluster: its links, and a sentence about the strongest evidence. */
import type { Cluster, Link, Node, TokenMap } from "./data";
import { counted, date, name, rough } from "./format";

export type Evidence = {
  /** Holders and linking wallets, the largest first. */
  members: Node[];
  /** Links between members, and with the time nodes that at least two of them used; the strongest first. */
  links: Link[];
  /** Ids of the members and of these time nodes. */
  ids: Set<string>;
  strongest: Link | null;
  sentence: string;
};

/** A group of links that connects holders in the same way: directly, over a wallet, or over a time node. */
type Group = { hub: Node | null; links: Link[]; holders: Set<string> };

export function evidenceOf(map: TokenMap, { cluster_id: number }: Cluster, symbolOf: (link: Link) => string): Evidence {
  const members = map.nodes.filter((node) => node.cluster_id === number && node.kind !== "time");
  const ids = new Set(members.map((node) => node.id));
  const hubs = new Map<Node | null, Group>();
  const add = (hub: Node | null, link: Link) => {
    const group = hubs.get(hub) ?? { hub, links: [], holders: new Set() };
    hubs.set(hub, group);
    group.links.push(link);
    for (const id of [link.from, link.to]) if (id !== hub?.id) group.holders.add(id);
  };
  for (const node of map.nodes) {
    if (node.kind !== "time") continue;
    const links = (map.linksOf.get(node.id) ?? []).filter((link) => ids.has(link.from) || ids.has(link.to));
    if (new Set(links.map((link) => (link.from === node.id ? link.to : link.from))).size > 1) for (const link of links) add(node, link);
  }
  for (const link of map.links) {
    if (link.time_node !== null || !ids.has(link.from) || !ids.has(link.to)) continue;
    add([link.from, link.to].map((id) => map.byId.get(id)).find((node) => node?.kind === "magic") ?? null, link);
  }
  for (const hub of hubs.keys()) if (hub) ids.add(hub.id);
  const links = [...hubs.values()].flatMap((group) => group.links).sort(byStrength);
  const order = (group: Group) => (group.hub === null ? 0 : group.hub.kind === "magic" ? 1 : 2);
  const [first] = [...hubs.values()].sort((one, two) => two.holders.size - one.holders.size || order(one) - order(two));
  const strongest = first ? ([...first.links].sort(byStrength)[0] ?? null) : null;
  return { members, links, ids, strongest, sentence: first && strongest ? said(map, first, strongest, symbolOf(strongest), links.length - 1) : "The source gives no transfers that show why these holders are together." };
}

const byStrength = (one: Link, two: Link) => (two.transfers ?? 0) - (one.transfers ?? 0) || Number(two.amount ?? 0) - Number(one.amount ?? 0);

/** Keeps a name that is written from right to left from changing the text around it. */
const isolated = (text: string) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);

function said(map: TokenMap, { hub, holders }: Group, link: Link, symbol: string, others: number): string {
  const called = (id: string) => isolated(name(map.byId.get(id) ?? { address: id, label: null }));
  const amount = `${rough(link.amount)} ${symbol}`.trim();
  const when = `${link.transfers === null ? "" : ` in ${counted(link.transfers, "transfer")}`}${link.first_date === link.last_date ? " on " : ", the last on "}${date(link.last_date)}${others ? `; ${counted(others, "more link")}` : ""}`;
  if (!hub) return `${called(link.from)} sent ${amount} to ${called(link.to)}${when}.`;
  const act = link.from === hub.id ? `sent ${amount} to ${called(link.to)}` : `got ${amount} from ${called(link.from)}`;
  if (hub.kind === "magic") return `The wallet ${called(hub.id)} links ${counted(holders.size, "holder")}: it ${act}${when}.`;
  return `${counted(holders.size, "holder")} used ${called(hub.id)} at the same time: it ${act}${when}.`;
}
