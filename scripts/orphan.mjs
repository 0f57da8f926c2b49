// Preloaded (`node --import`) into what `npm run` starts: ends it when npm is gone. npm passes a SIGTERM to its shell only, and a shell that dies of it
// takes nothing with it, so the program would live on unseen.
import { readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const LOOK_MS = 250;

/** The shell that npm started, and npm itself where /proc tells. */
function ancestors() {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
    return `${process.ppid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]}`;
  } catch {
    return String(process.ppid);
  }
}

if (isMainThread && process.env.npm_lifecycle_event !== undefined) {
  const before = ancestors();
  const watch = setInterval(() => {
    if (ancestors() === before) return;
    clearInterval(watch);
    process.kill(process.pid, "SIGTERM");
  }, LOOK_MS);
  watch.unref();
}
