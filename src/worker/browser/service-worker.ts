declare const self: ServiceWorkerGlobalScope;
/** Set by scripts/build-pages.ts: every file of the page (their names contain the hash of their content), and a hash of all of them. */
declare const FILES: readonly string[];
declare const RELEASE: string;

const CACHE = `compute-router-worker ${RELEASE}`;
const PAGE = "/worker";
/** How long the cached page waits for a newer one from the network. */
const PATIENCE_MS = 2_500;

self.addEventListener("install", (event) => {
  // Not activated at once, because an open page still loads files of its own version.
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
  // Everything else, especially the API, does not use this cache.
});

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
