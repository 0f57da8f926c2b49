import type { EngineMessage, PageMessage } from "../engine/messages.ts";

/** How long an engine that is told to stop may take to say goodbye. */
const GOODBYE_MS = 1_000;

/** The engine in its own thread: its timers go on where those of a hidden page are held back. */
export class EngineLink {
  readonly #thread: Worker;

  constructor(url: string, onMessage: (message: EngineMessage) => void) {
    this.#thread = new Worker(url, { name: "engine" });
    this.#thread.addEventListener("message", ({ data }: MessageEvent<EngineMessage>) => onMessage(data));
    this.#thread.addEventListener("error", () =>
      onMessage({ type: "broken", message: "The worker's program could not be loaded or has crashed. Reload the page." }),
    );
  }

  send(message: PageMessage): void {
    this.#thread.postMessage(message);
  }

  /** Stops the work and ends the thread. */
  close(): void {
    this.send({ type: "stop" });
    setTimeout(() => this.#thread.terminate(), GOODBYE_MS);
  }
}
