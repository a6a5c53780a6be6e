/** Why holders are a cluster: its links, and sentences about the strongest evidence. */
import type { Cluster, Link, Node, TokenMap } from "./data";
import { counted, date, kindOf, name, rough, seconds, share } from "./format";

export type Evidence = {
  /** Holders and linking wallets, the largest first. */
  members: Node[];
  /** Links between members, and with the time nodes that at least two of them used; the strongest first. */
  links: Link[];
  /** Ids of the members and of these time nodes. */
  ids: Set<string>;
  strongest: Link | null;
  sentence: string;
  /** The address that joins most holders, their number, and its transfers of the strongest link's token. */
  hub: Node | null;
  joined: number;
  reason: Reason;
  /** A sentence if the evidence is weak; else empty. */
  weakness: string;
  /** The largest member, and whether only weak links join it. */
  most: Node | null;
  isDoubtful: boolean;
};

/** The unit of a link's amount, and whether it is the map's own token. */
export type Units = { symbolOf: (link: Link) => string; isOwn: (link: Link) => boolean };

/** The links of one wallet or time node that connects holders: of a holder those that it sent. `own` is the moved amount of the map's token. */
type Group = { hub: Node; links: Link[]; holders: Set<string>; own: number };

/** A reader recognises a named wallet, so its transfers count double. */
const NAMED = 2;
/** A member that moved a smaller part of its amount is weakly joined. */
const WEAK = 0.01;

/** Returns the evidence for a cluster. Transfers that began after the map's instant are not evidence. */
export function evidenceOf(whole: TokenMap, { cluster_id: number }: Pick<Cluster, "cluster_id">, units: Units): Evidence {
  const until = seconds(whole.at);
  const isKnown = (link: Link) => !((link.first_date ?? 0) > until);
  const map = whole.links.every(isKnown) ? whole : { ...whole, links: whole.links.filter(isKnown), linksOf: new Map([...whole.linksOf].map(([id, links]) => [id, links.filter(isKnown)])) };
  const members = map.nodes.filter((node) => node.cluster_id === number && node.kind !== "time");
  const [most = null] = members.filter((node) => node.kind !== "magic" && node.share !== null).sort((one, two) => (two.share ?? 0) - (one.share ?? 0));
  const ids = new Set(members.map((node) => node.id));
  const groups = new Map<Node, Group>();
  const add = (hub: Node | undefined, link: Link) => {
    if (!hub) return;
    const group = groups.get(hub) ?? { hub, links: [], holders: new Set(), own: 0 };
    groups.set(hub, group);
    group.links.push(link);
    if (units.isOwn(link)) group.own += Number(link.amount ?? 0);
    for (const id of [link.from, link.to]) if (id !== hub.id) group.holders.add(id);
  };
  for (const node of map.nodes) {
    if (node.kind !== "time") continue;
    const links = (map.linksOf.get(node.id) ?? []).filter((link) => ids.has(link.from) || ids.has(link.to));
    if (new Set(links.map((link) => (link.from === node.id ? link.to : link.from))).size > 1) for (const link of links) add(node, link);
  }
  for (const link of map.links) {
    if (link.time_node !== null || !ids.has(link.from) || !ids.has(link.to)) continue;
    const [from, to] = [map.byId.get(link.from), map.byId.get(link.to)];
    add(to?.kind === "magic" && from?.kind !== "magic" ? to : from, link);
  }
  for (const hub of groups.keys()) ids.add(hub.id);
  const byStrength = (one: Link, two: Link) =>
    Number(units.isOwn(two)) - Number(units.isOwn(one)) || Number(two.amount ?? 0) - Number(one.amount ?? 0) || (two.transfers ?? 0) - (one.transfers ?? 0);
  const links = [...groups.values()].flatMap((group) => group.links).sort(byStrength);
  const order = ({ hub }: Group) => (hub.kind === "time" ? 1 : 0);
  const isNamed = ({ hub, links: every }: Group) => [hub, ...every.flatMap((link) => map.byId.get(link.from === hub.id ? link.to : link.from) ?? [])].some((node) => node.kind !== "time" && node.label);
  const weight = (group: Group) => group.own * (isNamed(group) ? NAMED : 1);
  const weighed = [...groups.values()].map((group) => ({ group, weight: weight(group) }));
  weighed.sort((one, two) => two.weight - one.weight || two.group.holders.size - one.group.holders.size || order(one.group) - order(two.group));
  const first = weighed[0]?.group;
  const strongest = first ? ([...first.links].sort(byStrength)[0] ?? null) : null;
  if (!first || !strongest) return { members, links, ids, strongest, hub: null, joined: 0, reason: reasonOf(map, "", []), weakness: "", most, isDoubtful: false, sentence: "The source gives no transfers that show why these holders are together." };
  const [join, weakness, isDoubtful] = largest(map, most, first, links, units);
  const { hub } = first;
  const joined = holdersOf(map, [...first.holders, hub.id]).length;
  const did = reasonOf(map, hub.id, first.links.filter((link) => isSameToken(link, strongest)));
  return { members, links, ids, strongest, hub, joined, reason: did, weakness, most, isDoubtful, sentence: [reason(map, hub, joined, did, units), join, weakness].filter(Boolean).join(" ") };
}

/** What a node did over some links: the ids of those that it sent to and got from, with the links, and when (unix seconds; 0 if unknown). */
export type Reason = { to: string[]; sent: Link[]; from: string[]; got: Link[]; begin: number; end: number };

function reasonOf(map: TokenMap, id: string, links: Link[]): Reason {
  const sent = links.filter((link) => link.from === id && link.to !== id);
  const got = links.filter((link) => link.to === id && link.from !== id);
  const end = Math.max(0, ...links.map((link) => link.last_date ?? 0));
  return {
    to: [...new Set(sent.map((link) => link.to))],
    sent,
    from: [...new Set(got.map((link) => link.from))],
    got,
    begin: Math.min(...links.map((link) => link.first_date ?? Infinity)),
    end: end > seconds(map.at) ? 0 : end, // later transfers are not evidence
  };
}

/** Returns those of some ids that are holders; others are linking wallets and time nodes. */
export const holdersOf = ({ byId }: TokenMap, ids: string[]) => ids.filter((id) => !["magic", "time"].includes(byId.get(id)?.kind ?? ""));

/** Keeps a name that is written from right to left from changing the text around it. */
const isolated = (text: string) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);
const called = (map: TokenMap, id: string) => isolated(name(map.byId.get(id) ?? { address: id, label: null }));
const sum = (links: Link[]) => links.reduce((total, link) => total + Number(link.amount ?? 0), 0);
const isSameToken = (one: Link, two: Link) => one.transfer_token === two.transfer_token && one.transfer_chain === two.transfer_chain;

/** Returns what a node got and sent over links of one token, such as "got 5 KELP from Ada and sent 4 KELP to 3 holders on 1 May 2026". */
function moved(map: TokenMap, { to, sent, from, got, begin, end }: Reason, { symbolOf }: Units): string {
  const part = (some: Link[], verb: string, side: "from" | "to", others: string[]) => {
    const [one] = some;
    if (!one) return [];
    const amount = `${rough(some.length === 1 ? one.amount : String(sum(some)))} ${symbolOf(one)}`.trim();
    return `${verb} ${amount} ${side} ${others.length === 1 ? called(map, one[side]) : listed(map, others)}`;
  };
  const said = [part(got, "got", "from", from), part(sent, "sent", "to", to)].flat().join(" and ");
  const transfers = [...got, ...sent].reduce((total, link) => total + (link.transfers ?? 0), 0);
  const when = !end ? "" : date(begin) === date(end) ? ` on ${date(end)}` : transfers > 1 ? `, the last on ${date(end)}` : ` on ${date(end)}`;
  return `${said}${transfers > 1 ? ` in ${counted(transfers, "transfer")}` : ""}${when}`;
}

/** Counts nodes, such as "9 holders and 1 linking wallet". */
function listed(map: TokenMap, ids: string[]): string {
  const holders = holdersOf(map, ids).length;
  const others = ids.length - holders;
  return [holders && counted(holders, "holder"), others && counted(others, "linking wallet")].filter(Boolean).join(" and ");
}

/** Returns the sentence about the group that moved most. */
function reason(map: TokenMap, hub: Node, joined: number, did: Reason, units: Units): string {
  const act = moved(map, did, units);
  if (hub.kind === "time") return `${counted(joined, "holder")} used ${called(map, hub.id)} at the same time: it ${act}.`;
  return hub.kind === "magic" ? `The wallet ${called(map, hub.id)} links ${counted(joined, "holder")}: it ${act}.` : `${called(map, hub.id)} ${act}.`;
}

/** Returns two sentences about the largest member: what joins it unless that was said, and whether this is little. */
function largest(map: TokenMap, most: Node | null, first: Group, links: Link[], units: Units): [string, string, boolean] {
  if (!most) return ["", "", false];
  const joins = links.filter((link) => link.from === most.id || link.to === most.id);
  const [join] = joins;
  const isElsewhere = join && most.id !== first.hub.id && !first.holders.has(most.id);
  const said = isElsewhere ? `The largest member, ${called(map, most.id)} with ${share(most.share)} of the supply, ${moved(map, reasonOf(map, most.id, [join]), units)}.` : "";
  const kind = kindOf(first.hub);
  const part = sum(joins) / Number(most.amount);
  const isLittle = join && joins.every(units.isOwn) && part < WEAK;
  const weak = isLittle ? `Weak: the transfers that link ${called(map, most.id)} are ${share(part).replace("<", "less than ")} of its balance.` : first.hub.kind === "time" ? `Weak: strangers can use ${kind === "exchange" ? "an" : "a"} ${kind} in the same minutes.` : "";
  return [said, weak, Boolean(isLittle)];
}
