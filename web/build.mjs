// Builds the page into ../holderlake/presentation/explorer/static, or into the folder that is named. The same sources give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2] ?? path.join(here, "..", "holderlake", "presentation", "explorer", "static"));

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { first: "src/first.ts", explorer: "src/main.tsx", layout: "src/map/layout.worker.ts" },
  bundle: true,
  preserveSymlinks: true, // a linked node_modules gives the same bytes
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  charset: "utf8",
  legalComments: "none", // licences stand whole in licences.txt
  metafile: true,
  outdir: out,
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(path.join(here, name), path.join(out, name));
await writeFile(path.join(out, "licences.txt"), await licences(Object.keys(metafile.inputs)));

/** The licences of all packages that files of are in the bundle. */
async function licences(inputs) {
  const names = new Set(inputs.flatMap((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []));
  const parts = [];
  for (const name of [...names].sort()) {
    const folder = path.join(here, "node_modules", name);
    const about = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} comes without a licence`);
    const text = (await readFile(path.join(folder, file), "utf8")).trim();
    parts.push(`${name} ${about.version} (${about.license})\n\n${text}\n`);
  }
  return `The explorer's page contains these libraries.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}
