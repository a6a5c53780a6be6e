/** Positions of bubbles. Placed bubbles keep their position when they grow; new ones are placed around them. */
import {
  type Force,
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationLinkDatum,
  type SimulationNodeDatum,
} from "d3-force";

/** Radius of each node, its position if it has one, and links as pairs of node indices. */
export type Task = {
  number: number;
  ids: string[];
  radii: number[];
  /** Width divided by height. */
  aspect: number;
  homes: ([number, number] | null)[];
  links: [number, number][];
};
/** Positions as x, y, x, y, … */
export type Placed = { number: number; places: Float64Array };

type Body = SimulationNodeDatum & { radius: number; home: [number, number] | null; x: number; y: number };

export function place(task: Task): Placed {
  const isFirst = !task.homes.some(Boolean);
  const reach = Math.sqrt(task.radii.reduce((sum, radius) => sum + (radius + 3) ** 2, 0)) * 1.25 + 20;
  const bodies: Body[] = task.ids.map((id, at) => {
    const home = task.homes[at] ?? null;
    const [x, y] = home ?? seed(id, isFirst ? reach : reach * 1.1, isFirst, task.aspect);
    return { radius: task.radii[at] ?? 1, home, x, y };
  });
  if (!isFirst) startNearNeighbours(bodies, task.links);
  const links = task.links.map(([source, target]) => ({ source, target }));
  const spread = 0.55 / Math.sqrt(1 + links.length / bodies.length);
  for (const body of bodies) if (body.home) [body.fx, body.fy] = body.home;
  const room = forceCollide<Body>((body) => body.radius + 2.5).strength(0.9).iterations(2);
  const ticks = isFirst ? (bodies.length > 250 ? 120 : 180) : 70;
  forceSimulation(bodies)
    .force("apart", forceManyBody<Body>().strength((body) => -3 - body.radius * 0.55).distanceMax(260))
    .force(
      "links",
      forceLink<Body, SimulationLinkDatum<Body>>(links)
        .distance(({ source, target }) => (source as Body).radius + (target as Body).radius + 16)
        .strength(spread),
    )
    .force("x", forceX<Body>(0).strength(0.065 / task.aspect))
    .force("y", forceY<Body>(0).strength(0.065 * task.aspect))
    .force("room", room)
    .alphaDecay(1 - 0.002 ** (1 / ticks))
    .stop()
    .tick(ticks);
  if (!isFirst) giveWay(bodies, room);
  const places = new Float64Array(bodies.length * 2);
  bodies.forEach((body, at) => places.set([body.x, body.y], at * 2));
  return { number: task.number, places };
}

/** Lets grown bubbles push others a little, against a pull back to their positions. */
function giveWay(bodies: Body[], room: Force<Body, undefined>): void {
  const at = bodies.map((body): [number, number] => body.home ?? [body.x, body.y]);
  for (const body of bodies) body.fx = body.fy = null;
  forceSimulation(bodies)
    .force("x", forceX<Body>((_, index) => at[index]?.[0] ?? 0).strength(0.5))
    .force("y", forceY<Body>((_, index) => at[index]?.[1] ?? 0).strength(0.5))
    .force("room", room)
    .alphaDecay(0)
    .alpha(0.6)
    .velocityDecay(0.6)
    .stop()
    .tick(24);
}

/** Returns a start position that depends on the address only: anywhere in the circle, or at its rim. */
function seed(id: string, reach: number, anywhere: boolean, aspect: number): [number, number] {
  let hash = 2_166_136_261;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 16_777_619) >>> 0;
  const angle = ((hash & 0xffff) / 0xffff) * 2 * Math.PI;
  const distance = anywhere ? reach * Math.sqrt((hash >>> 16) / 0xffff) : reach * (0.8 + 0.2 * ((hash >>> 16) / 0xffff));
  return [Math.cos(angle) * distance * Math.sqrt(aspect), (Math.sin(angle) * distance) / Math.sqrt(aspect)];
}

function startNearNeighbours(bodies: Body[], links: [number, number][]): void {
  const sums = new Map<Body, [number, number, number]>();
  for (const [from, to] of links) {
    for (const [mover, neighbour] of [[bodies[from], bodies[to]], [bodies[to], bodies[from]]]) {
      if (!mover || mover.home || !neighbour?.home) continue;
      const [x, y, found] = sums.get(mover) ?? [0, 0, 0];
      sums.set(mover, [x + neighbour.home[0], y + neighbour.home[1], found + 1]);
    }
  }
  for (const [body, [x, y, found]] of sums) {
    body.x = x / found + body.x * 0.1;
    body.y = y / found + body.y * 0.1;
  }
}
