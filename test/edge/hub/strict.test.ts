import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { TestHub, withSettings } from "../support/worker-hub.ts";
import { newKey, type TestWorker } from "../support/worker.ts";

withSettings({ RECEIPT_POLICY: "strict" });

const OUTPUT = { summary: "s", word_count: 1 };

/** Lets a worker send invalid receipts for several jobs, one after the other. The jobs stay waiting. */
async function strikes(hub: TestHub, worker: TestWorker, count: number = LIMITS.strikes): Promise<void> {
  for (let strike = 0; strike < count; strike++) {
    await hub.commit();
    const job = await worker.assigned();
    if (strike === 1) await hub.evict();
    expect((await worker.complete(job, OUTPUT, { receipt: null })).error).toBe("invalid_receipt");
  }
}

describe("RECEIPT_POLICY=strict", () => {
  test("[RC3] [RC4] [WS10] an invalid receipt: the worker is told the failed check, the job goes to another worker, and the other receipt is stored", async () => {
    const hub = new TestHub();
    const [bad, good] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    const ack = { type: "job_complete_ack", job_id: id, status: "rejected", error: "invalid_receipt", message: expect.stringMatching(/^missing: receipt, /) };
    expect(await bad.complete(await bad.assigned(), OUTPUT, { receipt: null })).toEqual(ack);
    const second = await good.assigned();
    expect(second).toMatchObject({ job_id: id, attempt: 2 });
    expect((await good.complete(second, OUTPUT)).status).toBe("accepted");
    expect((await hub.job(id)).receipt?.provider_pubkey).toBe(good.key.publicKey);
  });

  test.each([
    [
      "by its task type",
      "UPDATE jobs SET rev = rev",
      { summary: "s", word_count: 1 },
      "shape: expected an object with a string sentiment and a number confidence from 0 to 1",
    ],
    ["as any object, where the task type is lost", "UPDATE jobs SET task_type = NULL", "s", "shape: expected an object"],
  ])("[RC6] after the hub lost its memory the shape is checked %s", async (_, damage, wrong, message) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit("cheap", { payload: { task_type: "classify", input: "i" } });
    const job = await worker.assigned();
    await worker.quiet();
    await hub.sql(damage);
    await hub.evict();
    expect((await worker.complete(job, wrong)).message).toBe(message);
    expect((await worker.complete(job, { sentiment: "s", confidence: 0 })).status).toBe("accepted");
  });

  test("[RC4] [WS4] three strikes park the key, but no other key: 4003 with the seconds, 60 s, then twice as long, even if the hub lost its memory", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const key = newKey();
    for (const seconds of [60, 120]) {
      const worker = await hub.worker({ key });
      await strikes(hub, worker);
      expect(await worker.next("error")).toEqual({ type: "error", code: "parked", message: expect.stringContaining(`${seconds} s`), retry_after_s: seconds });
      expect(await worker.closed()).toBe(4003);
      const again = await hub.connect(key);
      again.send(again.registration());
      expect(await again.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "parked", retry_after_s: seconds });
      expect(await again.closed()).toBe(4003);
      const other = await hub.worker();
      for (let each = 0; each < LIMITS.strikes; each++) await other.complete(await other.assigned(), OUTPUT);
      other.close();
      await hub.online(0);
      hub.skip(seconds * 1_000 - 1);
      const early = await hub.connect(key);
      early.send(early.registration());
      expect(await early.next("register_ack")).toMatchObject({ error: "parked", retry_after_s: 1 });
      hub.skip(1);
    }
    await hub.worker({ key });
  });

  test("[RC4] one job gives one strike, however often its bad result comes and whatever restarts in between", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    for (let times = 0; times < 2 * LIMITS.strikes; times++) {
      if (times === 2) await hub.evict();
      expect((await worker.complete(job, OUTPUT, { receipt: null })).error).toBe("invalid_receipt");
    }
    expect(await hub.sql("SELECT strikes, parks FROM keys")).toEqual([{ strikes: 1, parks: 0 }]);
    expect((await worker.complete(job, OUTPUT)).status).toBe("accepted");
    expect(await hub.sql("SELECT strikes, parks FROM keys")).toEqual([{ strikes: 0, parks: 0 }]);
  });

  test("[JB11] after three completions for three users a signed key is proven, also after a loss of memory or on a new socket", async () => {
    const hub = new TestHub();
    const key = newKey();
    const proven = await hub.worker({ key, signed: true });
    for (const user of ["ann", "ann", "bob", "cyd"]) {
      await hub.commit("cheap", { user_id: user });
      await proven.complete(await proven.assigned(), OUTPUT);
    }
    expect(await hub.sql("SELECT completed, users, failed FROM keys")).toEqual([{ completed: 3, users: "", failed: 0 }]);
    const newcomer = await hub.worker({ signed: true });
    /** Runs a job on the worker whose turn it is: the id of the job says whether that is the newcomer. */
    const turn = async (other: TestWorker) => {
      const id = await hub.commit();
      const holder = Number.parseInt(id.slice(0, 2), 16) % 5 === 0 ? newcomer : other;
      const job = await holder.assigned();
      expect(job.job_id).toBe(id);
      await holder.complete(job, OUTPUT);
    };
    await turn(proven);
    await hub.evict();
    await turn(proven);
    proven.close();
    await hub.online(1);
    await turn(await hub.worker({ key, signed: true }));
  });

  test("[RC4] [WS4] a worker that is parked cannot register again in the same turn", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await strikes(hub, worker, LIMITS.strikes - 1);
    await hub.commit();
    const job = await worker.assigned();
    const again = await hub.connect(worker.key);
    const bad = { from: worker, frame: worker.completion(job, OUTPUT, { receipt: null }) };
    await hub.together(bad, { from: again, frame: again.registration() });
    expect(await again.next("register_ack")).toMatchObject({ error: "parked", retry_after_s: 60 });
    expect(await hub.workersOnline()).toBe(0);
  });

  test("[RC4] [WS12] results of jobs that a key never held are strikes too", async () => {
    const hub = new TestHub();
    const stranger = await hub.worker({ capabilities: [] });
    const ids: string[] = [];
    for (let strike = 0; strike < LIMITS.strikes; strike++) {
      ids.push(await hub.commit());
      expect((await stranger.complete({ job_id: ids[strike] ?? "", attempt: 1 })).error).toBe("not_assigned");
    }
    expect(await stranger.ended()).toBe(4003);
    for (const id of ids) expect((await hub.job(id)).status).toBe("pending");
  });

  test("[RC4] a repeated bad result of an earlier attempt does not end the present one", async () => {
    const hub = new TestHub();
    const [one, two] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    const bad = { ...one.completion(await one.assigned(), OUTPUT), receipt: null };
    for (let times = 0; times < 2; times++) {
      one.send(bad);
      expect((await one.next("job_complete_ack")).error).toBe("invalid_receipt");
    }
    const second = await two.assigned();
    await two.quiet();
    expect((await two.complete(second, OUTPUT)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
  });
});
