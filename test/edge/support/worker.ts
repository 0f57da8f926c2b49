// An honest worker of the edge tests. It uses no code of our own worker.
import { JobAssign, RegisterAck, registerText } from "../../../src/protocol/worker-messages.ts";
import type { Receipt } from "../../../src/protocol/job.ts";
import { type KeyPair, keyPair, signReceipt, signText } from "../../../src/receipt/index.ts";
import { type Frame, WorkerSocket } from "./worker-socket.ts";

/** Creates a key for a new worker. */
export function newKey(): KeyPair {
  return keyPair(crypto.getRandomValues(new Uint8Array(32)));
}

/** An honest worker, written frame by frame: it uses no code of our own worker. */
export class TestWorker extends WorkerSocket {
  readonly key: KeyPair;
  /** True if it announced `ack` and acknowledges each job at once. */
  #acks = false;
  #challenge: Frame = { type: "none" };

  private constructor(ws: WebSocket, key: KeyPair) {
    super(ws);
    this.key = key;
  }

  /** Waits for the challenge and returns the worker of this socket. */
  static async greeted(ws: WebSocket, key: KeyPair = newKey()): Promise<TestWorker> {
    const worker = new TestWorker(ws, key);
    worker.#challenge = await worker.next("challenge");
    return worker;
  }

  get challenge(): Frame {
    return this.#challenge;
  }

  /**
   * Returns the `register` frame of this worker; `signed` signs the challenge. It announces `ack` unless `features` is `[]`: without `ack` a worker gets no job
   * for 2 s [JB2].
   */
  registration({ signed = false, ...fields }: { signed?: boolean; [field: string]: unknown } = {}): Frame {
    const { network, host, nonce } = this.challenge;
    const text = registerText({ network: String(network), host: String(host), nonce: String(nonce), pubkey: this.key.publicKey });
    return {
      type: "register",
      provider_pubkey: this.key.publicKey,
      provider_type: "DESKTOP",
      capabilities: ["LLM_INFER", "TASK"],
      features: ["ack"],
      ...(signed && { signature: signText(text, this.key.secret) }),
      ...fields,
    };
  }

  async register(fields: { signed?: boolean; [field: string]: unknown } = {}): Promise<Extract<Answer, { status: "ok" }>> {
    const frame = this.registration(fields);
    this.#acks = Array.isArray(frame.features) && frame.features.includes("ack");
    this.send(frame);
    const ack = RegisterAck.parse(await this.next("register_ack"));
    if (ack.status !== "ok") throw new Error(`refused: ${ack.error}`);
    return ack;
  }

  /** Waits for the next job and acknowledges it, unless `acks` is false. */
  async assigned({ acks = this.#acks }: { acks?: boolean } = {}): Promise<JobAssign> {
    const job = JobAssign.parse(await this.next("job_assign"));
    if (acks) this.send({ type: "job_ack", job_id: job.job_id, attempt: job.attempt });
    return job;
  }

  /** Returns the receipt that an honest worker signs for `output`. */
  receipt(jobId: string, output: unknown, completedAt: number = Date.now()): Receipt {
    return signReceipt(this.key, jobId, output, new Date(completedAt).toISOString());
  }

  /** Returns a `job_complete` with a valid receipt; `fields` replace members. */
  completion(job: Pick<JobAssign, "job_id" | "attempt">, output: unknown, fields: Record<string, unknown> = {}): Frame {
    const { signature, ...receipt } = this.receipt(job.job_id, output);
    return { type: "job_complete", job_id: job.job_id, attempt: job.attempt, output, receipt, receipt_signature: signature, ...fields };
  }

  /** Sends a completion and returns its answer. */
  async complete(
    job: Pick<JobAssign, "job_id" | "attempt">,
    output: unknown = { summary: "s", word_count: 1 },
    fields: Record<string, unknown> = {},
  ): Promise<Frame> {
    this.send(this.completion(job, output, fields));
    return this.next("job_complete_ack");
  }
}

type Answer = ReturnType<typeof RegisterAck.parse>;
