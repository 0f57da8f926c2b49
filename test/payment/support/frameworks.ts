// What people already use besides OpenAI's package, as they use it: each is given the base URL, and a fetch that may pay [API9].
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, streamText } from "ai";

type Ask = (baseURL: string, fetcher: typeof fetch) => Promise<string>;
type Framework = { whole: Ask; streamed: Ask };

const PROMPT = "Say hello.";

const aiModel = (baseURL: string, fetcher: typeof fetch) =>
  createOpenAICompatible({ name: "compute-router", baseURL, apiKey: "none", fetch: fetcher }).chatModel("auto");
const langchain = (baseURL: string, fetcher: typeof fetch): ChatOpenAI =>
  new ChatOpenAI({ model: "auto", apiKey: "none", configuration: { baseURL, fetch: fetcher } });

/** The frameworks by name, and how each asks for a whole answer and for a stream. */
export const FRAMEWORKS = {
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
} satisfies Record<string, Framework>;
