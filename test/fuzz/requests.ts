// Random HTTP requests, correct or nearly correct, for npm run fuzz.
import * as fc from "fast-check";
import { base64, bytesOf } from "./bytes.ts";
import type { Ask } from "./ask.ts";
import { nasty, nearly, written } from "./hostile.ts";

const COMMITS = [
  { job_type: "TASK", user_id: "fuzz", payload: { task_type: "classify", input: "Fine." } },
  { job_type: "TASK", user_id: "fuzz", payload: { job_type: "TASK", task_type: "summarize", input: "One. Two.", extra: [1, { a: null }] } },
  { job_type: "LLM_INFER", user_id: "fuzz", payload: { prompt: "Say hi.", max_tokens: 5 }, privacy_class: "PUBLIC" },
  { job_type: "TASK", user_id: "fuzz", payload: { task_type: "extract_json", input: "{}" }, privacy_class: "PRIVATE" },
];
const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";
const CLAIMS = [
  { pairing_code: "ABCDEF", provider_pubkey: KEY },
  { pairing_code: "000000", provider_pubkey: KEY, signature: base64(new Uint8Array(64)) },
];
const PAYMENTS = [
  {
    x402Version: 2,
    accepted: { scheme: "exact", network: "eip155:10143", amount: "1000", asset: "0x0", payTo: "0x0", maxTimeoutSeconds: 300, extra: {} },
    payload: {},
  },
  { x402Version: 1, scheme: "exact", network: "eip155:10143", payload: { signature: "0x", authorization: { from: "0x0", value: "1000" } } },
];

const body = (samples: readonly object[]): fc.Arbitrary<Uint8Array> =>
  fc.oneof({ weight: 9, arbitrary: nearly(samples).chain(written).map(bytesOf) }, { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) });

/** A header's value that node would send: anything else never reaches a server. */
const value = fc
  .oneof(fc.string({ unit: "grapheme-ascii", maxLength: 60 }), fc.constantFrom("", "0", "wait=1", "*", "a".repeat(4_000)))
  .map((text) => text.trim());
const payment = fc.oneof(
  value,
  nearly(PAYMENTS)
    .chain(written)
    .map((text) => base64(bytesOf(text))),
);
/** Long runs of one character, and what cannot follow them: a pattern that goes back and forth over them answers too late. */
const runs = fc
  .tuple(fc.constantFrom("wait=", "wait"), fc.constantFrom(" ", '"', "\\a"), fc.constantFrom('"', "="))
  .map(([before, unit, after]) => `${before}${unit.repeat(100_000 / unit.length)}${after}`);
const HEADERS: Record<string, fc.Arbitrary<string>> = {
  "content-type": fc.oneof(value, fc.constantFrom("application/json", "text/plain", "multipart/form-data", "application/json; charset=utf-16")),
  "content-encoding": fc.constantFrom("identity", "gzip", "br", "x"),
  "idempotency-key": value,
  prefer: fc.oneof(value, runs, runs, fc.constantFrom("wait=0", "wait=-1", "wait=1e9", "respond-async, wait=0", "wait=0, wait=0")),
  "x-payment": payment,
  "payment-signature": payment,
  "x-request-id": value,
  "x-user-token": value,
  origin: value,
  "x-forwarded-for": value,
  "cf-connecting-ip": value,
  range: value,
  "if-none-match": value,
  "last-event-id": value,
  accept: value,
  authorization: value,
};
/** Few at a time: one bad header hides all that comes after it. */
const headers: fc.Arbitrary<Record<string, string>> = fc
  .uniqueArray(fc.constantFrom(...Object.keys(HEADERS)), { maxLength: 3 })
  .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, HEADERS[name] ?? value]))));
const query = fc
  .array(
    fc.tuple(
      fc.constantFrom("user_id", "job_type", "policy", "model", "wait", "limit", "before", "x"),
      fc.oneof(nasty, fc.constantFrom("TASK", "LLM_INFER", "AUTO", "FAST", "0")),
    ),
    {
      maxLength: 3,
    },
  )
  .map((pairs) => pairs.map(([name, text]) => `${name}=${encode(text)}`).join("&"));
const segment = fc.oneof(fc.uuid({ version: 4 }), nasty.map(encode), fc.constantFrom("..%2f", "%2e%2e", "%ff", "%", "*", "ABCDEF"));

/** One request, nearly right or not at all. */
export const anyRequest: fc.Arbitrary<Ask> = fc.oneof(
  { weight: 6, arbitrary: to("POST", fc.constantFrom("/v1/jobs/commit/fast", "/v1/jobs/commit/cheap"), body(COMMITS)) },
  { weight: 2, arbitrary: to("POST", fc.constant("/v1/trust/create"), body([{ user_id: "fuzz" }])) },
  { weight: 2, arbitrary: to("POST", fc.constant("/v1/trust/claim"), body(CLAIMS)) },
  {
    weight: 2,
    arbitrary: to(
      "GET",
      segment.map((id) => `/v1/jobs/${id}`),
      fc.constant(null),
    ),
  },
  {
    weight: 2,
    arbitrary: to("GET", fc.constantFrom("/v1/quote", "/v1/trust/list", "/v1/health", "/v1/models", "/v1/models/acme%2Fant:1b", "/v1/jobs"), fc.constant(null)),
  },
  {
    weight: 3,
    arbitrary: to(
      fc.constantFrom("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"),
      fc.oneof(
        fc.constantFrom("/", "/docs", "/openapi.json", "/v1", "/v1/jobs", "/v1/jobs/", "/v1/jobs/commit", "/v1/jobs/commit/slow", "//v1/health", "/v1/health/"),
        fc.array(segment, { maxLength: 4 }).map((parts) => `/${parts.join("/")}`),
      ),
      fc.oneof(fc.constant(null), body(COMMITS)),
    ),
  },
);

function to(method: string | fc.Arbitrary<string>, path: fc.Arbitrary<string>, content: fc.Arbitrary<Uint8Array | null>): fc.Arbitrary<Ask> {
  return fc
    .record({ method: typeof method === "string" ? fc.constant(method) : method, path, search: query, headers, body: content })
    .map(({ search, ...rest }) => {
      const sent = rest.method === "GET" || rest.method === "HEAD" ? null : rest.body;
      return { ...rest, body: sent, path: search === "" ? rest.path : `${rest.path}?${search}` };
    });
}

/** Percent-encoded, lone surrogates as the replacement character. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
