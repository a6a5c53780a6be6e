/** The state of the page: follows the view, requests its data, and plays the history. */
import { computed, effect, signal } from "@preact/signals";
import * as data from "./data";
import { FIGURES } from "./columns";
import { findingOf, said } from "./finding";
import { startAnchors } from "./map/scene";
import { NOTHING, brief, counted, cut, date, figure, name, share } from "./format";
import { added, NO_FILTER, show, view, type Filter } from "./view";

export type Trouble = { title: string; advice: string };

export const history = signal<data.History | null>(null);
/** The visible map; the previous one while another is loading. */
export const shown = signal<data.TokenMap | null>(null);
export const changes = signal<data.Change[] | null>(null);
/** Differences between sources at the visible instant, if some were compared. */
export const differences = signal<data.Difference[]>([]);
export const trouble = signal<Trouble | null>(null);
export const playing = signal(false);
/** The instant of the map that is drawn. */
export const drawnAt = signal("");
/** The next text for screen readers. */
export const spoken = signal("");
export const instants = computed(() => history.value?.instants ?? []);

/** The index of the view's instant among the token's instants, or of the last one before it. */
export const place = computed(() => placeOf(view.value.at));
export const instant = computed(() => instants.value[place.value] ?? null);
export const selected = computed(() => shown.value?.byId.get(view.value.node) ?? null);
export const cluster = computed(
  () => shown.value?.clusters.find((one) => one.cluster_id === view.value.cluster) ?? null,
);
/** Returns whether a link is of the map's own token. */
export const isOwn = (link: data.Link) => link.transfer_token === history.value?.address && link.transfer_chain === history.value?.chain;

/** Returns the symbol of a link's token, or the beginning and end of its address. The map's own token without a symbol has no unit. */
export function symbolOf(link: data.Link): string {
  if (isOwn(link)) return name({ address: history.value?.symbol ?? "", label: null });
  return name({ address: link.transfer_symbol || link.transfer_token || "", label: null });
}

/** The parts of the view that select links. It changes only with them. */
const filterText = computed(() => JSON.stringify(Object.fromEntries((Object.keys(NO_FILTER) as (keyof Filter)[]).map((name) => [name, view.value[name]]))));
export const isFiltering = computed(() => filterText.value !== JSON.stringify(NO_FILTER));

/** Returns whether the filter keeps a link. The side is that of the selected wallet. */
export const keeps = computed(() => {
  const { times, least, since, until, kind, side } = JSON.parse(filterText.value) as Filter;
  const [begin, end] = [since && Date.parse(since) / 1000, until && Date.parse(until) / 1000 + 86_400];
  const node = side === "both" ? "" : view.value.node;
  return (link: data.Link): boolean => {
    if ((link.transfers ?? 1) < times || (least && Number(link.amount ?? 0) < least)) return false;
    if ((begin && (link.last_date ?? Infinity) < begin) || (end && (link.first_date ?? 0) >= end)) return false;
    if (node && (side === "in" ? link.from : link.to) === node) return false;
    return kind === "all" || (kind === "own") === isOwn(link);
  };
});

/** The ids of the nodes from the selected one to the chosen end; null if no links of the map connect them. */
export const path = computed((): string[] | null => {
  const [map, { node, to }] = [shown.value, view.value];
  if (!map || !node || !to || !map.byId.has(to)) return null;
  const before = new Map([[node, ""]]);
  for (const here of before.keys()) {
    if (here === to) break;
    for (const link of map.linksOf.get(here) ?? []) {
      const next = link.from === here ? link.to : link.from;
      if (keeps.value(link) && !before.has(next)) before.set(next, here);
    }
  }
  const steps: string[] = [];
  for (let at = before.has(to) ? to : ""; at; at = before.get(at) ?? "") steps.unshift(at);
  return steps.length ? steps : null;
});

/** Whether the wallets of one owner are one node. Two dates are compared by wallet. */
export const isByOwner = computed(() => view.value.owners && (history.value?.hasOwners ?? false) && view.value.tab !== "compare");
/** Returns the sentence about a cluster of the visible map. */
export const sentenceOf = ({ sentence }: data.Cluster) => (shown.value ? said(shown.value, sentence, symbolOf) : "");

export type Evidence = { members: data.Node[]; links: data.Link[]; ids: Set<string>; strongest: data.Link | null };
/** The evidence for the selected cluster: its members, its links, the strongest first, and the ids of all of their nodes. */
export const evidence = computed((): Evidence | null => {
  const [map, one] = [shown.value, cluster.value];
  if (!map || !one) return null;
  const members = map.nodes.filter((node) => node.cluster_id === one.cluster_id && node.kind !== "time");
  const links = one.links.flatMap((at) => map.numbered[at] ?? []);
  const ids = new Set([...members.map(({ id }) => id), ...links.flatMap(({ from, to }) => [from, to])]);
  return { members, links, ids, strongest: map.numbered[one.strongest ?? -1] ?? null };
});
/** A sentence about the visible map, and the notes that follow it. */
export const finding = computed((): [string, string] => {
  const [map, of] = [shown.value, history.value];
  const at = of?.instants.find((one) => one.at === map?.at);
  return map && of && at ? findingOf(map, of, at, symbolOf) : ["", ""];
});
/** The instant that the map is compared with, if the view has one. */
export const other = computed(() =>
  view.value.with && instants.value.length ? (instants.value[placeOf(view.value.with)] ?? null) : null,
);
/** The two compared instants, the earlier one first, whichever of them the map shows. */
export const span = computed((): [data.Instant, data.Instant] | null => {
  const [one, two] = [other.value, instant.value];
  if (!one || !two || one.at === two.at) return null;
  return one.at < two.at ? [one, two] : [two, one];
});
/** The change of each holder from the earlier of the two instants to the later one, by address. */
export const changeOf = computed(() =>
  view.value.tab === "compare" && other.value && changes.value
    ? new Map(changes.value.map((one) => [one.address, isSmall(one) ? ("same" as const) : one.change]))
    : null,
);

/** A holder whose share changes by a smaller part of it is as before. */
const SMALLEST_CHANGE = 0.01;

const isSmall = ({ share_before: before, share_after: after }: data.Change) =>
  before !== null && after !== null && Math.abs(after - before) < SMALLEST_CHANGE * Math.max(after, before);

export const title = computed(() => {
  const { name = "", symbol = "", address = "" } = history.value ?? {};
  return cut(name || symbol || brief(address), 80);
});

function placeOf(at: string): number {
  const listed = instants.value;
  if (!at) return listed.length - 1;
  const after = listed.findIndex((one) => one.at > at);
  return after === -1 ? listed.length - 1 : Math.max(0, after - 1);
}

export function showToken(chain: string, token: string, node = ""): void {
  playing.value = false;
  show({ chain, token, at: "", with: "", node, cluster: 0, find: "", add: "", to: "", all: false, ...NO_FILTER }, true);
}

export function showPlace(to: number): void {
  const chosen = instants.value[Math.min(Math.max(to, 0), instants.value.length - 1)];
  if (!chosen) return;
  moving = true;
  show({ at: chosen.at });
}

/** Whether the card shows only its heading, to leave room for a comparison. */
export const isFolded = signal(false);

export function select(node: string): void {
  isFolded.value = false;
  if (node === view.peek().node && !view.peek().cluster) return;
  show({ node, cluster: 0, to: "" }, true);
  const found = shown.peek()?.byId.get(node);
  if (found) say(described(found));
}

export function selectCluster(number: number): void {
  isFolded.value = false;
  show({ cluster: number, node: "", to: "" }, true);
  const found = shown.peek()?.clusters.find((one) => one.cluster_id === number);
  if (found) say(`Cluster ${number}: ${counted(found.holder_count, "holder")}, ${share(found.share)} of the supply. ${sentenceOf(found)}`);
}

export function say(text: string): void {
  spoken.value = text;
}

export function described(node: data.Node): string {
  const title = node.label ? cut(node.label, 60) : node.address;
  const parts = [
    node.kind === "magic" ? `Wallet that links holders, ${title}` : node.kind === "time" ? `Time window ${node.time_node} of ${title}` : title,
  ];
  if (node.rank !== null) parts.push(`rank ${node.rank}, ${share(node.share)} of the supply`);
  if (node.cluster_id !== null) parts.push(`cluster ${node.cluster_id}`);
  const links = shown.peek()?.linksOf.get(node.id)?.length ?? 0;
  return `${parts.join(", ")}, ${counted(links, "link")}.`;
}

const chosen = computed(() => `${view.value.chain}\n${view.value.token}`);
const wanted = computed(() => instant.value?.at ?? "");
let last = "";
/** Whether the loading map was reached by the time slider. */
let moving = false;

export function failed(error: unknown): void {
  playing.value = false;
  trouble.value = { title: "This cannot be shown", advice: error instanceof Error ? error.message : String(error) };
}

/** Starts to follow the view. */
export function follow(): void {
  effect(() => {
    data.renewals.value; // a new version of the warehouse can change everything
    const [chain = "", token = ""] = chosen.value.split("\n");
    void openToken(chain, token);
  });
  effect(() => {
    const { value: of } = history;
    const at = wanted.value;
    if (of && at) void openMap(of, at, added.value.join(), isByOwner.value);
  });
  effect(() => {
    const of = history.value;
    const dates = span.value;
    if (!of || !dates) changes.value = null;
    else {
      data
        .comparison(of.chain, of.address, dates[0].at, dates[1].at)
        .then((found) => {
          if (span.peek() === dates) changes.value = found;
        })
        .catch(failed);
    }
  });
  effect(() => {
    const of = history.value;
    const at = wanted.value;
    if (!of || !at || view.value.tab !== "compare") return;
    data
      .sources(of.chain, of.address, at)
      .then((found) => {
        if (history.peek() === of && wanted.peek() === at) differences.value = found;
      })
      .catch(failed);
  });
  data.findPages().catch(() => undefined); // the page works without
  if (data.isSaved) return;
  addEventListener("focus", () => {
    const of = history.peek();
    if (of) data.refresh(of.chain, of.address).catch(failed);
  });
}

async function openToken(chain: string, token: string): Promise<void> {
  const mine = `${chain}\n${token}`;
  try {
    if (!token) {
      const [first] = await data.findTokens("");
      if (view.peek().token) return;
      if (first) show({ chain: first.chain, token: first.token_address });
      else trouble.value = { title: "The warehouse is empty", advice: "Fill it with 'holderlake ingest' (or 'holderlake demo'), then reload this page." };
      return;
    }
    const { at } = view.peek();
    startAnchors(chain, token); // first: it takes longest
    const known = data.history(chain, token);
    if (/^\d{8}T\d{6}Z$/.test(at)) data.tokenMap(chain, token, at, view.peek().add).catch(() => undefined); // load it in parallel
    else if (!at && !data.isSaved) data.startNewest(chain, token, view.peek().add);
    const found = await known;
    if (mine !== chosen.peek()) return;
    trouble.value = null;
    if (last !== mine) {
      shown.value = null;
      differences.value = [];
    }
    last = mine;
    history.value = found;
    if (!found.instants.length) {
      const [failure] = found.failures;
      trouble.value = failure?.code === "no_holders" ? { title: `No one holds it at ${date(failure.at)}`, advice: "Fetch a date at which the token had holders." } : {
        title: found.name || found.symbol ? "No map of this token yet" : "This token is not in the warehouse",
        advice: `${failure ? `The provider reported: ${cut(failure.reason, 200)}. ` : ""}Fetch it with 'holderlake ingest --chain ${cut(chain, 40)} --token ${cut(token, 80)}', or choose another token above.`,
      };
    }
  } catch (error) {
    if (mine === chosen.peek()) failed(error);
  }
}

async function openMap(of: data.History, at: string, add: string, byOwner: boolean): Promise<void> {
  try {
    const found = await data.tokenMap(of.chain, of.address, at, add, byOwner);
    if (history.peek() !== of || wanted.peek() !== at || added.peek().join() !== add || isByOwner.peek() !== byOwner) return;
    trouble.value = found.nodes.some((node) => node.kind !== "holder") ? null : missing(found);
    if (moving) followCluster(shown.peek(), found);
    moving = false;
    shown.value = found;
    say(summary(of, at));
  } catch (error) {
    if (history.peek() === of && wanted.peek() === at) failed(error);
  }
}

/** Keeps a cluster selected although its number changes: selects the cluster with most of the same members. */
function followCluster(before: data.TokenMap | null, after: data.TokenMap): void {
  const { cluster: number } = view.peek();
  if (!number || !before || before.at === after.at) return;
  const members = new Set(before.nodes.flatMap((node) => (node.cluster_id === number ? node.address : [])));
  const votes = new Map<number, number>();
  for (const { address, cluster_id: id } of after.nodes) {
    if (id !== null && members.has(address)) votes.set(id, (votes.get(id) ?? 0) + 1);
  }
  const [most] = [...votes].sort((one, two) => two[1] - one[1]);
  show({ cluster: most?.[0] ?? 0 });
}

function missing(map: data.TokenMap): Trouble {
  if (!map.nodes.length && !map.failures.length) {
    return { title: `No holder is known at ${date(map.at)}`, advice: "The map of this date lists no address, not even a burn address. Move the slider to another date." };
  }
  const why = map.failures.find((one) => /map/.test(one.endpoint)) ?? map.failures[0];
  return {
    title: `No map at ${date(map.at)}`,
    advice: why
      ? `The provider reported: ${cut(why.reason, 200)}. Move the slider to another date.`
      : "The table has the list of holders. Move the slider to another date for a map.",
  };
}

/** Returns the instants to load and arrange early: the next ones, more of them in a fast play, and the one before. */
export function ahead(of: data.History, at: string): data.Instant[] {
  const here = of.instants.findIndex((one) => one.at === at);
  const next = playing.peek() ? Math.max(3, Math.ceil(speed.peek() / 2)) : 3;
  return [...of.instants.slice(here + 1, here + 1 + next), ...of.instants.slice(Math.max(0, here - 1), here)];
}

function summary(of: data.History, at: string): string {
  const instant = of.instants.find((one) => one.at === at);
  const parts = [`${FIGURES.service_score.title} ${figure("service_score", instant?.service_score)}`];
  if (instant?.holders) parts.push(counted(instant.holders, "holder"));
  if (instant?.clusters) parts.push(counted(instant.clusters, "cluster"));
  if (instant?.top_10_share !== null) parts.push(`${FIGURES.top_10_share.title} ${figure("top_10_share", instant?.top_10_share)}`);
  return `${date(at) || NOTHING}: ${parts.join(", ")}.`;
}

/** Dates a second. */
export const SPEEDS = [1, 2, 5, 10, 30] as const;
export const speed = signal<number>(1);
let timer = 0;
/** When the next date should be shown. */
let due = 0;
const RETRY_MILLISECONDS = 8;
/** With less time for each date, those that the page cannot draw in time are skipped. */
const SHORTEST_SEEN_MILLISECONDS = 100;

/** Plays the history from here, from the beginning if this is the end; or stops. */
export function play(): void {
  playing.value = !playing.value;
  clearTimeout(timer);
  if (!playing.value) return;
  if (place.value >= instants.value.length - 1) showPlace(0);
  due = performance.now();
  wait();
}

/** Waits for the next date. A date that was late does not delay the ones after it. */
function wait(): void {
  const period = 1_000 / speed.peek();
  due = Math.max(due + period, performance.now() - period);
  timer = setTimeout(step, due - performance.now());
}

/** Returns how many dates are due at once, and lets the time after them begin. */
function dueDates(): number {
  const period = 1_000 / speed.peek();
  const late = period < SHORTEST_SEEN_MILLISECONDS ? Math.max(0, Math.floor((performance.now() - due) / period)) : 0;
  due += late * period;
  return 1 + late;
}

function step(): void {
  if (!playing.peek()) return;
  if (drawnAt.peek() !== wanted.peek()) {
    timer = setTimeout(step, RETRY_MILLISECONDS);
    return;
  }
  if (place.peek() >= instants.peek().length - 1) {
    playing.value = false;
    return;
  }
  showPlace(place.peek() + dueDates());
  wait();
}
