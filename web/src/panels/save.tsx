/** Saves the visible map: as a picture (PNG, SVG), or its nodes as a table (CSV). All is made in the page. */
import { colours } from "../colours";
import { date } from "../format";
import { colourOf, scene } from "../map/map";
import { bounds } from "../map/scene";
import { history, say, shown } from "../state";

const COLUMNS = ["kind", "rank", "address", "label", "share", "amount", "cluster_id", "is_cex", "is_dex", "is_contract", "first_activity"] as const;

export function Save() {
  const choose = (save: () => void) => (event: MouseEvent) => {
    save();
    (event.currentTarget as HTMLElement).closest("details")?.removeAttribute("open");
  };
  if (!scene.value) return null;
  return (
    <details class="save">
      <summary>Save</summary>
      <div>
        <button type="button" onClick={choose(savePng)}>Picture (PNG)</button>
        <button type="button" onClick={choose(() => offer("svg", "image/svg+xml", [drawnAsSvg()]))}>Drawing (SVG)</button>
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

function savePng(): void {
  const layers = [...document.querySelectorAll<HTMLCanvasElement>(".map canvas")];
  const whole = document.createElement("canvas");
  [whole.width, whole.height] = [layers[0]?.width ?? 1, layers[0]?.height ?? 1];
  const brush = whole.getContext("2d") as CanvasRenderingContext2D;
  brush.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ground") || "white";
  brush.fillRect(0, 0, whole.width, whole.height);
  for (const layer of layers) brush.drawImage(layer, 0, 0);
  whole.toBlob((picture) => picture && offer("png", "image/png", [picture]));
}

function drawnAsSvg(): string {
  const made = scene.value;
  if (!made) return "";
  const [left, top, right, bottom] = bounds(made.bubbles);
  const { lone } = colours.value;
  const lines = made.lines.map(({ from, to }) => `<line x1="${at(from.x)}" y1="${at(from.y)}" x2="${at(to.x)}" y2="${at(to.y)}"/>`);
  const bubbles = made.bubbles.map(({ node, x, y, radius }) => {
    const colour = colourOf(node.cluster_id) ?? lone;
    const look = node.kind === "top_holder" || node.kind === "holder" ? `fill="${colour}"` : `fill="white" stroke="${colour}" stroke-width="1"`;
    return `<circle cx="${at(x)}" cy="${at(y)}" r="${at(radius)}" ${look}><title>${escaped(node.label || node.address)}</title></circle>`;
  });
  const title = `${history.value?.name || history.value?.address || ""}, ${date(made.map.at)}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${[left - 10, top - 10, right - left + 20, bottom - top + 20].map(at).join(" ")}">`,
    `<title>${escaped(title)}</title>`,
    `<g stroke="#8a919c" stroke-opacity="0.5" stroke-width="0.7">${lines.join("")}</g>`,
    ...bubbles,
    "</svg>\n",
  ].join("\n");
}

const at = (value: number) => value.toFixed(2);

const escaped = (text: string) =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\ufffe\uffff]/g, " ").replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

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
