import { describe, expect, test } from "vitest";
import { jobJson } from "../../../src/coordinator/store/jobs.ts";
import { endedHere, RecentJobs, startHere } from "../../../src/coordinator/recent-jobs.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { Job } from "../../../src/protocol/job.ts";

const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const CREATED = Date.UTC(2026, 9, 1, 12);
const receipt = { job_id: ID, provider_pubkey: "k", output_hash: "sha256:0", completed_at: "t", payment_ref: null, signature: "s" };
const pending = { id: ID, status: "pending", result: null, receipt: null, createdAt: CREATED, completedAt: null } as const;

describe("jobJson", () => {
  test("[SPEC] has the six members in the order of the specification", () => {
    expect(jobJson(pending)).toBe(`{"id":"${ID}","status":"pending","result":null,"receipt":null,"created_at":"2026-10-01T12:00:00.000Z","completed_at":null}`);
  });

  test("[SPEC] a completed job", () => {
    const job = Job.parse(JSON.parse(jobJson({ ...pending, status: "completed", result: '{"output":"x"}', receipt, completedAt: CREATED + 1 })));
    expect(job).toEqual({
      ...{ id: ID, status: "completed", result: { output: "x" }, receipt },
      ...{ created_at: "2026-10-01T12:00:00.000Z", completed_at: "2026-10-01T12:00:00.001Z" },
    });
  });

  test("[RC5] the stored text of the result is returned unchanged", () => {
    const result = String.raw`{"b":1.0,"a":"é\/","10":-0,  "$&":"$'"}`;
    expect(jobJson({ ...pending, status: "completed", result })).toContain(`"result":${result},"receipt"`);
  });
});

describe("[API6] the jobs that ended recently", () => {
  const job = { json: "x".repeat(TUNING.recentChars / 4), refused: false };

  test("as many are kept as fit, the newest ones", () => {
    const recent = new RecentJobs();
    for (let n = 0; n < 9; n++) recent.put(String(n), job);
    expect(Array.from({ length: 9 }, (_, n) => recent.get(String(n)) !== undefined)).toEqual([...Array.from({ length: 6 }, () => false), true, true, true]);
  });

  test("when they do not fit any more, a tenth is forgotten, so that the next ones fit", () => {
    const recent = new RecentJobs();
    const shorter = { ...job, json: "x".repeat(TUNING.recentChars / 1_000 + 200) };
    const kept = (): number[] => Array.from({ length: 1_500 }, (_, n) => n).filter((n) => recent.get(String(n)) !== undefined);
    const sizes = Array.from({ length: 1_500 }, (_, n) => {
      recent.put(String(n), shorter);
      const ids = kept();
      expect(ids.at(-1)).toBe(n);
      expect(ids).toHaveLength(n - (ids[0] ?? 0) + 1);
      return ids.length;
    });
    const most = Math.max(...sizes);
    const afterFirst = sizes.slice(most);
    expect(most).toBeGreaterThan(900);
    expect(most).toBeLessThan(1_000);
    expect(Math.min(...afterFirst)).toBeLessThan(0.91 * most);
    expect(Math.min(...afterFirst)).toBeGreaterThan(0.89 * most);
  });

  test("an end is told without the hub as soon as it is durable, only in the hub's isolate, and only for a short time", () => {
    const [now, json] = [1_000_000, '{"status":"completed"}'];
    const earlier = startHere();
    earlier.put("early", { json, refused: false });
    earlier.becameDurable(["early", "unknown"], now);
    expect(endedHere("early", now)).toBe(json);
    const recent = startHere();
    expect(endedHere("early", now)).toBeNull();
    recent.put("late", { json, refused: false });
    expect({ ofHub: recent.get("late")?.json, here: endedHere("late", now) }).toEqual({ ofHub: json, here: null });
    recent.becameDurable(["late"], now);
    const times = [now - 1, now, now + TUNING.recentHere - 1, now + TUNING.recentHere];
    expect(times.map((time) => endedHere("late", time))).toEqual([null, json, json, null]);
  });

  test("[LM3] those that ended long ago are forgotten, those that clients still poll stay", () => {
    const [now, ms] = [1_000_000, 60_000];
    const recent = new RecentJobs();
    const ended = { long: now - ms, recently: now - ms + 1, "before the clock was set back": now + 1 };
    for (const id of [...Object.keys(ended), "not on the disk yet"]) recent.put(id, job);
    for (const [id, durableAt] of Object.entries(ended)) recent.becameDurable([id], durableAt);
    recent.forget(now, ms);
    const kept = (ids: string[]): string[] => ids.filter((id) => recent.get(id) !== undefined);
    expect(kept([...Object.keys(ended), "not on the disk yet"])).toEqual(["recently", "not on the disk yet"]);
    // What was forgotten makes room: two more fit, and the third does not.
    for (const id of ["1", "2"]) recent.put(id, job);
    expect(kept(["recently", "not on the disk yet", "1", "2"])).toHaveLength(4);
    recent.put("3", job);
    expect(kept(["recently", "not on the disk yet", "1", "2", "3"])).not.toContain("recently");
  });
});
