import { beforeAll, describe, expect, test } from "vitest";
import { ISO, llm, newUser, task, UUID } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { fullWorker, unsignedWorker } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  evm = await share();
});

async function refused(body: object): Promise<void> {
  for (const tier of ["fast", "cheap"] as const) {
    const answer = await evm.api.tryCommit(body, tier);
    expect(answer.status).toBe(422);
    expect(answer.body).toEqual({ error: "no_trusted_worker", job_id: expect.stringMatching(UUID) });
    const polled = await evm.api.get(`/v1/jobs/${String(answer.body.job_id)}`);
    expect(polled.status).toBe(200);
    expect(polled.body).toEqual({
      id: answer.body.job_id,
      status: "failed",
      result: { error: "no_trusted_worker" },
      receipt: null,
      created_at: expect.stringMatching(ISO),
      completed_at: null,
    });
  }
}

describe("PRIVATE jobs", () => {
  test("[JB8, SPEC] without any pairing: 422, and the refused job can be polled as failed", async () => {
    await unsignedWorker(evm.socketUrl);
    await refused(task(newUser(), "x", PRIVATE));
  });

  test("[JB8] a paired worker that is not connected: 422", async () => {
    const user = newUser();
    await evm.api.pair(user, newIdentity().pubkey);
    await refused(task(user, "x", PRIVATE));
  });

  test("[JB8] a paired worker that left: 422", async () => {
    const user = newUser();
    const worker = await unsignedWorker(evm.socketUrl);
    await evm.api.pair(user, worker);
    worker.close();
    await worker.ended();
    await refused(task(user, "x", PRIVATE));
  });

  test("[JB8] a paired worker without the capability: 422", async () => {
    const user = newUser();
    await evm.api.pair(user, await unsignedWorker(evm.socketUrl, { provider_type: "MOBILE" }), await unsignedWorker(evm.socketUrl, { capabilities: ["TASK"] }));
    await refused(llm(user, "x", PRIVATE));
  });

  test("[JB8, WS5] the pairing may come before the worker's first connection, which may be unsigned", async () => {
    const user = newUser();
    const identity = newIdentity();
    await evm.api.pair(user, identity.pubkey);
    const worker = await unsignedWorker(evm.socketUrl, {}, identity);
    const id = await evm.api.commit(task(user, "x", PRIVATE), "fast");
    await worker.assigned(id);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
    expect((await evm.api.ended(id)).status).toBe("completed");
  });

  test("[JB8, JB2] connected but busy: 201, and the job runs as soon as the worker is free", async () => {
    const user = newUser();
    const worker = await unsignedWorker(evm.socketUrl);
    await evm.api.pair(user, worker);
    const ids: string[] = [];
    for (let each = 0; each < 4; each += 1) ids.push(await evm.api.commit(task(user, `x${each}`, PRIVATE)));
    for (const [index, id] of ids.entries()) {
      await worker.assigned(id, 1_500);
      const next = ids[index + 1];
      if (next !== undefined) {
        expect(worker.had(next)).toBe(false);
        expect(await evm.api.job(next)).toMatchObject({ status: "pending", result: null });
      }
      await worker.complete(id, OUTPUT);
    }
  });

  test("[SPEC] a PRIVATE job goes to no one but the user's own workers, a PUBLIC one to anybody", async () => {
    const user = newUser();
    const paired = await fullWorker(evm.socketUrl);
    const strangers = await Promise.all([1, 2, 3].map(() => unsignedWorker(evm.socketUrl)));
    await evm.api.pair(user, paired);
    await evm.api.pair(newUser(), ...strangers);
    for (let each = 0; each < 6; each += 1) {
      const id = await evm.api.commit(task(user, `x${each}`, PRIVATE));
      paired.ack(await paired.assigned(id));
      expect((await paired.complete(id, OUTPUT)).status).toBe("accepted");
      for (const stranger of strangers) {
        await stranger.settled();
        expect(stranger.had(id)).toBe(false);
      }
    }
    const open = await evm.api.commit(task(newUser(), "for anybody"));
    const assigned = await evm.api.until(open, (job) => job.status !== "pending");
    const holder = [paired, ...strangers].find((worker) => worker.had(open));
    expect(assigned.result).toBeNull();
    expect(holder).toBeDefined();
    await holder?.complete(open, OUTPUT);
  });

  test("[SPEC] one worker may serve several users, and one user have several workers", async () => {
    const [one, two] = [await unsignedWorker(evm.socketUrl), await unsignedWorker(evm.socketUrl)];
    const [alice, bob] = [newUser(), newUser()];
    await evm.api.pair(alice, one, two);
    await evm.api.pair(bob, one);
    const first = await evm.api.commit(task(bob, "x", PRIVATE));
    await one.assigned(first);
    const second = await evm.api.commit(task(alice, "x", PRIVATE));
    await two.assigned(second);
    await one.complete(first, OUTPUT);
    await two.complete(second, OUTPUT);
  });
});
