import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { endOrphan, holdFolder, noteRuntime } from "../../../scripts/state-folder.ts";
import { processTag } from "../../../src/worker/node/worker-lock.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

const SOURCE = join(import.meta.dirname, "../../../scripts/state-folder.ts");

/** A process that runs until it is killed, after it has run these statements. */
async function running(statements = ""): Promise<ChildProcess> {
  const script = `import { holdFolder } from ${JSON.stringify(SOURCE)}; ${statements} console.log("running"); setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, ["--no-warnings", "--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child;
}

const pidOf = ({ pid }: ChildProcess): number => pid ?? expect.unreachable();

test("a folder has one holder: nobody else gets it until that process has ended, also by kill -9", async () => {
  const folder = temporaryFolder();
  const holder = await running(`holdFolder(${JSON.stringify(folder)});`);
  const said: string[] = [];
  expect(() => holdFolder(folder, (line) => said.push(line), 0)).toThrow(
    `${folder} is in use by another coordinator: stop it, or choose another state folder (--state DIR)`,
  );
  expect(said).toEqual([`another coordinator uses ${folder}: waiting up to 8 s until it has left`]);
  holder.kill("SIGKILL");
  await once(holder, "exit");
  holdFolder(folder, (line) => said.push(line), 0);
  expect(said).toHaveLength(1);
});

test("a lock that cannot be opened is another fault: its file is named, with what to do", () => {
  const none = join(temporaryFolder(), "none");
  const advice = "choose another state folder (--state DIR)";
  expect(() => holdFolder(none)).toThrow(`cannot lock ${join(none, "coordinator.sqlite")}: unable to open database file; ${advice}`);
  const other = temporaryFolder();
  writeFileSync(join(other, "coordinator.sqlite"), "no database ".repeat(100));
  expect(() => holdFolder(other)).toThrow(`cannot lock ${join(other, "coordinator.sqlite")}: file is not a database; ${advice}`);
});

test.runIf(process.platform === "linux")("the runtime that an earlier coordinator has left is ended, and no process that has its number now", async () => {
  const folder = temporaryFolder();
  await endOrphan(folder);
  const [orphan, other] = await Promise.all([running(), running()]);
  noteRuntime(folder, pidOf(orphan));
  const ended = once(orphan, "exit");
  await endOrphan(folder);
  expect(await ended).toEqual([null, "SIGKILL"]);

  for (const started of ["1", null]) {
    writeFileSync(join(folder, "coordinator.workerd"), processTag({ pid: pidOf(other), started }));
    await endOrphan(folder);
    expect([other.exitCode, other.signalCode]).toEqual([null, null]);
  }
});

test.runIf(process.platform === "linux")("a runtime that ends by itself just before it would be ended is no fault", async () => {
  const folder = temporaryFolder();
  noteRuntime(folder, process.pid);
  const gone = () => {
    throw Object.assign(new Error("kill ESRCH"), { code: "ESRCH" });
  };
  const kill = vi.spyOn(process, "kill").mockImplementation(gone).mockReturnValueOnce(true);
  onTestFinished(() => kill.mockRestore());
  await endOrphan(folder);
  expect(kill.mock.calls.map(([, signal]) => signal)).toEqual([0, "SIGKILL", 0]);
});
