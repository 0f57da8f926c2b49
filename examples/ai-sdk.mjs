// The AI SDK with a coordinator as its provider: node examples/ai-sdk.mjs "What is a hash?". It needs ai and @ai-sdk/openai-compatible.
// Set ROUTER_BASE_URL for another coordinator than http://127.0.0.1:4010. To pay, give createOpenAICompatible a `fetch` that pays (docs/sdk.md).
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const prompt = process.argv[2] ?? "What is a hash?";

/** The answer, or the last chunk of a stream, has the job's id and its receipt. */
const metadataExtractor = {
  extractMetadata: async ({ parsedBody }) => ({ computeRouter: parsedBody.compute_router }),
  createStreamExtractor: () => {
    let last;
    return { processChunk: (chunk) => (last = chunk.compute_router ?? last), buildMetadata: () => last && { computeRouter: last } };
  },
};
const baseURL = `${process.env.ROUTER_BASE_URL ?? "http://127.0.0.1:4010"}/v1`;
const router = createOpenAICompatible({ name: "compute-router", baseURL, metadataExtractor });

/** If the AI SDK sends a request again with the same key, it gets the same job. Without a key it would get another job. */
const onlyOnce = () => ({ "Idempotency-Key": crypto.randomUUID() });

const { text, usage, providerMetadata } = await generateText({ model: router("auto"), prompt, maxOutputTokens: 100, headers: onlyOnce() });
const { job_id, receipt } = providerMetadata.computeRouter;
console.log(`${text}\njob ${job_id}, receipt of ${receipt.provider_pubkey}, ${usage.outputTokens ?? "unknown"} tokens`);

const stream = streamText({ model: router("auto"), prompt, headers: onlyOnce() });
for await (const part of stream.textStream) process.stdout.write(part);
console.log(`\njob ${(await stream.providerMetadata).computeRouter.job_id}`);
