import { DOCS_HTML, OPENAPI_JSON } from "../docs/pages.ts";
import type { AppContext } from "./app-env.ts";

/** A deploy may change them; a reader may look again in five minutes. */
const CACHE = "public, max-age=300";

/** `GET /openapi.json`: the description of this API, as it was generated and checked in [API8]. */
export function openApiDocument(c: AppContext): Response {
  c.header("Content-Type", "application/json");
  c.header("Cache-Control", CACHE);
  return c.body(OPENAPI_JSON);
}

/** `GET /docs`: the same for people; but for its icon the page asks nobody for anything [API8]. */
export function docsPage(c: AppContext): Response {
  c.header("Content-Type", "text/html; charset=utf-8");
  c.header("Cache-Control", CACHE);
  c.header(
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  return c.body(DOCS_HTML);
}
