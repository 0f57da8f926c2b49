import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Check, checkCoordinator, examine as examineAll } from "../../../src/cli/doctor.ts";
import { workerPlan } from "../../../src/cli/worker-plan.ts";
import { fingerprintOf, keyPair } from "../../../src/receipt/ed25519.ts";
import { lockWorker, processTag, thisProcess, workerId } from "../../../src/worker/node/worker-lock.ts";
import { firstStatus, type LinkStatus, StatusFile, statusReport, type WorkerStatus } from "../../../src/worker/node/worker-status.ts";
import { reply } from "../sdk/support/faults.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { configFile, readConfig } from "../../../src/worker/node/worker-config.ts";
import { until } from "../../support/until.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { runCli, WorkerProcess } from "../worker/support/cli-process.ts";
import { FakeCoordinator } from "../worker/support/fake-coordinator.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { SlowLlm } from "../worker/support/slow-llm.ts";

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
  it("keeps the limit of tokens of a worker that takes tasks only", async () => {
    const folder = temporaryFolder();
    put(folder, "worker.json", JSON.stringify({ version: 1, coordinators: [{ url: NOBODY }], llm: { kind: "none" }, max_tokens: 2_000 }));
    expect(await runHere(["worker", "init", "--force", "--yes", "--config-dir", folder])).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toMatchObject({ llm: { kind: "none" }, max_tokens: 2_000 });
  });

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

  it("says in one line that the configuration cannot be written", async () => {
    const { folder } = withKey();
    // The draft has no place, as in a folder of another user.
    mkdirSync(join(folder, "worker.json.new"));
    const { code, stdout, stderr } = await runHere(["worker", "init", "--url", NOBODY, "--tasks-only", "--config-dir", folder]);
    expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
    expect(stderr).toMatch(/^cannot write the configuration .*worker\.json \(\w+\); use --config-dir DIR\n$/);
  });

  it("--force replaces a configuration that cannot be read, as the error about it suggests", async () => {
    const { folder, publicKey } = withKey();
    put(folder, "worker.json", "{");
    const init = (...more: string[]) => runHere(["worker", "init", "--url", NOBODY, "--tasks-only", "--config-dir", folder, "--json", ...more]);
    const cure = `correct it, or replace it: npx compute-router worker init --force --config-dir ${folder}`;
    expect(await init()).toMatchObject({ code: 2, stderr: `${join(folder, "worker.json")} is not JSON; ${cure}\n` });
    expect(JSON.parse((await init("--force")).stdout)).toMatchObject({ provider_pubkey: publicKey, key_made: false });
    expect(readConfig(configFile(folder))).toMatchObject({ ok: true, config: { coordinators: [{ url: NOBODY }] } });
    put(folder, "worker.json", "{}");
    expect(await init()).toMatchObject({ code: 2, stderr: expect.stringContaining(`; ${cure}\n`) });
  });

  it("keeps what a configuration has and no option changes, and writes down every option", async () => {
    const folder = temporaryFolder();
    const [key, modelFile] = [join(folder, "own.key"), join(folder, "small.gguf")];
    put(folder, "small.gguf", "");
    const init = (...more: string[]) => runHere(["worker", "init", "--config-dir", folder, "--force", ...more]);
    const written = (): unknown => JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"));
    const options = ["--url", NOBODY, "--network", "eip155:1", "--name", "box", "--key", key, "--max-tokens", "99", "--metrics", "9464"];
    const { stdout } = await init(...options, "--llm-url", "http://127.0.0.1:1/v1", "--model", "tiny");
    expect(stdout).toContain(`worker doctor --config-dir ${folder}\n`);
    const kept = { version: 1, coordinators: [{ url: NOBODY, network: "eip155:1" }], name: "box", key, max_tokens: 99, metrics: "9464" };
    expect(written()).toEqual({ ...kept, llm: { kind: "find", url: "http://127.0.0.1:1/v1", model: "tiny" } });
    await init();
    expect(written()).toEqual({ ...kept, llm: { kind: "find", url: "http://127.0.0.1:1/v1", model: "tiny" } });
    await init("--runtime", "embedded", "--model-file", modelFile);
    expect(written()).toEqual({ ...kept, llm: { kind: "embedded", model_file: modelFile } });
  });

  it("claims a pairing code too, and says where", async () => {
    const router = await RouterServer.start();
    for (let count = 0; count < 2; count++) await router.client({ userId: "u" }).trust.create();
    const { host } = new URL(router.url);
    const init = (code: string, ...more: string[]) =>
      runHere(["worker", "init", "--tasks-only", "--url", router.url, "--pair", code, "--config-dir", temporaryFolder(), ...more]);
    expect((await init("A00000")).stdout).toContain(`paired         at ${host}\n`);
    expect(JSON.parse((await init("A00001", "--json")).stdout)).toMatchObject({ paired: { coordinator: host, paired_at: expect.stringMatching(/Z$/) } });
  });

  it("on a terminal an empty line means what the configuration has", async () => {
    const folder = temporaryFolder();
    const content = { version: 1, coordinators: [{ url: NOBODY, network: "eip155:1" }], name: "den", llm: { kind: "embedded" } };
    put(folder, "worker.json", JSON.stringify(content));
    expect(await runHere(["worker", "init", "--config-dir", folder], { input: "\r\r\r\r\r", isTerminal: true })).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toEqual(content);
  });

  it("on a terminal asks again for a coordinator that is named twice, as `worker start` would refuse it", async () => {
    const folder = temporaryFolder();
    put(folder, "worker.json", JSON.stringify({ version: 1, coordinators: [{ url: NOBODY }], llm: { kind: "embedded" } }));
    const input = "ws://127.0.0.1:1 wss://127.0.0.1:1\r\r\r\r\r\r";
    expect(await runHere(["worker", "init", "--config-dir", folder], { input, isTerminal: true })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("127.0.0.1:1 is named twice"),
    });
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toMatchObject({ coordinators: [{ url: NOBODY }] });
  });

  it.each([
    ["yes, and the model that was asked for", "y\r\r", { model: "small" }],
    ["no", "n\r", null],
  ])("on a terminal asks whether to use the LLM that it finds: %s", async (_, answers, chosen) => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    // The worker still works, so there is nothing to ask.
    coordinator.clockAhead = 90_000;
    const llm = await SlowLlm.start();
    llm.models = ["small", "large"];
    const folder = temporaryFolder();
    const args = ["worker", "init", "--url", coordinator.url, "--llm-url", llm.baseUrl, "--model", "small", "--config-dir", folder];
    expect(await runHere(args, { input: `\rden\r${answers}\r`, isTerminal: true })).toMatchObject({ code: 0, stderr: "" });
    const { name, llm: kept } = JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"));
    expect([name, kept]).toEqual(["den", chosen === null ? { kind: "none" } : { kind: "find", url: llm.baseUrl, ...chosen }]);
  });

  it("on a terminal ends at once by Ctrl-C, in one line, also while it checks a coordinator", async () => {
    const coordinator = await FakeCoordinator.start();
    const dialled = coordinator.dialled();
    const folder = join(temporaryFolder(), "new");
    const args = ["worker", "init", "--url", coordinator.url, "--tasks-only", "--config-dir", folder];
    expect(await runHere(args, { input: "\r\u0003", isTerminal: true })).toMatchObject({ code: 130, stderr: "\nnothing was changed\n" });
    // The check ends later, and changes nothing any more.
    const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    onTestFinished(() => stdout.mockRestore());
    (await dialled).challenge();
    await until("the end of the check", () => stdout.mock.calls.find(([text]) => String(text).includes("✓ socket")));
    expect(existsSync(folder)).toBe(false);
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

  it("options have priority over the environment, the environment over the configuration", () => {
    const folder = temporaryFolder();
    const llm = { kind: "find", url: "http://127.0.0.1:1/v1", model: "tiny" };
    const coordinators = [{ url: "ws://127.0.0.1:1/", network: "eip155:1" }];
    put(folder, "worker.json", JSON.stringify({ version: 1, coordinators, llm, name: "den", max_tokens: 9, metrics: "9464" }));
    const plan = (args: object, ...urls: string[]) => workerPlan({ "config-dir": folder, ...args }, urls);
    const wish = { kind: "found", llmUrl: llm.url, model: "tiny", maxTokens: 9 };
    expect(plan({})).toMatchObject({ coordinators, wish, name: "den", metrics: { port: 9464 } });
    expect(plan({ name: "box", "max-tokens": "7", network: "eip155:2" })).toMatchObject({
      coordinators: [{ url: "ws://127.0.0.1:1/", network: "eip155:2" }],
      wish: { ...wish, maxTokens: 7 },
      name: "box",
    });
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.stubEnv("ROUTER_BASE_URL", "http://127.0.0.1:2");
    expect(plan({}).coordinators).toEqual([{ url: "ws://127.0.0.1:2/" }]);
    expect(plan({}, "127.0.0.1:3").coordinators).toEqual([{ url: "ws://127.0.0.1:3/" }]);
    put(folder, "small.gguf", "");
    const embedded = plan({ runtime: "embedded", "model-file": relative(process.cwd(), join(folder, "small.gguf")) });
    expect(embedded.wish).toEqual({ kind: "embedded", modelFile: join(folder, "small.gguf"), maxTokens: 9 });
    expect(() => plan({ runtime: "embedded", "llm-url": llm.url })).toThrow("not both");
    expect(() => plan({ runtime: "cloud" })).toThrow('the only value is "embedded"');
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
    [
      '{"version":1,"cordinators":[],"llm":{"kind":"none","modle":"x"}}',
      'coordinators: Invalid input: expected array, received undefined; llm: Unrecognized key: "modle"; Unrecognized key: "cordinators"; correct it',
    ],
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
    [["--name=a", "--name=b"], "--name was given more than once"],
    [["--url", "--tasks-only"], "--url needs a value"],
    [["--url", "--name=a"], "--url needs a value"],
    [["--metrics", "nowhere"], "--metrics"],
    [["--metrics", "127.0.0.1:99999"], "--metrics"],
  ])("start %o is a usage error", async (args, message) => {
    const { code, stderr } = await runHere(["worker", "start", "--config-dir", temporaryFolder(), ...args]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
  });

  it("an option that needs a value does not take the next option for it, also without a command; after = it may look like one", async () => {
    const folder = temporaryFolder();
    for (const command of [["worker"], ["worker", "start"]])
      expect(await runHere([...command, "--url", "--config-dir", folder])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^--url needs a value; see: /),
      });
    expect(await runHere(["quote", "--url", "--json"])).toMatchObject({ code: 2, stderr: expect.stringMatching(/^--url needs a value; see: /) });
    const init = await runHere(["worker", "init", "--name=--url", "--tasks-only", "--url", NOBODY, "--config-dir", folder]);
    expect(init).toMatchObject({ code: 0, stderr: "" });
    expect(readConfig(configFile(folder))).toMatchObject({ config: { name: "--url" } });
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
      fix: "set this machine's clock, preferably by NTP (timedatectl set-ntp true)",
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

  it("says what is wrong with a coordinator that answers", async () => {
    const router = await RouterServer.start();
    const checks = async (network?: string) =>
      (await checkCoordinator({ url: router.url.replace("http", "ws"), ...(network !== undefined && { network }) })).slice(0, 3);
    const unreachable = { state: "fail", exit: 6 };
    router.fail("GET /v1/health", reply(503, {}), reply(200, { hello: 1 }));
    expect(await checks()).toMatchObject([{ ...unreachable, message: "answers HTTP 503" }]);
    expect(await checks()).toMatchObject([{ ...unreachable, message: "answers, but is not a coordinator" }]);
    expect(await checks("eip155:1")).toMatchObject([
      { state: "fail", exit: 5, message: "serves eip155:10143, but this worker works only for eip155:1" },
      { state: "ok" },
      { ...unreachable, message: "no connection: it answers HTTP 404 instead of opening a WebSocket" },
    ]);
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.send({ type: "hello" }));
    const [, , socket] = await checkCoordinator({ url: coordinator.url });
    expect(socket).toMatchObject({ state: "warn", message: "opens, but sends no challenge: this worker cannot prove its key there" });
    void coordinator.dialled().then((worker) => worker.close(1013));
    const [, , closed] = await checkCoordinator({ url: coordinator.url });
    expect(closed).toMatchObject({ ...unreachable, message: "the coordinator closed the socket: code 1013" });
  });

  it.each([
    ["is in a file", "file"],
    ["would have to be created where a link leads nowhere", "link"],
  ])("says that the folder of the configuration cannot be written: it %s", async (_, place) => {
    const { folder } = withKey();
    symlinkSync(join(folder, "nowhere"), join(folder, "link"));
    const there = place === "link" ? join(folder, "link", "a", "b") : "/dev/null/x";
    const plan = workerPlan({ "config-dir": folder, "tasks-only": true }, [NOBODY]);
    for await (const check of examineAll({ ...plan, folder: there })) {
      if (check.name !== "configuration") continue;
      expect(check).toMatchObject({ state: "fail", exit: 3, message: `${there} cannot be written` });
      return;
    }
    expect.unreachable();
  });

  it("says that the LLM does not answer, and what to do", async () => {
    const server = createServer((request, response) => {
      response.writeHead(request.url === "/v1/models" ? 200 : 500, { "content-type": "application/json" });
      response.end(JSON.stringify({ object: "list", data: [{ id: "tiny" }, { id: "large" }] }));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { checks } = await examine("--url", NOBODY, "--llm-url", `http://127.0.0.1:${port}/v1`, "--config-dir", withKey().folder);
    expect(checks.get("LLM")).toMatchObject({ state: "ok", message: expect.stringMatching(/^tiny by .*, and 1 more$/) });
    expect(checks.get("answer")).toMatchObject({
      state: "warn",
      message: expect.stringMatching(/^a trial prompt failed: /),
      fix: expect.stringContaining("--model NAME"),
    });
  });

  it("says how long it has waited for an LLM that does not answer", async () => {
    const llm = await SlowLlm.start();
    const plan = workerPlan({ "config-dir": withKey().folder, "llm-url": llm.baseUrl }, [NOBODY]);
    const checks: Check[] = [];
    for await (const check of examineAll(plan, 1_000)) checks.push(check);
    expect(checks.find(({ name }) => name === "answer")).toMatchObject({ state: "warn", message: "a trial prompt failed: no answer in 1 s" });
  });

  it("says which models a server has instead of the one that was asked for", async () => {
    const llm = await SlowLlm.start();
    llm.models = ["small", "large"];
    const { checks } = await examine("--url", NOBODY, "--llm-url", llm.baseUrl, "--model", "nope", "--config-dir", withKey().folder);
    expect(checks.get("LLM")).toMatchObject({
      state: "warn",
      message: `openai-compatible at ${llm.baseUrl} has no model "nope"; it has small, large: tasks only`,
    });
  });

  it("beside a running worker that has an LLM, says how to check that one; an LLM that was asked for is reported as it is", async () => {
    const { folder, publicKey } = withKey();
    const now = Date.now();
    const checked = async (runtime: string, ...more: string[]): Promise<unknown> => {
      const status: WorkerStatus = { ...firstStatus(["a.example"]), llm: { runtime, model: "tiny" } };
      const about = { pid: process.pid, startedAt: now, now, publicKey, name: null, metrics: null, urls: [] };
      new StatusFile(folder).write(statusReport(status, about));
      // Nothing listens there, whatever LLM this machine has.
      const env = { LLM_BASE_URL: "http://127.0.0.1:2" };
      const { stdout } = await runHere(["worker", "doctor", "--json", "--url", NOBODY, "--config-dir", folder, ...more], { env });
      const lines = stdout.trimEnd().split("\n");
      return lines.map((line) => JSON.parse(line)).find(({ name }) => name === "LLM");
    };
    const message = "no LLM server found, but the running worker uses tiny";
    const fix = "to check that one, give doctor the same";
    expect(await checked("ollama")).toEqual({ name: "LLM", state: "warn", message, fix: `${fix} --llm-url` });
    expect(await checked("embedded")).toEqual({ name: "LLM", state: "warn", message, fix: `${fix} --runtime embedded` });
    expect(await checked("ollama", "--llm-url", "http://127.0.0.1:2")).toMatchObject({ message: expect.stringMatching(/^no LLM server found: tasks only/) });
  });

  it("[JB10] says that no job can ask for a model because of its name", async () => {
    const llm = await SlowLlm.start();
    llm.models = ["My Model.Q4.gguf"];
    void until("the trial prompt", () => llm.answers[0]).then(({ finish }) => finish());
    const { checks } = await examine("--url", NOBODY, "--llm-url", llm.baseUrl, "--config-dir", withKey().folder);
    expect(checks.get("LLM")).toMatchObject({
      state: "warn",
      message: "My Model.Q4.gguf by openai-compatible",
      fix: expect.stringMatching(/^jobs cannot ask for "My Model\.Q4\.gguf" by its name, which must be .*: rename the model$/),
    });
  });

  it("reports an unreachable coordinator, a key that others can read and a missing LLM, each with the fix", async () => {
    const away = await examine("--url", NOBODY, "--llm-url", "http://127.0.0.1:2", "--config-dir", withKey().folder);
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
    expect(stdout).toMatch(/^! key +none at .* yet\n +→ the first start creates one, or create it now: npx compute-router worker init --config-dir .*\n/m);
    expect(stdout).not.toContain("\u001B");
  });
});

// As on Node 20. `npm run package` runs the same commands on a real Node 20, where there is one.
describe("on a Node without a WebSocket", () => {
  beforeEach(() => void vi.stubGlobal("WebSocket", undefined));
  afterEach(() => void vi.unstubAllGlobals());

  const version = process.versions.node;
  const advice = `a worker needs Node 22 or newer, for its WebSocket; this is Node ${version}. Get one at https://nodejs.org`;

  it("init sets the worker up, and says with which Node it can start", async () => {
    const folder = join(temporaryFolder(), "new");
    const { code, stdout, stderr } = await runHere(["worker", "init", "--yes", "--tasks-only", "--url", NOBODY, "--config-dir", folder]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(`\nTo work, with Node 22 or newer (this is ${version}): npx compute-router worker start --config-dir `);
  });

  it("doctor says what is missing, checks all the rest, and does not suggest a start that would fail", async () => {
    const coordinator = await FakeCoordinator.start();
    const { folder } = withKey();
    const place = ["--url", coordinator.url, "--tasks-only", "--config-dir", folder];
    const { code, stdout, stderr } = await runHere(["worker", "doctor", "--json", ...place]);
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
      message: `no; to start it, with Node 22 or newer (this is ${version}): npx compute-router worker start --config-dir ${folder}`,
    });
  });

  it("a hint to start a worker says the same", async () => {
    const folder = temporaryFolder();
    const { code, stderr } = await runHere(["worker", "status", "--config-dir", folder]);
    expect({ code, stderr }).toEqual({
      code: 9,
      stderr: `no worker runs in ${folder}; if it has another folder, use --config-dir DIR; to start one, with Node 22 or newer (this is ${version}): npx compute-router worker start --config-dir ${folder}\n`,
    });
  });

  it("so does a job without a worker", async () => {
    const router = await RouterServer.start({ work: () => ({ error: "no_eligible_worker" }) });
    const { code, stderr } = await runHere(["run", "hi", "--user", "u", "--url", router.url]);
    expect({ code, stderr }).toEqual({
      code: 7,
      stderr: `no_eligible_worker: no worker could take the job; to start one, with Node 22 or newer (this is ${version}): npx compute-router worker start --url ${router.url}\n`,
    });
    const named = await runHere(["run", "hi", "--model", "tiny:1b", "--user", "u", "--url", router.url]);
    expect(named.stderr).toBe(
      `no_eligible_worker: no worker with the model tiny:1b could take the job; to see the models: npx compute-router models --url ${router.url}\n`,
    );
  });

  it("start ends at once with the same advice, in one line", async () => {
    // In a process of its own, because no module may need a WebSocket while it loads.
    const env = { NODE_OPTIONS: "--no-experimental-websocket" };
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
    const worker = new WorkerProcess(["--url", coordinator.url, "--tasks-only", "--config-dir", folder, "--name", "box", "--metrics", "0"]);
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
      name: "box",
      metrics: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/),
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

it("worker status shows what a worker is, what it has done and what is wrong", async () => {
  const { folder, publicKey } = withKey();
  const now = Date.now();
  const first = firstStatus(["a.example", "b.example"]);
  const [one, other] = first.links as [LinkStatus, LinkStatus];
  const jobs = { LLM_INFER: { completed: 2, failed: 1, cancelled: 0, ms: 0 }, TASK: { completed: 30, failed: 10, cancelled: 5, ms: 0 } };
  const busy = {
    ...one,
    link: "online",
    network: "eip155:1",
    tier: "Verified",
    jobs,
    results: { rejected: 1, dropped: 1 },
    lastRejection: "bad_signature",
  } as const;
  const status: WorkerStatus = {
    draining: true,
    llm: { runtime: "Ollama", model: "tiny" },
    links: [
      { ...busy, tokens: 50, clockOff: -90_000, job: { id: "j", type: "TASK", since: now - 65_000, chars: 0 } },
      { ...other, link: "offline", cause: "connection lost" },
    ],
  };
  const about = { pid: process.pid, startedAt: now - 93_600_000, now, publicKey, name: "box", metrics: "http://m.example/", urls: [] };
  new StatusFile(folder).write(statusReport(status, about));
  const { code, stdout, stderr } = await runHere(["worker", "status", "--config-dir", folder]);
  expect([code, stderr]).toEqual([6, "not online at b.example\n"]);
  const [head, words, online, offline] = stdout.split("\n");
  expect(head).toMatch(/^process \d+ {2}up 1 d 2 h {2}key \S+ {2}name box {2}tiny by Ollama {2}http:\S+ {2}finishing$/);
  expect(words).toBe(`  ${fingerprintOf(publicKey)}`);
  expect(online).toMatch(
    /^ {2}● online {2}a\.example {2}eip155:1 {2}Verified {2}jobs 32 done, 11 failed, 2 rejected \(bad_signature\) {2}WARNING: the clock is 90 s behind the coordinator's {2}50 tokens {2}working on TASK for 1 min \d+ s$/,
  );
  expect(offline).toBe("  ○ offline  b.example  jobs 0 done, 0 failed  (connection lost)");
});

it("worker status: a worker whose last report is too old is not online, whatever that report says", async () => {
  const { folder, publicKey } = withKey();
  const now = Date.now();
  const first = firstStatus(["a.example"]);
  const status: WorkerStatus = { ...first, links: first.links.map((link) => ({ ...link, link: "online" })) };
  const about = { pid: process.pid, startedAt: now - 93_600_000, publicKey, name: null, metrics: null, urls: [] };
  const show = async (age: number) => {
    new StatusFile(folder).write(statusReport(status, { ...about, now: now - age }));
    const text = await runHere(["worker", "status", "--config-dir", folder]);
    const json = await runHere(["worker", "status", "--config-dir", folder, "--json"]);
    expect([json.code, json.stderr]).toEqual([text.code, text.stderr]);
    return { ...text, report: JSON.parse(json.stdout)[0] };
  };
  expect(await show(10_000)).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("● online"), report: { stale: false } });
  const frozen = await show(40_000);
  expect(frozen).toMatchObject({ code: 6, stderr: "not online at a.example\n", report: { stale: true, coordinators: [{ state: "online" }] } });
  expect(frozen.stdout).toMatch(/ {2}not responding: its last report is \d+ s old\n/);
  expect(frozen.stdout).toContain("  ○ not responding  a.example  jobs 0 done, 0 failed\n");
  expect(frozen.stdout).not.toContain("online");
});

it("a worker whose report cannot be written runs all the same, for status, doctor and key rotate", async () => {
  const { folder, publicKey } = withKey();
  // This process stands for the worker. Its lock is there, and its report has no place: a folder stands where its draft would be, as a full disk has none.
  const lock = lockWorker(folder, workerId(NOBODY, publicKey));
  if (!lock.ok) throw new Error(lock.message);
  mkdirSync(join(folder, `worker.${processTag(thisProcess())}.status.json.new`));
  const about = { pid: process.pid, startedAt: 0, now: 0, publicKey, name: null, metrics: null, urls: [NOBODY] };
  new StatusFile(folder).write(statusReport(firstStatus(["127.0.0.1:1"]), about));
  const here = (...words: string[]) => runHere(["worker", ...words, "--config-dir", folder]);
  const runs = `process ${process.pid}  runs; its report cannot be written or read; is the disk of ${folder} full?\n`;
  expect(await here("status")).toMatchObject({ code: 0, stdout: runs, stderr: "" });
  const [report] = JSON.parse((await here("status", "--json")).stdout);
  expect(report).toEqual({ version: 1, pid: process.pid, coordinators: [], problem: "runs; its report cannot be written or read" });
  expect(await here("key", "rotate", "--yes")).toMatchObject({ code: 3, stderr: expect.stringContaining("so it may work with this key; end it first") });
  const { checks } = await examine("--url", NOBODY, "--tasks-only", "--config-dir", folder);
  expect(checks.get("running")).toMatchObject({ state: "warn", message: `process ${process.pid} ${report.problem}` });
  lock.release();
  expect(await here("status")).toMatchObject({ code: 9 });
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

  it("rotate of a key elsewhere needs no configuration folder, and says which results it cannot read", async () => {
    const { folder } = withKey();
    const missing = join(folder, "missing");
    const rotate = (at: string) => runHere(["worker", "key", "rotate", "--yes", "--key", join(folder, "worker.key"), "--config-dir", at]);
    expect(await rotate(missing)).toMatchObject({ code: 0 });
    const results = join(missing, "worker-1.results.json");
    mkdirSync(results, { recursive: true });
    expect(await rotate(missing)).toMatchObject({ code: 3, stderr: `cannot read ${results} (EISDIR)\n` });
  });

  it("rotate on a terminal changes nothing unless a person says yes", async () => {
    const { folder, publicKey } = withKey();
    const rotate = (input: string) => runHere(["worker", "key", "rotate", "--config-dir", folder], { input, isTerminal: true });
    expect(await rotate("\r")).toMatchObject({ code: 2, stderr: "nothing was changed\n" });
    expect(readdirSync(folder)).toEqual(["worker.key"]);
    const { code, stdout } = await rotate("y\r");
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Users who were paired with the old key must pair again.\n") });
    expect(readdirSync(folder)).toContain(`worker.key.${publicKey.slice(0, 16)}`);
  });

  it("rotate keeps the results for any coordinator, also of a --url, unless it is forced, and says why a key cannot be replaced", async () => {
    const { folder, publicKey } = withKey();
    put(folder, "worker.json", JSON.stringify({ version: 1, coordinators: [{ url: "ws://127.0.0.1:1/" }], llm: { kind: "none" } }));
    const frame = JSON.stringify({ type: "job_complete", receipt: { provider_pubkey: publicKey } });
    const results = [{ jobId: "j", attempt: 1, frame, completedAt: 0 }];
    put(folder, `worker-${workerId("ws://127.0.0.1:2/", publicKey)}.results.json`, JSON.stringify({ version: 1, results }));
    const rotate = (...more: string[]) => runHere(["worker", "key", "rotate", "--yes", "--config-dir", folder, ...more]);
    expect(await rotate()).toMatchObject({ code: 3, stderr: expect.stringContaining("are not delivered yet") });
    mkdirSync(join(folder, `worker.key.${publicKey.slice(0, 16)}`));
    expect(await rotate("--force")).toMatchObject({ code: 3, stderr: `cannot replace the key in ${join(folder, "worker.key")} (EEXIST)\n` });
    rmdirSync(join(folder, `worker.key.${publicKey.slice(0, 16)}`));
    expect(await rotate("--force")).toMatchObject({ code: 0, stderr: "" });
  });

  it("export says why a file cannot be written", async () => {
    const { code, stdout, stderr } = await runHere(["worker", "key", "export", "/dev/null/x", "--config-dir", withKey().folder]);
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(/^cannot write \/dev\/null\/x: /) });
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
