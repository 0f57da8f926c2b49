// A standby worker offers LLM jobs only while no other worker does: it asks the coordinator every few seconds how many workers take them.
import * as z from "zod";
import { parseJson } from "../../protocol/text.ts";
import { bodyText } from "../runtimes/http-response.ts";

/** How often the coordinator is asked; more than the second for which it may answer from memory [JB10]. */
const INTERVAL_MS = 3_000;
/** Each pause is up to this part shorter or longer: two standby workers that step back at the same moment must not stay in step for ever. */
const JITTER = 0.25;
const TIMEOUT_MS = 5_000;

const Answer = z.object({ workers_online: z.int().min(0) });

/** What a coordinator said: how many workers take LLM jobs; that it does not tell (it is of an older version); or nothing this time. */
export type Look = { kind: "told"; workers: number } | { kind: "untold" } | { kind: "failed" };

/**
 * Whether a standby worker stands back.
 *
 * @param before what it did until now; null before the first answer
 * @param counted whether the number of workers includes this one
 */
export function standsBack(before: boolean | null, look: Look, counted: boolean): boolean | null {
  switch (look.kind) {
    case "told":
      return look.workers - (counted ? 1 : 0) > 0;
    case "untold":
      // Nobody can know, and a job that finds no worker fails.
      return false;
    case "failed":
      return before;
    default:
      return look satisfies never;
  }
}

/** How to look, and what to do about it. */
export type StandbyOptions = {
  /** Address of the coordinator's `GET /v1/models`. */
  url: string;
  /** Whether the coordinator counts this worker among those that take LLM jobs. */
  isCounted: () => boolean;
  /** The decision is another one. */
  onChange: (standsBack: boolean) => void;
  intervalMs?: number;
};

/** Keeps the decision of one worker at one coordinator up to date while it is connected there. */
export class Standby {
  readonly #options: StandbyOptions;
  #state: boolean | null = null;
  #connected = false;
  #looking = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: StandbyOptions) {
    this.#options = options;
  }

  /** Whether LLM jobs are left to others; so it begins, until the coordinator has said something. */
  get standsBack(): boolean {
    return this.#state ?? true;
  }

  /** The socket is registered, or not any more. While it is not, there is nothing to decide. */
  connected(connected: boolean): void {
    this.#connected = connected;
    clearTimeout(this.#timer);
    if (connected) void this.#look();
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const look = await askWorkers(this.#options.url);
    this.#looking = false;
    if (!this.#connected) return;
    const next = standsBack(this.#state, look, this.#options.isCounted());
    const changed = next !== null && next !== this.#state;
    this.#state = next;
    const pause = (this.#options.intervalMs ?? INTERVAL_MS) * (1 + JITTER * (2 * Math.random() - 1));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#look(), pause);
    this.#timer.unref();
    if (changed) this.#options.onChange(next);
  }
}

async function askWorkers(url: string): Promise<Look> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    const text = await bodyText(response);
    if (response.status >= 500 || response.status === 429) return { kind: "failed" };
    const answer = response.ok ? Answer.safeParse(parseJson(text)) : null;
    return answer?.success === true ? { kind: "told", workers: answer.data.workers_online } : { kind: "untold" };
  } catch {
    return { kind: "failed" };
  }
}
