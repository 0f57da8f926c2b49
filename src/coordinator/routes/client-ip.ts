import type { Settings } from "../config.ts";

/**
 * Whether this code was deployed, not run by a local emulation. wrangler writes the value in at build time, so no request can claim it.
 * Both must hold: deployed code that someone runs in a bare workerd has no `cf` on its requests.
 */
const DEPLOYED = process.env.NODE_ENV === "production";

/**
 * Who a request is counted under [LM2]. `CF-Connecting-IP` is the edge's word only at Cloudflare: a local emulation passes on what the client sent.
 * Elsewhere the operator names the header that its proxy sets; without one all share one count.
 */
export function clientIp(request: Request, settings: Pick<Settings, "trustedIpHeader">, deployed: boolean = DEPLOYED): string {
  if (settings.trustedIpHeader !== null) {
    // A proxy appends what it saw; what stands before that came from outside.
    return request.headers.get(settings.trustedIpHeader)?.split(",").at(-1)?.trim() || "local";
  }
  const atCloudflare = deployed && request.cf !== undefined;
  return (atCloudflare ? request.headers.get("CF-Connecting-IP") : null) ?? "local";
}
