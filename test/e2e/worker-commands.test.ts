import { describe, expect, it } from "vitest";
import { ComputeRouter } from "../../src/sdk/index.ts";
import { launchCoordinator, shareCoordinator, temporaryFolder } from "../support/coordinator.ts";
import { startProgram } from "../support/program.ts";
import { until } from "../support/until.ts";
import { runHere } from "../unit/worker/support/cli-here.ts";

describe("a desktop worker for both instances", () => {
  it("init, doctor, start, jobs on both, status, metrics, pair, SIGTERM: as an owner goes through it", async () => {
    const [evm, svm] = await Promise.all([shareCoordinator("evm"), launchCoordinator("svm")]);
    const place = ["--config-dir", temporaryFolder("commands")];

    const init = await runHere(["worker", "init", "--url", evm.url, "--url", svm.url, "--runtime", "embedded", "--name", "box", ...place]);
    expect(init).toMatchObject({ code: 0, stderr: "" });

    const doctor = await runHere(["worker", "doctor", ...place]);
    expect(doctor).toMatchObject({ code: 0, stderr: "" });
    expect(doctor.stdout).toMatch(/^✓ LLM +tiny-chat-q8_0 by embedded$/m);
    expect(doctor.stdout).toMatch(/^✓ answer +a trial prompt took \d+ ms, \d+ tok\/s, its receipt is valid$/m);
    expect(doctor.stdout.match(/^✓ socket /gm)).toHaveLength(2);
    expect(doctor.stdout).not.toContain("✗");

    const worker = startProgram(["worker", "start", "--metrics", "0", "--json", ...place]);
    await until(
      "both registrations",
      () => (worker.notes("online").length === 2 ? true : undefined),
      () => worker.text(),
    );
    await until(
      "an LLM",
      () => worker.notes("runtime_ready")[0],
      () => worker.text(),
    );
    const metrics = /http:\S+/.exec(String((await until("metrics", () => worker.notes("info")[0]))["message"]))?.[0] ?? "";

    // The doctor may come while it works: it does not register, which would replace the worker.
    expect(await runHere(["worker", "doctor", "--tasks-only", ...place])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^✓ running +yes/m) });
    expect([worker.notes("offline"), worker.notes("stopped"), worker.notes("connecting").length]).toEqual([[], [], 2]);

    // All at once: what the one LLM cannot do at once is done in turn.
    const clients = [evm, svm].map(({ url }) => new ComputeRouter({ baseUrl: url, pollInterval: 100 }));
    const runs = clients.flatMap((client) => [
      client.run({ job_type: "LLM_INFER", prompt: "What is the capital of France?" }),
      client.run({ job_type: "TASK", task_type: "classify", input: "What a wonderful day" }),
    ]);
    for (const run of await Promise.all(runs)) expect(run.verified).toBe(true);

    const page = await (await fetch(metrics)).text();
    for (const { url } of [evm, svm]) {
      const { host } = new URL(url);
      for (const type of ["LLM_INFER", "TASK"]) expect(page).toContain(`jobs_total{coordinator="${host}",type="${type}",outcome="completed"} 1\n`);
    }
    await expect.poll(async () => (await runHere(["worker", "status", ...place])).stdout.match(/jobs 2 done, 0 failed/g)?.length, { timeout: 10_000 }).toBe(2);

    const words = String(worker.notes("starting")[0]?.["fingerprint"]);
    expect((await runHere(["worker", "status", ...place])).stdout).toContain(`\n  ${words}\n`);

    // The code is one instance's: the worker finds out whose.
    const owner = clients[1];
    if (owner === undefined) throw new Error("no client");
    const { pairing_code } = await owner.trust.create();
    const paired = await runHere(["worker", "pair", pairing_code, ...place]);
    expect(paired).toMatchObject({ code: 0, stdout: expect.stringContaining(`paired at ${new URL(svm.url).host}: worker ${words} `) });
    const result = await owner.run({ job_type: "TASK", task_type: "classify", input: "private" }, { privacy: "PRIVATE" });
    expect(result.verified).toBe(true);
    expect(await runHere(["worker", "pair", "000000", ...place])).toMatchObject({ code: 5, stderr: expect.stringContaining("invalid_code") });
    expect(await runHere(["worker", "pair", pairing_code, ...place])).toMatchObject({ code: 5, stderr: expect.stringContaining("already_claimed") });

    expect(await worker.stop()).toBe(0);
    expect((await runHere(["worker", "status", ...place])).code).toBe(9);
  });
});
