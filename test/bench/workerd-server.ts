// Starts a program of workerd/ for npm run bench, as npm run serve starts the coordinator. Arguments: its name, port, state folder.
import { rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { build } from "esbuild";
import { ROOT, startCoordinator } from "../../scripts/coordinator-process.ts";
import { SETTING_NAMES } from "../../src/coordinator/config.ts";

const [program = "", port = "", stateDir = ""] = process.argv.slice(2);
const bundle = join(stateDir, "..", `${program}-${port}.js`);
await build({
  entryPoints: [join(import.meta.dirname, "workerd", `${program}-main.ts`)],
  absWorkingDir: ROOT,
  bundle: true,
  minify: true,
  outfile: bundle,
  format: "esm",
  target: "es2024",
  conditions: ["workerd", "worker", "browser"],
  external: ["node:*", "cloudflare:*"],
  alias: Object.fromEntries(builtinModules.filter((name) => !name.startsWith("_") && !name.includes(":")).map((name) => [name, `node:${name}`])),
  define: { "process.env.NODE_ENV": '"development"' },
  logLevel: "error",
});
const settings = Object.fromEntries(SETTING_NAMES.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name] ?? ""]])));
const coordinator = await startCoordinator({
  ...{ instance: "evm", port: Number(port), stateDir, settings, serves: true, bundle },
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
