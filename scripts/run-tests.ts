// npm test: runs the unit tests, then the edge tests. With arguments (`npm test -- -t "JB3"`) it is a plain `vitest run` of all projects.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { buildCli } from "./build-cli.ts";
import { ROOT } from "./coordinator-process.ts";

const args = process.argv.slice(2);
// Its tests run the built command.
if (args.length === 0) buildCli();
// Not side by side: both keep two cores busy, and together they take a quarter more CPU.
const chosen = args.length > 0 ? args : ["--project", "unit", "--project", "edge-evm"];
const vitest = spawn(process.execPath, [join(ROOT, "node_modules", "vitest", "vitest.mjs"), "run", ...chosen], { cwd: ROOT, stdio: "inherit" });
// A Ctrl-C reaches it too. It ends, and then this process.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => vitest.kill("SIGTERM"));
const [code] = await once(vitest, "exit");
process.exitCode = code === 0 ? 0 : 1;
