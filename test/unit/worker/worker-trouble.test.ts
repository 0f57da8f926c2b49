import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/folder.ts";
import { FakeCoordinator } from "./support/fake-coordinator.ts";
import { WorkerProcess } from "./support/cli-process.ts";
import { TcpProxy } from "./support/tcp-proxy.ts";

describe("a worker process whose connection breaks without a close frame", () => {
  it("[WS6, WS10] the network is cut: the worker notices it, reconnects by itself and sends the result again", async () => {
    const coordinator = await FakeCoordinator.start();
    const proxy = await TcpProxy.before(coordinator.host);
    const worker = WorkerProcess.quick(`ws://${proxy.host}/`, temporaryFolder());
    const first = await coordinator.dialled();
    first.challenge(proxy.host);
    await first.receive("register");
    first.acknowledgeRegistration();
    const job = first.assign();
    const complete = await first.receive("job_complete", "job_ack");
    proxy.cut();
    expect(await worker.says("offline")).toMatchObject({ cause: "the coordinator is silent" });
    const second = await coordinator.dialled();
    second.challenge(proxy.host);
    expect(await second.receive("register")).toMatchObject({ resume: [{ job_id: job.job_id, attempt: 1 }] });
    second.acknowledgeRegistration();
    expect(await second.receive("job_complete")).toEqual(complete);
  });

  it.skipIf(process.platform === "win32")("[WS6, WS10] the machine stands still for longer than a link may be silent: the same", async () => {
    const coordinator = await FakeCoordinator.start();
    const worker = WorkerProcess.quick(coordinator.url, temporaryFolder());
    const { worker: first } = await coordinator.registered();
    const job = first.assign();
    const complete = await first.receive("job_complete", "job_ack");
    worker.kill("SIGSTOP");
    // The experiment itself: a laptop that is shut for 3 s, where 2 s of silence are too many.
    await delay(3_000);
    worker.kill("SIGCONT");
    const { worker: second, register } = await coordinator.registered();
    expect(register).toMatchObject({ resume: [{ job_id: job.job_id, attempt: 1 }] });
    expect(await second.receive("job_complete")).toEqual(complete);
    second.assign();
    await second.receive("job_complete", "job_ack");
  });

  it("[WS10] the coordinator is killed and started again: the worker tries until it answers", async () => {
    const coordinator = await FakeCoordinator.start();
    const worker = WorkerProcess.quick(coordinator.url, temporaryFolder());
    const { worker: first } = await coordinator.registered();
    await coordinator.stop();
    await first.closed;
    expect(await worker.says("offline")).toMatchObject({ code: 1006 });
    expect(await worker.says("offline")).toMatchObject({ code: 1006 });
    await coordinator.restart();
    const { worker: second } = await coordinator.registered();
    second.assign();
    await second.receive("job_complete", "job_ack");
  });
});
