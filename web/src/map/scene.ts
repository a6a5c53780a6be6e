/** The drawn content of a map: bubbles with their positions, and one line for all links between two bubbles. */
import type { Link, Node, TokenMap } from "../data";
import type { Placed, Task } from "./layout";

export type Bubble = { id: string; node: Node; radius: number; x: number; y: number };
export type Line = { from: Bubble; to: Bubble; links: Link[]; forth: boolean; back: boolean };
export type Scene = { map: TokenMap; bubbles: Bubble[]; byId: Map<string, Bubble>; lines: Line[] };

/** The radius of a holder of the whole supply, in the map's own units; a bubble's area is its share. */
const WHOLE = 120;
const SMALLEST = 2.2;
const MAGIC = 3.8;
const TIME = 4.4;

export const isExcluded = (node: Node) => node.kind === "top_holder" && node.is_shown_on_map === false;

export function radiusOf(node: Node): number {
  if (node.kind === "magic") return MAGIC;
  if (node.kind === "time") return TIME;
  return Math.max(SMALLEST, WHOLE * Math.sqrt(Math.max(0, node.share ?? 0)));
}

const worker = new Worker("layout.js", { type: "module" });
const waiting = new Map<number, (places: Float64Array) => void>();
let number = 0;
worker.addEventListener("message", ({ data }: MessageEvent<Placed>) => {
  waiting.get(data.number)?.(data.places);
  waiting.delete(data.number);
});

/** Lays a map out. Bubbles with a position in `homes` keep it; the positions of others are added there. */
export async function arrange(map: TokenMap, homes: Map<string, [number, number]>, aspect: number): Promise<Scene> {
  const drawn = drawnNodes(map);
  const at = new Map(drawn.map((node, index) => [node.id, index]));
  const pairs = new Map<string, { ends: [number, number]; links: Link[]; forth: boolean; back: boolean }>();
  for (const link of map.links) {
    const [from, to] = [at.get(link.from), at.get(link.to)];
    if (from === undefined || to === undefined || from === to) continue;
    const key = from < to ? `${from} ${to}` : `${to} ${from}`;
    let pair = pairs.get(key);
    if (!pair) pairs.set(key, (pair = { ends: [from, to], links: [], forth: false, back: false }));
    pair.links.push(link);
    if (pair.ends[0] === from) pair.forth = true;
    else pair.back = true;
  }
  const radii = drawn.map(radiusOf);
  const task: Task = {
    number: ++number,
    ids: drawn.map((node) => node.id),
    radii,
    aspect: Math.min(1.9, Math.max(0.55, aspect)),
    homes: drawn.map((node) => homes.get(node.id) ?? null),
    links: [...pairs.values()].map((pair) => pair.ends),
  };
  const places = await new Promise<Float64Array>((done) => {
    waiting.set(task.number, done);
    worker.postMessage(task);
  });
  const bubbles = drawn.map((node, index): Bubble => {
    const [x = 0, y = 0] = places.subarray(index * 2, index * 2 + 2);
    if (!homes.has(node.id)) homes.set(node.id, [x, y]);
    return { id: node.id, node, radius: radii[index] ?? SMALLEST, x, y };
  });
  const lines = [...pairs.values()].map(({ ends, links, forth, back }): Line => {
    const [from, to] = ends.map((index) => bubbles[index]) as [Bubble, Bubble];
    return { from, to, links, forth, back };
  });
  return { map, bubbles, byId: new Map(bubbles.map((bubble) => [bubble.id, bubble])), lines };
}

/** Returns the shown holders, the magic nodes, and the time nodes that connect at least two of them. */
function drawnNodes(map: TokenMap): Node[] {
  const holders = new Set(
    map.nodes.filter((node) => node.kind === "magic" || (node.kind === "top_holder" && !isExcluded(node))).map((node) => node.id),
  );
  const neighbours = (node: Node) => (map.linksOf.get(node.id) ?? []).flatMap((link) => [link.from, link.to]).filter((id) => holders.has(id));
  return map.nodes.filter((node) => holders.has(node.id) || (node.kind === "time" && new Set(neighbours(node)).size > 1));
}

/** Returns the box around all bubbles: left, top, right, bottom. */
export function bounds(bubbles: Bubble[]): [number, number, number, number] {
  const box: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, radius } of bubbles) {
    box[0] = Math.min(box[0], x - radius);
    box[1] = Math.min(box[1], y - radius);
    box[2] = Math.max(box[2], x + radius);
    box[3] = Math.max(box[3], y + radius);
  }
  return bubbles.length ? box : [-100, -100, 100, 100];
}
