import type { Settings } from "./settings.ts";

/** The page's surroundings. */
export type Conditions = {
  hidden: boolean;
  online: boolean;
  /** Where the browser tells: charge from 0 to 1. */
  battery: { level: number; charging: boolean } | null;
};

/** Why a worker that is wanted rests. */
export type Pause = "hidden" | "low_battery" | "offline";

/** Below this charge a device that is not plugged in is left alone. */
const LOW_BATTERY = 0.2;

/** What keeps the worker from working, most lasting first; null for nothing. */
export function pauseOf({ hidden, online, battery }: Conditions, settings: Settings): Pause | null {
  if (settings.saveBattery && battery !== null && !battery.charging && battery.level < LOW_BATTERY) return "low_battery";
  if (hidden && !settings.workHidden) return "hidden";
  return online ? null : "offline";
}

/** Whether the worker should say goodbye for this. Without a network nobody would hear it, and the session comes back by itself. */
export function leavesFor(pause: Pause | null): boolean {
  return pause === "hidden" || pause === "low_battery";
}
