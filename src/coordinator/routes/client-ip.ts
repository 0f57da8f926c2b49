import type { Settings } from "../config.ts";
import { networkOf } from "../rates/index.ts";

/** Whether this code was deployed, not run by a local emulation. wrangler writes the value in at build time, so no request can claim it. */
const DEPLOYED = process.env.NODE_ENV === "production";

/** Of whom nobody tells the address: all of them share one count. */
const NOBODY = "local";

/** Whether Cloudflare's edge brought this request. Both must hold: deployed code that someone runs in a bare workerd has no `cf` on its requests. */
export function isAtCloudflare(request: Request, deployed: boolean = DEPLOYED): boolean {
  return deployed && request.cf !== undefined;
}

/**
 * Who a request is counted under [LM2]. `CF-Connecting-IP` is the edge's word only at Cloudflare: a local emulation passes on what the client sent,
 * and its code cannot see the peer. Elsewhere the operator names the header that its proxy sets; without one all share one count.
 */
export function clientIp(request: Request, settings: Pick<Settings, "trustedIpHeader">, deployed: boolean = DEPLOYED): string {
  if (settings.trustedIpHeader !== null) {
    // A proxy appends what it saw; what stands before that came from outside.
    return networkOf(request.headers.get(settings.trustedIpHeader)?.split(",").at(-1) ?? "") || NOBODY;
  }
  const told = isAtCloudflare(request, deployed) ? request.headers.get("CF-Connecting-IP") : null;
  return told === null ? NOBODY : networkOf(told);
}
