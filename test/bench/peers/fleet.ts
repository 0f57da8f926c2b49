// The worker side of a peer: sockets of signed workers, one job at a time each, with the check of receipts. A queue hands jobs in.
import { type KeyObject, randomBytes, verify } from "node:crypto";
import type { Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { isValid, publicKey, type Receipt } from "./receipt.ts";

export type Job = { id: string; user_id: string; job_type: string; payload: Record<string, unknown> };
/** What a valid answer is made of. `ack` is called when it is durable. */
export type Done = { output: unknown; receipt: Receipt; ack: () => void };

/** A connection that is closed just when the driver uses it again is an error, so none is closed. */
export const KEEP_ALIVE_MS = 600_000;

type Waiting = { job: Job; done: (done: Done) => void };
type Worker = { socket: WebSocket; name: string; key: KeyObject; work: Waiting | null };

export class Fleet {
  readonly #idle: Worker[] = [];
  readonly #waiting: Waiting[] = [];

  /** Serves workers at `/` of an HTTP server. */
  listen(server: Server): void {
    const sockets = new WebSocketServer({ server, perMessageDeflate: false });
    sockets.on("connection", (socket, request) => this.#greet(socket, request.headers.host ?? ""));
  }

  /** Gives the job to the worker that has been idle for the longest time, as soon as there is one; resolves with its valid answer. */
  run(job: Job): Promise<Done> {
    return new Promise((done) => this.#give({ job, done }));
  }

  #give(work: Waiting): void {
    const worker = this.#idle.shift();
    if (worker === undefined) this.#waiting.push(work);
    else this.#assign(worker, work);
  }

  #assign(worker: Worker, work: Waiting): void {
    worker.work = work;
    const { id, job_type, payload } = work.job;
    worker.socket.send(JSON.stringify({ type: "job_assign", job_id: id, attempt: 1, job_type, payload }));
  }

  #greet(socket: WebSocket, host: string): void {
    const nonce = randomBytes(16).toString("hex");
    let worker: Worker | null = null;
    socket.send(JSON.stringify({ type: "challenge", nonce, network: "bench", host }));
    socket.on("close", () => {
      if (worker === null) return;
      const place = this.#idle.indexOf(worker);
      if (place >= 0) this.#idle.splice(place, 1);
      if (worker.work !== null) this.#give(worker.work);
    });
    socket.on("message", (data) => {
      const frame = JSON.parse(String(data));
      if (frame.type === "register") {
        const name: string = frame.provider_pubkey;
        const key = publicKey(name);
        const text = ["compute-router/register/v1", "bench", host, nonce, name].join("\n");
        if (!verify(null, Buffer.from(text), key, Buffer.from(frame.signature, "base64"))) return socket.close(4401);
        worker = { socket, name, key, work: null };
        socket.send(JSON.stringify({ type: "register_ack", status: "ok" }));
        this.#free(worker);
      } else if (frame.type === "job_complete" && worker !== null) this.#completed(worker, frame);
    });
  }

  #completed(
    worker: Worker,
    { job_id, output, receipt, receipt_signature }: { job_id: string; output: unknown; receipt: Receipt; receipt_signature: string },
  ): void {
    const { work } = worker;
    if (work?.job.id !== job_id) return;
    const signed = { ...receipt, signature: receipt_signature };
    const answer = (status: string): void => worker.socket.send(JSON.stringify({ type: "job_complete_ack", job_id, status }));
    if (!isValid(signed, job_id, worker.name, worker.key, output)) return answer("rejected");
    worker.work = null;
    work.done({ output, receipt: signed, ack: () => answer("accepted") });
    this.#free(worker);
  }

  #free(worker: Worker): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(worker);
    else this.#assign(worker, next);
  }
}
