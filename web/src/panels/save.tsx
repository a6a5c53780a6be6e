/** Saves what the page shows: a picture, a drawing, a film, a page of its own, or a table. All is made in the page. */
import { signal } from "@preact/signals";
import { isSaved } from "../data";
import { colourOf, look, scene, stage } from "../map/map";
import { format, record } from "../picture/film";
import { handout } from "../picture/handout";
import { canvasPen, svgPen } from "../picture/pen";
import { drawSheet, HEIGHT, WIDTH, type Subject } from "../picture/sheet";
import { changeOf, failed, finding, history, instant, instants, isByOwner, play, playing, say, showPlace, shown, span, speed, title } from "../state";
import { added, toQuery, view } from "../view";

const COLUMNS = ["kind", "rank", "address", "label", "share", "amount", "cluster_id", "is_cex", "is_dex", "is_contract", "first_activity"] as const;
/** Pixels of the PNG for one of the drawing. */
const DENSITY = 2;
const LONGEST_FILM_SECONDS = 60;

/** What is being saved; empty if nothing is. */
const busy = signal("");

export function Save() {
  if (busy.value) {
    return <button type="button" class="busy-save" onClick={() => playing.value && play()} title="Ends the film here">{busy.value}</button>;
  }
  if (!scene.value?.bubbles.length) return null;
  const choose = (save: () => unknown) => async (event: MouseEvent) => {
    (event.currentTarget as HTMLElement).closest("details")?.removeAttribute("open");
    try {
      await save();
    } catch (error) {
      failed(error);
    }
    busy.value = "";
  };
  return (
    <details class="save">
      <summary>Save</summary>
      <div>
        <button type="button" onClick={choose(savePng)}>Picture (PNG)</button>
        <button type="button" onClick={choose(() => offer("svg", "image/svg+xml", [drawnAsSvg()]))}>Drawing (SVG)</button>
        {format && instants.value.length > 1 && <button type="button" onClick={choose(saveFilm)}>Film of the history ({format.includes("mp4") ? "MP4" : "WebM"})</button>}
        {!isSaved && <button type="button" onClick={choose(savePage)}>Page that opens anywhere (HTML)</button>}
        <button type="button" onClick={choose(() => offer("csv", "text/csv", [asCsv()]))}>Nodes (CSV)</button>
      </div>
    </details>
  );
}

function offer(suffix: string, type: string, parts: BlobPart[]): void {
  const of = history.value;
  const words = [of?.symbol || of?.address || "map", shown.value?.at ?? ""].map((word) => word.replace(/[^\w.-]+/g, "_").slice(0, 60));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = `${words.join("_")}.${suffix}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`Saved ${link.download}.`);
}

function subject(): Subject | null {
  const [of, made] = [history.peek(), scene.peek()];
  const at = instants.peek().find((one) => one.at === made?.map.at);
  return of && made && at ? { history: of, instant: at, scene: made, look: look.peek(), finding: finding.peek(), before: (changeOf.peek() && span.peek()?.find((one) => one.at !== at.at)?.at) ?? "", colourOf: (cluster) => colourOf(cluster) ?? "#888888" } : null;
}

async function savePng(): Promise<void> {
  const of = subject();
  if (!of) return;
  const whole = Object.assign(document.createElement("canvas"), { width: WIDTH * DENSITY, height: HEIGHT * DENSITY });
  const brush = whole.getContext("2d") as CanvasRenderingContext2D;
  brush.scale(DENSITY, DENSITY);
  drawSheet(canvasPen(brush), of);
  const picture = await new Promise<Blob | null>((done) => whole.toBlob(done));
  if (picture) offer("png", "image/png", [picture]);
}

function drawnAsSvg(): string {
  const of = subject();
  const [pen, file] = svgPen(WIDTH, HEIGHT, title.peek());
  if (of) drawSheet(pen, of);
  return file();
}

/** Plays the history from its beginning and records it. The same button ends it earlier. */
async function saveFilm(): Promise<void> {
  const on = stage.peek();
  if (!on) return;
  const before = speed.peek();
  busy.value = "Recording… stop";
  speed.value = Math.max(before, instants.peek().length / LONGEST_FILM_SECONDS);
  on.fit();
  if (playing.peek()) play();
  showPlace(0);
  play();
  const film = await record(subject, on.layers, () => playing.peek());
  speed.value = before;
  offer(film.type.includes("mp4") ? "mp4" : "webm", film.type, [film]);
}

async function savePage(): Promise<void> {
  const [of, at] = [history.peek(), instant.peek()];
  if (!of || !at) return;
  const query = toQuery({ ...view.peek(), chain: of.chain, token: of.address, at: at.at });
  offer("html", "text/html", [await handout(of, at.at, added.peek().join(), isByOwner.peek(), query, (text) => (busy.value = text))]);
}

function asCsv(): string {
  const rows = (shown.value?.nodes ?? []).map((node) => COLUMNS.map((name) => cell(node[name])).join(","));
  return [COLUMNS.join(","), ...rows, ""].join("\r\n");
}

/** A cell of a CSV file. A spreadsheet must not read a foreign text as a formula. */
function cell(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value ?? "");
  const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
