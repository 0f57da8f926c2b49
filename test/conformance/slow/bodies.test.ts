import { expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import { start } from "../support/coordinator.ts";
import { RawHttp } from "../support/raw-http.ts";
import { stopwatch, within } from "../support/wait.ts";

test("[LM1] a body that stops before its end is refused after 30 s, announced or in chunks, and its connection ends", { timeout: 90_000 }, async () => {
  const evm = await start("evm");
  const elapsed = stopwatch();
  const raws = ["Content-Length: 500000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7d000\r\n"].map((rest) => {
    const raw = new RawHttp(evm.port);
    raw.write(`POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: ${evm.host}\r\n${rest}${"b".repeat(400_000)}`);
    return raw;
  });
  for (const raw of raws) {
    await within(
      TIMING.body + 20_000,
      () => (raw.all.includes("Body must be complete within 30 s") && raw.ended ? true : undefined),
      () => `an answer and the end; got ${raw.all.slice(0, 500)}, ended ${raw.ended}`,
    );
    expect(raw.all).toMatch(/^HTTP\/1.1 400/);
  }
  expect(elapsed()).toBeGreaterThanOrEqual(TIMING.body - 1_000);
});
