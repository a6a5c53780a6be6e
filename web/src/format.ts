/** Formats numbers, dates and names. Foreign texts are untrusted: they are cut and stripped of invisible characters. */
import { BURN_ADDRESSES, CHAINS, FIGURES, type FigureName } from "./columns";

/** Returns a function that makes a formatter at its first use: the first one takes a tenth of a second on a slow phone. */
function lazy<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

const english = (options: Intl.NumberFormatOptions) => lazy(() => new Intl.NumberFormat("en", options));
const percents = [0, 1, 2, 3].map((digits) => english({ style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }));
const counts = english({});
const numbers = english({ maximumSignificantDigits: 4 });
const scores = english({ maximumFractionDigits: 1 });
const indices = english({ minimumFractionDigits: 3, maximumFractionDigits: 3 });
const short = english({ notation: "compact", maximumSignificantDigits: 3 });
const british = (options: Intl.DateTimeFormatOptions) => lazy(() => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options }));
const days = british({ day: "numeric", month: "short", year: "numeric" });
const months = british({ month: "short", year: "numeric" });
const times = british({ hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const NOTHING = "–";

export function share(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  if (size === 0) return "0%";
  if (size < 0.00001) return value > 0 ? "<0.001%" : ">−0.001%";
  const most = size < 1 - 1e-9 ? 0.999 : size; // only all of the supply is 100%
  const digits = percents[size >= 1 - 1e-9 ? 0 : size >= 0.1 ? 1 : size >= 0.001 ? 2 : 3] as () => Intl.NumberFormat;
  return digits().format(Math.sign(value) * Math.min(size, most)).replace("-", "−");
}

/** Formats a difference of two shares in percentage points. */
export const points = (value: number) => (value === 0 ? "0" : share(value).replace("%", " pp"));

export const count = (value: number | null | undefined) => (value === null || value === undefined ? NOTHING : counts().format(value));

/** Formats a number of things, such as "1 holder" or "3 holders". */
export const counted = (value: number, what: string) => `${count(value)} ${what}${value === 1 ? "" : "s"}`;

export const number = (value: number | null | undefined) => (value === null || value === undefined ? NOTHING : numbers().format(value));

const TEXTS: Record<(typeof FIGURES)[FigureName]["unit"], (value: number) => string> = {
  score: (value) => scores().format(value),
  share,
  index: (value) => indices().format(value),
  groups: count,
};

/** Formats a figure of a map in its unit. */
export const figure = (name: FigureName, value: number | null | undefined) => (value === null || value === undefined ? NOTHING : TEXTS[FIGURES[name].unit](value));

/** The part (0 to 1) of its bar that a share or the score fills. */
export function partOf(name: FigureName, value: number | null): number | null {
  const { unit } = FIGURES[name];
  if (value === null || (unit !== "share" && unit !== "score")) return null;
  return Math.min(1, Math.max(0, unit === "score" ? value / 100 : value));
}

export function signed(value: number | null, say: (value: number) => string): string {
  if (value === null) return NOTHING;
  return value > 0 ? `+${say(value)}` : say(value).replace("-", "−");
}

/** Formats an exact amount with thousands separators and all its digits. */
export function exact(amount: string | null): string {
  if (amount === null) return NOTHING;
  const [whole = "", rest] = amount.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",").replace("-", "−");
  return rest ? `${grouped}.${rest}` : grouped;
}

/** Formats an amount with three significant digits. */
export function rough(amount: string | null): string {
  if (amount === null) return NOTHING;
  const value = Number(amount);
  if (Math.abs(value) >= 1e15) return value.toExponential(2).replace("e+", "e");
  return Number.isFinite(value) ? short().format(value).replace("-", "−") : exact(amount);
}

const THOUSANDS: Record<string, number> = { "": 1, k: 1e3, m: 1e6, b: 1e9, t: 1e12 };

/** Returns the number of a text such as 10M, 2.5k or 1,000; 0 for any other text. */
export function amountOf(text: string): number {
  const [, digits, power = ""] = /^\s*([\d.,]+)\s*([kmbt]?)\s*$/i.exec(text) ?? [];
  return Number(digits?.replaceAll(",", "") ?? 0) * (THOUSANDS[power.toLowerCase()] as number) || 0;
}

export function seconds(at: string): number {
  const found = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(at);
  if (!found) return Number.NaN;
  const [year, month, day, hour, minute, second] = found.slice(1).map(Number) as [number, number, number, number, number, number];
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
}

/** Formats the UTC month of unix seconds. */
export const monthOf = (unix: number) => months().format(new Date(unix * 1000)).replace("Sept", "Sep");

/** Formats unix seconds or an instant's text as a UTC day, with the time unless it is midnight. */
export function date(of: number | string | null, always = false): string {
  const unix = typeof of === "string" ? seconds(of) : of;
  if (unix === null || Number.isNaN(unix)) return typeof of === "string" ? of : NOTHING;
  const when = new Date(unix * 1000);
  if (Number.isNaN(when.getTime())) return String(of);
  const day = days().format(when).replace("Sept", "Sep"); // three letters, as each other month and the charts
  const time = times().format(when).replace(/:00$/, "");
  return unix % 86_400 && (always || typeof of === "string") ? `${day}, ${time}` : day;
}

/** Returns the beginning and end of an address. */
export const brief = (address: string) => (address.length > 15 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address);

const UNSEEN = /(?!\u200d)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu; // except the joiner of emoji
const letters = lazy(() => new Intl.Segmenter("en", { granularity: "grapheme" }));

/** Cuts a foreign text to a number of letters, and removes invisible characters, which could change the text around it. */
export function cut(text: string, length: number): string {
  const plain = text.slice(0, length * 20).replace(UNSEEN, "");
  let taken = "";
  let used = 0;
  for (const { segment } of letters().segment(plain)) {
    if (segment.length > 16) continue; // a letter with many combining marks
    if (used++ === length) return `${taken.trimEnd()}…`;
    taken += segment;
  }
  return taken;
}

export function name(node: { address: string; label: string | null }): string {
  return node.label ? cut(node.label, 60) : brief(node.address);
}

export const isExcluded = (node: { kind: string; is_shown_on_map: boolean | null }) => node.kind === "top_holder" && node.is_shown_on_map === false;

/** The name of a chain, or the id of an unknown one. */
export const chainName = (chain: string) => CHAINS.get(chain) ?? cut(chain, 24);

export const isBurn = ({ address }: { address: string }) => BURN_ADDRESSES.includes(address);

type Flags = { address: string; is_cex: boolean | null; is_dex: boolean | null; is_contract: boolean | null };

/** Returns the kind of an address that belongs to no single owner; "hub" is one of the busiest wallets. */
export const kindOf = (node: Flags) => (isBurn(node) ? "burn" : node.is_cex ? "exchange" : node.is_dex ? "pool" : node.is_contract ? "contract" : "hub");

const KINDS = { exchange: "exchanges", pool: "pools", contract: "contracts", burn: "burn addresses", hub: "busiest wallets" } as const;

/** A smaller share outside of the list is not worth its figure. */
const NOTABLE_REST = 0.0005;

/** Returns what a map does not draw: some of its listed nodes, by kind, and the holders that are not listed. */
export function notDrawn(nodes: Listed[], absent: Listed[]): string {
  const listed = nodes.filter(({ kind }) => kind === "top_holder");
  const sum = (some: Listed[]) => some.reduce((total, node) => total + (node.share ?? 0), 0);
  const rest = 1 - sum(listed);
  const outside = listed.length && rest >= NOTABLE_REST && `${share(rest)} outside the ${counted(listed.length, "largest holder")}`;
  return [absent.length && `${listOfKinds(absent)}, ${share(sum(absent))} of the supply`, outside].filter(Boolean).join("; ");
}

type Listed = Flags & { kind: string; share: number | null };

/** Returns the kinds of some nodes, such as "exchanges, pools". */
export function listOfKinds(nodes: Flags[]): string {
  const found = new Set(nodes.map((node) => KINDS[kindOf(node)]));
  return Object.values(KINDS).filter((kind) => found.has(kind)).join(", ");
}
