import { expect, test } from "vitest";
import { failureOf } from "../../../src/coordinator/routes/openai-format.ts";

test("[API9] [LM3] a job whose result the retention has deleted is an error, and not an answer with the text null", () => {
  const job = { id: "0b8f3c1e", status: "completed", result: null };
  expect(failureOf({ job })).toMatchObject({ status: 404, error: { code: "result_deleted", message: expect.stringContaining("/v1/jobs/0b8f3c1e") } });
  expect(failureOf({ job: { ...job, result: { output: "an answer" } } })).toBeNull();
});
