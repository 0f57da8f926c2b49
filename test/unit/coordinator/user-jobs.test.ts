import { describe, expect, it } from "vitest";
import type { UserJob } from "../../../src/coordinator/hub/rpc.ts";
import { joined, pageOf } from "../../../src/coordinator/store/jobs.ts";

const job = (id: string, createdAt: number, status: UserJob["status"] = "pending"): UserJob => ({
  ...{ id, jobType: "TASK", status, createdAt },
  completedAt: status === "completed" ? createdAt + 1 : null,
});
const ids = (jobs: UserJob[]): string => jobs.map(({ id }) => id).join("");

describe("a part of the jobs of a user", () => {
  it("[JB14] is newest first, and of jobs of one time the larger id is the newer", () => {
    const all = [job("b", 5), job("a", 9), job("d", 5), job("c", 5)];
    expect(ids(pageOf(all, { before: null, limit: 9 }))).toBe("adcb");
    expect(ids(pageOf(all, { before: null, limit: 2 }))).toBe("ad");
    expect(ids(pageOf(all, { before: { at: 5, id: "d" }, limit: 9 }))).toBe("cb");
    expect(ids(pageOf(all, { before: { at: 9, id: "" }, limit: 9 }))).toBe("dcb");
    expect(ids(pageOf(all, { before: { at: 5, id: "" }, limit: 9 }))).toBe("");
  });

  it("[JB14] begins when the token was bound, to the millisecond; an earlier router does not say when", () => {
    const all = [job("a", 4), job("b", 5), job("c", 6)];
    expect(ids(pageOf(all, { before: null, since: 5, limit: 9 }))).toBe("cb");
    expect(ids(pageOf(all, { before: null, limit: 9 }))).toBe("cba");
  });

  it("[JB14] has each job once: as the hub says, unless D1, which was asked later, has its end", () => {
    const both = joined(
      [job("a", 1, "running"), job("b", 2, "running"), job("c", 3)],
      [job("a", 1, "completed"), job("b", 2, "pending"), job("d", 4, "failed")],
    );
    expect(both.map(({ id, status }) => `${id} ${status}`).toSorted()).toEqual(["a completed", "b running", "c pending", "d failed"]);
  });
});
