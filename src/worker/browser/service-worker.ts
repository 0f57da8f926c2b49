// The service worker of the worker page: keeps the page with its files, so that it also opens without a network.
declare const self: ServiceWorkerGlobalScope;
/** Set by scripts/build-pages.ts: every file of the page (their names contain the hash of their content), and a hash of all of them. */
declare const FILES: readonly string[];
declare const RELEASE: string;

const CACHE = `compute-router-worker ${RELEASE}`;
const PAGE = "/worker";
/** The addresses of files in a page that have a hash in their names. */
const HASHED = /\/worker\/\w+-[0-9a-f]{12}\.\w+/g;
/** How long the cached page waits for a newer one from the network. */
const PATIENCE_MS = 2_500;

self.addEventListener("install", (event) => {
  // Not activated at once, because an open page still loads files of its own version.
  event.waitUntil(store());
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches.keys().then(async (names) => {
      for (const name of names) if (name.startsWith("compute-router-worker ") && name !== CACHE) await caches.delete(name);
      await self.clients.claim();
    }),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin) return;
  if (url.pathname === PAGE) event.respondWith(page(request));
  else if (FILES.includes(url.pathname)) event.respondWith(file(request));
  // Everything else, especially the API, does not use this cache.
});

/**
 * Stores the page with its files. While a release is rolled out, the page can come from another one: then this fails, and the browser tries again at a later
 * visit. Without its own files such a page would be dead when the network is down.
 */
async function store(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll([PAGE, ...FILES].map((url) => new Request(url, { cache: "reload" })));
  const page = await (await cache.match(PAGE))?.text();
  const named = page?.match(HASHED) ?? [];
  if (named.length > 0 && named.every((name) => FILES.includes(name))) return;
  await caches.delete(CACHE);
  throw new Error("the page is of another release than its files");
}

/** The page from the network, or the cached one if the network is down or slow. */
async function page(request: Request): Promise<Response> {
  const kept = await caches.match(PAGE);
  const fresh = fetch(request).then((response) => (response.ok || kept === undefined ? response : kept));
  if (kept === undefined) return await fresh;
  const late = new Promise<Response>((resolve) => setTimeout(() => resolve(kept), PATIENCE_MS));
  return await Promise.race([fresh.catch(() => kept), late]);
}

/** The cached file: a file with the same name never changes. */
async function file(request: Request): Promise<Response> {
  return (await caches.match(request.url)) ?? (await fetch(request));
}
