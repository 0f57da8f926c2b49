/** The page at `/`: fills in what changes while somebody looks at it, the number of connected workers. The coordinator has filled in the rest. */
import { element, setText } from "../shell/dom.ts";

const LOOK_MS = 3_000;
const PATIENCE_MS = 10_000;
const COPIED_MS = 2_000;

/** The workers that are online; null when the coordinator does not answer. */
async function workersOnline(): Promise<number | null> {
  try {
    const response = await fetch("/v1/health", { signal: AbortSignal.timeout(PATIENCE_MS) });
    const body: unknown = response.ok ? await response.json() : null;
    const count: unknown = typeof body === "object" && body !== null && "workers_online" in body ? body.workers_online : null;
    return typeof count === "number" ? count : null;
  } catch {
    return null;
  }
}

async function look(): Promise<void> {
  const count = await workersOnline();
  setText(element("workers", HTMLElement), count === null ? "–" : String(count));
  element("no-worker", HTMLElement).hidden = count !== 0;
  element("trouble", HTMLElement).hidden = count !== null;
}

/** Looks again and again while the page is visible; one that nobody sees asks for nothing. */
async function watch(): Promise<void> {
  if (document.visibilityState === "visible") await look();
  setTimeout(() => void watch(), LOOK_MS);
}

const copy = element("copy", HTMLButtonElement);
// The clipboard is for secure pages only.
copy.hidden = !isSecureContext;
copy.addEventListener("click", () => {
  const copied = navigator.clipboard.writeText(element("command", HTMLElement).textContent);
  void copied.then(
    () => setText(copy, "Copied"),
    () => setText(copy, "Not allowed"),
  );
  setTimeout(() => setText(copy, "Copy"), COPIED_MS);
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") void look();
});
void watch();
