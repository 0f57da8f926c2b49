import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifyReceipt } from "../../../src/receipt/receipt.ts";
import { shared } from "./support/ends.ts";
import { temporaryFolder } from "./support/folder.ts";
import { FakeCoordinator } from "./support/fake-coordinator.ts";
import { runHere } from "./support/cli-here.ts";
import { runCli, WorkerProcess } from "./support/cli-process.ts";

function start(coordinator: FakeCoordinator, folder: string): WorkerProcess {
  return new WorkerProcess(["--url", coordinator.url, "--tasks-only", "--config-dir", folder, "--name", "test"]);
}

describe("a worker process", () => {
  const one = shared(async () => {
    const coordinator = await FakeCoordinator.start();
    const folder = temporaryFolder();
    const process = start(coordinator, folder);
    return { coordinator, folder, process, ...(await coordinator.registered()) };
  });

  it("[SPEC] runs a task and delivers a receipt that verifies", async () => {
    const { process, worker, register } = one();
    const { provider_pubkey } = await process.says("starting");
    expect(register).toMatchObject({
      provider_pubkey,
      provider_type: "DESKTOP",
      capabilities: ["TASK"],
      models: [],
      name: "test",
      features: ["ack"],
      resume: [],
    });
    const job = worker.assign();
    const { output, receipt, receipt_signature } = await worker.completed("job_ack");
    expect(output).toMatchObject({ sentiment: "positive", confidence: expect.any(Number) });
    const whole = { ...Object(receipt), signature: receipt_signature };
    expect(whole.job_id).toBe(job.job_id);
    expect(verifyReceipt(whole, output)).toEqual({ ok: true });
  });

  it("[WS11] a task that is cancelled in the middle is stopped, and the next one runs", async () => {
    const { process, worker } = one();
    const input = "Somebody said that this is a long story about nothing at all. ".repeat(4_000);
    const first = worker.assign({ payload: { task_type: "summarize", input } });
    await worker.receive("job_ack");
    worker.send({ type: "job_cancel", job_id: first.job_id, attempt: 1, reason: "cancelled" });
    expect(await process.says("job_cancelled")).toMatchObject({ job_id: first.job_id });
    const second = worker.assign();
    expect(await worker.completed("job_ack")).toMatchObject({ job_id: second.job_id });
  });

  it("a second process with the same key exits with 3, and the first one keeps working", async () => {
    const { coordinator, folder, worker } = one();
    const second = await runCli(["worker", "--url", coordinator.url, "--tasks-only", "--config-dir", folder]);
    expect({ code: second.code, stderr: second.stderr }).toEqual({ code: 3, stderr: expect.stringContaining("is already this worker") });
    worker.assign();
    await worker.completed("job_ack");
  });

  // The last one, because it ends the process.
  it("[WS11] SIGTERM: it drains, delivers the last result, exits with 0 and leaves no lock", async () => {
    const { process, folder, worker } = one();
    const job = worker.assign();
    await worker.receive("job_complete", "job_ack");
    process.kill("SIGTERM");
    await worker.receive("drain");
    worker.send({ type: "job_complete_ack", job_id: job.job_id, status: "accepted" });
    worker.send({ type: "drained" });
    expect(await process.exited).toEqual({ code: 0, signal: null });
    expect(readdirSync(folder)).toEqual(["worker.key"]);
  });
});

describe("the end of a worker process", () => {
  it("[WS10] killed after its job but before the acknowledgement: the next process sends the same frame", async () => {
    const coordinator = await FakeCoordinator.start();
    const folder = temporaryFolder();
    const first = start(coordinator, folder);
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    const complete = await worker.receive("job_complete", "job_ack");
    first.kill("SIGKILL");
    expect(await first.exited).toEqual({ code: null, signal: "SIGKILL" });
    start(coordinator, folder);
    const again = await coordinator.registered();
    expect(again.register["resume"]).toEqual([{ job_id: job.job_id, attempt: 1 }]);
    expect(await again.worker.receive("job_complete")).toEqual(complete);
  });

  it.each([
    ["SIGINT", "SIGINT", 130],
    ["SIGHUP", "SIGTERM", 143],
  ] as const)("after %s another %s, later than one that npm adds, ends it at once with %i", async (first, second, code) => {
    const coordinator = await FakeCoordinator.start();
    const process = start(coordinator, temporaryFolder());
    const { worker } = await coordinator.registered();
    process.kill(first);
    await worker.receive("drain");
    expect((await process.killAgain(second)).code).toBe(code);
  });

  it.each([
    ["a Ctrl-C that npm forwards", "SIGINT", "SIGINT"],
    ["the end of the terminal, of which npm tells too", "SIGHUP", "SIGTERM"],
  ] as const)("[WS11] %s is one signal: the job ends first", async (_, first, second) => {
    const coordinator = await FakeCoordinator.start();
    const process = start(coordinator, temporaryFolder());
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    await worker.receive("job_complete", "job_ack");
    process.kill(first);
    await worker.receive("drain");
    process.kill(second);
    // Its answer shows that the process has lived on.
    worker.assign();
    await worker.receive("job_reject", "drain");
    worker.send({ type: "job_complete_ack", job_id: job.job_id, status: "accepted" });
    worker.send({ type: "drained" });
    expect((await process.exited).code).toBe(0);
  });

  it("[WS4] replaced: it says so and exits with 4", async () => {
    const coordinator = await FakeCoordinator.start();
    const process = start(coordinator, temporaryFolder());
    (await coordinator.registered()).worker.close(4001);
    expect(await process.says("stopped")).toMatchObject({ reason: "replaced", message: expect.stringContaining("--key FILE") });
    expect((await process.exited).code).toBe(4);
  });

  it("[WS4] refused: it says why and exits with 5", async () => {
    const coordinator = await FakeCoordinator.start();
    const process = start(coordinator, temporaryFolder());
    const worker = await coordinator.dialled();
    worker.challenge();
    await worker.receive("register");
    worker.send({ type: "register_ack", status: "error", error: "invalid_signature" });
    expect(await process.says("stopped")).toMatchObject({ reason: "refused" });
    expect((await process.exited).code).toBe(5);
  });

  it("[WS3] of a network that the coordinator does not serve, with a new key: it says so and exits with 5", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    const folder = temporaryFolder();
    const process = new WorkerProcess(["--url", coordinator.url, "--tasks-only", "--config-dir", folder, "--network", "eip155:1"]);
    expect(await process.says("info")).toMatchObject({ message: `created a new key for this worker: ${join(folder, "worker.key")}` });
    expect(await process.says("stopped")).toMatchObject({ reason: "other_network" });
    expect((await process.exited).code).toBe(5);
  });

  it("whose port for metrics is taken ends at once with 2, and leaves no lock", async () => {
    const { port } = new URL((await FakeCoordinator.start()).url);
    const folder = temporaryFolder();
    const { code, stderr } = await runHere(["worker", "start", "--tasks-only", "--url", "ws://127.0.0.1:1/", "--metrics", port, "--config-dir", folder]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^--metrics: cannot listen there \([^\n]*EADDRINUSE[^\n]*\)\n$/) });
    expect(readdirSync(folder)).toEqual(["worker.key"]);
  });

  it("without a runtime it takes tasks, and says in one line how to get a runtime", async () => {
    const coordinator = await FakeCoordinator.start();
    const process = new WorkerProcess(["--url", coordinator.url, "--config-dir", temporaryFolder(), "--llm-url", "http://127.0.0.1:2"]);
    expect(await process.says("runtime_missing")).toMatchObject({ hint: expect.stringContaining("start the runtime at that URL") });
    expect((await coordinator.registered()).register["capabilities"]).toEqual(["TASK"]);
  });
});
