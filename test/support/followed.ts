import { ComputeRouter, type JobEvent } from "../../src/sdk/index.ts";
import { until } from "./until.ts";

/** A stream that is read as a page would: everything it was told, what it shows now, and when the stream has ended. */
export type Followed = { told: JobEvent[]; shown: () => string; end: Promise<void> };

/** Commits an LLM job with this prompt and follows it. */
export function follow(baseUrl: string, prompt: string): Followed {
  const told: JobEvent[] = [];
  let text = "";
  const read = async (): Promise<void> => {
    for await (const event of new ComputeRouter({ baseUrl }).stream({ job_type: "LLM_INFER", prompt })) {
      told.push(event);
      if (event.type === "delta") text += event.delta;
      if (event.type === "reset") text = "";
    }
  };
  return { told, shown: () => text, end: read() };
}

/** Resolves when it shows exactly this text. */
export async function shows(page: Followed, text: string): Promise<void> {
  await until(`"${text}"`, () => (page.shown() === text ? true : undefined), page.shown);
}
