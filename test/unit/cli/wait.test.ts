import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { waitFor } from "../../../src/cli/waiting.ts";
import { reply } from "../sdk/support/faults.ts";
import { type Rules, RouterServer } from "../sdk/support/router-server.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { CLI } from "../../support/cli.ts";
import { until } from "../../support/until.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { hasScript, terminal } from "./support/terminal.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const NEVER: Pick<Rules, "statuses"> = { statuses: Array.from({ length: 1_000 }, () => "pending" as const) };
/** The first poll sees the end: a command polls every half second. */
const AT_ONCE: Pick<Rules, "statuses"> = { statuses: [] };

/** The id of the only job that a router has. */
function onlyJob(router: RouterServer): string {
  const [id] = router.jobs.keys();
  return id ?? "";
}

describe("the wait for a job", () => {
  it("keeps its line readable: a status that is reported again is not drawn again, and a running job never waits for a worker again", async () => {
    let written = "";
    await waitFor(
      { idempotencyKey: "k" },
      { cancel: () => Promise.reject(new Error("nobody asked")) },
      async ({ hasJob, isIn }) => {
        for (const status of ["pending", "pending", "assigned", "running", "running"]) {
          hasJob("job-1");
          isIn(status);
        }
      },
      { isTTY: true, write: (text) => (written += text) },
    );
    const lines = written.split("\r\u001B[K");
    expect(lines).toEqual(["", "sending the job …", "waiting for a worker …", "a worker has the job …", "a worker is working on the job …", ""]);
  });

  it("ends the line of a text that has begun before it fails", async () => {
    let written = "";
    const failing = waitFor(
      { idempotencyKey: "k" },
      { cancel: () => Promise.reject(new Error("nobody asked")) },
      async ({ begins }) => {
        begins();
        throw new Error("the job failed");
      },
      { isTTY: false, write: (text) => (written += text) },
    );
    await expect(failing).rejects.toThrow("the job failed");
    expect(written).toBe("\n");
  });

  it("shows its line again while a text that has begun waits for another worker", async () => {
    let written = "";
    const failing = waitFor(
      { idempotencyKey: "k" },
      { cancel: () => Promise.reject(new Error("nobody asked")) },
      async ({ hasJob, isIn, begins, breaks }) => {
        hasJob("job-1");
        isIn("running");
        begins();
        breaks();
        isIn("assigned");
        throw new Error("the job failed");
      },
      { isTTY: true, write: (text) => (written += text) },
    );
    await expect(failing).rejects.toThrow("the job failed");
    const [, ...lines] = written.split("a worker is working on the job …");
    expect(lines).toEqual([["", "", "waiting for a worker …", "a worker has the job …", ""].join("\r\u001B[K")]);
  });

  it("that is too long ends with the command that continues it, with its --url (7)", async () => {
    const router = await RouterServer.start(NEVER);
    const { code, stderr } = await runHere(["run", "hi", "--user", "u", "--timeout", "2", "--url", router.url]);
    expect({ code, stderr }).toEqual({
      code: 7,
      stderr: expect.stringContaining(
        `did not end within 2 s (last status: pending); it continues: npx compute-router job ${onlyJob(router)} --url ${router.url}\n`,
      ),
    });
  });

  it.each([
    ["run", "hi", "--no-stream"],
    ["run", "hi", "--json"],
    ["task", "classify"],
  ])("shows nothing in a pipe: %j", async (...args) => {
    const router = await RouterServer.start();
    const { code, stderr } = await runHere([...args, "--user", "u", "--url", router.url], { input: "a text" });
    expect(code).toBe(0);
    expect(stderr).not.toMatch(/waiting|sending|\p{Cc}(?<!\n)/u);
  });

  it.each([["--stream"], ["--json"]])("ends quietly in a pipe that nobody reads, with its facts on standard error: %s", async (option) => {
    const router = await RouterServer.start(AT_ONCE);
    const child = spawn(process.execPath, [CLI, "run", "hi", option, "--user", "u", "--url", router.url], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
    const facts =
      option === "--json" ? "" : expect.stringMatching(new RegExp(`^receipt valid  worker \\S+  free \\(quoted \\S+\\)  job ${onlyJob(router)}\\n$`));
    expect({ code, stderr }).toEqual({ code: 0, stderr: facts });
  });

  it.runIf(existsSync("/dev/full")).each([["--stream"], ["--json"]])(
    "goes on to its end if the disk of its output is full, says so in one line, and exits with 1: %s",
    async (option) => {
      const router = await RouterServer.start(AT_ONCE);
      const full = openSync("/dev/full", "w");
      const child = spawn(process.execPath, [CLI, "run", "hi", option, "--user", "u", "--url", router.url], { cwd: ROOT, stdio: ["ignore", full, "pipe"] });
      closeSync(full);
      const [stderr, [code]] = await Promise.all([text(child.stderr ?? Readable.from([])), once(child, "close")]);
      expect(code).toBe(1);
      const facts =
        option === "--json" ? [] : [expect.stringMatching(new RegExp(`^receipt valid  worker \\S+  free \\(quoted \\S+\\)  job ${onlyJob(router)}$`))];
      const lines = stderr.trimEnd().split("\n");
      expect(lines).toHaveLength(facts.length + 1);
      expect(lines).toEqual(expect.arrayContaining(["the output is not complete: it cannot be written (ENOSPC)", ...facts]));
    },
  );

  it("run --json | verify --job - holds", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const cli = `'${process.execPath}' '${CLI}'`;
    const pipe = `${cli} run hi --json --user u --url ${router.url} | ${cli} verify --job -`;
    const { stdout } = await promisify(execFile)("sh", ["-c", pipe], { cwd: ROOT });
    expect(stdout).toContain(`the receipt is valid\njob        ${onlyJob(router)}`);
  });

  it("task --json, read by verify --job -, holds too", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const { stdout } = await runHere(["task", "classify", "--json", "--user", "u", "--url", router.url], { input: "a text" });
    const verified = await runHere(["verify", "--job", "-"], { input: stdout });
    expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining(`the receipt is valid\njob        ${onlyJob(router)}`) });
  });

  it("verify --job - says what went wrong if the run has failed", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, work: () => ({ error: "content_refused" }) });
    const failed = await runHere(["run", "hi", "--json", "--user", "u", "--url", router.url]);
    expect(failed).toMatchObject({ code: 7, stderr: expect.stringContaining("failed: content_refused") });
    expect(JSON.parse(failed.stdout)).toMatchObject({ job_id: onlyJob(router), error: "job_failed", reason: "content_refused" });
    const verified = await runHere(["verify", "--job", "-"], { input: failed.stdout });
    expect(verified).toEqual({ code: 2, stdout: "", stderr: "standard input is not a job, but an error: job_failed\n" });
    expect(await runHere(["verify", "--job", "-"], { input: "" })).toMatchObject({ code: 2, stderr: "standard input is empty\n" });
  });

  it("verify --job - refuses the receipt of another job", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const { stdout } = await runHere(["run", "hi", "--json", "--user", "u", "--url", router.url]);
    const moved = JSON.stringify({ ...JSON.parse(stdout), job_id: "0c3a5b7d-3b12-4fef-91d0-7f9c24e89e11" });
    expect(await runHere(["verify", "--job", "-"], { input: moved })).toMatchObject({ code: 8, stderr: expect.stringContaining("belongs to job") });
  });
});

describe.runIf(hasScript)("on a terminal", () => {
  it.each([
    ["run", "hi"],
    ["run", "hi", "--no-stream"],
  ])("%j shows that it waits, and Ctrl-C says how to go on (130)", async (...args) => {
    const router = await RouterServer.start(NEVER);
    const run = terminal([...args, "--url", router.url, "--config-dir", temporaryFolder()]);
    await run.says("waiting for a worker …");
    // A busy machine may skip a second.
    await until("the seconds on the terminal", () => /waiting for a worker … \d+ s/.test(run.said()) || undefined, run.said);
    run.type("\u0003");
    await run.says(`cancel job ${onlyJob(router)}? If a worker has started it, it is still charged [y/N]: `);
    run.type("\r");
    expect(await run.exited).toBe(130);
    const id = onlyJob(router);
    expect(run.said()).toMatch(
      new RegExp(
        `job ${id} continues. To see its result:\\r\\nnpx compute-router job ${id} --url ${router.url}\\r\\n` +
          `To cancel it:\\r\\nnpx compute-router job cancel ${id} --url ${router.url} --config-dir \\S+\\r\\n$`,
      ),
    );
    expect(run.screen().text).not.toContain("waiting");
    expect(router.jobs.get(id)?.end.status).toBe("completed");
  });

  it.each([
    ["run", "hi"],
    ["run", "hi", "--no-stream"],
  ])("%j says that it is rate limited, and for how long", async (...args) => {
    const router = await RouterServer.start(AT_ONCE);
    router.fail("POST /v1/jobs/commit", reply(429, { error: "rate_limited" }, { "retry-after": "2" }));
    const run = terminal([...args, "--url", router.url, "--config-dir", temporaryFolder()]);
    await run.says("rate limited, the next try is in 2 s");
    expect(await run.exited).toBe(0);
    expect(run.screen().text).not.toContain("rate limited");
    // Once more, because the state is drawn again after the wait.
    expect(run.said().slice(run.said().lastIndexOf("rate limited"))).toMatch(/sending the job|waiting for a worker/);
  });

  it("[JB13] Ctrl-C cancels the job of a person who says yes (130), and a second Ctrl-C leaves it alone", async () => {
    const router = await RouterServer.start(NEVER);
    const run = terminal(["run", "hi", "--url", router.url, "--config-dir", temporaryFolder()]);
    await run.says("waiting for a worker …");
    run.type("\u0003");
    await run.says("[y/N]: ");
    // Where npm forwards the Ctrl-C, it is the same one: the question stays.
    run.interrupt();
    run.type("y\r");
    expect(await run.exited).toBe(130);
    expect(run.said()).toContain(`job ${onlyJob(router)} is cancelled`);
    expect(router.jobs.get(onlyJob(router))?.end.result).toEqual({ error: "cancelled" });

    const other = await RouterServer.start(NEVER);
    const again = terminal(["run", "hi", "--url", other.url, "--config-dir", temporaryFolder()]);
    await again.says("waiting for a worker …");
    again.type("\u0003");
    await again.says("[y/N]: ");
    again.type("\u0003");
    expect(await again.exited).toBe(130);
    expect(again.said()).toContain("continues. To see its result:");
  });

  it("the line is erased when the text begins", async () => {
    const router = await RouterServer.start();
    const run = terminal(["run", "hi", "--url", router.url, "--config-dir", temporaryFolder()]);
    expect(await run.exited).toBe(0);
    expect(run.said()).toContain("sending the job …");
    expect(run.screen().lines.slice(0, 2)).toEqual(["Echo: hi", expect.stringMatching(/^receipt valid {2}worker /)]);
  });
});
