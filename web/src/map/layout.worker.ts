/** Computes layouts in a worker, so that the page stays responsive. */
import { anchor, areaOf, graphOf, place, type Task } from "./layout";

type PastAnswer = Parameters<typeof graphOf>[0];
/** A layout to compute: of an instant, or of a history with all its maps. */
export type Asked = { number: number } & ({ past: object; aspect: number } | { instant: Task });
/** Positions as x, y, x, y, …; of a history with the ids of its nodes and their area. */
export type Placed = { number: number; places: Float64Array; ids: string[]; area: number };

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  const { number } = data;
  const post = (placed: Placed) => (postMessage as (message: unknown) => void)(placed);
  if ("instant" in data) return post({ number, places: place(data.instant), ids: [], area: 0 });
  const graph = graphOf(data.past as PastAnswer, data.aspect);
  post({ number, places: anchor(graph), ids: graph.ids, area: areaOf(graph.radii) });
});
