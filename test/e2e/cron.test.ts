import { describe, expect, it } from "vitest";
import { freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { get, post } from "../support/rest.ts";
import { until } from "../support/until.ts";

describe("npm run dev and npm start", () => {
  it("[LM3] fire the cron by themselves: what is past its time is forgotten", async () => {
    const settings = { TESTNET_MODE: "true", RETENTION_RESULT_DAYS: "0" };
    const stateDir = temporaryFolder("cron");
    const coordinator = await startBundled({ instance: "evm", port: await freePort(), stateDir, settings, cronMs: 250 });
    finallyDo(() => coordinator.stop());
    const body = { job_type: "TASK", user_id: "nobody", privacy_class: "PRIVATE", payload: { task_type: "classify", input: "x" } };
    const refused = await post(`${coordinator.url}/v1/jobs/commit/cheap`, body);
    expect(refused.status).toBe(422);
    const job = () => get(`${coordinator.url}/v1/jobs/${String(refused.body.job_id)}`);
    await until("an emptied result", async () => ((await job()).body.result === null ? true : undefined));
    expect((await job()).body).toMatchObject({ status: "failed", result: null });
  });
});
