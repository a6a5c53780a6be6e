/** The sentences about a map. The server makes them; the page adds names, amounts and the trend. */
import type { History, Instant, Link, TokenMap } from "./data";
import { date, name, rough, seconds, share } from "./format";

/** A change of the largest cluster's share by a smaller factor is not worth a word. */
const NOTABLE = 1.2;

/** Keeps a name that is written from right to left from changing the text around it. */
const isolated = (text: string) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);

/** Returns a sentence of the server with the name of each {name node} and the amount of each {sum link amount}. */
export function said({ nodes, numbered }: TokenMap, text: string, symbolOf: (link: Link) => string): string {
  return text.replace(/\{(\w+) (\d+) ?([^}]*)\}/g, (_, what: string, at: string, amount: string) =>
    what === "name" ? isolated(name(nodes[Number(at)] as TokenMap["nodes"][number])) : `${rough(amount || null)} ${symbolOf(numbered[Number(at)] as Link)}`.trim());
}

/** Returns the sentence above the map and in saved files, with the trend, and the notes that follow it. */
export function findingOf(map: TokenMap, of: History, at: Instant, symbolOf: (link: Link) => string): [string, string] {
  const [first, notes] = map.finding;
  return [first && `${said(map, first, symbolOf)}${map.clusters.length ? trend(of, at) : ""}.`, said(map, notes, symbolOf)];
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
