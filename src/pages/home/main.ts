/** The page at `/`: shows the number of connected workers and keeps it up to date. The coordinator has filled in everything else. */
import { copyOnClick, element, setText } from "../shell/dom.ts";

const REFRESH_MS = 3_000;
const TIMEOUT_MS = 10_000;

/** The number of workers that are online; null if the coordinator does not answer. */
async function workersOnline(): Promise<number | null> {
  try {
    const response = await fetch("/v1/health", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body: unknown = response.ok ? await response.json() : null;
    const count: unknown = typeof body === "object" && body !== null && "workers_online" in body ? body.workers_online : null;
    return typeof count === "number" ? count : null;
  } catch {
    return null;
  }
}

async function refresh(): Promise<void> {
  const count = await workersOnline();
  setText(element("workers", HTMLElement), count === null ? "–" : String(count));
  element("no-worker", HTMLElement).hidden = count !== 0;
  element("trouble", HTMLElement).hidden = count !== null;
}

/** Refreshes the number regularly, but only while the page is visible. */
async function keepFresh(): Promise<void> {
  if (document.visibilityState === "visible") await refresh();
  setTimeout(() => void keepFresh(), REFRESH_MS);
}

copyOnClick(element("copy", HTMLButtonElement), () => element("command", HTMLElement).textContent);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") void refresh();
});
void keepFresh();
