/** The drawn content of a map: bubbles with their positions, and one line for all links between two bubbles. */
import { past, type Link, type Member, type Node, type TokenMap } from "../data";
import { isExcluded } from "../format";
import type { Layer } from "../view";
import { radiusOf, SMALLEST, type Task } from "./layout";
import type { Asked, Placed } from "./layout.worker";

/** A bubble; `home` is its place in the layout, from which it can be dragged. */
export type Bubble = { id: string; node: Node; radius: number; x: number; y: number; home: readonly [number, number] };
/** `covered` are its parts (0 at its beginning, 1 at its end) below other bubbles, the last first; unknown until an arrow is drawn. */
export type Line = { from: Bubble; to: Bubble; links: Link[]; forth: boolean; back: boolean; covered?: [number, number][] };
/** `more` are weaker lines, which are drawn for a selection only; `hidden` is the number of small members left out. */
export type Scene = { map: TokenMap; bubbles: Bubble[]; byId: Map<string, Bubble>; lines: Line[]; more: Line[]; hidden: number };
/** Positions of the nodes of a history. Bubbles of an instant are placed near them. */
export type Anchors = { at: Map<string, [number, number]>; area: number; aspect: number };
/** The nodes to draw: kinds besides holders, and ids of added nodes. */
export type Drawing = Record<Layer, boolean> & {
  /** Whether all lines and all members of large clusters are drawn. */
  all: boolean;
  added: ReadonlySet<string>;
  /** Ids that are always drawn. */
  chosen: ReadonlySet<string>;
  keeps: (link: Link) => boolean;
};

/** Lines that the map draws at once, the strongest. */
const MOST_LINES = 300;
/** A larger cluster opens with its largest members only. */
const LARGE_CLUSTER = 100;
const FIRST_MEMBERS = 60;

/** Room around a member of a cluster, as a part of its radius, and at most in units. */
const ROOM = 0.1;
const MOST_ROOM = 5;
/** Width of the tint around a member of a cluster, in units. Bubbles of others leave it free. */
export const TINT_WIDTH = 3;
/** Radius in pixels. */
const LARGEST_SAMPLE = 16;

/** Returns whether a node is in a cluster of which the map opens with the largest members only. */
export const isInLargeCluster = (map: TokenMap, node: Node) =>
  (map.clusters.find((one) => one.cluster_id === node.cluster_id)?.holder_count ?? 0) > LARGE_CLUSTER;

/** Returns whether a map leaves an exchange or contract out. */
export const isLeftOut = (node: Node, { exchanges, contracts, added }: Pick<Drawing, "exchanges" | "contracts" | "added">) =>
  isExcluded(node) && !added.has(node.id) && !(node.is_cex ? exchanges : contracts);

/** Returns up to three round shares, largest first, with the pixels of their bubbles' radii. */
export function samples(zoom: number): { share: number; radius: number }[] {
  const found: { share: number; radius: number }[] = [];
  for (const share of [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005]) {
    const radius = radiusOf({ kind: "holder", share }) * zoom;
    const last = found.at(-1);
    if (radius <= LARGEST_SAMPLE && radius >= 1.5 && found.length < 3 && (!last || share <= last.share / 4)) found.push({ share, radius });
  }
  return found;
}

/** A saved page carries the worker's code. A worker of a file cannot be a module. */
const code = document.getElementById("layout")?.textContent;
const worker = new Worker(code ? URL.createObjectURL(new Blob([code], { type: "text/javascript" })) : "layout.js");
const waiting = new Map<number, (layout: Placed) => void>();
let number = 0;
worker.addEventListener("message", ({ data }: MessageEvent<Placed>) => {
  waiting.get(data.number)?.(data);
  waiting.delete(data.number);
});

function computed(task: { past: object; aspect: number } | { instant: Task }): Promise<Placed> {
  return new Promise((done) => {
    const asked: Asked = { number: ++number, ...task };
    waiting.set(asked.number, done);
    worker.postMessage(asked);
  });
}

/** The layout in one column, in which a card covers the lower part of the screen. */
export const isNarrow = matchMedia("(max-width: 559px), (max-width: 960px) and (min-height: 501px)");

/** Layouts of histories that were started before the history was known, by chain and token. */
const started = new Map<string, Promise<Anchors>>();

/** Starts to lay the nodes of a token's history out. */
export function startAnchors(chain: string, token: string): void {
  const aspect = isNarrow.matches ? 0.85 : 1.8;
  const layout = past(chain, token).then((answer) => computed({ past: answer, aspect }));
  const made = layout.then(({ places, ids, area }): Anchors => {
    const at = new Map(ids.map((id, place) => [id, [places[place * 2] as number, places[place * 2 + 1] as number] as [number, number]]));
    return { at, area, aspect };
  });
  made.catch(() => undefined); // whoever uses it reports it
  started.set(`${chain} ${token}`, made);
}

/** Returns the layout of the nodes of a token's history. */
export function anchorsOf(chain: string, token: string): Promise<Anchors> {
  const name = `${chain} ${token}`;
  if (!started.has(name)) startAnchors(chain, token);
  const made = started.get(name) as Promise<Anchors>;
  started.delete(name);
  return made;
}

/** Lays a map out. Positions depend on the history, the map and its added nodes, exchanges and contracts only. */
export async function arrange(map: TokenMap, anchors: Anchors, drawing: Drawing): Promise<Scene> {
  const placed = placedNodes(map, drawing);
  const radii = placed.map(radiusOf);
  const pairs = pairsOf(map, placed);
  const known = placed.map((node) => (node.owner ? middle(node.owner.members, anchors) : (anchors.at.get(node.id) ?? null)));
  const task: Task = {
    ids: placed.map((node) => node.id),
    radii: placed.map((node, index) => withRoom(node, radii[index] ?? SMALLEST)),
    aspect: anchors.aspect,
    area: anchors.area,
    anchors: known,
    links: pairs.map((pair) => pair.ends).filter(([one, other]) => !known[one] !== !known[other]), // others move no node
    groups: placed.map((node) => groupOf(map, node)),
  };
  const { places } = await computed({ instant: task });
  const all = placed.map((node, index): Bubble => {
    const [x = 0, y = 0] = places.subarray(index * 2, index * 2 + 2);
    return { id: node.id, node, radius: radii[index] ?? SMALLEST, x, y, home: [x, y] };
  });
  const isDrawn = ({ node }: Bubble) => (node.kind !== "magic" && node.kind !== "time") || drawing[node.kind];
  const bubbles = all.filter(isDrawn);
  const lines = pairs.flatMap(({ ends, links: every }): Line[] => {
    const [from, to] = ends.map((index) => all[index]) as [Bubble, Bubble];
    const links = every.filter(drawing.keeps);
    const forth = links.some((link) => link.from === from.id);
    return links.length && isDrawn(from) && isDrawn(to) ? [{ from, to, links, forth, back: links.some((link) => link.to === from.id) }] : [];
  });
  const first = drawing.all || lines.length <= MOST_LINES ? lines.length : MOST_LINES;
  if (first < lines.length) lines.sort((one, two) => strength(two) - strength(one));
  const holders = map.nodes.filter((node) => node.kind === "top_holder" && !isLeftOut(node, drawing)).length;
  const hidden = holders - placed.filter((node) => node.kind === "top_holder").length;
  return { map, bubbles, byId: new Map(bubbles.map((bubble) => [bubble.id, bubble])), lines: lines.slice(0, first), more: lines.slice(first), hidden };
}

/** Returns the radius of the room that a bubble takes: between members of a cluster, their lines must be seen. */
const withRoom = ({ cluster_id: number }: Node, radius: number) => radius + (number === null ? 0 : Math.max(TINT_WIDTH, Math.min(MOST_ROOM, radius * ROOM)));

/** Returns the middle of the wallets of an owner in the layout of the history. */
function middle(members: Member[], { at }: Anchors): [number, number] | null {
  const known = members.map((one) => at.get(one.address)).filter((point) => point !== undefined);
  if (!known.length) return null;
  return [0, 1].map((axis) => known.reduce((sum, point) => sum + (point[axis] as number), 0) / known.length) as [number, number];
}

/** Returns the cluster of a node. A time node is in the cluster of its holders, if they have the same. */
function groupOf(map: TokenMap, node: Node): number | null {
  if (node.kind !== "time") return node.cluster_id;
  const ends = (map.linksOf.get(node.id) ?? []).map((link) => map.byId.get(link.from === node.id ? link.to : link.from)?.cluster_id ?? null);
  return ends.every((one) => one === ends[0]) ? (ends[0] ?? null) : null;
}

const strength = ({ links }: Line) => links.reduce((sum, link) => sum + (link.transfers ?? 1), 0);

type Pair = { ends: [number, number]; links: Link[] };

/** Returns the links between nodes, gathered by pair. */
function pairsOf(map: TokenMap, nodes: Node[]): Pair[] {
  const at = new Map(nodes.map((node, index) => [node.id, index]));
  const pairs = new Map<number, Pair>();
  for (const link of map.links) {
    const [from, to] = [at.get(link.from), at.get(link.to)];
    if (from === undefined || to === undefined || from === to) continue;
    const key = Math.min(from, to) * nodes.length + Math.max(from, to);
    let pair = pairs.get(key);
    if (!pair) pairs.set(key, (pair = { ends: [from, to], links: [] }));
    pair.links.push(link);
  }
  return [...pairs.values()];
}

/** Returns the shown holders, what is added, and the magic and time nodes that connect at least two of them. */
function placedNodes(map: TokenMap, drawing: Drawing): Node[] {
  const members = new Map<number, number>();
  const isPlaced = (node: Node) => {
    if (node.kind === "time" || node.kind === "magic") return false;
    if (drawing.added.has(node.id) || drawing.chosen.has(node.id)) return true;
    if (node.kind !== "top_holder" || isLeftOut(node, drawing)) return false;
    const { cluster_id: number } = node;
    if (drawing.all || number === null || (sizes.get(number) ?? 0) <= LARGE_CLUSTER) return true;
    members.set(number, (members.get(number) ?? 0) + 1);
    return (members.get(number) ?? 0) <= FIRST_MEMBERS; // nodes are in the order of their ranks
  };
  const sizes = new Map(map.clusters.map((one) => [one.cluster_id, one.holder_count]));
  const holders = new Set(map.nodes.filter((node) => isPlaced(node)).map((node) => node.id));
  const isComplete = holders.size >= map.nodes.filter((node) => node.kind === "top_holder" && !isLeftOut(node, drawing)).length;
  const connects = (node: Node) => new Set((map.linksOf.get(node.id) ?? []).flatMap((link) => [link.from, link.to]).filter((id) => holders.has(id))).size > 1;
  return map.nodes.filter((node) => holders.has(node.id) || (node.kind === "magic" && (isComplete || connects(node))) || (node.kind === "time" && connects(node)));
}

/** Finds the covered parts of lines where they are unknown. */
export function findCovered(lines: Line[], bubbles: Bubble[]): void {
  for (const line of lines) {
    if (line.covered) continue;
    const { from, to } = line;
    const [wide, high] = [to.x - from.x, to.y - from.y];
    const square = wide * wide + high * high || 1;
    line.covered = [];
    for (const bubble of bubbles) {
      const [x, y, reach] = [bubble.x - from.x, bubble.y - from.y, bubble.radius + SIDE];
      const half = (reach * reach - (x * high - y * wide) ** 2 / square) / square;
      if (half <= 0 || bubble === from || bubble === to) continue;
      const middle = (x * wide + y * high) / square;
      line.covered.push([middle - Math.sqrt(half), middle + Math.sqrt(half)]);
    }
    line.covered.sort(([, one], [, two]) => two - one);
  }
}

/** Room next to a line for half of an arrow's head, in units. */
const SIDE = 1;

/** Returns the box around all bubbles: left, top, right, bottom. Its edges move in steps, so that the view rests mostly. */
export function bounds(bubbles: Bubble[]): [number, number, number, number] {
  if (!bubbles.length) return [-100, -100, 100, 100];
  const box: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, radius } of bubbles) {
    box[0] = Math.min(box[0], x - radius);
    box[1] = Math.min(box[1], y - radius);
    box[2] = Math.max(box[2], x + radius);
    box[3] = Math.max(box[3], y + radius);
  }
  const step = 2 ** Math.floor(Math.log2(Math.max(box[2] - box[0], box[3] - box[1]) / 24));
  const [left, top] = [box[0], box[1]].map((edge) => Math.floor(edge / step) * step) as [number, number];
  const [right, bottom] = [box[2], box[3]].map((edge) => Math.ceil(edge / step) * step) as [number, number];
  return [left, top, right, bottom];
}
