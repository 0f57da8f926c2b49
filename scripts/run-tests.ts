// npm test: runs the unit and the edge tests in two vitest processes side by side. Each of them waits much of its time, for processes, sockets and timers;
// together they keep two cores busy. With arguments (`npm test -- -t "JB3"`) it is a plain `vitest run` of all projects.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { buildCli } from "./build-cli.ts";
import { buildPages } from "./build-pages.ts";
import { ROOT } from "./coordinator-process.ts";

const VITEST = join(ROOT, "node_modules", "vitest", "vitest.mjs");

async function run(args: readonly string[], part: string, stdio: "inherit" | "pipe"): Promise<{ passed: boolean; out: string; err: string }> {
  const child = spawn(process.execPath, [VITEST, "run", ...args], { cwd: ROOT, stdio: ["inherit", stdio, stdio], env: { ...process.env, TEST_PART: part } });
  // A Ctrl-C reaches the children too. They end, and then this process.
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  const [ended, out, err] = await Promise.all([
    once(child, "exit"),
    child.stdout === null ? "" : text(child.stdout),
    child.stderr === null ? "" : text(child.stderr),
  ]);
  return { passed: ended[0] === 0, out, err };
}

process.on("SIGINT", () => {});
const args = process.argv.slice(2);
if (args.length > 0) process.exitCode = (await run(args, "", "inherit")).passed ? 0 : 1;
else {
  // Both processes would build these at the same time.
  buildPages();
  buildCli();
  const [unit, edge] = await Promise.all([run(["--project", "unit"], "", "inherit"), run(["--project", "edge-evm"], "-edge", "pipe")]);
  // The output of the edge tests comes after that of the unit tests: all of it if a test failed, else its sum. What failed stands at the end, where people
  // look first.
  process.stdout.write(edge.passed ? edge.out.slice(edge.out.lastIndexOf(" Test Files ")) : edge.out + edge.err);
  process.exitCode = unit.passed && edge.passed ? 0 : 1;
}
