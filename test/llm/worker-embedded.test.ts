import { beforeAll, describe, expect, it } from "vitest";
import { descendants } from "../support/process-tree.ts";
import { WorkerProcess } from "../unit/worker/support/cli-process.ts";
import { FakeCoordinator } from "../unit/worker/support/fake-coordinator.ts";
import { temporaryFolder } from "../unit/worker/support/folder.ts";
import { requireEmbedded } from "./processes.ts";

beforeAll(requireEmbedded);

describe.runIf(process.platform === "linux")("a worker whose embedded LLM is killed", () => {
  it("[WS3, WS9] in the middle of a job: the job may be retried, LLM_INFER is taken back, and announced again on a new child", async () => {
    const coordinator = await FakeCoordinator.start();
    const worker = new WorkerProcess(["--url", coordinator.url, "--runtime", "embedded", "--config-dir", temporaryFolder()]);
    const { pid } = await worker.says("starting");
    const { worker: socket } = await coordinator.registered();
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], models: ["tiny-chat-q8_0"] });
    const [child] = descendants(Number(pid)).filter(({ command }) => command.includes("server.mjs"));
    if (child === undefined) throw new Error("no child");
    const ask = () => socket.assign({ job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Tell me a story about a fox." } });
    // It cannot answer any more, but has not died yet when the job comes.
    process.kill(child.pid, "SIGSTOP");
    ask();
    await socket.receive("job_ack");
    process.kill(child.pid, "SIGKILL");
    // First of all no more of them: whoever has failed is free for the next job.
    expect(await socket.receive("register", "job_progress")).toMatchObject({ capabilities: ["TASK"], models: [] });
    expect(await socket.receive("job_failed")).toMatchObject({ error: "runtime_unreachable", retryable: true });
    expect(await socket.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"] });
    ask();
    expect(await socket.receive("job_complete", "job_ack", "job_progress")).toMatchObject({ output: { model: "tiny-chat-q8_0" } });
  });
});
