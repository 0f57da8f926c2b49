import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, type WorkerdOptions } from "../../../scripts/coordinator-process.ts";
import { configuration } from "../../../scripts/workerd-config.ts";

test("of the lines of workerd an operator sees warnings and errors, but not what is harmless at each start", async () => {
  const options: WorkerdOptions = {
    ...{
      instance: "evm",
      host: "127.0.0.1",
      port: 4010,
      stateDir: "/nowhere",
      settings: {},
      cronMs: 60_000,
      watches: false,
      serves: true,
      guardsFrames: false,
      metrics: null,
    },
    bundle: join(ROOT, "scripts", "page-files.mjs"),
  };
  const said: string[] = [];
  const { handleStructuredLogs } = await configuration(options, { host: "127.0.0.1", port: 1 }, (text) => said.push(text));
  const say = (level: string, message: string) => handleStructuredLogs?.({ timestamp: 0, level, message });
  say("error", "NOSENTRY SQLite alarm handler canceled with requestScheduledAlarm.; scheduledTime = 1795933199.805s");
  say("warn", "bootstrap compile cache failed its compatibility check");
  say("info", "of no interest");
  say("error", "e = workerd/util/sqlite.c++:914: failed: database or disk is full: SQLITE_FULL");
  say("warn", '{"level":"warning","event":"placeholder_pay_to"}');
  expect(said).toEqual(["e = workerd/util/sqlite.c++:914: failed: database or disk is full: SQLITE_FULL", '{"level":"warning","event":"placeholder_pay_to"}']);
});
