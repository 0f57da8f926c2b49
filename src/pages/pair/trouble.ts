import { ComputeRouterError, RateLimitedError, RouterConnectionError, UnavailableError } from "../../sdk/index.ts";

/** The text for an error: what went wrong, and what a person can do about it. */
export function troubleText(error: unknown): string {
  if (!(error instanceof ComputeRouterError)) return "Something unexpected went wrong. Reload the page.";
  if (error.reason === "user_token_required") return "A token protects this user id. Enter the token under “You”.";
  if (error.reason === "expired") return "No worker claimed the code within one hour.";
  if (error instanceof RateLimitedError) return `Too many requests, or five codes are already open. Try again in ${wait(error.retryAfter)}.`;
  if (error instanceof RouterConnectionError) return "No answer from the coordinator. Is this device online?";
  if (error instanceof UnavailableError) return "The coordinator cannot answer at the moment. Try again soon.";
  return `The coordinator refused the request: ${error.message}`;
}

function wait(ms: number | null): string {
  const seconds = Math.ceil((ms ?? 60_000) / 1_000);
  return seconds > 90 ? `${Math.ceil(seconds / 60)} minutes` : `${seconds} seconds`;
}
