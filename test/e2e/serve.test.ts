// `npm run serve`: the life of an instance for real use, from outside. What it serves is what `npm run dev` serves, which the other tests see.
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { startChild } from "../../scripts/child.ts";
import { freePort, ROOT, startCoordinator, StartFailure } from "../../scripts/coordinator-process.ts";
import { temporaryFolderOf } from "../../scripts/state-folder.ts";
import { commandHere } from "../support/command-here.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { type Started, startWithFewFiles, survivesConnections } from "../support/few-files.ts";
import { finallyDo } from "../support/finally.ts";
import { killRuntime } from "../support/kill-runtime.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { descendants, runtimesOf, stillRunning } from "../support/process-tree.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";

/** A coordinator that answers at all answers sooner. */
const LET_IN_MS = 300;
/** A third of the time that a start may take. */
const AT_ONCE_MS = 30_000;

/** Resolves to its ready line. */
function ready(child: Started): Promise<string> {
  return until(
    "ready line",
    () => child.lines.find((line) => line.startsWith("ready ")),
    () => child.lines.join("\n"),
  );
}

/** How a line of a service begins: with its time, in JSON as the first member. */
const TIME = /^(?:\{"time":")?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(?:"|$| )/;

/** These lines without their times, which each of them must have. */
const undated = (lines: readonly string[]): string[] => {
  expect(lines.filter((line) => !TIME.test(line))).toEqual([]);
  return lines.map((line) => line.replace(TIME, ""));
};

const runtimes = (child: Started): number[] => runtimesOf(child.pid).map(({ pid }) => pid);

describe("npm run serve", () => {
  const stateDir = temporaryFolder("serve");
  let port = 0;
  let metricsPort = 0;
  let url = "";
  let child: Started;
  /** The second one, which may open few files. */
  let limited: Started;
  const worker = (...capabilities: string[]): PlainWorker => {
    const created = new PlainWorker(`${url.replace("http", "ws")}/`, { acks: true, ...(capabilities.length > 0 && { capabilities }) });
    finallyDo(() => created.close());
    return created;
  };
  const settings = { EVM_NETWORK: "eip155:7", EVM_FACILITATOR_AUTHORIZATION: "Bearer hush" };
  const commandLine = (): string[] => [
    join(ROOT, "scripts", "serve.ts"),
    ...["evm", "--host", "0.0.0.0", "--port", String(port), "--state", stateDir, "--var", "TESTNET_MODE=true"],
    ...["--metrics", String(metricsPort)],
  ];

  beforeAll(async () => {
    port = await freePort();
    metricsPort = await freePort();
    url = `http://127.0.0.1:${port}`;
    const started = startChild(commandLine(), { cwd: ROOT, env: settings });
    finallyDo(() => started.stop());
    child = started;
  });

  it("listens on the given address, with the settings of its environment, and without the doors of an emulation", async () => {
    expect(await ready(child)).toBe(`ready evm http://0.0.0.0:${port} ws://0.0.0.0:${port}/ state ${stateDir}`);
    expect((await get(`${url}/v1/health`)).body).toMatchObject({ status: "ok", network: "eip155:7" });
    for (const door of ["/cdn-cgi/local/scheduled", "/cdn-cgi/handler/scheduled", "/cdn-cgi/mf/scheduled"])
      expect((await get(`${url}${door}`)).status).toBe(404);
    // Otherwise a command of the operator could create it, as another user.
    const databases = (): string[] =>
      readdirSync(join(stateDir, "v3", "d1"), { recursive: true, encoding: "utf8" }).filter((name) => /[0-9a-f]{64}\.sqlite$/.test(name));
    await until("D1", () => databases()[0]);
    // Jobs, payments and keys are nobody else's business, also in a folder that others may list.
    const entries = readdirSync(stateDir, { recursive: true, encoding: "utf8" });
    expect(entries.filter((name) => existsSync(join(stateDir, name)) && (statSync(join(stateDir, name)).mode & 0o077) !== 0)).toEqual([]);
    // Everyone on this machine can read the list of processes.
    expect(JSON.stringify(descendants(child.pid))).not.toContain("hush");
  });

  it("the other instance does not start on its state, because they would share jobs and payments", async () => {
    await ready(child);
    const { code, lines } = await commandHere(["svm", "--port", String(await freePort()), "--state", stateDir], "serve");
    expect([code, undated(lines)]).toEqual([1, [`${stateDir} is the state of evm: choose another state folder (--state DIR)`]]);
  });

  it("[JB9, WS4] ends with 0 after SIGTERM although workers stay connected: a request in progress gets its answer, and a later start knows the jobs that wait", async () => {
    const one = worker();
    expect(await one.connect()).toMatchObject({ status: "ok" });
    const running = fetch(`${url}/v1/jobs/commit/cheap`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "wait=20" },
      body: JSON.stringify({ user_id: "e2e", ...task("The one that runs.") }),
    });
    const { job_id } = await one.frame("job_assign");
    const waiting = await commit(url, "cheap", task("The one that waits."));

    const children = descendants(child.pid).map(({ pid }) => pid);
    // A supervisor may signal every process of a service; then the parent does so too.
    for (const { pid, command } of descendants(child.pid)) if (command.includes("workerd.ts")) process.kill(pid, "SIGTERM");
    process.kill(child.pid, "SIGTERM");
    // Nobody else is let in, and only then the job ends.
    const letIn = () => fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(LET_IN_MS) });
    await until("end of service", () =>
      letIn().then(
        () => undefined,
        () => true,
      ),
    );
    one.complete(String(job_id), { summary: "done", word_count: 1 });
    expect(await (await running).json()).toMatchObject({ job_id, job: { status: "completed", result: { summary: "done" } } });
    expect(await child.exited).toBe(0);
    // [WS4] It had its time to send a result. Now it knows that it may come again, and that nothing is broken.
    expect(await until("the close code", () => one.closed ?? undefined)).toEqual({ code: 1012, reason: "the coordinator restarts" });
    expect(stillRunning(children)).toEqual([]);
    // It stopped by itself: who is killed leaves this folder.
    expect(existsSync(temporaryFolderOf(stateDir))).toBe(false);

    limited = startWithFewFiles(commandLine(), settings);
    child = limited;
    await ready(child);
    expect((await get(`${url}/v1/jobs/${String(job_id)}`)).body).toMatchObject({ status: "completed" });
    await one.connect();
    await one.assigned(waiting);
    one.complete(waiting, { summary: "done too", word_count: 2 });
    expect(await ended(url, waiting)).toMatchObject({ status: "completed", result: { summary: "done too" } });
    one.close();
  });

  it("more connections than files are allowed do not crash it: it closes them, and goes on", async () => {
    await survivesConnections(limited, port);
  });

  it("its lines and those of workerd have their times, so that an incident can be dated, and only the ready line has none", () => {
    const lines = limited.lines.filter((line) => !line.startsWith("ready "));
    expect(undated(lines)).toEqual(expect.arrayContaining(["starting evm", expect.stringMatching(/^only \d+ open files are allowed/)]));
  });

  it("[JB9] starts workerd again when that was killed, and keeps what was acknowledged", async () => {
    const waiting = await commit(url, "cheap", task("The one that outlives workerd."));
    const before = runtimes(child);
    expect(before).toHaveLength(1);
    await killRuntime({ pid: child.pid, url });
    expect(runtimes(child)).not.toEqual(before);
    const one = worker();
    await one.connect();
    await one.assigned(waiting);
    one.complete(waiting, { summary: "done", word_count: 1 });
    expect(await ended(url, waiting)).toMatchObject({ status: "completed" });
    one.close();
  });

  it("has a metrics page for this machine: workers, jobs and how they ended since workerd was started, and sizes", async () => {
    const [one, address] = [worker(), `http://127.0.0.1:${metricsPort}/metrics`];
    await one.connect();
    const id = await commit(url, "cheap", task("The one that is counted."));
    await one.assigned(id);
    const waiting = await commit(url, "cheap", task("The one that waits."));
    const page = async (): Promise<string> => await (await fetch(address)).text();
    const before = await page();
    for (const sample of ['workers_online{state="busy"} 1', 'workers_online{state="idle"} 0', 'jobs{phase="leased"} 1', 'jobs{phase="waiting"} 1'])
      expect(before).toContain(`compute_router_coordinator_${sample}\n`);
    expect(before).toMatch(/^compute_router_coordinator_info\{instance="evm",version="[\d.]+"\} 1$/m);
    expect(before).toMatch(/^compute_router_coordinator_stored_bytes\{store="hub"\} [1-9]\d*$/m);
    one.complete(id, { summary: "done", word_count: 1 });
    await one.assigned(waiting);
    one.complete(waiting, { summary: "done", word_count: 1 });
    await ended(url, waiting);
    // With the one that outlived workerd.
    expect(await page()).toContain('compute_router_coordinator_jobs_ended_total{type="TASK",outcome="completed"} 3\n');
    one.close();
  });

  it("the metrics page is 503 while workerd does not answer, as one that is stopped by the system", async () => {
    const status = async (): Promise<number> => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).status;
    const [pid = expect.unreachable()] = runtimes(child);
    process.kill(pid, "SIGSTOP");
    onTestFinished(() => void process.kill(pid, "SIGCONT"));
    expect(await Promise.all([status(), status()])).toEqual([503, 503]);
    process.kill(pid, "SIGCONT");
    await until("the page again", async () => ((await status()) === 200 ? true : undefined));
  });

  it("[WS4, API6] stops at once when no job runs: workers are told that they may come again, and who waits for a job gets it as it is", async () => {
    const one = worker("TASK");
    await one.connect();
    const waiting = fetch(`${url}/v1/jobs/commit/cheap`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "wait=20" },
      body: JSON.stringify({ user_id: "e2e", job_type: "LLM_INFER", payload: { prompt: "No worker has an LLM." } }),
    });
    const counted = async (): Promise<true | undefined> =>
      (await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()).includes('jobs{phase="waiting"} 1') ? true : undefined;
    await until("the job", counted);
    const began = Date.now();
    process.kill(child.pid, "SIGTERM");
    expect(await until("the close code", () => one.closed ?? undefined)).toEqual({ code: 1012, reason: "the coordinator restarts" });
    expect(Date.now() - began, "ms, of the 5 s that a job would have").toBeLessThan(4_500);
    const answer = await waiting;
    expect([answer.status, await answer.json()]).toMatchObject([201, { job: { status: "pending" } }]);
    expect(await child.exited).toBe(0);
    const started = startChild(commandLine(), { cwd: ROOT, env: settings });
    finallyDo(() => started.stop());
    child = started;
    await ready(child);
  });

  it("ends with 1 when workerd cannot be started again, so that its supervisor can act", async () => {
    renameSync(join(stateDir, "v3"), join(stateDir, "gone"));
    writeFileSync(join(stateDir, "v3"), "no folder");
    for (const pid of runtimes(child)) process.kill(pid, "SIGKILL");
    expect(await child.exited).toBe(1);
  });

  it("ends with 1 as soon as workerd has not started, for example because the disk is full: a supervisor can start it again", async () => {
    const folder = temporaryFolder("broken");
    writeFileSync(join(folder, "v3"), "no folder");
    writeFileSync(join(folder, "tmp"), "mine");
    const broken = startChild([join(ROOT, "scripts", "serve.ts"), "evm", "--port", String(await freePort()), "--state", folder], { cwd: ROOT });
    await until("its last word", () => broken.lines.find((line) => line.includes("Z evm did not start: it ended (1)")));
    const said = Date.now();
    expect(await broken.exited).toBe(1);
    expect(Date.now() - said).toBeLessThan(AT_ONCE_MS);
    // A folder that has other things too keeps them.
    expect(readFileSync(join(folder, "tmp"), "utf8")).toBe("mine");
  });

  it("with fewer files than it needs for itself it does not start, and says so in one line", async () => {
    const { lines, exited } = startWithFewFiles([join(ROOT, "scripts", "serve.ts"), "evm"], {}, 100);
    expect(await exited).toBe(1);
    expect(undated(lines)).toEqual(["evm did not start: only 100 open files are allowed, and a coordinator needs at least 128: allow more (ulimit -Hn)"]);
  });

  it("names an environment variable that is a mistyped setting, and no other", async () => {
    vi.stubEnv("EVM_FACILITATOR_AUTHORISATION", "Bearer hush");
    vi.stubEnv("PUBLIC_URL", "https://another.program");
    onTestFinished(() => void vi.unstubAllEnvs());
    // A wrong one too, so nothing starts: the warnings come first.
    const { lines } = await commandHere(["evm", "--var", "RATE_LIMITS=maybe"], "serve");
    expect(undated(lines).slice(0, -1)).toEqual(["EVM_FACILITATOR_AUTHORISATION: no setting has this name; did you mean EVM_FACILITATOR_AUTHORIZATION?"]);
  });

  it("--host must be an IP address, because a host name may resolve to several", async () => {
    const { code, lines } = await commandHere(["evm", "--host", "example.com"], "serve");
    expect(code).toBe(2);
    expect(lines[0]).toBe("--host must be an IP address, such as 0.0.0.0, not example.com");
  });

  it("--metrics must be a port, with or without an address, on which it can listen", async () => {
    const wrong = async (value: string): Promise<unknown[]> => {
      const { code, lines } = await commandHere(["evm", "--metrics", value], "serve");
      return [code, lines[0]];
    };
    expect(await wrong("here")).toEqual([2, "--metrics must be PORT or HOST:PORT, not here"]);
    expect(await wrong("4010")).toEqual([2, "--metrics must be another port than that of the coordinator, 4010"]);
    const [taken, program] = [String(await freePort()), createServer()];
    onTestFinished(() => void program.close());
    await once(program.listen(Number(taken), "127.0.0.1"), "listening");
    const other = await commandHere(["svm", "--port", String(await freePort()), "--state", temporaryFolder("no-metrics"), "--metrics", taken], "serve");
    expect(other.code).toBe(1);
    expect(other.lines.join("\n")).toContain(
      `metrics page: port ${taken} of 127.0.0.1 is taken: stop the program that listens there, or choose another port with --metrics PORT`,
    );
  });

  it("an empty --state is no folder: a variable of the shell may be empty", async () => {
    const { code, lines } = await commandHere(["evm", "--state", ""], "serve");
    expect([code, lines[0]]).toEqual([2, "--state must be a folder"]);
  });

  it("an address that this machine does not have ends it at once with one line", async () => {
    const start = startCoordinator({ instance: "evm", host: "192.0.2.1", port: await freePort(), stateDir: temporaryFolder("nowhere") });
    await expect(start).rejects.toThrow(StartFailure);
    await expect(start).rejects.toThrow(/^cannot listen on port \d+ of 192\.0\.2\.1 \(EADDRNOTAVAIL\)$/);
  });
});
