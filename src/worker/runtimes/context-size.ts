import * as z from "zod";
import { parseJson } from "./chat-answer.ts";
import { bodyText } from "./response-body.ts";

/** How a runtime is asked: with its key, without redirects. */
export type Ask = (url: string, init?: { method: "POST"; body: string }) => Promise<Response>;

const Tokens = z.int().positive();
const Props = z.object({ default_generation_settings: z.object({ n_ctx: Tokens }) });
const LmStudio = z.object({ data: z.array(z.object({ id: z.string(), loaded_context_length: Tokens.optional().catch(undefined) })) });
const OllamaRunning = z.object({ models: z.array(z.object({ name: z.string(), context_length: Tokens.optional().catch(undefined) })) });
const OllamaShow = z.object({ parameters: z.string() });

/**
 * The context that a runtime has loaded a model with, in tokens: what prompt and answer may have together. Often far less than the model was trained
 * for, and in no OpenAI-compatible list. Undefined where the runtime does not tell.
 */
export async function loadedContext(runtime: string, baseUrl: string, model: string, ask: Ask): Promise<number | undefined> {
  const root = baseUrl.replace(/\/v1$/, "");
  const read = async <T>(schema: z.ZodType<T>, ...asked: Parameters<Ask>): Promise<T | undefined> => {
    const response = await ask(...asked);
    const text = await bodyText(response);
    return response.ok ? schema.safeParse(parseJson(text)).data : undefined;
  };
  try {
    switch (runtime) {
      case "llama.cpp":
        return (await read(Props, `${root}/props`))?.default_generation_settings.n_ctx;
      case "lm-studio":
        return (await read(LmStudio, `${root}/api/v0/models`))?.data.find(({ id }) => id === model)?.loaded_context_length;
      case "ollama": {
        const running = await read(OllamaRunning, `${root}/api/ps`);
        const told = running?.models.find(({ name }) => name === model)?.context_length;
        if (told !== undefined) return told;
        // Older ones tell only what the model's own file sets; their default depends on the version and the machine.
        const show = await read(OllamaShow, `${root}/api/show`, { method: "POST", body: JSON.stringify({ model }) });
        return Tokens.safeParse(Number(/^num_ctx\s+(\d+)\s*$/m.exec(show?.parameters ?? "")?.[1])).data;
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
