import { OPENAI_ENDPOINTS } from "../../protocol/pricing.ts";
import { EXTENSIONS_JSON } from "./extensions.ts";

/** The extensions of x402 v2 that a 402 offers; `bazaar` by what an endpoint takes. */
const EXTENSIONS: { readonly bazaar: Readonly<Record<"commit" | "chat" | "completions", unknown>>; readonly "payment-identifier": unknown } =
  JSON.parse(EXTENSIONS_JSON);

/** The API of OpenAI that is at this path; null for every other path. */
export function openAiAt(pathname: string): "chat" | "completions" | null {
  if (pathname === OPENAI_ENDPOINTS.chat) return "chat";
  return pathname === OPENAI_ENDPOINTS.completions ? "completions" : null;
}

/** The extensions that the 402 of an endpoint offers; `resource` is its URL [PY4]. */
export function extensionsOf(resource: string): { bazaar: unknown; "payment-identifier": unknown } {
  return { bazaar: bazaarOf(resource), "payment-identifier": EXTENSIONS["payment-identifier"] };
}

/** What discovery services read about an endpoint. Each payment sends it to the facilitator too, because the facilitator lists the endpoint. */
export function bazaarOf(resource: string): unknown {
  return EXTENSIONS.bazaar[openAiAt(new URL(resource).pathname) ?? "commit"];
}
