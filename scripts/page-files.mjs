// The Worker that serves the built pages of a coordinator that this machine runs, as Cloudflare's assets do: by their paths, with type and ETag. Miniflare's
// own emulation of assets is six services, a quarter of a coordinator's start.
const TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  md: "text/markdown; charset=utf-8",
  png: "image/png",
  svg: "image/svg+xml",
  webmanifest: "application/manifest+json",
};

export default {
  async fetch(request, { FILES }) {
    const { pathname } = new URL(request.url);
    const type = TYPES[pathname.slice(pathname.lastIndexOf(".") + 1)];
    const file = await FILES.fetch(new URL(pathname, "http://files"));
    if (type === undefined || file.status !== 200) return new Response(null, { status: 404 });
    const content = await file.arrayBuffer();
    const etag = `"${new Uint8Array(await crypto.subtle.digest("SHA-256", content)).toHex().slice(0, 32)}"`;
    const known = request.headers.get("If-None-Match") ?? "";
    return known.includes(etag)
      ? new Response(null, { status: 304, headers: { ETag: etag } })
      : new Response(content, { headers: { "Content-Type": type, ETag: etag } });
  },
};
