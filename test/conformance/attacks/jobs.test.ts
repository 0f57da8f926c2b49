import { beforeAll, describe, expect, test } from "vitest";
import { type Fields, llm, newUser, task } from "../support/api.ts";
import { sql, start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { within } from "../support/wait.ts";
import { fullWorker, unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
let svm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };
const UNKNOWN = "11111111-2222-4333-8444-555555555555";
const SQL = "x'); DROP TABLE jobs; -- \" ; SELECT json_extract('$.a') %s ?1 :a @b $c \\ `";

beforeAll(async () => {
  [evm, svm] = await Promise.all([start("evm"), start("svm")]);
});

describe("hostile workers", () => {
  test("[JB4, JB5] a job whose workers all crash ends after three attempts, and the three workers continue", async () => {
    const workers = await Promise.all([1, 2, 3, 4].map(() => fullWorker(evm.socketUrl)));
    const user = newUser();
    await evm.api.pair(user, ...workers);
    const poison = await evm.api.commit(task(user, "poison", PRIVATE));
    const died = new Set<WorkerSocket>();
    for (const worker of workers)
      void worker.assigned(poison, 20_000).then(
        (assign) => (died.add(worker), worker.fail(assign, true, "segmentation fault")),
        () => {},
      );
    expect(await evm.api.ended(poison, 20_000)).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null, completed_at: null });
    expect(died.size).toBe(3);
    const ids = await Promise.all(workers.map(() => evm.api.commit(task(user, "good", PRIVATE))));
    for (const worker of workers) {
      const assign = await worker.frame((frame) => frame.type === "job_assign" && ids.includes(String(frame.job_id)));
      expect((await worker.complete(String(assign.job_id), OUTPUT)).status).toBe("accepted");
    }
  });

  test("[JB2, JB4] one that takes and drops job after job costs others nothing: each job goes on at once", async () => {
    const identity = newIdentity();
    const user = newUser();
    const honest = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, honest, identity.pubkey);
    for (let round = 0; round < 5; round += 1) {
      const mark = honest.frames.length;
      const flapper = await fullWorker(evm.socketUrl, { resume: [] }, identity);
      const ids = [await evm.api.commit(task(user, "a", PRIVATE)), await evm.api.commit(task(user, "b", PRIVATE))];
      const taken = await flapper.frame("job_assign");
      flapper.send({ type: "job_reject", job_id: taken.job_id, reason: "r".repeat(500_000) });
      await flapper.settled();
      flapper.close();
      for (let done = 0, from = mark; done < ids.length; done += 1) {
        const assign = await honest.frame((frame) => frame.type === "job_assign", { from, ms: 4_000 });
        from = honest.frames.indexOf(assign) + 1;
        expect((await honest.complete(String(assign.job_id), OUTPUT)).status).toBe("accepted");
      }
      for (const id of ids) expect((await evm.api.job(id)).status).toBe("completed");
    }
  });

  test("[JB5] a megabyte of failure message reaches the seeker as 500 characters without terminal control codes", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    const assign = await worker.assigned(id);
    const words = "\u001b[2J said ".repeat(30_000);
    worker.send({ type: "job_failed", job_id: id, attempt: assign.attempt, error: words, message: words, retryable: false });
    const { text } = await evm.api.get(`/v1/jobs/${id}?wait=5`);
    expect(text).not.toContain("\\u001b");
    expect(JSON.parse(text)).toMatchObject({ status: "failed", result: { error: "worker_error", message: "[2J said ".repeat(60).slice(0, 500) } });
  });

  test("[WS7, WS10] forty registrations of one key, one after the other, leave one worker, which works", { timeout: 60_000 }, async () => {
    const identity = newIdentity();
    const before = Number((await evm.api.get("/v1/health")).body.workers_online);
    for (let each = 0; each < 40; each += 1) {
      const worker = await WorkerSocket.open(evm.socketUrl, identity);
      await worker.registerSigned();
      if (each % 2 === 0) worker.close();
    }
    const last = await fullWorker(evm.socketUrl, {}, identity);
    await within(
      5_000,
      async () => (Number((await evm.api.get("/v1/health")).body.workers_online) <= before + 1 ? true : undefined),
      () => "one worker of that key",
    );
    const user = newUser();
    await evm.api.pair(user, last);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    await last.assigned(id);
    expect((await last.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS3, WS10] ninety keys that nobody has seen register in a burst, and an old worker is served in between", { timeout: 60_000 }, async () => {
    const honest = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, honest);
    const crowd = (async () => {
      for (let batch = 0; batch < 3; batch += 1) {
        const sockets = await Promise.all(Array.from({ length: 30 }, () => WorkerSocket.open(evm.socketUrl)));
        await Promise.all(sockets.map((socket) => socket.registerSigned({ capabilities: [] })));
        for (const socket of sockets) socket.close();
      }
    })();
    for (let each = 0; each < 10; each += 1) {
      const id = await evm.api.commit(task(user, "x", PRIVATE));
      await honest.assigned(id, 5_000);
      expect((await honest.complete(id, OUTPUT)).status).toBe("accepted");
    }
    await crowd;
  });
});

describe("hostile seekers", () => {
  test("[WS8, API5] SQL in any text is only text: stored, forwarded and returned unchanged", async () => {
    const user = `${SQL} ${newUser()}`.slice(0, 128);
    const worker = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, worker);
    const body = task(user, SQL, { ...PRIVATE, payload: { task_type: "classify", input: SQL, [SQL]: [SQL] } });
    const id = await evm.api.commit(body, "cheap", { "idempotency-key": SQL });
    expect(await evm.api.commit(body, "cheap", { "idempotency-key": SQL })).toBe(id);
    const assign = await worker.assigned(id);
    expect(assign.payload).toEqual({ job_type: "TASK", task_type: "classify", input: SQL, [SQL]: [SQL] });
    expect((await worker.complete(id, { [SQL]: SQL })).status).toBe("accepted");
    await within(
      10_000,
      async () => ((await evm.api.job(id)).status === "completed" ? true : undefined),
      () => "the job",
    );
    expect((await evm.api.job(id)).result).toEqual({ [SQL]: SQL });
    const list = await evm.api.get(`/v1/trust/list?user_id=${encodeURIComponent(user)}`);
    expect(list.body.providers).toHaveLength(1);
    expect((await evm.api.get(`/v1/trust/list?user_id=${encodeURIComponent("' OR 1=1 --")}`)).body.providers).toEqual([]);
  });

  test("[TR1] e with an accent in one letter and in two are two users, and so are other look-alikes", async () => {
    const suffix = newUser();
    const ids = [
      `\u00e9${suffix}`,
      `e\u0301${suffix}`,
      `E\u0301${suffix}`,
      ` ${suffix}`,
      `${suffix} `,
      suffix,
      suffix.toUpperCase(),
      `\u200b${suffix}`,
      `\uff55${suffix}`,
    ];
    const worker = newIdentity().pubkey;
    await evm.api.pair(String(ids[0]), worker);
    for (const [index, id] of ids.entries()) {
      const { providers } = (await evm.api.get(`/v1/trust/list?user_id=${encodeURIComponent(id)}`)).body;
      expect(providers, JSON.stringify(id)).toHaveLength(index === 0 ? 1 : 0);
    }
  });

  test("[API1] an unknown id, an id of the other instance and a malformed id get the same answer, byte for byte", async () => {
    const foreign = await svm.api.commit(task(newUser()));
    const asked = await Promise.all([UNKNOWN, foreign, "x", `${foreign}0`, `${foreign.slice(0, -1)}g`].map((id) => evm.api.get(`/v1/jobs/${id}`)));
    const seen = asked.map(({ status, text, headers }) => JSON.stringify([status, text, [...headers.keys()].toSorted()]));
    expect(new Set(seen).size).toBe(1);
    expect(asked[0]).toMatchObject({ status: 404, body: { error: "Job not found" } });
    for (const id of ["jobs", "?user_id=x", "*"]) expect((await evm.api.get(`/v1/jobs/${id}`)).status, id).toBe(404);
  });

  test("[TR1, JB8] the worker of a stranger gets no PRIVATE job of a user whose id the stranger does not know", async () => {
    const stranger = await unsignedWorker(evm.socketUrl);
    await evm.api.pair(newUser(), stranger);
    const user = newUser();
    const mine = await unsignedWorker(evm.socketUrl);
    await evm.api.pair(user, mine);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    await mine.assigned(id);
    const from = mine.frames.length;
    mine.send({ type: "job_reject", job_id: id, reason: "busy" });
    await mine.settled();
    await stranger.settled();
    expect(stranger.had(id)).toBe(false);
    await mine.frame((frame: Fields) => frame.type === "job_assign" && frame.job_id === id, { from, ms: 8_000 });
    expect((await mine.complete(id, OUTPUT)).status).toBe("accepted");
    expect(stranger.had(id)).toBe(false);
  });

  test("[TR1] everyone who knows a user_id can pair a worker with it, as SECURITY.md says; the list shows it", async () => {
    const user = newUser();
    const spy = await unsignedWorker(evm.socketUrl);
    await evm.api.pair(user, spy);
    const id = await evm.api.commit(task(user, "secret", PRIVATE));
    expect((await spy.assigned(id)).payload).toMatchObject({ input: "secret" });
    expect((await evm.api.get(`/v1/trust/list?user_id=${user}`)).body.providers).toMatchObject([{ provider_pubkey: spy.pubkey }]);
    await spy.complete(id, OUTPUT);
  });

  test("[API4] a code at its last millisecond, used, in lower case and beside its letters", async () => {
    const user = newUser();
    const claim = (pairing_code: unknown) => evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: newIdentity().pubkey });
    const code = String((await evm.api.post("/v1/trust/create", { user_id: user })).body.pairing_code);
    sql(evm, `UPDATE pairings SET expires_at = ${Date.now()} WHERE pairing_code = '${code}' AND claimed = 0`);
    expect((await claim(code)).body).toEqual({ error: "expired" });
    const fresh = String((await evm.api.post("/v1/trust/create", { user_id: user })).body.pairing_code);
    for (const near of [
      `${fresh} `,
      ` ${fresh}`,
      `${fresh}\n`,
      `0x${fresh}`,
      fresh.slice(1),
      `${fresh}0`,
      "%",
      "______",
      "\uff21\uff22\uff23\uff24\uff25\uff26",
      "ſſſſſſ",
    ])
      expect((await claim(near)).body, JSON.stringify(near)).toEqual({ error: "invalid_code" });
    expect((await claim(fresh.toLowerCase())).status).toBe(200);
    expect((await claim(fresh)).body).toEqual({ error: "already_claimed" });
  });

  test("[API5, LM1] five hundred idempotency keys are five hundred jobs of one user, and the first still answers", { timeout: 60_000 }, async () => {
    // This is the last test of the file, because every later worker would get its waiting jobs.
    const user = newUser();
    const commit = (index: number) => evm.api.commit(llm(user), "cheap", { "idempotency-key": `${index}`.padEnd(255, "k") });
    const first = await commit(0);
    const ids = new Set([first]);
    for (let batch = 0; batch < 25; batch += 1)
      for (const id of await Promise.all(Array.from({ length: 20 }, (_, index) => commit(1 + batch * 20 + index)))) ids.add(id);
    expect(ids.size).toBe(501);
    expect(await commit(0)).toBe(first);
    expect((await evm.api.tryCommit(llm(user), "cheap", { "idempotency-key": "k".repeat(256) })).status).toBe(400);
  });
});
