/** Computes layouts in a worker, so that the page stays responsive. */
import { anchor, areaOf, graphOf, place, type Task } from "./layout";

type PastAnswer = Parameters<typeof graphOf>[0];
/** A layout to compute: of an instant, or of a history, of which the worker requests all maps at once. */
export type Asked = { number: number } & ({ past: string | object; aspect: number } | { instant: Task });
/** Positions as x, y, x, y, …; of a history with the ids of its nodes and their area. Or why there are none. */
export type Placed = { number: number } & ({ places: Float64Array; ids: string[]; area: number } | { fault: string });

addEventListener("message", async ({ data }: MessageEvent<Asked>) => {
  const post = (placed: Placed) => (postMessage as (message: unknown) => void)(placed);
  if ("instant" in data) return post({ number: data.number, places: place(data.instant), ids: [], area: 0 });
  try {
    const graph = graphOf(await answered(data.past), data.aspect);
    post({ number: data.number, places: anchor(graph), ids: graph.ids, area: areaOf(graph.radii) });
  } catch (error) {
    post({ number: data.number, fault: String(error) });
  }
});

async function answered(past: string | object): Promise<PastAnswer> {
  if (typeof past !== "string") return past as PastAnswer;
  const answer = await fetch(past);
  if (!answer.ok) throw new Error(`the explorer answered ${answer.status}`);
  return answer.json();
}
