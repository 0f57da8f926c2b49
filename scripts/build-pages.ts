// Makes the pages that the coordinator serves to browsers, in dist/pages: home at /, the API at /docs, the worker at /worker, the user's side of a pairing at
// /pair. The same sources give the same bytes. A file that would not change is not written, so that a `wrangler dev` that serves it does not restart. Every
// start of wrangler runs this: if no source and no page has changed since the last build, it builds nothing and does not load esbuild.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { OpenApiDocument } from "../src/coordinator/openapi/document.ts";
import { OPENAPI_JSON } from "../src/coordinator/openapi/generated.ts";
import { apiMarkdown, docsPage } from "../src/coordinator/openapi/page.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "src", "pages");
/** What the worker's page runs in threads of its own. */
const THREADS = join(ROOT, "src", "worker", "browser");
/** What the page at /docs is written from. */
const OPENAPI = join(ROOT, "src", "coordinator", "openapi");
const TARGET = join(ROOT, "dist", "pages");

/** The build supports browsers of 2024 and later. */
const BROWSERS = ["chrome123", "firefox121", "safari17.5"];

/** The file that records what the last build read and wrote. */
const STAMP = join(ROOT, "dist", "pages.json");
/** Other files that change the pages: the version that they show, this program, and the bundler. */
const ALWAYS_READ = ["package.json", "scripts/build-pages.ts", "node_modules/esbuild/package.json"];

/** A built file: its path under dist/pages, which is also its URL, and its content. */
type Page = { path: string; content: Uint8Array };

/** Files with the digests of their contents: sources by their path in the repository, pages by their path under dist/pages. */
type Stamp = { sources: Record<string, string>; pages: Record<string, string> };

const require = createRequire(import.meta.url);
const filesRead = new Set<string>();

/** Builds all pages and writes those that differ. */
export function buildPages(): Page[] {
  const present = unchanged();
  if (present !== null) return present;
  const began = Date.now();
  filesRead.clear();
  for (const name of ALWAYS_READ) filesRead.add(name);
  const worker = workerPages();
  const icon = worker.find(({ path }) => path === "worker/icon.svg");
  if (icon === undefined) throw new Error("there is no icon");
  const pages = [...worker, ...plainPage("pair", icon), ...plainPage("home", icon), ...docsPages(icon)];
  write(pages);
  writeStamp(pages, began);
  return pages;
}

function writeStamp(pages: readonly Page[], began: number): void {
  const read = [...filesRead].map((name) => ({ name, file: join(ROOT, name) }));
  // If a source was edited during the build, it is unknown which version is in the pages.
  if (read.some(({ file }) => statSync(file).mtimeMs >= began)) return rmSync(STAMP, { force: true });
  const stamp: Stamp = {
    sources: Object.fromEntries(read.map(({ name, file }) => [name, digest(readFileSync(file))])),
    pages: Object.fromEntries(pages.map(({ path, content }) => [path, digest(content)])),
  };
  writeWhole(STAMP, JSON.stringify(stamp));
}

/** The pages of the last build, if a new build would give the same pages. */
function unchanged(): Page[] | null {
  try {
    const stamp: Stamp = JSON.parse(readFileSync(STAMP, "utf8"));
    for (const [name, known] of Object.entries(stamp.sources)) if (digest(readFileSync(join(ROOT, name))) !== known) return null;
    const pages = Object.keys(stamp.pages).map((path) => ({ path, content: readFileSync(join(TARGET, path)) }));
    if (pages.some(({ path, content }) => digest(content) !== stamp.pages[path])) return null;
    const folders = new Set(pages.map(({ path }) => dirname(path)));
    return [...folders].every((folder) => strayFiles(folder, pages).length === 0) ? pages : null;
  } catch {
    // There was no build, a file is missing, or the stamp is malformed.
    return null;
  }
}

function workerPages(): Page[] {
  const { version }: { version: string } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const tasks = hashed("worker/tasks.js", bundle(THREADS, "task-thread.ts", "iife"));
  const engine = hashed("worker/engine.js", bundle(THREADS, "main.ts", "iife", { VERSION: version, TASK_THREAD: url(tasks) }));
  const page = hashed("worker/page.js", bundle(join(SOURCES, "worker"), "main.ts", "esm"));
  const style = hashed("worker/style.css", bundle(join(SOURCES, "worker"), "style.css"));
  const icon = copied("shell", "icon.svg");
  const others = ["icon-192.png", "icon-512.png", "icon-maskable-512.png", "manifest.webmanifest"].map((name) => copied("worker", name));
  const index = filled("worker", { icon, style, page, engine });
  const cached = [style, page, engine, tasks, icon, ...others];
  const release = digest(Buffer.concat([index, ...cached].map(({ content }) => content)));
  const worker = { path: "worker/sw.js", content: bundle(THREADS, "service-worker.ts", "iife", { FILES: cached.map(url), RELEASE: release }) };
  return [index, ...cached, worker];
}

/** A page with one script and one style sheet. */
function plainPage(name: string, icon: Page): Page[] {
  const { page, style } = scriptAndStyle(name);
  return [filled(name, { icon, style, page }), page, style];
}

/** The page at /docs, made from the OpenAPI document that the coordinator serves. */
function docsPages(icon: Page): Page[] {
  for (const name of ["page.ts", "generated.ts"]) readSource(join(OPENAPI, name));
  const { page, style } = scriptAndStyle("docs");
  const document: OpenApiDocument = JSON.parse(OPENAPI_JSON);
  const html = docsPage(document, { head: filledIn(sharedHead(), { icon, style }), script: url(page) });
  const text = { path: "docs/api.md", content: Buffer.from(apiMarkdown(document)) };
  return [{ path: "docs/index.html", content: Buffer.from(html) }, text, page, style];
}

function scriptAndStyle(name: string): { page: Page; style: Page } {
  const sources = join(SOURCES, name);
  return { page: hashed(`${name}/page.js`, bundle(sources, "main.ts", "esm")), style: hashed(`${name}/style.css`, bundle(sources, "style.css")) };
}

function bundle(sources: string, entry: string, format: "iife" | "esm" = "esm", define: Record<string, unknown> = {}): Uint8Array {
  const { buildSync }: typeof import("esbuild") = require("esbuild");
  // The asynchronous `build` leaves a child process that survives a coordinator for a moment.
  const { outputFiles, metafile } = buildSync({
    entryPoints: [join(sources, entry)],
    absWorkingDir: ROOT,
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format,
    platform: "browser",
    target: BROWSERS,
    legalComments: "eof",
    logLevel: "warning",
    define: Object.fromEntries(Object.entries(define).map(([name, value]) => [name, JSON.stringify(value)])),
  });
  // Values of `define` have no file.
  for (const name of Object.keys(metafile.inputs)) if (!name.startsWith("<")) filesRead.add(name);
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild built nothing from ${entry}`);
  return output.contents;
}

function copied(folder: string, name: string): Page {
  return { path: `worker/${name}`, content: readSource(join(SOURCES, folder, name)) };
}

function readSource(file: string): Buffer {
  filesRead.add(relative(ROOT, file));
  return readFileSync(file);
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

/** The page of a folder. `{{head}}` stands for the head that all pages share. */
function filled(name: string, files: Record<string, Page>): Page {
  const template = readSource(join(SOURCES, name, "index.html")).toString();
  const text = filledIn(template.replace("{{head}}", sharedHead().replaceAll("\n", "\n    ")), files);
  return { path: `${name}/index.html`, content: Buffer.from(text) };
}

/** The `<head>` elements that all pages share. */
function sharedHead(): string {
  return readSource(join(SOURCES, "shell", "head.html"))
    .toString()
    .trimEnd();
}

/** A template with the URL of a file in place of each `{{name}}`. */
function filledIn(template: string, files: Record<string, Page>): string {
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const page = files[name];
    if (page === undefined) throw new Error(`a page names the unknown file ${name}`);
    return url(page);
  });
}

function write(pages: readonly Page[]): void {
  const folders = Map.groupBy(pages, ({ path }) => dirname(path));
  for (const [folder, files] of folders) {
    mkdirSync(join(TARGET, folder), { recursive: true });
    for (const { path, content } of files) {
      const file = join(TARGET, path);
      if (!sameAs(file, content)) writeWhole(file, content);
    }
    for (const name of strayFiles(folder, files)) rmSync(join(TARGET, folder, name), { force: true });
  }
}

/** Replaces a file in one step, because two builds may run at the same time, for two coordinators. */
function writeWhole(file: string, content: Uint8Array | string): void {
  const aside = `${file}.${process.pid}.tmp`;
  writeFileSync(aside, content);
  renameSync(aside, file);
}

/** The files in a folder of the pages that do not belong to them. */
function strayFiles(folder: string, pages: readonly Page[]): string[] {
  const names = new Set(pages.filter(({ path }) => dirname(path) === folder).map(({ path }) => basename(path)));
  return readdirSync(join(TARGET, folder)).filter((name) => !names.has(name) && !name.endsWith(".tmp"));
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
