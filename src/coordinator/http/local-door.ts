import { isLoopback } from "../../protocol/text.ts";
import type { Settings } from "../config.ts";

/**
 * Why a local coordinator does not answer a request; null if it does. A browser sends the requests of any page, also to the machine that it runs on. So a page
 * of another site must not give work to a local coordinator, nor register a worker at it: the browser names that site in `Origin`, or in `Host` if the site
 * gave its own name the address 127.0.0.1. Pages on other ports of the machine are its owner's. Programs that are no browsers send no `Origin`.
 */
export function refusedLocally({ url, headers }: Request, { local, publicHost }: Pick<Settings, "local" | "publicHost">): string | null {
  if (!local) return null;
  const origin = headers.get("Origin");
  if (!isLoopback(hostnameOf(url))) return `this coordinator is local (PUBLIC_HOST=${publicHost}): it does not answer for other host names`;
  if (origin !== null && !isLoopback(hostnameOf(origin))) return "this coordinator is local: it does not answer to pages of other sites";
  return null;
}

/** The usual URL of a local coordinator, which need not be parsed to be understood. */
const LOCAL_URL = /^http:\/\/(127\.0\.0\.1|localhost)(?::\d{1,4})?\//;

/** The host name of a URL; empty if it is none, as the `Origin` `null` of a file. */
function hostnameOf(url: string): string {
  const usual = LOCAL_URL.exec(url)?.[1];
  if (usual !== undefined) return usual;
  return URL.canParse(url) ? new URL(url).hostname : "";
}
