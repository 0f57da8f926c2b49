// A worker on a real socket for the edge tests of the REST side.
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { keyPair, signReceipt } from "../../../src/receipt/index.ts";
import { rest } from "./rest.ts";

type Frame = { type: string; [field: string]: unknown };

/** A worker on a real socket. It uses the protocol of the specification and announces `ack`, so it gets jobs at once [JB2]. It keeps every frame. */
export class FakeWorker {
  readonly key = keyPair(crypto.getRandomValues(new Uint8Array(32)));
  readonly #socket: WebSocket;
  readonly #frames: Frame[] = [];
  readonly #waiting: { type: string; done: (frame: Frame) => void }[] = [];

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", (event) => this.#take(JSON.parse(String(event.data))));
    socket.accept();
  }

  /** Connects and registers. */
  static async connect(capabilities: string[] = ["LLM_INFER", "TASK"]): Promise<FakeWorker> {
    const response = await rest("/", { headers: { upgrade: "websocket" } });
    const worker = new FakeWorker(response.webSocket ?? expect.unreachable(`no socket: ${response.status}`));
    worker.send({ type: "register", provider_pubkey: worker.key.publicKey, provider_type: "DESKTOP", capabilities, features: ["ack"] });
    expect(await worker.next("register_ack")).toMatchObject({ status: "ok" });
    return worker;
  }

  send(frame: object): void {
    this.#socket.send(JSON.stringify(frame));
  }

  /** Returns the next frame of a type; it may have arrived already. */
  async next(type: string): Promise<Frame> {
    const index = this.#frames.findIndex((frame) => frame.type === type);
    if (index >= 0) return this.#frames.splice(index, 1)[0] ?? expect.unreachable();
    return await new Promise((done) => this.#waiting.push({ type, done }));
  }

  /** Answers the next job with `output` and a receipt, and waits until the coordinator has acknowledged it. */
  async complete(output: unknown): Promise<Frame> {
    const job = await this.next("job_assign");
    const receipt = signReceipt(this.key, String(job.job_id), output, new Date().toISOString());
    const { signature, ...fields } = receipt;
    this.send({ type: "job_complete", job_id: job.job_id, attempt: job.attempt, output, receipt: fields, receipt_signature: signature });
    expect(await this.next("job_complete_ack")).toMatchObject({ status: "accepted" });
    return job;
  }

  /** Closes the socket and waits until the coordinator has closed its side too. */
  async close(): Promise<void> {
    const closed = new Promise((done) => this.#socket.addEventListener("close", done));
    this.#socket.close(1000);
    await closed;
  }

  #take(frame: Frame): void {
    const index = this.#waiting.findIndex(({ type }) => type === frame.type);
    if (index < 0) this.#frames.push(frame);
    else this.#waiting.splice(index, 1)[0]?.done(frame);
  }
}

/** Waits until D1 has the end of a job: the hub copies it a moment after the answer. */
export async function recorded(jobId: string): Promise<void> {
  await expect.poll(() => env.DB.prepare("SELECT ended_at FROM jobs WHERE id = ?").bind(jobId).first("ended_at")).toBeTypeOf("number");
}
