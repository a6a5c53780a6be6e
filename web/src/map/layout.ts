/** Positions of bubbles. They depend on the token's history and on the instant only, never on the views before. */
import { forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationLinkDatum, type SimulationNodeDatum } from "d3-force";
import { idOf, rows, type Columns } from "../table";

/** The radius of a holder of the whole supply, in the map's own units; a bubble's area is its share. */
const WHOLE = 120;
export const SMALLEST = 2.2;
const MAGIC = 3;
const TIME = 3.2;

export type Kind = "top_holder" | "magic" | "time" | "holder";

export function radiusOf({ kind, share }: { kind: Kind; share: number | null }): number {
  if (kind === "time") return TIME;
  return Math.max(kind === "magic" || share === null ? MAGIC : SMALLEST, WHOLE * Math.sqrt(Math.max(0, share ?? 0)));
}

/** Nodes and linked pairs of all maps of a token. */
type Past = {
  nodes: { address: string; time_node: number | null; kind: Kind; share: number | null; cluster: string | null }[];
  links: { one: string; other: string; time_node: number | null }[];
};

/** Returns the graph of all maps of a token. `aspect` is width divided by height. */
export function graphOf(answer: { nodes: Columns; links: Columns }, aspect: number): Graph {
  const nodes = rows<Past["nodes"][number]>(answer.nodes);
  const ids = nodes.map((node) => idOf(node.address, node.time_node));
  const index = new Map(ids.map((id, at) => [id, at]));
  const links: [number, number][] = [];
  for (const { one, other, time_node: window } of rows<Past["links"][number]>(answer.links)) {
    const [from, to] = [one, other].map((address) => index.get(idOf(address, window)) ?? index.get(address));
    if (from !== undefined && to !== undefined && from !== to) links.push([from, to]);
  }
  return { ids, radii: nodes.map(radiusOf), links, aspect, groups: nodes.map(({ cluster }) => cluster ?? null) };
}

/** Nodes with their radii, and links as pairs of node indices. */
export type Graph = {
  ids: string[];
  radii: number[];
  links: [number, number][];
  /** Width divided by height. */
  aspect: number;
  /** The cluster of each node, or null. Members of a cluster are near to each other. */
  groups: (number | string | null)[];
};
/** Nodes of an instant. `anchors` has the position of each node in the layout of the history, or null. */
export type Task = Graph & {
  anchors: ([number, number] | null)[];
  /** Area of all nodes of the history. */
  area: number;
};

type Body = SimulationNodeDatum & { radius: number; x: number; y: number };

/** Least distance between two bubbles. */
export const GAP = 2;
/** With more nodes, a history is laid out in fewer steps. */
const LARGE_HISTORY = 250;
/** The part of the way to its place in the history that a bubble of an instant moves back in each step: more is stabler, and less dense. */
const HOLD = 0.05;
const PULLS = 45;
const MOST_PUSHES = 120;
/** The part of a cluster's disc that its bubbles fill. */
const DENSITY = 0.72;
/** The part of the map that bubbles and the gaps around them fill at best. */
const FILLED = 0.85;

export const areaOf = (radii: number[]) => radii.reduce((sum, radius) => sum + (radius + GAP) ** 2, 0);

/** Returns positions of all nodes of a history, as x, y, x, y, …: linked ones are near to each other. */
export function anchor(graph: Graph): Float64Array {
  const { ids, radii, links, aspect } = graph;
  const reach = Math.sqrt(areaOf(radii)) * 1.25 + 20;
  const bodies = ids.map((id, at): Body => {
    const [x, y] = seed(id, reach, aspect, 0);
    return { radius: radii[at] ?? 1, x, y };
  });
  const ties = links.map(([source, target]) => ({ source, target }));
  const isLarge = bodies.length > LARGE_HISTORY;
  const ticks = isLarge ? 45 : 180;
  forceSimulation(bodies)
    .force("apart", forceManyBody<Body>().strength((body) => -3 - body.radius * 0.55).distanceMax(260).theta(1.4))
    .force(
      "links",
      forceLink<Body, SimulationLinkDatum<Body>>(ties)
        .distance(({ source, target }) => (source as Body).radius + (target as Body).radius + 14)
        .strength(0.55 / Math.sqrt(1 + ties.length / (bodies.length || 1))),
    )
    .force("x", forceX<Body>(0).strength(0.065 / aspect))
    .force("y", forceY<Body>(0).strength(0.065 * aspect))
    .alphaDecay(1 - 0.002 ** (1 / ticks))
    .stop()
    .tick(ticks);
  return pairs(packed(graph, bodies.map(({ x, y }): Point => [x, y])));
}

/** Returns positions of the nodes of an instant near their anchors, as x, y, x, y, …: packed round the centre, without overlaps. */
export function place(task: Task): Float64Array {
  const bodies = packed(task, wanted(task), HOLD);
  for (let step = 1; step <= MOST_PUSHES && separate(bodies, GAP, 0.55); step++) if (step % 8 === 0 && !separate(bodies, GAP / 2, 0)) break;
  while (separate(bodies, GAP / 2, 0)) {
    for (const body of bodies) {
      body.x *= 1.01;
      body.y *= 1.01;
    }
    separate(bodies, GAP, 0.55);
  }
  return pairs(bodies);
}

type Point = [number, number];

/** Returns the nodes of a graph, packed near to their targets; `hold` is the part of the way back to them in each step. */
function packed(graph: Graph, targets: Point[], hold = 0): Body[] {
  const { ids, radii, aspect, groups } = graph;
  const order = ids.map((_, at) => at).sort((one, two) => ((ids[one] ?? "") < (ids[two] ?? "") ? -1 : 1));
  gather(graph, targets, order, hold);
  const bodies = order.map((at): Body => body(at, radii[at] ?? 1, targets));
  pack(bodies, targets, aspect, groups, hold);
  return bodies;
}

function body(index: number, radius: number, targets: Point[]): Body {
  const [x, y] = targets[index] as Point;
  return { index, radius, x, y };
}

/** Packs bodies round the centre: they fall towards it, members of a group towards the group's middle too, and push each other apart. */
function pack(bodies: Body[], targets: Point[], aspect: number, groups: Graph["groups"], hold: number): void {
  const reach = Math.sqrt(areaOf(bodies.map(({ radius }) => radius)) / FILLED);
  const [wide, high] = [Math.sqrt(aspect), 1 / Math.sqrt(aspect)];
  const members = Map.groupBy(bodies.filter(({ index }) => (groups[index as number] ?? null) !== null), ({ index }) => groups[index as number]);
  for (let step = 0; step < PULLS; step++) {
    const heat = 1 - step / PULLS;
    for (const body of bodies) {
      const [x, y] = targets[body.index as number] as Point;
      const pull = 0.3 * heat * heat + hold;
      body.x += (x - body.x) * pull;
      body.y += (y - body.y) * pull;
      const [across, down] = [body.x / wide / reach, body.y / high / reach];
      const distance = Math.sqrt(Math.hypot(across * across, down * down)); // of the norm whose level lines are nearly rectangles
      if (!distance) continue;
      const fall = reach * 0.04 * heat * Math.min(1, distance * 2);
      body.x -= (fall * (across / distance) ** 3) / wide;
      body.y -= (fall * (down / distance) ** 3) / high;
    }
    for (const group of members.values()) {
      const mass = group.reduce((sum, { radius }) => sum + radius ** 2, 0);
      const [x, y] = [group.reduce((sum, one) => sum + one.x * one.radius ** 2, 0) / mass, group.reduce((sum, one) => sum + one.y * one.radius ** 2, 0) / mass];
      for (const body of group) {
        body.x += (x - body.x) * 0.18 * heat;
        body.y += (y - body.y) * 0.18 * heat;
      }
    }
    separate(bodies, GAP * 1.2, 0.5);
  }
}

/** Moves targets, so that every cluster is in a disc of its own. */
function gather(task: Graph, targets: Point[], order: number[], hold: number): void {
  const groups = Map.groupBy(order.filter((at) => task.groups[at] !== null), (at) => task.groups[at]);
  const discs = [...groups].sort(([, one], [, two]) => (one[0] as number) - (two[0] as number)).map(([, members]) => {
    const radius = Math.sqrt(areaOf(members.map((at) => task.radii[at] ?? 1)) / DENSITY);
    const centre = [0, 1].map((axis) => members.reduce((sum, at) => sum + ((targets[at] as Point)[axis] as number), 0) / members.length) as Point;
    return { members, radius, centre };
  });
  const whole = [...targets, ...discs.map((disc) => disc.centre)];
  const loners = order.filter((at) => task.groups[at] === null).map((at) => body(at, task.radii[at] ?? 1, whole));
  const bodies = discs.map((disc, number) => body(targets.length + number, disc.radius, whole));
  pack([...loners, ...bodies], whole, task.aspect, [], hold);
  for (const { index, x, y } of loners) targets[index as number] = [x, y];
  discs.forEach(({ members, radius, centre: [left, top] }, number) => {
    const { x, y } = bodies[number] as Body;
    const reach = Math.max(...members.map((at) => Math.hypot((targets[at] as Point)[0] - left, (targets[at] as Point)[1] - top) + (task.radii[at] ?? 1)));
    const part = Math.min(1, radius / (reach || 1));
    for (const at of members) {
      const [memberX, memberY] = targets[at] as Point;
      targets[at] = [x + (memberX - left) * part, y + (memberY - top) * part];
    }
  });
}

/** Returns the position that each node should have: its anchor, or next to its neighbours, or at the rim. */
function wanted({ ids, radii, links, anchors, area, aspect }: Task): [number, number][] {
  const scale = Math.min(1, Math.max(0.2, Math.sqrt(areaOf(radii) / (area || 1))));
  const sums = new Map<number, [number, number, number]>();
  for (const [one, two] of links) {
    for (const [mover, neighbour] of [[one, two], [two, one]] as const) {
      const near = anchors[neighbour];
      if (anchors[mover] || !near) continue;
      const [x, y, found] = sums.get(mover) ?? [0, 0, 0];
      sums.set(mover, [x + near[0], y + near[1], found + 1]);
    }
  }
  const rim = Math.sqrt(areaOf(radii)) * 1.25;
  return ids.map((id, at) => {
    const found = anchors[at];
    if (found) return [found[0] * scale, found[1] * scale];
    const [x, y] = seed(id, rim, aspect, 0.8);
    const [sumX, sumY, neighbours] = sums.get(at) ?? [0, 0, 0];
    return neighbours ? [(sumX / neighbours) * scale + x * 0.1, (sumY / neighbours) * scale + y * 0.1] : [x, y];
  });
}

/** Pushes bubbles apart that are nearer than the gap, small ones more than large ones; returns whether there were any. */
function separate(bodies: Body[], gap: number, strength: number): boolean {
  bodies.sort((one, two) => one.x - one.radius - (two.x - two.radius) || (one.index as number) - (two.index as number));
  let any = false;
  for (let first = 0; first < bodies.length; first++) {
    const one = bodies[first] as Body;
    for (let second = first + 1; second < bodies.length; second++) {
      const two = bodies[second] as Body;
      if (two.x - two.radius > one.x + one.radius + gap * 4) break; // those pushed in this pass are a little out of order
      let x = two.x - one.x;
      let y = two.y - one.y;
      const least = one.radius + two.radius + gap;
      if (y >= least || -y >= least || x * x + y * y >= least * least) continue;
      any = true;
      if (!strength) return true;
      if (x === 0 && y === 0) {
        x = Math.cos(second);
        y = Math.sin(second);
      }
      const distance = Math.hypot(x, y);
      const push = ((least - distance) / distance) * strength * 2 + 1e-9;
      const part = two.radius ** 2 / (one.radius ** 2 + two.radius ** 2);
      one.x -= x * push * part;
      one.y -= y * push * part;
      two.x += x * push * (1 - part);
      two.y += y * push * (1 - part);
    }
  }
  return any;
}

/** Returns a position that depends on the id only, between the rim and `inner` (0 to 1) of an ellipse. */
function seed(id: string, reach: number, aspect: number, inner: number): [number, number] {
  let hash = 2_166_136_261;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 16_777_619) >>> 0;
  const angle = ((hash & 0xffff) / 0xffff) * 2 * Math.PI;
  const distance = reach * (inner + (1 - inner) * Math.sqrt((hash >>> 16) / 0xffff));
  return [Math.cos(angle) * distance * Math.sqrt(aspect), (Math.sin(angle) * distance) / Math.sqrt(aspect)];
}

function pairs(bodies: Body[]): Float64Array {
  const places = new Float64Array(bodies.length * 2);
  for (const { index, x, y } of bodies) places.set([x, y], (index as number) * 2);
  return places;
}
