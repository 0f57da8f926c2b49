/** Placeholder until scripts/openapi.ts wrote it. */
export const OPENAPI_JSON = "{}";
export const DOCS_HTML = "<!doctype html><title>API</title>";
