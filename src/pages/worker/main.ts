// The entry of the worker page: makes sure that one tab is the worker, watches the conditions, and offers to install the page.
import { element, setText } from "../shell/dom.ts";
import { defaultSettings, readSettings, type SettingsStore, TabLock, watchConditions } from "./conditions.ts";
import { readCode } from "./pairing-code.ts";
import { WorkerPage } from "./worker-page.ts";

const isPhone = matchMedia("(hover: none) and (pointer: coarse)").matches;

function settingsStore(): SettingsStore {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

const store = settingsStore();
const engineUrl = document.querySelector("script[data-engine]")?.getAttribute("data-engine") ?? "";
const page = new WorkerPage({ engineUrl, store, settings: readSettings(store, defaultSettings(isPhone)) });

const lock = new TabLock("locks" in navigator ? navigator.locks : undefined, {
  onAcquired: () => page.open(),
  onBusy: () => page.close(),
  onLost: () => {
    page.close();
    setText(element("other-title", HTMLElement), "Another tab has taken over");
  },
});
element("take-over", HTMLButtonElement).addEventListener("click", () => void lock.takeOver());

// The code can be used once, so it is removed from the address.
const code = readCode(new URL(location.href).searchParams.get("code") ?? "");
if (code !== "") {
  page.fillCode(code);
  history.replaceState(null, "", location.pathname);
}

window.addEventListener("pagehide", () => page.left());
void watchConditions(
  (conditions) => page.conditions(conditions),
  () => page.returned(),
);
void lock.acquire();
offerInstall();

type InstallPrompt = Event & { prompt: () => Promise<unknown> };

/** Caches the page for a visit without a network, and offers to install it if the browser supports that. */
function offerInstall(): void {
  const button = element("install", HTMLButtonElement);
  let offer: InstallPrompt | null = null;
  window.addEventListener("beforeinstallprompt", (event) => {
    event.preventDefault();
    if (!isInstallPrompt(event)) return;
    offer = event;
    button.hidden = false;
  });
  window.addEventListener("appinstalled", () => (button.hidden = true));
  button.addEventListener("click", () => {
    button.hidden = true;
    void offer?.prompt();
  });
  // Not available on plain http; the page works without it.
  if ("serviceWorker" in navigator) void navigator.serviceWorker.register("/worker/sw.js", { scope: "/worker" }).catch(() => {});
}

function isInstallPrompt(event: Event): event is InstallPrompt {
  return "prompt" in event;
}
