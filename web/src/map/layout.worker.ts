/** Computes layouts in a worker, so that the page stays responsive. */
import { anchor, place, type Graph, type Task } from "./layout";

/** A layout to compute: of a history, or of an instant. */
export type Asked = { number: number } & ({ history: Graph } | { instant: Task });
/** Positions as x, y, x, y, … */
export type Placed = { number: number; places: Float64Array };

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  const places = "history" in data ? anchor(data.history) : place(data.instant);
  const placed: Placed = { number: data.number, places };
  (postMessage as (message: unknown, transfer: Transferable[]) => void)(placed, [places.buffer]);
});
