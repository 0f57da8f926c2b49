// The faulty connection between a worker and the coordinator in npm run test:chaos.
import type { Random } from "../simulation/random.ts";
import type { Socket } from "../../src/worker/session/index.ts";
import type { History } from "./history.ts";

/** How the line between a worker and the coordinator misbehaves, in chances per frame or job. */
export type Mischief = {
  /** The worker's end drops the socket. */
  drops: number;
  /** A `job_complete` is sent three times. */
  repeats: number;
  /** An answer to a `job_complete` does not arrive. */
  deaf: number;
  /** A job is rejected instead of run. */
  rejects: number;
  /** Nothing of our additions to the specification is sent: no acknowledgement, no resume, no attempt. */
  plain: boolean;
};

type Frame = Record<string, unknown> & { type?: unknown; job_id?: unknown };
type Listener = Parameters<Socket["addEventListener"]>[1];

/** What a wire needs to know of its worker. */
type Owner = { publicKey: string; mischief: Mischief; history: History; random: Random; calm: () => boolean };

/** The WebSocket of one worker's session, which notes every acknowledgement and does mischief. */
export function wireOf(owner: Owner): new (url: string) => Socket {
  const { publicKey, mischief, history, random, calm } = owner;
  const strikes = (chance: number): boolean => !calm() && random.chance(chance);

  return class Wire implements Socket {
    readonly #socket: WebSocket;

    constructor(url: string) {
      this.#socket = new WebSocket(url);
    }

    send(text: string): void {
      const frame = JSON.parse(text) as Frame;
      const plain = mischief.plain && !calm();
      if (plain && (frame.type === "job_ack" || frame.type === "job_progress")) return;
      if (frame.type === "job_complete") history.sent(String(frame.job_id), publicKey, String(frame.receipt_signature));
      const said = plain ? JSON.stringify({ ...frame, attempt: undefined, features: undefined, resume: undefined }) : text;
      this.#put(said);
      if (frame.type === "job_complete" && strikes(mischief.repeats)) for (let again = 0; again < 2; again++) this.#put(said);
      if (strikes(mischief.drops)) this.#socket.close(3_000);
    }

    close(code?: number, reason?: string): void {
      this.#socket.close(code, reason);
    }

    addEventListener(type: "open" | "message" | "close" | "error", listener: Listener): void {
      if (type !== "message") {
        this.#socket.addEventListener(type, (event: Event) => listener(event as Event & { code?: number; reason?: string }));
        return;
      }
      this.#socket.addEventListener("message", ({ data }) => {
        if (this.#arrives(JSON.parse(String(data)) as Frame)) listener({ data });
        if (strikes(mischief.drops)) this.#socket.close(3_000);
      });
    }

    /** Notes what came; false when the worker is not to hear of it. */
    #arrives(frame: Frame): boolean {
      const job = String(frame.job_id);
      if (frame.type === "job_complete_ack") {
        history.answered({ job, worker: publicKey, status: String(frame.status), error: typeof frame.error === "string" ? frame.error : null });
        return !strikes(mischief.deaf);
      }
      if (frame.type !== "job_assign") return true;
      history.gave(job, publicKey);
      if (!strikes(mischief.rejects)) return true;
      this.#put(JSON.stringify({ type: "job_reject", job_id: job, reason: "busy" }));
      return false;
    }

    #put(text: string): void {
      // The global WebSocket throws away what is sent after its end, and says nothing.
      this.#socket.send(text);
    }
  };
}
