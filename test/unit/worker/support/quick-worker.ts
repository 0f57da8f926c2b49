// A desktop worker that gives a silent link up after 2 s instead of 30: quick-worker.ts URL FOLDER. Its notes are JSON lines.
import { join } from "node:path";
import { DesktopWorker } from "../../../../src/worker/node/desktop-worker.ts";
import { readOrMakeKeyFile } from "../../../../src/worker/node/key-file.ts";

const [url = "", folder = ""] = process.argv.slice(2);
const reading = readOrMakeKeyFile(join(folder, "worker.key"));
if (!reading.ok) throw new Error(reading.message);
const worker = new DesktopWorker({
  coordinators: [{ url }],
  key: reading.key,
  folder,
  onNote: (note) => console.log(JSON.stringify(note)),
  timing: { heartbeat: 1_000, silent: 2_000, resend: 2_000, reconnectFirst: 100, reconnectMax: 200 },
});
worker.start();
await worker.ended;
