import { describe, expect, it, vi } from "vitest";
import { eventText, FIRST_REPORT, nextReport, type Report } from "../../../src/worker/browser/report.ts";
import { duration, exportOf, medianTime, outcomeLabel, receiptLine, type Situation, taskName, viewOf } from "../../../src/pages/worker/view.ts";
import {
  defaultSettings,
  leavesFor,
  type PageSettings,
  pauseOf,
  readSettings,
  ScreenLock,
  TabLock,
  writeSettings,
} from "../../../src/pages/worker/conditions.ts";
import { storageNotice } from "../../../src/pages/worker/state-panel.ts";
import type { JobRecord } from "../../../src/worker/browser/history.ts";
import type { SessionNote } from "../../../src/worker/session/state.ts";

const SETTINGS = defaultSettings(false);
const FINE = { hidden: false, online: true, battery: null };
const ONLINE: Report = { ...FIRST_REPORT, link: { kind: "online", since: 0, authenticated: true, tier: "Open", network: "eip155:10143" } };
const JOB = { jobId: "j", since: 0 };

describe("why a worker that is switched on pauses", () => {
  it.each([
    ["nothing", FINE, SETTINGS, null],
    ["no network", { ...FINE, online: false }, SETTINGS, "offline"],
    ["a hidden page, where its owner allows that", { ...FINE, hidden: true }, SETTINGS, null],
    ["a hidden page on a phone", { ...FINE, hidden: true }, defaultSettings(true), "hidden"],
    ["a low battery", { ...FINE, battery: { level: 0.19, charging: false } }, SETTINGS, "low_battery"],
    ["a low battery that charges", { ...FINE, battery: { level: 0.05, charging: true } }, SETTINGS, null],
    ["a low battery that its owner does not mind", { ...FINE, battery: { level: 0.05, charging: false } }, { ...SETTINGS, saveBattery: false }, null],
    ["a battery of 20 %", { ...FINE, battery: { level: 0.2, charging: false } }, SETTINGS, null],
    ["a low battery without a network", { hidden: true, online: false, battery: { level: 0.1, charging: false } }, SETTINGS, "low_battery"],
  ] as const)("%s", (_, conditions, settings, pause) => {
    expect(pauseOf(conditions, settings)).toBe(pause);
  });

  it("[WS11] sends drain for every reason except a lost network", () => {
    expect([null, "hidden", "low_battery", "offline"].map((pause) => leavesFor(pause as ReturnType<typeof pauseOf>))).toEqual([false, true, true, false]);
  });
});

describe("the notice about a storage that does not keep everything", () => {
  it.each([
    ["kept", null, false],
    ["outdated", null, false],
    ["cleared", "This site's data was deleted", true],
    ["full", "The storage of this browser is full", false],
    ["failed", "This browser's storage does not answer", false],
    ["blocked", "Nothing is kept here", false],
  ] as const)("%s", (state, title, isOffering) => {
    const notice = storageNotice(state);
    expect(notice?.title ?? null).toBe(title);
    expect(notice?.isOffering ?? false).toBe(isOffering);
    if (notice !== null) expect(notice.text).toMatch(/The worker (continues|works)/);
  });
});

describe("one worker per browser", () => {
  it("[WS7] tells a tab that its lock was taken, which then waits for it; a tab that is told to takes it", async () => {
    const said: string[] = [];
    const asked: LockOptions[] = [];
    let steal = (): void => {};
    const locks = {
      query: () => Promise.reject(new Error("unused")),
      request: (_: string, options: LockOptions, give: (lock: Lock | null) => unknown) => {
        asked.push(options);
        if (options.signal !== undefined) return new Promise(() => {});
        if (options.ifAvailable === true) return Promise.resolve(give(null));
        give({ mode: "exclusive", name: "x" });
        return new Promise((__, reject) => (steal = () => reject(new DOMException("stolen", "AbortError"))));
      },
    };
    const lock = new TabLock(locks as unknown as LockManager, {
      onAcquired: () => said.push("acquired"),
      onBusy: () => said.push("busy"),
      onLost: () => said.push("lost"),
    });
    void lock.acquire();
    await vi.waitFor(() => expect(asked).toHaveLength(2));
    void lock.takeOver();
    expect([asked[1]?.signal?.aborted, asked[2]]).toEqual([true, { steal: true }]);
    steal();
    await vi.waitFor(() => expect(said).toEqual(["busy", "acquired", "lost", "busy"]));
  });

  it("[WS7] works without a lock if the browser gives no lock to a site without storage", async () => {
    const said: string[] = [];
    const locks = { request: () => Promise.reject(new DOMException("denied", "SecurityError")), query: () => Promise.reject(new Error("unused")) };
    const lock = new TabLock(locks, { onAcquired: () => said.push("acquired"), onBusy: () => said.push("busy"), onLost: () => said.push("lost") });
    await lock.acquire();
    expect(said).toEqual(["acquired"]);
  });
});

describe("the lock of the screen", () => {
  it("is released when it is not wanted any more, also while the browser still gives it", async () => {
    const states: string[] = [];
    const request = async () => {
      const sentinel = Object.assign(new EventTarget(), {
        released: false,
        type: "screen",
        onrelease: null,
        release: async () => void sentinel.dispatchEvent(new Event("release")),
      });
      return sentinel as WakeLockSentinel;
    };
    const lock = new ScreenLock({ request }, (state) => states.push(state));
    await lock.want(true);
    await lock.want(false);
    await Promise.all([lock.want(true), lock.want(false)]);
    expect(states).toEqual(["on", "released", "on", "released"]);
  });

  it("that the browser refuses or does not have is told", async () => {
    const states: string[] = [];
    await new ScreenLock({ request: () => Promise.reject(new Error("saving power")) }, (state) => states.push(state)).want(true);
    await new ScreenLock(undefined, (state) => states.push(state)).want(true);
    expect(states).toEqual(["refused", "unsupported"]);
  });
});

describe("the state in words", () => {
  const situation = (over: Partial<Situation>): Situation => ({
    report: FIRST_REPORT,
    wanted: true,
    pause: null,
    outdated: false,
    host: "router.test",
    now: 1_000,
    ...over,
  });

  it.each([
    ["never started", { wanted: false }, "off", "Off", "Start"],
    ["on its way", {}, "wait", "Connecting", "Stop"],
    ["registered", { report: ONLINE }, "good", "Ready", "Stop"],
    ["busy", { report: { ...ONLINE, job: JOB } }, "busy", "Working", "Stop"],
    ["told to stop while busy", { wanted: false, report: { ...ONLINE, leaving: true, job: JOB } }, "wait", "Finishing", "Stop now"],
    ["told to stop, and has not heard it yet", { wanted: false, report: ONLINE }, "wait", "Finishing", "Stop now"],
    ["hidden while busy", { pause: "hidden", report: { ...ONLINE, leaving: true, job: JOB } }, "wait", "Pausing", "Stop now"],
    ["hidden", { pause: "hidden" }, "wait", "Paused", "Stop"],
    ["without a network, socket not yet dead", { pause: "offline", report: ONLINE }, "wait", "Paused", "Stop"],
    [
      "cut off",
      { report: { ...FIRST_REPORT, link: { kind: "waiting", until: 4_000, cause: "connection lost", parked: false } } },
      "wait",
      "Reconnecting",
      "Stop",
    ],
    ["replaced", { wanted: false, report: { ...FIRST_REPORT, link: { kind: "ended", reason: "replaced", message: "gone" } } }, "bad", "Stopped", "Start"],
    ["older than another tab's page", { outdated: true, report: FIRST_REPORT }, "bad", "Out of date", "Reload"],
    ["older than another tab's page, while busy", { outdated: true, report: { ...ONLINE, leaving: true, job: JOB } }, "wait", "Finishing", "Stop now"],
  ] as const)("%s", (_, over, tone, title, label) => {
    expect(viewOf(situation(over))).toMatchObject({ tone, title, button: { label } });
  });

  it.each([
    [-400_000, "refused", "bad", "Clock is wrong", "7 min"],
    [-90_000, "doubtful", "good", "Ready", "Waiting for a job from router.test. WARNING: this machine's clock is 90 s behind the coordinator's"],
  ] as const)("says that the clock is off: %i ms, %s", (off_ms, verdict, tone, title, detail) => {
    const report = nextReport(ONLINE, { type: "clock", verdict, off_ms }, 0);
    expect(viewOf(situation({ report }))).toMatchObject({ tone, title, detail: expect.stringContaining(detail.replace("7 min", "6 min 40 s")) });
    expect(nextReport(report, { type: "clock", verdict: "right", off_ms: 0 }, 0).clock).toBeNull();
  });

  it.each([
    ["connection lost", 119_000, "The connection was lost. Next try in 119 s."],
    ["connection lost", 120_000, "The connection was lost. Next try in 2 min."],
    ["no connection", 5_000, "There is no connection. Next try in 5 s."],
    ["registration not answered", 5_000, "The coordinator did not answer the registration. Next try in 5 s."],
    ["the coordinator is silent", 5_000, "The coordinator is silent. Next try in 5 s."],
    ["registration refused: server_busy", 5_000, "Registration refused: server_busy. Next try in 5 s."],
    ["parked", 5_000, "The coordinator has asked this worker to wait for a while. Next try in 5 s."],
  ])("says why it waits and how long: %s, %i ms", (cause, retry_in_ms, detail) => {
    const report = nextReport(ONLINE, { type: "offline", code: null, cause, retry_in_ms }, 1_000);
    expect(viewOf(situation({ report })).detail).toBe(detail);
  });

  it.each([
    ["replaced", "Another tab or window runs this worker. Only one can work at a time. Start continues here."],
    ["refused", "Give each worker its own key (--key FILE)."],
  ] as const)("[WS4] says why it was ended, in words for a browser: %s", (reason, detail) => {
    const report = nextReport(ONLINE, { type: "stopped", reason, message: "give each worker its own key (--key FILE)" }, 0);
    for (const wanted of [true, false])
      expect(viewOf(situation({ report, wanted }))).toMatchObject({ title: "Stopped", detail, announce: `Stopped. ${detail}` });
  });

  it("says what it still has to do before it leaves", () => {
    const detail = (job: Report["job"]) => viewOf(situation({ wanted: false, report: { ...ONLINE, leaving: true, job } })).detail;
    expect([detail(JOB), detail(null)]).toEqual(["Finishes the current job, then stops. No new jobs.", "Sends the finished results, then stops. No new jobs."]);
  });

  it("follows the tier, and the end of its own job only", () => {
    const report = nextReport({ ...ONLINE, job: JOB }, { type: "tier", tier: "Sentinel" }, 0);
    expect(report.link).toMatchObject({ kind: "online", tier: "Sentinel" });
    const ends = (job_id: string) => nextReport(report, { type: "job_cancelled", job_id, attempt: 1, reason: "" }, 0).job;
    expect([ends("other"), ends("j")]).toEqual([JOB, null]);
    expect(nextReport(report, { type: "stopped", reason: "replaced", message: "gone" }, 0).link).toMatchObject({ kind: "ended", reason: "replaced" });
  });

  it("counts down to the next try on the screen, but not for screen readers", () => {
    const report: Report = { ...FIRST_REPORT, link: { kind: "waiting", until: 4_000, cause: "connection lost", parked: false } };
    const [soon, sooner] = [viewOf(situation({ report })), viewOf(situation({ report, now: 2_000 }))];
    expect([soon.detail, sooner.detail]).toEqual(["The connection was lost. Next try in 3 s.", "The connection was lost. Next try in 2 s."]);
    expect([soon.announce, sooner.announce]).toEqual(Array(2).fill("Reconnecting. The connection was lost."));
    expect(viewOf(situation({})).announce).toBe("Connecting to router.test.");
  });

  it("says how many finished results the coordinator does not have yet", () => {
    expect(viewOf(situation({ report: { ...ONLINE, unacknowledged: 1 } })).detail).toContain("One finished result is kept");
    expect(viewOf(situation({ wanted: false, report: { ...FIRST_REPORT, unacknowledged: 2 } })).detail).toContain("2 finished results are kept");
  });

  it("follows the events of a session", () => {
    const notes: SessionNote[] = [
      { type: "connecting", try: 1 },
      { type: "online", worker_id: "w", authenticated: true, proof: "signed", tier: "Open", network: "n" },
      { type: "job_started", job_id: "j", attempt: 1, job_type: "TASK" },
      { type: "job_finished", job_id: "j", attempt: 1, ms: 5, tokens: null },
      { type: "offline", code: 1006, cause: "connection lost", retry_in_ms: 500 },
      { type: "draining" },
      { type: "stopped", reason: "drained", message: "done" },
    ];
    let report = FIRST_REPORT;
    const titles = notes.map(
      (note) => viewOf(situation({ report: (report = nextReport(report, note, 1_000)), wanted: !report.leaving && note.type !== "stopped" })).title,
    );
    expect(titles).toEqual(["Connecting", "Ready", "Working", "Ready", "Reconnecting", "Finishing", "Off"]);
    expect(nextReport(report, { type: "stopped", reason: "refused", message: "no" }, 0).link).toMatchObject({ kind: "ended", reason: "refused" });
  });
});

describe("the list of events", () => {
  const ONLINE_NOTE = { type: "online", worker_id: "w", proof: "signed", tier: "Open", network: "n" } as const;
  const ACK = { type: "job_acknowledged", job_id: "0123456789", message: null } as const;
  it.each<[SessionNote, ReturnType<typeof eventText>]>([
    [
      { ...ONLINE_NOTE, authenticated: true },
      { tone: "info", text: "Connected, and the coordinator has checked the key." },
    ],
    [
      { ...ONLINE_NOTE, authenticated: false, proof: "no_challenge" },
      { tone: "warning", text: "Connected, but the coordinator has not checked the key: it gives no PRIVATE jobs." },
    ],
    [
      { type: "offline", code: 1006, cause: "connection lost", retry_in_ms: 1 },
      { tone: "warning", text: "Offline: connection lost (1006)." },
    ],
    [
      { type: "offline", code: null, cause: "no answer", retry_in_ms: 1 },
      { tone: "warning", text: "Offline: no answer." },
    ],
    [{ ...ACK, status: "accepted", error: null }, null],
    [
      { ...ACK, status: "rejected", error: "bad_signature" },
      { tone: "warning", text: "The result of job 23456789 was rejected: bad_signature." },
    ],
    [
      { ...ACK, status: "rejected", error: null, message: "wrong clock" },
      { tone: "warning", text: "The result of job 23456789 was rejected: no reason given. The coordinator says: Wrong clock." },
    ],
    [
      { type: "result_dropped", job_id: "j", attempt: 1, reason: "expired" },
      { tone: "warning", text: "The result of job j was dropped: too old to count." },
    ],
    [
      { type: "result_dropped", job_id: "j", attempt: 1, reason: "no_room" },
      { tone: "warning", text: "The result of job j was dropped: no room." },
    ],
    [
      { type: "stopped", reason: "replaced", message: "" },
      { tone: "warning", text: "Another connection with the same key has taken over." },
    ],
    [
      { type: "stopped", reason: "refused", message: "Really no!" },
      { tone: "info", text: "Really no!" },
    ],
  ])("%o", (note, line) => {
    expect(eventText(note)).toEqual(line);
  });
});

describe("settings", () => {
  const box = (text: string | null) => ({ getItem: () => text });

  it("are the defaults if nothing or something invalid is stored", () => {
    for (const text of [null, "", "{", "[]", "null", "7", '{"wanted":"yes","other":true}']) expect(readSettings(box(text), SETTINGS)).toEqual(SETTINGS);
    expect(readSettings(null, SETTINGS)).toEqual(SETTINGS);
  });

  it("are read as they were stored", () => {
    let stored: string | null = null;
    const store = { getItem: () => stored, setItem: (_: string, text: string) => (stored = text) };
    const chosen: PageSettings = { wanted: true, keepScreenOn: false, workHidden: false, saveBattery: false };
    writeSettings(store, chosen);
    expect(readSettings(store, SETTINGS)).toEqual(chosen);
    writeSettings({ setItem: () => expect.fail("full") }, chosen);
  });
});

describe("history", () => {
  const record: JobRecord = {
    jobId: "7d1f",
    attempt: 1,
    taskType: "classify",
    startedAt: Date.UTC(2026, 10, 21),
    ms: 12,
    outcome: "accepted",
    error: null,
    receipt: null,
    signatureValid: null,
  };

  it("shows the median of the known times", () => {
    expect(medianTime([])).toBeNull();
    expect(medianTime([record, { ...record, ms: null }, { ...record, ms: 4 }, { ...record, ms: 90 }])).toBe(12);
    expect(medianTime([record, { ...record, ms: 4 }])).toBe(8);
  });

  it("says what a job was, how long it took, and whether its receipt is valid", () => {
    expect(["summarize", "classify", "extract_json", "other"].map(taskName)).toEqual(["Summary", "Sentiment", "Extraction", "other"]);
    expect([12.4, 1_240, 12_400].map(duration)).toEqual(["12 ms", "1.2 s", "12 s"]);
    const receipt = { job_id: "j", provider_pubkey: "ab", output_hash: `sha256:${"0".repeat(60)}abcd`, completed_at: "", payment_ref: null, signature: "" };
    const lines = [record, { ...record, receipt, signatureValid: true }, { ...record, receipt, signatureValid: false }].map(receiptLine);
    expect(lines).toEqual(["No receipt", "sha256:00000000…abcd · signature checked", "sha256:00000000…abcd · signature is not valid"]);
    expect(outcomeLabel({ ...record, outcome: "rejected", error: "bad_signature" })).toEqual({ tone: "bad", label: "Rejected: bad signature" });
  });

  it("says how a job ended, and why if that is known", () => {
    expect(outcomeLabel(record).label).toBe("Accepted");
    expect(outcomeLabel({ ...record, outcome: "waiting" }).label).toBe("Working");
    expect(outcomeLabel({ ...record, outcome: "failed", error: "worker_error" })).toEqual({ tone: "bad", label: "Failed: worker error" });
  });

  it("is exported with the member names of the protocol", () => {
    const file: unknown = JSON.parse(exportOf([record], { publicKey: "ab", words: ["keno", "riba"], host: "router.test" }, new Date(Date.UTC(2026, 10, 22))));
    expect(file).toEqual({
      exported_at: "2026-11-22T00:00:00.000Z",
      coordinator: "router.test",
      provider_pubkey: "ab",
      fingerprint: "keno riba",
      jobs: [
        {
          job_id: "7d1f",
          attempt: 1,
          task_type: "classify",
          started_at: "2026-11-21T00:00:00.000Z",
          duration_ms: 12,
          outcome: "accepted",
          error: null,
          receipt: null,
          signature_valid: null,
        },
      ],
    });
  });
});
