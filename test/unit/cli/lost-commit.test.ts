import { ServerResponse } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import { hang, loseAnswer, reset } from "../sdk/support/faults.ts";
import { type Fault, json, RouterServer } from "../sdk/support/router-server.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { hasScript, terminal } from "./support/terminal.ts";

/** The first poll sees the end: a command polls every half second. */
const AT_ONCE = { statuses: [] };
const proceed: Fault = (response, _request, go) => go(response);
/** The coordinator has accepted the commit, and a proxy in front of it answers 500, which is not tried again. */
const loseTo500: Fault = (response, _request, go) => {
  go(new ServerResponse(response.req));
  json(response, 500, { error: "oops" });
};

/** The options for a coordinator and a wallet, which pays "paid". */
function place(router: RouterServer): string[] {
  const folder = temporaryFolder();
  const file = join(folder, "payer.mjs");
  writeFileSync(file, 'export default async () => ({ "X-PAYMENT": "paid" });');
  return ["--payer", file, "--url", router.url, "--config-dir", folder];
}

const ADVICE = /the coordinator may have the job and the payment; to get it without paying twice, run the same command with --idempotency-key (\S+)\r?\n$/;
const keyIn = (text: string): string => ADVICE.exec(text)?.[1] ?? "none";

describe("a paid commit whose answer was lost", () => {
  it.each([
    ["run", "hi"],
    ["run", "hi", "--stream"],
    ["task", "classify"],
  ])("[API5] is told with its key, and with the key %j gets its job and pays nothing again", async (...words) => {
    const router = await RouterServer.start({ ...AT_ONCE, gated: true });
    const args = [...words, ...place(router)];
    router.fail("POST /v1/jobs/commit", proceed, loseTo500);
    const lost = await runHere(args, { input: "a text" });
    expect(lost).toMatchObject({ code: 6, stderr: expect.stringMatching(ADVICE) });
    // A real coordinator looks up the key before it asks for money.
    router.rules.gated = false;
    const [jobId = ""] = router.jobs.keys();
    const found = await runHere([...args, "--idempotency-key", keyIn(lost.stderr)], { input: "a text" });
    expect(found).toMatchObject({ code: 0, stderr: expect.stringContaining(`job ${jobId}`) });
    expect([router.jobs.size, router.charged]).toEqual([1, ["paid"]]);
  });

  it("is told as a broken connection, not as a coordinator that is not there", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, gated: true });
    router.fail("POST /v1/jobs/commit", proceed, loseAnswer, loseAnswer, loseAnswer);
    const { code, stderr } = await runHere(["run", "hi", ...place(router)]);
    expect({ code, stderr }).toEqual({ code: 6, stderr: expect.stringMatching(ADVICE) });
    expect(stderr).toMatch(/^the connection to \S+ broke/);
  });

  it("is told too if the payment is refused afterwards, but not if it was only refused", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, gated: true, payment: () => "payment_already_used" });
    router.fail("POST /v1/jobs/commit", proceed, reset);
    const { code, stderr } = await runHere(["run", "hi", ...place(router)]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringMatching(ADVICE) });
    expect(stderr).toContain("the answer to the payment was lost, and now the coordinator refuses it: payment_already_used");
    const refused = await runHere(["run", "hi", ...place(router)]);
    expect(refused).toMatchObject({ code: 5, stderr: "the coordinator refused the payment: payment_already_used\n" });
  });

  it.runIf(hasScript)("is told after Ctrl-C too (130)", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, gated: true });
    router.fail("POST /v1/jobs/commit", proceed, hang);
    const run = terminal(["run", "hi", ...place(router)]);
    await run.says("sending the job …");
    await until("the paid commit", () => router.to("/v1/jobs/commit")[1]);
    run.type("\u0003");
    expect(await run.exited).toBe(130);
    expect(run.said()).toContain("stopped before the coordinator confirmed the job; ");
    expect(keyIn(run.said())).toBe(router.to("/v1/jobs/commit")[1]?.headers["idempotency-key"]);
  });
});

it("[API5] an accepted job whose state cannot be read is told with its key", async () => {
  const router = await RouterServer.start({ ...AT_ONCE, gated: true });
  router.fail("GET /v1/jobs", (response) => json(response, 404, { error: "not_found" }));
  const { code, stderr } = await runHere(["run", "hi", ...place(router)]);
  expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringMatching(ADVICE) });
  expect(keyIn(stderr)).toBe(router.to("/v1/jobs/commit")[1]?.headers["idempotency-key"]);
});

it("[API5] a free commit whose answer was lost is told with its key, without words about money", async () => {
  const router = await RouterServer.start(AT_ONCE);
  router.fail("POST /v1/jobs/commit", loseTo500);
  const { stderr } = await runHere(["run", "hi", "--idempotency-key", "a;b", "--user", "u", "--url", router.url]);
  expect(stderr).toBe(
    "the router answered 500: oops; the coordinator may have the job; to get that job and not a second one, run the same command with --idempotency-key 'a;b'\n",
  );
  expect(router.to("/v1/jobs/commit")[0]?.headers["idempotency-key"]).toBe("a;b");
});
