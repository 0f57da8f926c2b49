/**
 * Makes the pages that the coordinator serves to browsers, in dist/pages: home at /, the worker at /worker, the user's side of a pairing at /pair. The same
 * sources give the same bytes; a file that is as it should be is left alone, so that a `wrangler dev` that serves it does not restart.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import { ROOT } from "./coordinator-process.ts";

const WORKER = join(ROOT, "src", "worker", "browser");
const PAIR = join(ROOT, "src", "pair-page");
const HOME = join(ROOT, "src", "home-page");
const TARGET = join(ROOT, "dist", "pages");

/** Browsers of 2024 and later: what the sources use is not made older. */
const BROWSERS = ["chrome123", "firefox121", "safari17.5"];

/** A built file: its place under dist/pages, which is its URL too, and its content. */
type Page = { path: string; content: Uint8Array };

/** Builds all pages and writes those that differ. */
export function buildPages(): Page[] {
  const worker = workerPages();
  const icon = worker.find(({ path }) => path === "worker/icon.svg");
  if (icon === undefined) throw new Error("there is no icon");
  const pages = [...worker, ...plainPage("pair", PAIR, icon), ...plainPage("home", HOME, icon)];
  write(pages);
  return pages;
}

function workerPages(): Page[] {
  const { version }: { version: string } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const tasks = hashed("worker/tasks.js", bundle(WORKER, "engine/task-thread.ts", "iife"));
  const engine = hashed("worker/engine.js", bundle(WORKER, "engine/main.ts", "iife", { VERSION: version, TASK_THREAD: url(tasks) }));
  const page = hashed("worker/page.js", bundle(WORKER, "page/main.ts", "esm"));
  const style = hashed("worker/style.css", bundle(WORKER, "shell/style.css"));
  const icons = ["icon.svg", "icon-192.png", "icon-512.png", "icon-maskable-512.png"].map(copied);
  const index = filled("worker", join(WORKER, "shell", "index.html"), { style, page, engine });
  const cached = [style, page, engine, tasks, ...icons, copied("manifest.webmanifest")];
  const release = digest(Buffer.concat([index, ...cached].map(({ content }) => content)));
  const worker = { path: "worker/sw.js", content: bundle(WORKER, "shell/service-worker.ts", "iife", { FILES: cached.map(url), RELEASE: release }) };
  return [index, ...cached, worker];
}

/** A page of one script and one style. */
function plainPage(name: string, sources: string, icon: Page): Page[] {
  const page = hashed(`${name}/page.js`, bundle(sources, "main.ts", "esm"));
  const style = hashed(`${name}/style.css`, bundle(sources, "style.css"));
  return [filled(name, join(sources, "index.html"), { style, page, icon }), page, style];
}

function bundle(sources: string, entry: string, format: "iife" | "esm" = "esm", define: Record<string, unknown> = {}): Uint8Array {
  // The other way leaves a child process behind, which outlives a coordinator by a moment.
  const { outputFiles } = buildSync({
    entryPoints: [join(sources, entry)],
    absWorkingDir: ROOT,
    bundle: true,
    write: false,
    minify: true,
    format,
    platform: "browser",
    target: BROWSERS,
    legalComments: "eof",
    logLevel: "warning",
    define: Object.fromEntries(Object.entries(define).map(([name, value]) => [name, JSON.stringify(value)])),
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild made nothing of ${entry}`);
  return output.contents;
}

function copied(name: string): Page {
  return { path: `worker/${name}`, content: readFileSync(join(WORKER, "shell", name)) };
}

function hashed(path: string, content: Uint8Array): Page {
  const [stem = "", ending = ""] = path.split(".");
  return { path: `${stem}-${digest(content)}.${ending}`, content };
}

function digest(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 12);
}

function url({ path }: Page): string {
  return `/${path}`;
}

/** A page whose `{{names}}` are the addresses of other files. */
function filled(folder: string, template: string, files: Record<string, Page>): Page {
  const text = readFileSync(template, "utf8").replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const file = files[name];
    if (file === undefined) throw new Error(`${template} names ${name}, which there is not`);
    return url(file);
  });
  return { path: `${folder}/index.html`, content: Buffer.from(text) };
}

function write(pages: readonly Page[]): void {
  const folders = Map.groupBy(pages, ({ path }) => dirname(path));
  for (const [folder, files] of folders) {
    mkdirSync(join(TARGET, folder), { recursive: true });
    for (const { path, content } of files) {
      const file = join(TARGET, path);
      if (sameAs(file, content)) continue;
      // Two builds at once, for two coordinators: nobody reads half a file.
      const aside = `${file}.${process.pid}.tmp`;
      writeFileSync(aside, content);
      renameSync(aside, file);
    }
    const names = new Set(files.map(({ path }) => basename(path)));
    for (const name of readdirSync(join(TARGET, folder))) {
      if (!names.has(name) && !name.endsWith(".tmp")) rmSync(join(TARGET, folder, name), { force: true });
    }
  }
}

function sameAs(file: string, content: Uint8Array): boolean {
  try {
    return readFileSync(file).equals(content);
  } catch {
    return false;
  }
}

if (process.argv[1] !== undefined && basename(process.argv[1]) === basename(import.meta.filename)) {
  for (const [folder, pages] of Map.groupBy(buildPages(), ({ path }) => dirname(path))) {
    const sizes = pages
      .filter(({ path }) => /\.(?:js|css|html)$/.test(path))
      .map(({ path, content }) => ({ name: basename(path).replace(/-[0-9a-f]{12}/, ""), bytes: gzipSync(content).length }));
    const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`/${folder}: ${(total / 1000).toFixed(1)} kB gzipped (${sizes.map(({ name, bytes }) => `${name} ${(bytes / 1000).toFixed(1)}`).join(", ")})`);
  }
}
