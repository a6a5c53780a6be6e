/** Computes layouts in a worker, so that the page stays responsive. */
import { place, type Task } from "./layout";

addEventListener("message", ({ data }: MessageEvent<Task>) => {
  const placed = place(data);
  (postMessage as (message: unknown, transfer: Transferable[]) => void)(placed, [placed.places.buffer]);
});
