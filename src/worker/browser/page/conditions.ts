import type { Conditions } from "./pause.ts";

type Battery = EventTarget & { readonly level: number; readonly charging: boolean };

/** Watches what the worker depends on, and tells each change. `onReturn` is called when the page or the network comes back. */
export async function watchConditions(onChange: (conditions: Conditions) => void, onReturn: () => void): Promise<void> {
  let battery: Battery | null = null;
  const tell = () =>
    onChange({
      hidden: document.visibilityState === "hidden",
      online: navigator.onLine,
      battery: battery === null ? null : { level: battery.level, charging: battery.charging },
    });
  document.addEventListener("visibilitychange", () => {
    tell();
    if (document.visibilityState === "visible") onReturn();
  });
  // Chrome's page lifecycle: `resume` comes after a freeze, `pageshow` after a stay in the back/forward cache.
  document.addEventListener("resume", onReturn);
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) onReturn();
  });
  window.addEventListener("offline", tell);
  window.addEventListener("online", () => {
    tell();
    onReturn();
  });
  tell();
  battery = await batteryOf(navigator);
  battery?.addEventListener("levelchange", tell);
  battery?.addEventListener("chargingchange", tell);
  tell();
}

/** The Battery Status API, which only some browsers have. */
async function batteryOf(navigator: Navigator & { getBattery?: () => Promise<Battery> }): Promise<Battery | null> {
  try {
    return (await navigator.getBattery?.()) ?? null;
  } catch {
    return null;
  }
}
