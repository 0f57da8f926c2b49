import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { describe, expect, it, onTestFinished } from "vitest";
import { taskThread } from "../../../src/worker/node/desktop-worker.ts";
import { ThreadedTasks } from "../../../src/worker/session/executor.ts";
import { runTask } from "../../../src/tasks/index.ts";

function tasks(): ThreadedTasks {
  const made = new ThreadedTasks(taskThread);
  onTestFinished(() => made.close());
  return made;
}

const never = new AbortController().signal;

describe("tasks in a thread", () => {
  it("[SPEC] give the same results as without a thread, one after the other in one thread", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    const threaded = tasks();
    for (let i = 0; i < 15; i++) {
      const input = `${"very ".repeat(i)}good, and an order of ${i} items for $5.00`;
      for (const type of ["summarize", "classify", "extract_json"] as const)
        expect(await threaded.run(type, input, never)).toEqual({ ...runTask(type, input) });
    }
    // Listeners that pile up would be reported.
    expect(warnings).toEqual([]);
  });

  it("[WS11] an aborted one ends at once, and the next one runs", async () => {
    const threaded = tasks();
    const abort = new AbortController();
    const long = threaded.run("summarize", "A long story about nothing at all was told by somebody. ".repeat(4_500), abort.signal);
    abort.abort();
    await expect(long).rejects.toThrow("aborted");
    expect(await threaded.run("classify", "good", never)).toHaveProperty("sentiment");
  });

  it("[WS11] an aborted one ends its thread, so nothing continues in the background", async () => {
    const made = Promise.withResolvers<Worker>();
    process.once("worker", made.resolve);
    const threaded = tasks();
    await threaded.run("classify", "good", never);
    const thread = await made.promise;
    const abort = new AbortController();
    const long = threaded.run("summarize", "A long story about nothing at all was told by somebody. ".repeat(4_500), abort.signal);
    const exited = once(thread, "exit");
    abort.abort();
    await expect(long).rejects.toThrow("aborted");
    // 1 is the code of a thread that was terminated; one that came to its end would stay for the next task.
    expect(await exited).toEqual([1]);
  });

  it("a task after the thread was closed gets a new thread", async () => {
    const threaded = tasks();
    threaded.warmUp();
    await threaded.close();
    expect(await threaded.run("classify", "good", never)).toHaveProperty("sentiment");
  });
});
