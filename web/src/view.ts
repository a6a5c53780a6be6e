/** The current view and its URL, so that a view can be reloaded, bookmarked and shared. */
import { computed, signal } from "@preact/signals";

export const TABS = ["holders", "clusters", "links", "concentration", "compare"] as const;
export type Tab = (typeof TABS)[number];
export const SORTS = ["rank", "name", "cluster", "share"] as const;
export type Sort = (typeof SORTS)[number];

export const LAYERS = ["magic", "time", "exchanges", "contracts"] as const;
export type Layer = (typeof LAYERS)[number];

/** Kinds of links: of the token itself, or of other tokens. */
export const KINDS = ["all", "own", "other"] as const;
/** Sides of the selected wallet. */
export const SIDES = ["both", "in", "out"] as const;

/** Links to show. Days are texts such as 2026-06-01; empty for no limit. */
export type Filter = { times: number; least: number; since: string; until: string; kind: (typeof KINDS)[number]; side: (typeof SIDES)[number] };
export const NO_FILTER: Filter = { times: 0, least: 0, since: "", until: "", kind: "all", side: "both" };

export type View = Filter & {
  chain: string;
  token: string;
  /** The partition text of the instant; empty is the newest. */
  at: string;
  /** The instant to compare with. */
  with: string;
  tab: Tab;
  /** Id of the selected node. */
  node: string;
  /** Number of the selected cluster; 0 is none. */
  cluster: number;
  /** The search text of the tables. */
  find: string;
  sort: Sort;
  /** Whether the sort is descending. */
  turned: boolean;
  /** The kinds of nodes that the map draws besides holders. */
  magic: boolean;
  time: boolean;
  exchanges: boolean;
  contracts: boolean;
  /** Whether the map draws all links and all members of large clusters, not only the strongest and largest. */
  all: boolean;
  /** Whether the wallets of one owner are one bubble. */
  owners: boolean;
  /** Addresses that were added to the map, with commas between them. */
  add: string;
  /** Id of the node at the other end of the path from the selected one. */
  to: string;
};

const START: View = {
  chain: "",
  token: "",
  at: "",
  with: "",
  tab: "holders",
  node: "",
  cluster: 0,
  find: "",
  sort: "rank",
  turned: false,
  magic: true,
  time: true,
  exchanges: false,
  contracts: false,
  all: false,
  owners: false,
  add: "",
  to: "",
  ...NO_FILTER,
};

/** Returns the addresses in a text, each once. Hexadecimal ones have lower case, as in the warehouse. */
export function addresses(text: string): string[] {
  const found = text.split(/[\s,;]+/).filter(Boolean);
  return [...new Set(found.map((one) => (/^0x[0-9a-f]+$/i.test(one) ? one.toLowerCase() : one)))].slice(0, 50);
}

/** The view with which a saved page opens. */
const saved = document.getElementById("view");

export const view = signal<View>(read(saved?.textContent ?? location.search));

const adding = computed(() => view.value.add);
/** The addresses that were added to the map. */
export const added = computed(() => addresses(adding.value));

/** Changes the view. A `step` is an entry of the browser's history; other changes only update the URL. */
export function show(change: Partial<View>, step = false): void {
  view.value = { ...view.peek(), ...change };
  const address = toQuery(view.peek());
  if (saved || address === location.search) return; // a file has no query
  history[step ? "pushState" : "replaceState"](null, "", address || location.pathname);
}

addEventListener("popstate", () => {
  view.value = read(location.search);
});

function read(search: string): View {
  const given = new URLSearchParams(search);
  const text = (name: string, most = 1_000) => (given.get(name) ?? "").slice(0, most);
  const one = <T extends string>(name: string, known: readonly T[], usual: T) =>
    known.find((value) => value === given.get(name)) ?? usual;
  const most = (name: string) => Math.max(0, Number(given.get(name)) || 0);
  const day = (name: string) => /^\d{4}-\d\d-\d\d$/.exec(text(name))?.[0] ?? "";
  const is = (name: "turned" | "all" | "owners" | Layer) => (given.has(name) ? given.get(name) !== "no" : START[name]);
  return {
    chain: text("chain"),
    token: text("token"),
    at: partition(text("at")),
    with: partition(text("with")),
    tab: one("tab", TABS, START.tab),
    node: text("node"),
    cluster: Math.max(0, Math.trunc(Number(given.get("cluster"))) || 0),
    find: text("find"),
    sort: one("sort", SORTS, START.sort),
    turned: is("turned"),
    magic: is("magic"),
    time: is("time"),
    exchanges: is("exchanges"),
    contracts: is("contracts"),
    all: is("all"),
    owners: is("owners"),
    add: addresses(text("add", 5_000)).join(),
    to: text("to"),
    times: most("times"),
    least: most("least"),
    since: day("since"),
    until: day("until"),
    kind: one("kind", KINDS, START.kind),
    side: one("side", SIDES, START.side),
  };
}

/** Returns a date, or a date-time such as 2026-06-01T12:00:00Z, as the text of a partition. A date is its end, as in SQL. */
function partition(text: string): string {
  const [, day, time = "235959"] = /^(\d{8})(?:T(\d{6}))?(?:\.0+)?Z?$/.exec(text.replace(/[-:]/g, "")) ?? [];
  return day ? `${day}T${time}Z` : text;
}

export function toQuery(of: View): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(of)) {
    if (value !== START[name as keyof View]) query.set(name, value === true ? "" : value === false ? "no" : String(value));
  }
  return query.size ? `?${query}` : "";
}
