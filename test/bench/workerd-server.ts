// Starts a program of workerd/ for npm run bench, as npm run serve starts the coordinator. The one of the curves has its front. Arguments: its name, port,
// state folder.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startCoordinator } from "../../scripts/coordinator-process.ts";
import { bundled } from "../../scripts/workerd-config.ts";
import { SETTING_NAMES } from "../../src/coordinator/config.ts";

const [program = "", port = "", stateDir = ""] = process.argv.slice(2);
const bundle = join(stateDir, "..", `${program}-${port}.js`);
writeFileSync(bundle, await bundled(join(import.meta.dirname, "workerd", `${program}-main.ts`), { serves: true, watches: false }));
const settings = Object.fromEntries(SETTING_NAMES.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name] ?? ""]])));
const coordinator = await startCoordinator({
  ...{ instance: "evm", port: Number(port), stateDir, settings, serves: true, guardsFrames: program === "counted", bundle },
  onLine: (line) => console.error(line),
});
console.log("ready");
process.once("SIGTERM", () => {
  void coordinator.stop().finally(() => {
    rmSync(bundle, { force: true });
    process.exit(0);
  });
});
void coordinator.failed.then((reason) => {
  console.error(reason);
  process.exit(1);
});
