import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { descendants, stillRunning } from "../support/process-tree.ts";
import { WorkerProcess } from "../unit/worker/support/cli-process.ts";
import { shared } from "../unit/worker/support/ends.ts";
import { FakeCoordinator } from "../unit/worker/support/fake-coordinator.ts";
import { temporaryFolder } from "../unit/worker/support/folder.ts";
import { requireEmbedded } from "./processes.ts";

beforeAll(requireEmbedded);

/** The process id of the embedded LLM of a worker. It has only one. */
function runtimeOf(worker: unknown): number {
  const [child, more] = descendants(Number(worker)).filter(({ command }) => command.includes("server.mjs"));
  if (child === undefined || more !== undefined) throw new Error("not one child");
  return child.pid;
}

describe.runIf(process.platform === "linux")("a worker whose embedded LLM", () => {
  // One worker for all, in this order: each of the first two tests leaves it with a child that answers, and the last one ends it.
  const started = shared(async () => {
    const coordinator = await FakeCoordinator.start();
    const worker = new WorkerProcess(["--url", coordinator.url, "--runtime", "embedded", "--config-dir", temporaryFolder()]);
    const { pid } = await worker.says("starting");
    const { worker: socket } = await coordinator.registered();
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], models: ["tiny-chat-q8_0"] });
    return { worker, pid, socket };
  });

  it("[WS3, WS9] is killed in the middle of a job: the job may be retried, LLM_INFER is taken back, and announced again on a new child", async () => {
    const { pid, socket } = started();
    const child = runtimeOf(pid);
    const ask = () => socket.assign({ job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Tell me a story about a fox." } });
    // It cannot answer any more, but has not died yet when the job comes.
    process.kill(child, "SIGSTOP");
    ask();
    await socket.receive("job_ack");
    process.kill(child, "SIGKILL");
    // First of all no more of them: whoever has failed is free for the next job.
    expect(await socket.receive("register", "job_progress")).toMatchObject({ capabilities: ["TASK"], models: [] });
    expect(await socket.receive("job_failed")).toMatchObject({ error: "runtime_unreachable", retryable: true });
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"] });
    ask();
    expect(await socket.completed("job_ack", "job_progress")).toMatchObject({ output: { model: "tiny-chat-q8_0" } });
  });

  it("[WS3] hangs: after a job that got no answer in time, the child is ended, LLM_INFER is taken back, and announced again on a new child", async () => {
    const { pid, socket } = started();
    const child = runtimeOf(pid);
    process.kill(child, "SIGSTOP");
    const ask = () => socket.assign({ job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Tell me a story about a fox." } });
    const job = ask();
    await socket.receive("job_ack");
    // The coordinator's 60 s are over.
    socket.send({ type: "job_cancel", job_id: job.job_id, attempt: 1, reason: "execution_timeout" });
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["TASK"], models: [] });
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], models: ["tiny-chat-q8_0"] });
    expect(runtimeOf(pid)).not.toBe(child);
    ask();
    expect(await socket.completed("job_ack", "job_progress")).toMatchObject({ output: { model: "tiny-chat-q8_0" } });
  });

  it("[LLM10] hangs, ends with its worker all the same", async () => {
    const { worker, pid, socket } = started();
    const child = runtimeOf(pid);
    process.kill(child, "SIGSTOP");
    onTestFinished(() => {
      for (const { pid: left } of stillRunning([child])) process.kill(left, "SIGKILL");
    });
    socket.assign({ job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Tell me a story about a fox." } });
    await socket.receive("job_ack");
    worker.kill("SIGTERM");
    await socket.receive("drain");
    expect((await worker.killAgain("SIGTERM")).code).toBe(143);
    await expect.poll(() => stillRunning([child]), { timeout: 10_000 }).toEqual([]);
  });
});
