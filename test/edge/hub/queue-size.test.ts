import { expect, test } from "vitest";
import { TestHub, withSettings } from "../support/worker-hub.ts";

withSettings({ QUEUED_JOBS: "8", QUEUED_BYTES: "2000", QUEUED_JOBS_PER_USER: "2" });

test("[LM1] the operator sets how many jobs wait, of one user and in all, and how many bytes their payloads have", async () => {
  const hub = new TestHub();
  const statuses = async (user: string, jobs: number, input = "i"): Promise<number[]> => {
    const answers = [];
    for (let n = 0; n < jobs; n++) answers.push(await hub.post("cheap", { user_id: user, payload: { task_type: "summarize", input } }));
    return answers.map(({ status }) => status);
  };
  expect(await statuses("one", 3)).toEqual([201, 201, 503]);
  // An eighth of the places and of the bytes is kept for each type of job.
  expect(await statuses("large", 1, "i".repeat(1_700))).toEqual([503]);
  expect(await statuses("two", 2)).toEqual([201, 201]);
  expect(await statuses("three", 2)).toEqual([201, 201]);
  expect(await statuses("four", 2)).toEqual([201, 503]);
});
