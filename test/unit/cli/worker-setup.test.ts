import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { workerPlan } from "../../../src/cli/worker-plan.ts";
import { keyPair } from "../../../src/receipt/ed25519.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { configFile, readConfig } from "../../../src/worker/node/worker-config.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { runCli, WorkerProcess } from "../worker/support/cli-process.ts";
import { FakeCoordinator } from "../worker/support/fake-coordinator.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

const NOBODY = "ws://127.0.0.1:1/";

function put(folder: string, name: string, content: string): void {
  writeFileSync(join(folder, name), content, { mode: 0o600 });
}

/** A worker's folder with a key in it. */
function withKey(): { folder: string; seed: string; publicKey: string } {
  const folder = temporaryFolder();
  const { secret, publicKey } = keyPair(new Uint8Array(32).fill(9));
  const seed = Buffer.from(secret).toString("hex");
  put(folder, "worker.key", `${seed}\n`);
  return { folder, seed, publicKey };
}

/** The checks that `worker doctor --json` prints, by name. */
async function examine(
  ...args: string[]
): Promise<{ code: number | null; stderr: string; checks: Map<string, { state: string; message: string; fix?: string }> }> {
  const { code, stdout, stderr } = await runHere(["worker", "doctor", "--json", ...args]);
  const lines = stdout.trimEnd().split("\n");
  return { code, stderr, checks: new Map(lines.map((line) => JSON.parse(line)).map((check) => [check.name, check])) };
}

describe("worker init", () => {
  it("without a terminal: writes key and configuration of the options, and start takes them from there", async () => {
    const coordinators = await Promise.all([FakeCoordinator.start(), FakeCoordinator.start("solana:x")]);
    const folder = join(temporaryFolder(), "new");
    const urls = coordinators.flatMap(({ url }) => ["--url", url]);
    const init = await runHere(["worker", "init", ...urls, "--tasks-only", "--name", "box", "--metrics", "0", "--config-dir", folder]);
    expect({ code: init.code, stderr: init.stderr }).toEqual({ code: 0, stderr: "" });
    expect(init.stdout).toContain("compute-router worker start");
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toEqual({
      version: 1,
      coordinators: coordinators.map(({ url }) => ({ url })),
      name: "box",
      llm: { kind: "none" },
      metrics: "0",
    });
    for (const file of ["worker.json", "worker.key"]) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
    const worker = new WorkerProcess(["--config-dir", folder]);
    const [first, second] = await Promise.all(coordinators.map((coordinator) => coordinator.registered()));
    expect(first?.register).toMatchObject({ name: "box", capabilities: ["TASK"] });
    expect(second?.register["provider_pubkey"]).toBe(first?.register["provider_pubkey"]);
    expect(await worker.says("info")).toMatchObject({ message: expect.stringMatching(/^metrics at http:\/\/127\.0\.0\.1:\d+\/metrics$/) });
  });

  it("does not replace a configuration unless told to, and never a key", async () => {
    const { folder, publicKey } = withKey();
    const init = (...more: string[]) => runHere(["worker", "init", "--url", NOBODY, "--tasks-only", "--config-dir", folder, "--json", ...more]);
    expect(JSON.parse((await init()).stdout)).toMatchObject({ provider_pubkey: publicKey, key_made: false });
    expect(await init()).toMatchObject({ code: 2, stderr: expect.stringContaining("--force") });
    expect(JSON.parse((await init("--force", "--name", "other")).stdout)).toMatchObject({ provider_pubkey: publicKey });
  });

  it("a path in a configuration begins at its folder, wherever the worker is started", () => {
    const folder = temporaryFolder();
    const llm = { kind: "embedded", model_file: "models/small.gguf" };
    writeFileSync(join(folder, "worker.json"), JSON.stringify({ version: 1, coordinators: [{ url: "ws://127.0.0.1:4010/" }], llm, key: "mine.key" }));
    const plan = workerPlan({ "config-dir": folder }, []);
    expect(plan.keyFile).toBe(join(folder, "mine.key"));
    expect(plan.wish).toEqual({ kind: "embedded", modelFile: join(folder, "models", "small.gguf") });
    // A path on the command line begins where the person is.
    expect(workerPlan({ "config-dir": folder, key: "mine.key" }, []).keyFile).toBe(join(process.cwd(), "mine.key"));
  });

  it("a configuration may begin with a byte order mark, as editors of Windows write it", () => {
    const folder = temporaryFolder();
    put(folder, "worker.json", `\uFEFF${JSON.stringify({ version: 1, coordinators: [{ url: "ws://127.0.0.1:1/" }], llm: { kind: "none" } })}`);
    expect(readConfig(configFile(folder))).toMatchObject({ ok: true, config: { version: 1 } });
  });

  it.each([
    ["{", "is not JSON"],
    ['{"version":1,"coordinators":[],"llm":{"kind":"none"}}', "coordinators"],
    ['{"version":1,"coordinators":[{"url":"http://x/"}],"llm":{"kind":"none"}}', "coordinators.0.url: must be a ws: or wss: URL"],
    ['{"version":1,"coordinators":[{"url":"ws://x/"}],"llm":{"kind":"none"},"tier":"Sentinel"}', "tier"],
  ])("a configuration that makes no sense is a usage error that says where: %s", async (content, message) => {
    const folder = temporaryFolder();
    put(folder, "worker.json", content);
    const { code, stderr } = await runHere(["worker", "start", "--config-dir", folder]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(stderr).toContain("compute-router worker init");
  });

  it.each([
    [["--url", NOBODY, "--url", "127.0.0.1:1"], "is named twice"],
    [["--url", NOBODY, "--url", "ws://127.0.0.1:2/", "--network", "eip155:1"], "--network is for one coordinator"],
    [["--name", "a", "--name", "b"], "--name was given more than once"],
    [["--metrics", "nowhere"], "--metrics"],
    [["--metrics", "127.0.0.1:99999"], "--metrics"],
  ])("start %o is a usage error", async (args, message) => {
    const { code, stderr } = await runHere(["worker", "start", "--config-dir", temporaryFolder(), ...args]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
  });

  it("options before the command are refused, not dropped", async () => {
    const { code, stderr } = await runHere(["worker", "--url", NOBODY, "start"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("write options after the command: npx compute-router worker start") });
  });
});

describe("worker doctor", () => {
  it("finds no problem in a correct setup, and changes nothing", async () => {
    const coordinator = await FakeCoordinator.start();
    const { folder } = withKey();
    const challenged = coordinator.dialled().then((worker) => worker.challenge());
    const { code, stderr, checks } = await examine("--url", coordinator.url, "--tasks-only", "--config-dir", folder);
    await challenged;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect([...checks.values()].filter(({ state }) => state === "fail")).toEqual([]);
    expect(checks.get("task")?.message).toMatch(/^a trial job took \d+ ms, its receipt is valid$/);
    expect(checks.get("socket")?.state).toBe("ok");
    expect(checks.get(coordinator.host)?.message).toContain("eip155:10143");
    expect(readdirSync(folder)).toEqual(["worker.key"]);
  });

  it.each([
    [90_000, "90 s behind"],
    [-90_000, "90 s ahead of"],
  ])("[RC3] warns of a clock that is off by more than a minute, here %i ms: it still works", async (clockAhead, off) => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    coordinator.clockAhead = clockAhead;
    const { code, checks } = await examine("--url", coordinator.url, "--tasks-only", "--config-dir", withKey().folder);
    expect(code).toBe(0);
    expect(checks.get("clock")).toMatchObject({
      state: "warn",
      message: `${off} the coordinator's: if it is off by more than 5 minutes, the coordinator refuses the receipts`,
      fix: "set this machine's clock, best by NTP (timedatectl set-ntp true)",
    });
  });

  it("[RC3] says that the clock is wrong, by how much, and what to do", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    coordinator.clockAhead = 400_000;
    const { code, checks } = await examine("--url", coordinator.url, "--tasks-only", "--config-dir", withKey().folder);
    expect(code).toBe(5);
    expect(checks.get("clock")).toMatchObject({
      state: "fail",
      message: "400 s behind the coordinator's: the coordinator would refuse every receipt",
      fix: expect.stringContaining("NTP"),
    });
  });

  it("[WS3] says which host to dial", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge("router.example"));
    const { code, checks } = await examine("--url", coordinator.url, "--tasks-only", "--config-dir", withKey().folder);
    expect(code).toBe(5);
    expect(checks.get("socket")).toMatchObject({ state: "fail", fix: expect.stringContaining("use router.example") });
  });

  it("reports an unreachable coordinator, a key that others can read and a missing LLM, each with the fix", async () => {
    const away = await examine("--url", NOBODY, "--llm-url", "http://127.0.0.1:1", "--config-dir", withKey().folder);
    expect(away).toMatchObject({ code: 6, stderr: "one check failed\n" });
    expect(away.checks.get("127.0.0.1:1")).toMatchObject({
      state: "fail",
      message: "cannot be reached: fetch blocks this port for every server: use another port",
    });
    expect(away.checks.get("LLM")).toMatchObject({ state: "warn", fix: expect.stringContaining("start the runtime at that URL") });
    const folder = temporaryFolder();
    writeFileSync(join(folder, "worker.key"), "00".repeat(32), { mode: 0o644 });
    const open = await examine("--url", NOBODY, "--tasks-only", "--config-dir", folder);
    expect(open).toMatchObject({ code: 3, stderr: "2 checks failed\n" });
    expect(open.checks.get("key")).toMatchObject({ state: "fail", message: expect.stringContaining("chmod 600") });
  });

  it("prints a mark for each check, and the fix below a problem", async () => {
    const { stdout } = await runHere(["worker", "doctor", "--url", NOBODY, "--tasks-only", "--config-dir", temporaryFolder()]);
    expect(stdout).toMatch(/^✓ node /m);
    expect(stdout).toMatch(/^✗ 127\.0\.0\.1:1 +cannot be reached: fetch blocks this port .*\n +→ is the address right/m);
    expect(stdout).toMatch(/^! key +none at .* yet\n +→ the first start creates one, or create it now: npx compute-router worker init\n/m);
    expect(stdout).not.toContain("\u001B");
  });
});

// As on Node 20. `npm run package` runs the same commands on a real Node 20, where there is one.
describe("on a Node without a WebSocket", () => {
  const env = { NODE_OPTIONS: "--no-experimental-websocket" };
  const version = process.versions.node;
  const advice = `a worker needs Node 22 or newer, for its WebSocket; this is Node ${version}. Get one at https://nodejs.org`;

  it("init sets the worker up, and says with which Node it can start", async () => {
    const folder = join(temporaryFolder(), "new");
    const { code, stdout, stderr } = await runCli(["worker", "init", "--yes", "--tasks-only", "--url", NOBODY, "--config-dir", folder], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(`\nTo work, with Node 22 or newer (this is ${version}): npx compute-router worker start --config-dir `);
  });

  it("doctor says what is missing, checks all the rest, and does not suggest a start that would fail", async () => {
    const coordinator = await FakeCoordinator.start();
    const place = ["--url", coordinator.url, "--tasks-only", "--config-dir", withKey().folder];
    const { code, stdout, stderr } = await runCli(["worker", "doctor", "--json", ...place], { env });
    const checks = new Map(
      stdout
        .trimEnd()
        .split("\n")
        .map((line): [string, unknown] => [JSON.parse(line).name, JSON.parse(line)]),
    );
    expect({ code, stderr }).toEqual({ code: 1, stderr: "one check failed\n" });
    expect(checks.get("node")).toMatchObject({ state: "fail", message: `${version} has no WebSocket`, fix: advice });
    expect(checks.get("socket")).toMatchObject({ state: "warn", message: "not checked: this Node has no WebSocket" });
    expect(checks.get(coordinator.host)).toMatchObject({ state: "ok" });
    expect(checks.get("task")).toMatchObject({ state: "ok" });
    expect(checks.get("running")).toMatchObject({
      message: `no; to start it, with Node 22 or newer (this is ${version}): npx compute-router worker start`,
    });
  });

  it("a hint to start a worker says the same", async () => {
    const folder = temporaryFolder();
    const { code, stderr } = await runCli(["worker", "status", "--config-dir", folder], { env });
    expect({ code, stderr }).toEqual({
      code: 9,
      stderr: `no worker runs in ${folder}; if it has another folder, use --config-dir DIR; to start one, with Node 22 or newer (this is ${version}): npx compute-router worker start --config-dir ${folder}\n`,
    });
  });

  it("so does a job without a worker", async () => {
    const router = await RouterServer.start({ work: () => ({ error: "no_eligible_worker" }) });
    const { code, stderr } = await runCli(["run", "hi", "--user", "u", "--url", router.url], { env });
    expect({ code, stderr }).toEqual({
      code: 7,
      stderr: `no_eligible_worker: no worker could take the job; to start one, with Node 22 or newer (this is ${version}): npx compute-router worker start --url ${router.url}\n`,
    });
    const named = await runCli(["run", "hi", "--model", "tiny:1b", "--user", "u", "--url", router.url], { env });
    expect(named.stderr).toBe(
      `no_eligible_worker: no worker with the model tiny:1b could take the job; to see the models: npx compute-router models --url ${router.url}\n`,
    );
  });

  it("start ends at once with the same advice, in one line", async () => {
    const { code, stdout, stderr } = await runCli(["worker", "start", "--url", NOBODY, "--config-dir", temporaryFolder()], { env });
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: "", stderr: `${advice}\n` });
  });
});

describe("worker status", () => {
  it("shows the worker and its coordinators; the exit code is 0 if all are online", async () => {
    const coordinator = await FakeCoordinator.start();
    const { folder, publicKey } = withKey();
    const status = (...more: string[]) => runHere(["worker", "status", "--config-dir", folder, ...more]);
    expect(await status()).toMatchObject({ code: 9, stderr: expect.stringContaining("compute-router worker start") });
    const worker = new WorkerProcess(["--url", coordinator.url, "--tasks-only", "--config-dir", folder]);
    const { pid } = await worker.says("starting");
    // It is written before the first dial, which nobody has answered yet.
    await expect.poll(status, { timeout: 10_000 }).toMatchObject({ code: 6, stderr: expect.stringContaining(`not online at ${coordinator.host}`) });
    await coordinator.registered();
    await worker.says("online");
    await expect.poll(async () => (await status()).code, { timeout: 10_000 }).toBe(0);
    const [report] = JSON.parse((await status("--json")).stdout);
    expect(report).toMatchObject({
      pid,
      provider_pubkey: publicKey,
      llm: null,
      coordinators: [{ coordinator: coordinator.host, state: "online", network: "eip155:10143" }],
    });
    expect((await status()).stdout).toContain("● online");
    worker.kill("SIGKILL");
    await worker.exited;
    expect((await status()).code).toBe(9);
    expect(readdirSync(folder).filter((file) => file.includes("status"))).toEqual([]);
  });
});

describe("worker key", () => {
  it("export copies the seed into a new file of its owner's, never over another", async () => {
    const { folder, seed } = withKey();
    const file = join(folder, "copy.key");
    const exported = await runHere(["worker", "key", "export", file, "--config-dir", folder]);
    expect({ code: exported.code, leaks: exported.stdout.includes(seed) }).toEqual({ code: 0, leaks: false });
    expect(readFileSync(file, "utf8")).toBe(`${seed}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await runHere(["worker", "key", "export", file, "--config-dir", folder])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("exists already"),
    });
    expect((await runHere(["worker", "key", "export", "-", "--config-dir", folder])).stdout).toBe(`${seed}\n`);
  });

  it("rotate makes a new key and keeps the old one; it has to be told to, without a terminal", async () => {
    const { folder, seed, publicKey } = withKey();
    const rotate = (...more: string[]) => runHere(["worker", "key", "rotate", "--config-dir", folder, ...more]);
    expect(await rotate()).toMatchObject({ code: 2, stderr: expect.stringContaining("--yes") });
    const rotated = JSON.parse((await rotate("--yes", "--json")).stdout);
    expect(rotated).toMatchObject({ old_pubkey: publicKey, old_key_file: join(folder, `worker.key.${publicKey.slice(0, 16)}`) });
    expect(readFileSync(rotated.old_key_file, "utf8")).toBe(`${seed}\n`);
    expect(statSync(rotated.old_key_file).mode & 0o777).toBe(0o600);
    expect((await runHere(["worker", "key", "show", "--config-dir", folder])).stdout.trim()).toBe(rotated.provider_pubkey);
    expect(rotated.provider_pubkey).not.toBe(publicKey);
    expect(readdirSync(folder)).toHaveLength(2);
  });

  it("rotate leaves a key alone that is in use, or whose results are not handed in", async () => {
    const coordinator = await FakeCoordinator.start();
    const { folder, seed } = withKey();
    put(folder, "worker.json", JSON.stringify({ version: 1, coordinators: [{ url: coordinator.url }], llm: { kind: "none" } }));
    const rotate = () => runHere(["worker", "key", "rotate", "--yes", "--config-dir", folder]);
    const worker = new WorkerProcess(["--config-dir", folder]);
    const { worker: connection } = await coordinator.registered();
    connection.assign();
    await connection.receive("job_complete", "job_ack");
    expect(await rotate()).toMatchObject({ code: 3, stderr: expect.stringContaining("works with this key") });
    worker.kill("SIGKILL");
    await worker.exited;
    expect(await rotate()).toMatchObject({ code: 3, stderr: expect.stringContaining("are not delivered yet") });
    expect(readFileSync(join(folder, "worker.key"), "utf8")).toBe(`${seed}\n`);
    expect(existsSync(join(folder, "worker.key"))).toBe(true);
  });
});
