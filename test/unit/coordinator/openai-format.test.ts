import { expect, test } from "vitest";
import { explained, failureOf, inWordsOfOpenAi, paramOf, readOpenAi } from "../../../src/coordinator/routes/openai-format.ts";

test("a code that a person reads in place of a sentence comes with one", () => {
  expect(explained("no_such_model")).toBe('no_such_model: no connected worker offers this model; with "auto" any may answer');
  expect(explained("internal_error")).toBe("internal_error");
});

test("[API9] [LM3] a job whose result the retention has deleted is an error, and not an answer with the text null", () => {
  const job = { id: "0b8f3c1e", status: "completed", result: null };
  expect(failureOf({ job })).toMatchObject({ status: 404, error: { code: "result_deleted", message: expect.stringContaining("/v1/jobs/0b8f3c1e") } });
  expect(failureOf({ job: { ...job, result: { output: "an answer" } } })).toBeNull();
});

test("[API5] [API9] a cancelled job says who may have cancelled it, and that the same Idempotency-Key gets the same job", () => {
  const job = { id: "0b8f3c1e", status: "failed", result: { error: "cancelled" } };
  const message = expect.stringMatching(/^the job failed: cancelled, because its client closed the request.* had an Idempotency-Key, use another one$/);
  expect(failureOf({ job })).toMatchObject({ status: 503, error: { code: "cancelled", message } });
  expect(failureOf({ job: { ...job, result: { error: "worker_lost" } } })?.error.message).toBe("the job failed: worker_lost");
});

test("[API9] [JB5] a job that no worker took says so in words", () => {
  const job = { id: "0b8f3c1e", status: "failed", result: { error: "no_eligible_worker" } };
  const message = "the job failed: no_eligible_worker: no worker that may take it was free in time";
  expect(failureOf({ job })).toMatchObject({ status: 503, error: { code: "no_eligible_worker", message } });
});

test.each(["idempotency_key_reused", "queue_full"])("[API9] %s is explained in words; a code without an explanation stays as it is", (code) => {
  expect(explained(code)).toMatch(new RegExp(`^${code}: .*(another key|try again later)$`));
  expect(explained("overloaded")).toBe("overloaded");
});

test("[API9] a content with an image is told that images are not supported", () => {
  const content = [{ type: "image_url", image_url: { url: "data:," } }];
  expect(readOpenAi("chat", { messages: [{ role: "user", content }] })).toEqual({
    ok: false,
    reason: "messages[0].content must be a text, or a list of texts (images and sound are not supported), got an array",
  });
});

test("[API9] an error names the member that it is about as its param, the first one if there are several, and none if it is about the whole request", () => {
  const wrong = readOpenAi("chat", { n: 2, logprobs: true, messages: [{ role: "user", content: 5 }] });
  expect(wrong.ok ? wrong : paramOf(wrong.reason)).toBe("n");
  const first = readOpenAi("chat", {
    messages: [
      { role: "user", content: "a; n must be 1" },
      { role: "user", content: [], tool_calls: [1] },
    ],
  });
  expect(first.ok ? first : paramOf(first.reason)).toBe("messages[1].tool_calls");
  expect(paramOf(inWordsOfOpenAi("user_id must not contain control characters. Required fields: job_type, payload, user_id", {}))).toBe("user");
  expect(paramOf("no_such_model")).toBe("model");
  const none = [
    "body must be a JSON object",
    "payload must hold well-formed Unicode only",
    "Body nests deeper than 31 levels",
    "queue_full",
    "Content-Encoding is not supported",
  ];
  expect(none.map(paramOf)).toEqual(none.map(() => null));
});
