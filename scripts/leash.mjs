// Preloaded (`node --import`) into a child whose stdin is a pipe from its parent. When the parent ends for any reason, the child ends too.
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  process.stdin.once("end", () => process.kill(process.pid, "SIGTERM"));
  process.stdin.once("error", () => process.kill(process.pid, "SIGTERM"));
  process.stdin.resume();
  process.stdin.unref?.();
}
