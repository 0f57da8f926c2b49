// What people already use, against both instances, free and paid: OpenAI's package, the AI SDK, LangChain. Each is given the base URL, and a fetch that pays [API9].
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { freePort } from "../../../scripts/coordinator-process.ts";
import { type CoordinatorHere, startHere } from "../../support/coordinator-here.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { CLIENTS } from "../support/clients.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

type Ask = (baseURL: string, fetcher: typeof fetch) => Promise<string>;
type Framework = { whole: Ask; streamed: Ask };

const PROMPT = "Say hello.";
const MESSAGES = [{ role: "user" as const, content: PROMPT }];

const openai = (baseURL: string, fetcher: typeof fetch): OpenAI => new OpenAI({ baseURL, apiKey: "none", fetch: fetcher });
const aiModel = (baseURL: string, fetcher: typeof fetch) =>
  createOpenAICompatible({ name: "compute-router", baseURL, apiKey: "none", fetch: fetcher }).chatModel("auto");
const langchain = (baseURL: string, fetcher: typeof fetch): ChatOpenAI =>
  new ChatOpenAI({ model: "auto", apiKey: "none", configuration: { baseURL, fetch: fetcher } });

const FRAMEWORKS: Record<string, Framework> = {
  openai: {
    whole: async (...how) => (await openai(...how).chat.completions.create({ model: "auto", messages: MESSAGES })).choices[0]?.message.content ?? "",
    async streamed(...how) {
      let text = "";
      for await (const chunk of await openai(...how).chat.completions.create({ model: "auto", messages: MESSAGES, stream: true }))
        text += chunk.choices[0]?.delta.content ?? "";
      return text;
    },
  },
  "AI SDK": {
    whole: async (...how) => (await generateText({ model: aiModel(...how), prompt: PROMPT })).text,
    async streamed(...how) {
      let text = "";
      for await (const part of streamText({ model: aiModel(...how), prompt: PROMPT }).textStream) text += part;
      return text;
    },
  },
  LangChain: {
    whole: async (...how) => (await langchain(...how).invoke(PROMPT)).text,
    async streamed(...how) {
      let text = "";
      for await (const chunk of await langchain(...how).stream(PROMPT)) text += chunk.text;
      return text;
    },
  },
};

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("on %s", (side) => {
  let bench: Bench;
  let free: CoordinatorHere;
  let worker: PlainWorker;

  beforeAll(async () => {
    bench = await sharedBench(side);
    const stateDir = mkdtempSync(join(tmpdir(), `compute-router-free-${side}-`));
    free = await startHere({ instance: side, port: await freePort(), stateDir, settings: { TESTNET_MODE: "true" } });
    worker = new PlainWorker(free.socketUrl, { acks: true });
    await worker.connect();
    worker.serve();
    return async () => {
      worker.close();
      await Promise.all([free.stop(), giveBack(bench)]);
      rmSync(stateDir, { recursive: true, force: true });
    };
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
    it("[API9] gets a text where jobs are free", async () => {
      expect(await whole(`${free.url}/v1`, fetch)).toBe("an answer");
    });

    it("[API9] gets a stream where jobs are free", async () => {
      expect(await streamed(`${free.url}/v1`, fetch)).toBe("an answer");
    });

    it("[API9] pays FAST's price for a text", async () => {
      expect(await bench.earning(async () => expect(await whole(`${bench.url}/v1`, paying())).toBe("an answer"))).toBe(PRICE.fast);
    });

    it("[API9] pays FAST's price for a stream", async () => {
      expect(await bench.earning(async () => expect(await streamed(`${bench.url}/v1`, paying())).toBe("an answer"))).toBe(PRICE.fast);
    });
  });
});
