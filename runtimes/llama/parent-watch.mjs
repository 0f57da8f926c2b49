// A thread of server.mjs --managed that reads our stdin, which the parent holds: it closes when the parent ends, however it died. It tells the main thread, and
// ends the process itself if that thread hangs in native code.
import { Socket } from "node:net";
import { parentPort } from "node:worker_threads";

/** The main thread ends within 2 s. */
const PATIENCE_MS = 3000;

new Socket({ fd: 0, writable: false })
  .on("error", () => {})
  .on("close", () => {
    parentPort.postMessage("gone");
    setTimeout(() => process.kill(process.pid, "SIGKILL"), PATIENCE_MS);
  })
  .resume();
