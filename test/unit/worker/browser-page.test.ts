import { describe, expect, it } from "vitest";
import { PAIRING_CODE } from "../../../src/protocol/text.ts";
import { FIRST_REPORT, nextReport, type Report } from "../../../src/worker/browser/report.ts";
import { exportOf, medianTime, outcomeLabel, type Situation, viewOf } from "../../../src/pages/worker/view.ts";
import { readCode } from "../../../src/pages/worker/pair-panel.ts";
import { defaultSettings, leavesFor, type PageSettings, pauseOf, readSettings, writeSettings } from "../../../src/pages/worker/conditions.ts";
import { TabLock } from "../../../src/pages/worker/tab-lock.ts";
import { storageNotice } from "../../../src/pages/worker/state-panel.ts";
import type { JobRecord } from "../../../src/worker/browser/job-record.ts";
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
  it("[WS7] works without a lock if the browser gives no lock to a site without storage", async () => {
    const said: string[] = [];
    const locks = { request: () => Promise.reject(new DOMException("denied", "SecurityError")), query: () => Promise.reject(new Error("unused")) };
    const lock = new TabLock(locks, { onAcquired: () => said.push("acquired"), onBusy: () => said.push("busy"), onLost: () => said.push("lost") });
    await lock.acquire();
    expect(said).toEqual(["acquired"]);
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

  it("counts down to the next try on the screen, but not for screen readers", () => {
    const report: Report = { ...FIRST_REPORT, link: { kind: "waiting", until: 4_000, cause: "connection lost", parked: false } };
    const [soon, sooner] = [viewOf(situation({ report })), viewOf(situation({ report, now: 2_000 }))];
    expect([soon.detail, sooner.detail]).toEqual(["No connection: connection lost. Next try in 3 s.", "No connection: connection lost. Next try in 2 s."]);
    expect(soon.announce).toBe(sooner.announce);
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

describe("pairing code", () => {
  it.each([
    ["a1b2c3", "A1B2C3"],
    [" A1-B2 c3\n", "A1B2C3"],
    ["https://router.test/worker?code=a1b2c3", "A1B2C3"],
    ["https://router.test/worker?x=1&code=A1B2C3&y=2", "A1B2C3"],
    ["A1B2C3D4", "A1B2C3"],
    ["xyz", ""],
    ["", ""],
  ])("%j is read as %j", (text, code) => {
    expect(readCode(text)).toBe(code);
    expect(PAIRING_CODE.test(readCode(text))).toBe(code.length === 6);
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
