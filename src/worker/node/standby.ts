// A standby worker takes LLM jobs only while no other worker takes them. It asks the coordinator every few seconds how many workers do.
import * as z from "zod";
import { parseJson } from "../../protocol/json.ts";
import { bodyText } from "../runtimes/answer.ts";

/** How often the worker asks. It is longer than the second for which the coordinator may cache its answer [JB10]. */
const INTERVAL_MS = 3_000;
/** Each pause is up to this part shorter or longer, so that two standby workers do not always change their minds at the same moment. */
const JITTER = 0.25;
const TIMEOUT_MS = 5_000;

const Answer = z.object({ workers_online: z.int().min(0) });

/** The answer of a coordinator: how many workers take LLM jobs; `unknown` from an older version, which does not state it; or no answer this time. */
export type Look = { kind: "told"; workers: number } | { kind: "unknown" } | { kind: "failed" };

/**
 * True if a standby worker leaves the LLM jobs to others.
 *
 * @param before the decision until now; null before the first answer
 * @param counted true if the number of workers includes this one
 */
export function standsBack(before: boolean | null, look: Look, counted: boolean): boolean | null {
  switch (look.kind) {
    case "told":
      return look.workers - (counted ? 1 : 0) > 0;
    case "unknown":
      // The number is unknown, and a job without a worker would fail.
      return false;
    case "failed":
      return before;
    default:
      return look satisfies never;
  }
}

/** Options of {@link Standby}. */
type StandbyOptions = {
  /** Address of the coordinator's `GET /v1/models`. */
  url: string;
  /** True if the coordinator counts this worker among those that take LLM jobs. */
  isCounted: () => boolean;
  /** Called when the decision has changed. */
  onChange: (standsBack: boolean) => void;
  intervalMs?: number;
};

/** Keeps the decision of one worker for one coordinator up to date while the worker is connected there. */
export class Standby {
  readonly #options: StandbyOptions;
  #state: boolean | null = null;
  #connected = false;
  #looking = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: StandbyOptions) {
    this.#options = options;
  }

  /** True while LLM jobs are left to others. It starts with true, until the coordinator has answered. */
  get standsBack(): boolean {
    return this.#state ?? true;
  }

  /** Call it when the socket is registered and when it no longer is. Without a registration there is nothing to decide. */
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
    return answer?.success === true ? { kind: "told", workers: answer.data.workers_online } : { kind: "unknown" };
  } catch {
    return { kind: "failed" };
  }
}
