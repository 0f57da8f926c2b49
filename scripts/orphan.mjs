// Preloaded (`node --import`) into programs that `npm run` starts: it ends them when npm has ended. npm forwards a SIGTERM only to its shell, and the programs
// of a dead shell would continue in the background.
import { readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const LOOK_MS = 250;

/** The shell that npm started, and npm itself if /proc states it. A shell that replaces itself by its last command, as bash does, leaves npm as the parent. */
function ancestors() {
  const { ppid } = process;
  try {
    if (!readFileSync(`/proc/${ppid}/cmdline`, "utf8").includes(process.env.npm_lifecycle_script)) return String(ppid);
    const stat = readFileSync(`/proc/${ppid}/stat`, "utf8");
    return `${ppid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]}`;
  } catch {
    return String(ppid);
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
