/** Records the play of the history as a film: the picture's frame around the moving map. */
import { canvasPen } from "./pen";
import { drawAround, HEIGHT, PANEL, WIDTH, type Subject } from "./sheet";

const FORMATS = ["video/webm;codecs=vp9", "video/webm", "video/mp4"];
const FRAMES_A_SECOND = 30;
const BITS_A_SECOND = 6_000_000;
const LAST_MILLISECONDS = 1_200;

/** The first format that the browser can record, or undefined. */
export const format = globalThis.MediaRecorder && FORMATS.find((one) => MediaRecorder.isTypeSupported(one));

/** Returns the film from now until `isRunning` returns false. `layers` are the canvases of the map. */
export function record(subject: () => Subject | null, layers: HTMLCanvasElement[], isRunning: () => boolean): Promise<Blob> {
  const [whole, around] = [0, 0].map(() => Object.assign(document.createElement("canvas"), { width: WIDTH, height: HEIGHT })) as [HTMLCanvasElement, HTMLCanvasElement];
  const [brush, frame] = [whole, around].map((one) => one.getContext("2d")) as [CanvasRenderingContext2D, CanvasRenderingContext2D];
  const recorder = new MediaRecorder(whole.captureStream(FRAMES_A_SECOND), { mimeType: format as string, videoBitsPerSecond: BITS_A_SECOND });
  const parts: Blob[] = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  let drawn: unknown = null;
  let end = Infinity;
  const step = (now: number) => {
    const of = subject();
    if (of && drawn !== of.scene) {
      drawAround(canvasPen(frame), of, null);
      drawn = of.scene;
    }
    brush.drawImage(around, 0, 0);
    for (const layer of layers) drawLayer(brush, layer);
    if (end === Infinity && !isRunning()) end = now + LAST_MILLISECONDS;
    if (now < end) requestAnimationFrame(step);
    else recorder.stop();
  };
  requestAnimationFrame(step);
  recorder.start();
  return new Promise((done) => {
    recorder.onstop = () => done(new Blob(parts, { type: recorder.mimeType }));
  });
}

/** Draws a canvas of the map into the panel, complete and in its proportions. */
function drawLayer(brush: CanvasRenderingContext2D, layer: HTMLCanvasElement): void {
  if (layer.style.opacity === "0") return;
  const [left, top, width, height] = PANEL;
  const scale = Math.min(width / layer.width, height / layer.height);
  const [wide, high] = [layer.width * scale, layer.height * scale];
  brush.globalAlpha = layer.classList.contains("back") ? 0.35 : 1;
  brush.drawImage(layer, left + (width - wide) / 2, top + (height - high) / 2, wide, high);
  brush.globalAlpha = 1;
}
