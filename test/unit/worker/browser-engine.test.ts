import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { isoTime } from "../../../src/protocol/text.ts";
import { CLOSE, pairText, registerText } from "../../../src/protocol/worker-messages.ts";
import { fingerprintWords, keyPair, verifyText } from "../../../src/receipt/ed25519.ts";

import { History, type JobRecord, receiptOf } from "../../../src/worker/browser/history.ts";
import { isKeyOf, openIdentity, verifyOwn } from "../../../src/worker/browser/identity.ts";
import { HISTORY_JOBS } from "../../../src/worker/browser/kept-store.ts";
import { claimCode, PAIRINGS, readPairings } from "../../../src/worker/browser/pairing.ts";
import { BrowserWorker, IndexedShelf } from "../../../src/worker/browser/browser-worker.ts";

import { type KeptResult, SESSION_TIMING, type SessionNote } from "../../../src/worker/session/state.ts";
import type { Socket } from "../../../src/worker/session/session.ts";
import { until } from "../../support/until.ts";
import { FakeCoordinator } from "./support/fake-coordinator.ts";
import { seal, seedSigner } from "../../../src/worker/session/executor.ts";

const SIGNER = seedSigner(keyPair(new Uint8Array(32).fill(9)));
const TEXT = registerText({ network: "n", host: "h", nonce: "00", pubkey: SIGNER.publicKey });
const fail = (cause: unknown) => expect.fail(String(cause));

/** What IndexedDB does, in memory: a copy in, a copy out. `refuses` says what it cannot store. */
class MemoryDatabase {
  readonly stores = new Map<string, Map<string, unknown>>();
  readonly #refuses: (value: unknown) => boolean;

  constructor(refuses: (value: unknown) => boolean = () => false) {
    this.#refuses = refuses;
  }

  get(store: string, key: string): Promise<unknown> {
    return Promise.resolve(this.stores.get(store)?.get(key));
  }

  all(store: string): Promise<unknown[]> {
    return Promise.resolve([...(this.stores.get(store) ?? new Map<string, unknown>()).values()]);
  }

  change(store: string, puts: readonly (readonly [string, unknown])[], deletes: readonly string[] = []): Promise<void> {
    if (puts.some(([, value]) => this.#refuses(value))) return Promise.reject(new DOMException("cannot be cloned", "DataCloneError"));
    const values = this.stores.get(store) ?? new Map<string, unknown>();
    for (const key of deletes) values.delete(key);
    for (const [key, value] of puts) values.set(key, value);
    this.stores.set(store, values);
    return Promise.resolve();
  }
}

afterEach(() => vi.unstubAllGlobals());

describe("the key of a browser's worker", () => {
  it("[WS3] is a key of the browser's WebCrypto if it supports Ed25519, and its signatures verify", async () => {
    const database = new MemoryDatabase();
    const { identity, signer } = await openIdentity(database);
    expect(identity).toEqual({ publicKey: signer.publicKey, words: fingerprintWords(signer.publicKey), custody: "locked", kept: true });
    expect(verifyText(TEXT, await signer.sign(TEXT), signer.publicKey)).toBe(true);
    const stored = (await database.get("values", "key")) as CryptoKeyPair;
    expect(stored.privateKey.extractable).toBe(false);
    expect((await openIdentity(database)).identity.publicKey).toBe(signer.publicKey);
  });

  it.each([
    ["no WebCrypto, as on plain http", () => vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) }), new MemoryDatabase()],
    [
      "WebCrypto without Ed25519",
      () =>
        vi.stubGlobal("crypto", {
          getRandomValues: crypto.getRandomValues.bind(crypto),
          subtle: { generateKey: () => Promise.reject(new DOMException("", "NotSupportedError")) },
        }),
      new MemoryDatabase(),
    ],
    ["storage that takes no CryptoKey", () => {}, new MemoryDatabase((value) => !(value instanceof Uint8Array))],
  ])("[WS3] is a seed in the storage with %s, and the report says so", async (_, spoil, database) => {
    spoil();
    const { identity, signer } = await openIdentity(database);
    expect(identity).toMatchObject({ custody: "stored", kept: true });
    expect(verifyText(TEXT, await signer.sign(TEXT), signer.publicKey)).toBe(true);
    expect((await openIdentity(database)).identity.publicKey).toBe(identity.publicKey);
  });

  it("lives only as long as the tab if nothing can be stored, and the report says so", async () => {
    const refusing = new MemoryDatabase(() => true);
    expect((await openIdentity(refusing)).identity.kept).toBe(false);
  });
});

describe("a key in the storage", () => {
  it("of another tab counts, if that tab was first", async () => {
    const database = new MemoryDatabase();
    const seed = new Uint8Array(32).fill(9);
    const late = { get: (store: string, key: string) => database.get(store, key), change: () => database.change("values", [["key", seed]]) };
    expect((await openIdentity(late)).identity.publicKey).toBe(SIGNER.publicKey);
    expect([await isKeyOf(seed, SIGNER.publicKey), await isKeyOf(new Uint8Array(32).fill(8), SIGNER.publicKey)]).toEqual([true, false]);
  });

  it("that is none is replaced", async () => {
    const database = new MemoryDatabase();
    await database.change("values", [["key", new Uint8Array(31)]]);
    expect((await openIdentity(database)).identity).toMatchObject({ custody: "locked", kept: true });
  });

  it.each(["with Ed25519", "without it"])("its signatures are checked by a browser %s", async (browser) => {
    if (browser === "without it") vi.spyOn(crypto.subtle, "importKey").mockRejectedValue(new DOMException("", "NotSupportedError"));
    onTestFinished(() => void vi.restoreAllMocks());
    const signature = await SIGNER.sign(TEXT);
    const verdicts = [verifyOwn(TEXT, signature, SIGNER.publicKey), verifyOwn(`${TEXT}x`, signature, SIGNER.publicKey), verifyOwn(TEXT, "x", SIGNER.publicKey)];
    expect(await Promise.all(verdicts)).toEqual([true, false, false]);
  });
});

async function kept(jobId: string, completedAt = Date.now()): Promise<KeptResult> {
  const sealed = await seal(SIGNER, { jobId, attempt: 1 }, { sentiment: "positive", confidence: 1 }, isoTime(completedAt));
  return sealed.ok ? { jobId, attempt: 1, frame: sealed.frame, completedAt } : expect.unreachable();
}

describe("finished results", () => {
  it("[WS10] are kept after the page is closed, until they are acknowledged", async () => {
    const database = new MemoryDatabase();
    const saved: string[] = [];
    const hooks = { onSave: (fresh: readonly KeptResult[]) => saved.push(...fresh.map(({ jobId }) => jobId)), onFailure: fail };
    const shelf = await IndexedShelf.open(database, hooks);
    const [one, two] = [await kept("one", 1), await kept("two", 2)];
    shelf.save([one]);
    shelf.save([one, two]);
    expect(saved).toEqual(["one", "two"]);
    expect((await IndexedShelf.open(database, hooks)).load()).toEqual([one, two]);
    shelf.save([two]);
    expect((await IndexedShelf.open(database, hooks)).load()).toEqual([two]);
  });

  it("are in the order of their end, whatever the order of the storage is", async () => {
    const database = new MemoryDatabase();
    const [late, early] = [await kept("a", 2), await kept("b", 1)];
    await database.change("results", [
      ["a 1", late],
      ["b 1", early],
    ]);
    expect((await IndexedShelf.open(database, { onSave: () => {}, onFailure: fail })).load()).toEqual([early, late]);
  });

  it("that are invalid in the storage are ignored", async () => {
    const database = new MemoryDatabase();
    await database.change("results", [
      ["x", { jobId: 5 }],
      ["y", null],
    ]);
    expect((await IndexedShelf.open(database, { onSave: () => {}, onFailure: fail })).load()).toEqual([]);
  });

  it("that could not be stored are reported", async () => {
    const failures: unknown[] = [];
    const shelf = await IndexedShelf.open(new MemoryDatabase(() => true), { onSave: () => {}, onFailure: (cause) => failures.push(cause) });
    shelf.save([await kept("one")]);
    await vi.waitFor(() => expect(failures).toHaveLength(1));
    expect(shelf.load()).toHaveLength(1);
  });
});

/** A socket that never opens. */
class DeafSocket implements Socket {
  send(): void {}
  close(): void {}
  addEventListener(): void {}
}

describe("finished results of a page that does not work", () => {
  /** A worker with these results of an earlier page, in the storage and in the history. */
  async function resting(...completedAt: number[]) {
    const database = new MemoryDatabase();
    const results = await Promise.all(completedAt.map((at, i) => kept(`job-${i + 1}`, at)));
    await database.change(
      "results",
      results.map((result) => [`${result.jobId} 1`, result]),
    );
    const notes: SessionNote[] = [];
    const history = await History.open({ database, verify: verifyOwn, onRecord: () => {}, onFailure: fail });
    for (const { jobId } of results) history.begin({ jobId, attempt: 1, taskType: "classify", startedAt: 1 });
    const shelf = await IndexedShelf.open(database, { onSave: () => {}, onFailure: fail });
    const fixed = { url: "ws://127.0.0.1:9/", WebSocket: DeafSocket, signer: SIGNER, task: () => ({}), version: "1", onReport: () => {} };
    const worker = new BrowserWorker({ ...fixed, shelf, history, onNote: (note) => notes.push(note) });
    onTestFinished(() => worker.stop());
    return { worker, history, database, dropped: () => notes.filter(({ type }) => type === "result_dropped") };
  }
  const EXPIRED = { type: "result_dropped", job_id: "job-1", attempt: 1, reason: "expired" };

  it("[RC3] are dropped at the next visit if they are too old to be accepted, and the page says so", async () => {
    const { worker, history, database, dropped } = await resting(Date.now() - SESSION_TIMING.keepFor, Date.now());
    expect(worker.report.unacknowledged).toBe(1);
    expect(dropped()).toEqual([EXPIRED]);
    expect(history.records.map(({ jobId, outcome, error }) => [jobId, outcome, error])).toEqual([
      ["job-2", "waiting", null],
      ["job-1", "dropped", "expired"],
    ]);
    expect(await database.all("results")).toMatchObject([{ jobId: "job-2" }]);
  });

  it("[RC3] are dropped when they become too old, also after the work was stopped", async () => {
    const { worker, dropped } = await resting(Date.now() - SESSION_TIMING.keepFor + 500);
    worker.work();
    worker.stop();
    await until("it is dropped", () => (worker.report.unacknowledged === 0 ? true : undefined), undefined, 10_000);
    expect(dropped()).toEqual([EXPIRED]);
  });
});

describe("a stretch of work", () => {
  /** A worker of this coordinator, and how often it has dialled. */
  async function working(WebSocketHere: new (url: string) => Socket = WebSocket, url = "ws://127.0.0.1:9/", change: Partial<History> = {}) {
    const database = new MemoryDatabase();
    const notes: SessionNote[] = [];
    const history = await History.open({ database, verify: verifyOwn, onRecord: () => {}, onFailure: fail });
    const shelf = await IndexedShelf.open(database, { onSave: () => {}, onFailure: fail });
    const fixed = { url, WebSocket: WebSocketHere, signer: SIGNER, task: () => ({}), version: "1", shelf, onReport: () => {} };
    const worker = new BrowserWorker({ ...fixed, history: Object.assign(history, change), onNote: (note) => notes.push(note) });
    onTestFinished(() => worker.stop());
    worker.work();
    const ended = (): Promise<SessionNote> => until("the end of the session", () => notes.find(({ type }) => type === "stopped"));
    return { worker, history, notes, ended, dials: () => notes.filter(({ type }) => type === "connecting").length };
  }

  it("[WS7] is not begun again by itself after another worker has taken its key", async () => {
    const coordinator = await FakeCoordinator.start();
    const { ended, dials } = await working(WebSocket, coordinator.url);
    const { worker: connection } = await coordinator.registered();
    connection.close(CLOSE.replaced);
    expect(await ended()).toMatchObject({ reason: "replaced" });
    await setImmediate();
    expect(dials()).toBe(1);
  });

  it.each([
    ["ends with a rest", false, 1],
    ["is followed by the next one, if work is wanted again before its end", true, 2],
  ])("[WS11] %s", async (_, again, count) => {
    const coordinator = await FakeCoordinator.start();
    const { worker, notes, ended, dials } = await working(WebSocket, coordinator.url);
    const { worker: connection } = await coordinator.registered();
    await until("the registration", () => notes.find(({ type }) => type === "online"));
    worker.rest();
    if (again) worker.work();
    await connection.receive("drain");
    connection.close(1000);
    expect(await ended()).toMatchObject({ reason: "drained" });
    await setImmediate();
    expect(dials()).toBe(count);
  });

  it("that is stopped leaves no job of the list open, and a list that fails stops no work", async () => {
    const { worker, history, ended } = await working(DeafSocket);
    history.begin({ jobId: "half", attempt: 1, taskType: "classify", startedAt: 1 });
    worker.stop();
    await ended();
    await setImmediate();
    expect(history.records).toMatchObject([{ outcome: "cancelled", error: "stopped_here" }]);
    const broken = await working(DeafSocket, undefined, {
      note: () => {
        throw new Error("disk");
      },
    });
    expect(broken.notes).toEqual([
      { type: "warning", code: "cannot_keep", message: "the list of jobs is incomplete: disk" },
      { type: "connecting", try: 1 },
    ]);
  });
});

describe("history", () => {
  const open = async (database: MemoryDatabase) => {
    const told: JobRecord[] = [];
    const history = await History.open({ database, verify: verifyOwn, onRecord: (record) => told.push(record), onFailure: fail });
    return { history, told };
  };

  it("[RC1] checks the stored signature of a receipt when it is made and at each visit", async () => {
    const database = new MemoryDatabase();
    const { history } = await open(database);
    for (const jobId of ["good", "forged"]) {
      history.begin({ jobId, attempt: 1, taskType: "classify", startedAt: jobId === "good" ? 2 : 1 });
      await history.signed(await kept(jobId));
      history.note({ type: "job_finished", job_id: jobId, attempt: 1, ms: 3, tokens: null });
      history.note({ type: "job_acknowledged", job_id: jobId, status: "accepted", error: null, message: null });
    }
    expect(history.records.map(({ jobId, outcome, ms, signatureValid }) => ({ jobId, outcome, ms, signatureValid }))).toEqual([
      { jobId: "forged", outcome: "accepted", ms: 3, signatureValid: true },
      { jobId: "good", outcome: "accepted", ms: 3, signatureValid: true },
    ]);
    const stored = (await database.get("history", "forged 1")) as JobRecord;
    await database.change("history", [["forged 1", { ...stored, receipt: { ...stored.receipt, completed_at: isoTime(0) } }]]);
    const again = await open(database);
    expect(again.history.records.map(({ jobId, signatureValid }) => [jobId, signatureValid])).toEqual([
      ["good", true],
      ["forged", false],
    ]);
    expect(again.history.delivered).toBe(2);
  });

  it("shows jobs that an earlier page did not finish as cancelled, except those whose result is kept", async () => {
    const database = new MemoryDatabase();
    const before = await open(database);
    before.history.begin({ jobId: "half", attempt: 1, taskType: "classify", startedAt: 1 });
    before.history.begin({ jobId: "kept", attempt: 1, taskType: "classify", startedAt: 2 });
    const result = await kept("kept");
    await before.history.signed(result);
    const { history } = await open(database);
    history.reconcile([result]);
    expect(history.records.map(({ jobId, outcome }) => [jobId, outcome])).toEqual([
      ["kept", "waiting"],
      ["half", "cancelled"],
    ]);
  });

  it("has the outcome of each job and why, and counts accepted results only", async () => {
    const counts: number[] = [];
    const database = new MemoryDatabase();
    const history = await History.open({ database, verify: verifyOwn, onRecord: (_, delivered) => counts.push(delivered), onFailure: fail });
    for (const [n, jobId] of ["good", "bad", "failed", "cancelled"].entries()) history.begin({ jobId, attempt: 1, taskType: "classify", startedAt: n });
    // The same job again, after it was lost.
    history.begin({ jobId: "good", attempt: 2, taskType: "classify", startedAt: 5 });
    const signing = history.signed({ ...(await kept("good")), attempt: 2 });
    history.note({ type: "job_acknowledged", job_id: "good", status: "accepted", error: null, message: null });
    await signing;
    history.note({ type: "job_acknowledged", job_id: "bad", status: "rejected", error: "bad_signature", message: null });
    history.note({ type: "job_failed", job_id: "failed", attempt: 1, error: "worker_error", message: "", retryable: true });
    history.note({ type: "job_cancelled", job_id: "cancelled", attempt: 1, reason: "cancelled" });
    expect(history.records.map(({ jobId, attempt, outcome, error, signatureValid }) => [jobId, attempt, outcome, error, signatureValid])).toEqual([
      ["good", 2, "accepted", null, true],
      ["cancelled", 1, "cancelled", "cancelled", null],
      ["failed", 1, "failed", "worker_error", null],
      ["bad", 1, "rejected", "bad_signature", null],
      ["good", 1, "waiting", null, null],
    ]);
    expect([history.delivered, counts.at(-1)]).toEqual([1, 1]);
  });

  it("after a session keeps a job open whose result is not delivered yet", async () => {
    const { history } = await open(new MemoryDatabase());
    for (const jobId of ["half", "signed"]) history.begin({ jobId, attempt: 1, taskType: "classify", startedAt: 1 });
    await history.signed(await kept("signed"));
    history.ended();
    expect(history.records.map(({ jobId, outcome }) => [jobId, outcome])).toEqual([
      ["signed", "waiting"],
      ["half", "cancelled"],
    ]);
    expect(receiptOf('{"type":"job_failed"}')).toBeNull();
  });

  it("that cannot be stored is reported", async () => {
    const failures: unknown[] = [];
    const database = new MemoryDatabase(() => true);
    const history = await History.open({ database, verify: verifyOwn, onRecord: () => {}, onFailure: (cause) => failures.push(cause) });
    history.begin({ jobId: "one", attempt: 1, taskType: "classify", startedAt: 1 });
    await setImmediate();
    // The job, and the number of results.
    expect(failures).toHaveLength(2);
  });

  it("is limited in memory and in storage, and keeps the newest jobs", async () => {
    const database = new MemoryDatabase();
    const { history } = await open(database);
    for (let i = 0; i < HISTORY_JOBS + 50; i++) history.begin({ jobId: `job-${i}`, attempt: 1, taskType: "classify", startedAt: i });
    expect(history.records).toHaveLength(HISTORY_JOBS);
    expect(await database.all("history")).toHaveLength(HISTORY_JOBS);
    expect(history.records[0]?.jobId).toBe(`job-${HISTORY_JOBS + 49}`);
  });

  it("is deleted on request, except jobs whose result is not delivered yet", async () => {
    const database = new MemoryDatabase();
    const { history } = await open(database);
    history.begin({ jobId: "done", attempt: 1, taskType: "classify", startedAt: 1 });
    history.note({ type: "job_failed", job_id: "done", attempt: 1, error: "worker_error", message: "", retryable: true });
    history.begin({ jobId: "waits", attempt: 1, taskType: "classify", startedAt: 2 });
    await history.clear();
    expect(history.records.map(({ jobId }) => jobId)).toEqual(["waits"]);
    expect(await database.all("history")).toHaveLength(1);
  });
});

describe("claiming a pairing code", () => {
  const health = () => Response.json({ status: "ok", network: "eip155:10143" });
  const asking = (claim: (body: Record<string, string>) => Response): typeof fetch =>
    vi.fn<typeof fetch>((url, init) => Promise.resolve(url === "/v1/health" ? health() : claim(JSON.parse(init?.body as string) as Record<string, string>)));

  const claimed = (ask: typeof fetch, patienceMs?: number) =>
    claimCode("A1B2C3", { signer: SIGNER, host: "router.test", ask, ...(patienceMs !== undefined && { patienceMs }) });

  it("[TR4] sends a signature of the worker's key for this network", async () => {
    const claim = await claimed(
      asking((body) => {
        const text = pairText({ network: "eip155:10143", code: "A1B2C3", pubkey: SIGNER.publicKey });
        expect(verifyText(text, body.signature ?? "", SIGNER.publicKey)).toBe(true);
        return Response.json({ user_id: "secret", paired_at: "2026-11-21T00:00:00.000Z" });
      }),
    );
    // The user's id is not kept.
    expect(claim).toEqual({ ok: true, value: { code: "A1B2C3", pairedAt: "2026-11-21T00:00:00.000Z", network: "eip155:10143" } });
  });

  it.each([
    [400, { error: "invalid_code" }, "There is no such code. Compare it with the one that you were given, and check that it was made at router.test."],
    [
      400,
      { error: "already_claimed" },
      "has been used. If an earlier try got no answer, that one may have paired this worker: ask the user to compare the words.",
    ],
    [400, { error: "expired" }, "older than an hour"],
    [429, { error: "rate_limited" }, "Too many requests from this network. Wait 17 seconds."],
    [503, { error: "overloaded" }, "cannot answer at the moment"],
    [400, { error: "something new" }, "refused: something new"],
    [200, { nonsense: true }, "No answer"],
  ])("[API4] %i %j is explained in a sentence", async (status, body, words) => {
    const claim = await claimed(asking(() => Response.json(body, { status, headers: { "retry-after": "17" } })));
    expect(claim).toMatchObject({ ok: false, reason: expect.stringContaining(words) });
  });

  it.each([
    [502, "The coordinator cannot answer at the moment. Try again soon."],
    [403, "The coordinator refused: HTTP 403"],
  ])("a proxy that answers %i in HTML is not taken for a device without a network", async (status, reason) => {
    const claim = await claimed(asking(() => new Response("<h1>nginx</h1>", { status })));
    expect(claim).toEqual({ ok: false, reason });
  });

  it.each(["/v1/health", "/v1/trust/claim"])("ends if the coordinator never answers %s, so that a person can try again", async (path) => {
    const silent: typeof fetch = (url, init) =>
      url === path ? new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted")))) : Promise.resolve(health());
    expect(await claimed(silent, 50)).toMatchObject({ ok: false, reason: expect.stringContaining("No answer") });
  });

  it("says when to try again if the coordinator does not, and that it cannot answer", async () => {
    const limited = asking(() => Response.json({ error: "rate_limited" }, { status: 429 }));
    expect(await claimed(limited)).toEqual({ ok: false, reason: "Too many requests from this network. Wait 60 seconds." });
    const ill: typeof fetch = () => Promise.resolve(Response.json({ error: "overloaded" }, { status: 503 }));
    expect(await claimed(ill)).toEqual({ ok: false, reason: "The coordinator cannot answer at the moment. Try again soon." });
  });

  it("the newest pairings are read, the last one first", async () => {
    const database = new MemoryDatabase();
    const pairing = (day: number) => ({ code: "A1B2C3", pairedAt: isoTime(day * 86_400_000), network: "n" });
    const days = Array.from({ length: PAIRINGS + 1 }, (_, day) => day);
    await database.change("pairings", [["x", { code: 5 }], ...days.map((day): [string, unknown] => [String(day), pairing(day)])]);
    expect(await readPairings(database)).toEqual(days.slice(1).toReversed().map(pairing));
  });

  it("says so if there is no network", async () => {
    expect(await claimed(() => Promise.reject(new TypeError("Failed to fetch")))).toMatchObject({
      ok: false,
      reason: expect.stringContaining("online"),
    });
  });
});
