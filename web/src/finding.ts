/** One sentence about a map: the most important fact, its cause, and a warning if the evidence is weak. It is above the map and in saved files. */
import type { Cluster, History, Instant, Node, TokenMap } from "./data";
import { evidenceOf, holdersOf, type Reason, type Units } from "./evidence";
import { counted, date, isBurn, isExcluded, kindOf, name, seconds, share } from "./format";

/** A change of the largest cluster's share by a smaller factor is not worth a word. */
const NOTABLE = 1.2;

export function findingOf(map: TokenMap, of: History, at: Instant, units: Units): string {
  const [cluster] = map.clusters;
  const burnt = burntShare(map);
  const lost = burnt >= NOTABLE_BURN ? ` ${share(burnt)} is burnt.` : "";
  if (!cluster) return withoutClusters(map) + lost;
  const { hub, joined, reason, weakness, most, isDoubtful } = evidenceOf(map, cluster, units);
  const part = most?.share ?? 0;
  const rest = share(cluster.share - part);
  const condition = !most ? "" : isDoubtful ? `, if ${name(most)} is one of them (without it ${rest})` : isMost(part, cluster) ? ` (${rest} without ${name(most)})` : "";
  const [lone] = drawnOf(map).filter((node) => node.cluster_id === null);
  const first = lone && (lone.share ?? 0) > cluster.share ? `${name(lone)} alone holds ${share(lone.share)}; ` : "";
  const who = `${first}${counted(cluster.holder_count, "wallet")} together hold ${share(cluster.share)}${condition}`;
  const how = hub ? `, ${joining(map, cluster, hub, joined, reason)}` : "";
  return `${who}${how}${trend(of, at)}.${weakness ? ` ${weakness}` : ""}${lost}`;
}

const NOTABLE_BURN = 0.01;
/** Whether a member holds most of what its cluster of three or more holds. */
const isMost = (part: number, { share: all, holder_count: holders }: Cluster) => holders > 2 && part > all / 2;
/** The drawn holders, the largest first. */
const drawnOf = ({ nodes }: TokenMap) => nodes.filter((node) => node.kind === "top_holder" && !isExcluded(node));

/** The share at addresses without an owner. */
export const burntShare = (map: TokenMap) => map.nodes.reduce((sum, node) => sum + (node.kind !== "time" && isBurn(node) ? (node.share ?? 0) : 0), 0);

/** Returns how a wallet, or an exchange in a window of time, joins holders. The wallet is not counted among those that it joins by its transfers. */
function joining(map: TokenMap, cluster: Cluster, hub: Node, joined: number, { to, from, begin, end }: Reason): string {
  const when = !end ? "" : date(begin) === date(end) ? ` on ${date(end)}` : ` from ${beginOf(date(begin), date(end))} to ${date(end)}`;
  const some = (count: number) => (count < cluster.holder_count ? `${count} of them ` : "");
  const [sent, got] = [to, from].map((ids) => holdersOf(map, ids).length) as [number, number];
  const named = hub.label ? name(hub) : "";
  if (hub.kind === "time") return `if transfers of ${named || `one ${kindOf(hub)}`} in the same minutes${when} link ${some(joined).trim() || "them"}`;
  const who = hub.kind === "magic" ? named || "one wallet" : named ? `another member (${named})` : "another member";
  if (sent > 1) return `${some(sent)}funded by ${who}${when}`;
  if (got > 1) return `${some(got)}paying into ${who}${when}`;
  return `${some(joined)}linked by transfers${when}`;
}

/** Returns the first day of a range without the month and year that are also those of its last day. */
function beginOf(begin: string, end: string): string {
  const [words, others] = [begin.split(" "), end.split(" ")];
  while (words.at(-1) === others.pop()) words.pop();
  return words.join(" ");
}

function withoutClusters(map: TokenMap): string {
  const drawn = drawnOf(map);
  const [largest] = drawn;
  if (!largest) return "";
  return `Nothing links the ${counted(drawn.length, "drawn holder")}; the largest, ${name(largest)}, has ${share(largest.share)}.`;
}

/** Returns how the share of the largest cluster changed: up to the newest date, or at the newest since its extreme. */
function trend({ instants }: History, at: Instant): string {
  const known = instants.filter((one) => one.series === at.series && one.largest_cluster !== null);
  const part = (one: Instant) => one.largest_cluster as number;
  const last = known.at(-1);
  if (at.largest_cluster === null || !last || known.length < 2) return "";
  const differs = (one: Instant) => Math.max(part(one), part(at)) > NOTABLE * Math.min(part(one), part(at));
  if (last.at !== at.at) return differs(last) ? `; largest cluster ${part(last) < part(at) ? "down" : "up"} to ${share(part(last))} on ${date(seconds(last.at))}` : "";
  const extremes = known.filter(differs).sort((one, two) => Math.abs(part(two) - part(at)) - Math.abs(part(one) - part(at)));
  const [far] = extremes;
  return far ? `; largest cluster ${part(far) > part(at) ? "down" : "up"} from ${share(part(far))} on ${date(seconds(far.at))}` : "";
}

/** Returns the sentence, and the notes that follow it. */
export function partsOf(text: string): [string, string] {
  const end = /\.(?= (Weak:|[\d.]+% is burnt))/.exec(text)?.index ?? text.length;
  return [text.slice(0, end + 1), text.slice(end + 1).trim()];
}
