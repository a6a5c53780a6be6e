/** One HTML file with the page and the history of a token, which opens without the explorer. It makes no requests. */
import type { History } from "../data";
import { cut, date } from "../format";
import { askedFor } from "../table";

/** Characters of JSON that the maps of a file have at most; longer histories are thinned out. */
const MOST_CHARACTERS = 60_000_000;
const POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'";

/** Returns the file, which opens with a view at the instant `at`. `add` are the added addresses; only `byOwner` has owners in it. */
export async function handout(of: History, at: string, add: string, byOwner: boolean, query: string, progress: (text: string) => void): Promise<Blob> {
  const [script, layout, style, licences, icon] = await Promise.all(["explorer.js", "layout.js", "explorer.css", "licences.txt", "icon.svg"].map(textOf));
  const subject = { chain: of.chain, token: of.address };
  const answers: Record<string, string> = {};
  const keep = async (path: string, asked: Record<string, string>) => (answers[askedFor(path, asked)] = await textOf(`api/${askedFor(path, asked)}`));
  const one = await keep("map", { ...subject, at, ...(add && { add }) });
  const chosen = thinned(of.instants.map((instant) => instant.at), at, Math.max(2, Math.floor(MOST_CHARACTERS / one.length)));
  await keep("past", subject);
  await keep("links", {});
  const known = JSON.parse(await keep("history", subject)) as Record<"instants" | "token", Record<string, unknown[]>>;
  if (!byOwner) known.token.has_owners = [false];
  const keeps = (known.instants.at ?? []).map((when) => chosen.includes(String(when)));
  for (const [name, column] of Object.entries(known.instants)) known.instants[name] = column.filter((_, row) => keeps[row]);
  answers[askedFor("history", subject)] = JSON.stringify(known);
  for (const [place, when] of chosen.entries()) {
    progress(`Date ${place + 1} of ${chosen.length}`);
    await keep("map", { ...subject, at: when, ...(add && { add }) });
    if (byOwner) await keep("owners", { ...subject, at: when, ...(add && { add }) });
  }
  const packed = await zipped(`{${Object.entries(answers).map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`);
  const title = escaped(`${cut(of.name || of.symbol || of.address, 80)} · ${date(of.instants.at(-1)?.at ?? null)}`);
  return new Blob(
    [
      `<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${POLICY}">\n`,
      `<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n<title>${title}</title>\n`,
      `<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(icon ?? "")}">\n<style>${style}</style>\n</head>\n<body>\n<div id="app"></div>\n`,
      `<script type="text/plain" id="view">${query}</script>\n<script type="text/plain" id="answers">${packed}</script>\n`,
      `<script type="text/plain" id="layout">${inScript(layout)}</script>\n<script type="module">${inScript(script)}</script>\n`,
      `<script type="text/plain" id="licences">${inScript(licences)}</script>\n</body>\n</html>\n`,
    ],
    { type: "text/html" },
  );
}

/** Returns at most `most` dates, evenly spread, with the first, the last and the chosen one. */
function thinned(dates: string[], at: string, most: number): string[] {
  if (dates.length <= most) return dates;
  const step = (dates.length - 1) / (most - 1);
  const places = new Set(Array.from({ length: most }, (_, place) => Math.round(place * step)));
  return dates.filter((one, place) => places.has(place) || one === at);
}

async function textOf(path: string): Promise<string> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`The explorer answered ${answer.status} for ${path}.`);
  return answer.text();
}

/** Returns a text compressed, in base64. */
async function zipped(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  const reader = new FileReader();
  reader.readAsDataURL(await new Response(stream).blob());
  await new Promise((done) => (reader.onload = done));
  return String(reader.result).replace(/^[^,]*,/, "");
}

/** Returns a text that cannot end the script element around it. */
const inScript = (text = "") => text.replace(/<(?=\/script|!--)/gi, "\\x3c");

const escaped = (text: string) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
