/** Lays maps out beside the page's own thread, so that it never stutters. */
import { place, type Task } from "./layout";

addEventListener("message", ({ data }: MessageEvent<Task>) => {
  const placed = place(data);
  (postMessage as (message: unknown, transfer: Transferable[]) => void)(placed, [placed.places.buffer]);
});
