import { element } from "./elements.ts";

type InstallPrompt = Event & { prompt: () => Promise<unknown> };

/** Caches the page for the next visit without a network, and offers to install it where the browser asks so. */
export function offerInstall(): void {
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
  // Missing on plain http; the page works without.
  if ("serviceWorker" in navigator) void navigator.serviceWorker.register("/worker/sw.js", { scope: "/worker" }).catch(() => {});
}

function isInstallPrompt(event: Event): event is InstallPrompt {
  return "prompt" in event;
}
