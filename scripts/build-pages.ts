/**
 * Makes the pages that the coordinator serves to browsers, in dist/pages: the worker at /worker. The same sources give the same bytes; a file that is
 * as it should be is left alone, so that a `wrangler dev` that serves it does not restart.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import { ROOT } from "./instance.ts";

const SOURCES = join(ROOT, "src", "worker", "browser");
const TARGET = join(ROOT, "dist", "pages", "worker");
const URL_PATH = "/worker";

/** Browsers of 2024 and later: what the sources use is not made older. */
const BROWSERS = ["chrome123", "firefox121", "safari17.5"];

/** A built file and its content. */
type Page = { name: string; content: Uint8Array };

/** Builds all files of the worker page and writes those that differ. */
export function buildPages(): Page[] {
  const { version }: { version: string } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const tasks = hashed("tasks.js", bundle("engine/task-thread.ts", "iife"));
  const engine = hashed("engine.js", bundle("engine/main.ts", "iife", { VERSION: version, TASK_THREAD: url(tasks) }));
  const page = hashed("page.js", bundle("page/main.ts", "esm"));
  const style = hashed("style.css", bundle("shell/style.css"));
  const icons = ["icon.svg", "icon-192.png", "icon-512.png", "icon-maskable-512.png"].map(copied);
  const index = {
    name: "index.html",
    content: Buffer.from(fill(readFileSync(join(SOURCES, "shell", "index.html"), "utf8"), { style: url(style), page: url(page), engine: url(engine) })),
  };
  const cached = [style, page, engine, tasks, ...icons, copied("manifest.webmanifest")];
  const release = digest(Buffer.concat([index, ...cached].map(({ content }) => content)));
  const worker = { name: "sw.js", content: bundle("shell/service-worker.ts", "iife", { FILES: cached.map(url), RELEASE: release }) };
  const pages = [index, ...cached, worker];
  write(pages);
  return pages;
}

function bundle(entry: string, format: "iife" | "esm" = "esm", define: Record<string, unknown> = {}): Uint8Array {
  // The other way leaves a child process behind, which outlives a coordinator by a moment.
  const { outputFiles } = buildSync({
    entryPoints: [join(SOURCES, entry)],
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
  return { name, content: readFileSync(join(SOURCES, "shell", name)) };
}

function hashed(name: string, content: Uint8Array): Page {
  const [stem = "", ending = ""] = name.split(".");
  return { name: `${stem}-${digest(content)}.${ending}`, content };
}

function digest(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 12);
}

function url({ name }: Page): string {
  return `${URL_PATH}/${name}`;
}

function fill(template: string, values: Record<string, string>): string {
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => values[name] ?? "");
}

function write(pages: readonly Page[]): void {
  mkdirSync(TARGET, { recursive: true });
  for (const { name, content } of pages) {
    const file = join(TARGET, name);
    if (sameAs(file, content)) continue;
    // Two builds at once, for two coordinators: nobody reads half a file.
    const aside = `${file}.${process.pid}.tmp`;
    writeFileSync(aside, content);
    renameSync(aside, file);
  }
  const names = new Set(pages.map(({ name }) => name));
  for (const name of readdirSync(TARGET)) if (!names.has(name) && !name.endsWith(".tmp")) rmSync(join(TARGET, name), { force: true });
}

function sameAs(file: string, content: Uint8Array): boolean {
  try {
    return readFileSync(file).equals(content);
  } catch {
    return false;
  }
}

if (process.argv[1] !== undefined && basename(process.argv[1]) === basename(import.meta.filename)) {
  const pages = buildPages();
  const sizes = pages.filter(({ name }) => /\.(?:js|css|html)$/.test(name)).map(({ name, content }) => ({ name, bytes: gzipSync(content).length }));
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
  console.log(
    `worker page: ${(total / 1000).toFixed(1)} kB gzipped (${sizes.map(({ name, bytes }) => `${name.replace(/-[0-9a-f]{12}/, "")} ${(bytes / 1000).toFixed(1)}`).join(", ")})`,
  );
}
