declare const self: ServiceWorkerGlobalScope;
/** Put in by scripts/build-pages.ts: every file of the page, whose names carry their content's hash, and a hash of all of them. */
declare const FILES: readonly string[];
declare const RELEASE: string;

const CACHE = `compute-router-worker ${RELEASE}`;
const PAGE = "/worker";
/** How long a page that is there already waits for the network to bring a newer one. */
const PATIENCE_MS = 2_500;

self.addEventListener("install", (event) => {
  // Not activated at once: a page that runs still starts threads from its own version's files.
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll([PAGE, ...FILES].map((url) => new Request(url, { cache: "reload" })))));
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
  // All else, the API above all, is none of this cache's business.
});

/** The page from the network, or the kept one when that is down or slow. */
async function page(request: Request): Promise<Response> {
  const kept = await caches.match(PAGE);
  const fresh = fetch(request).then((response) => (response.ok || kept === undefined ? response : kept));
  if (kept === undefined) return await fresh;
  const late = new Promise<Response>((resolve) => setTimeout(() => resolve(kept), PATIENCE_MS));
  return await Promise.race([fresh.catch(() => kept), late]);
}

/** A file never changes under its name. */
async function file(request: Request): Promise<Response> {
  return (await caches.match(request.url)) ?? (await fetch(request));
}
