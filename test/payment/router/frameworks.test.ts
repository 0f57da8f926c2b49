// The AI SDK and LangChain pay on both instances with a fetch that pays [API9]. OpenAI's package is in openai.test.ts, and what is free in quickstart.test.ts.
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { CLIENTS } from "../support/clients.ts";
import { FRAMEWORKS } from "../support/frameworks.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });
  beforeEach(async () => {
    await bench.leave();
    await bench.join();
  });

  const paying = (): typeof fetch => {
    const client = CLIENTS["@x402/fetch 2.27"];
    if (client === undefined) throw new Error("no such client");
    return client(lab, bench.payer());
  };

  describe.each(Object.entries(FRAMEWORKS))("%s", (_, { whole, streamed }) => {
    it("[API9] pays FAST's price for a text", async () => {
      expect(await bench.earning(async () => expect(await whole(`${bench.url}/v1`, paying())).toBe("an answer"))).toBe(PRICE.fast);
    });

    it("[API9] pays FAST's price for a stream", async () => {
      expect(await bench.earning(async () => expect(await streamed(`${bench.url}/v1`, paying())).toBe("an answer"))).toBe(PRICE.fast);
    });
  });
});
