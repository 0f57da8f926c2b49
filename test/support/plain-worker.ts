// A worker written from the specification alone, for tests of both sides.
import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { until } from "./until.ts";

/** A frame, as parsed. */
export type Frame = { type: string } & Record<string, unknown>;

/** An answer to each task, of the shape that the specification shows. */
const TASK_OUTPUTS: Record<string, Record<string, unknown>> = {
  summarize: { summary: "short", word_count: 1 },
  classify: { sentiment: "neutral", confidence: 0.5 },
  extract_json: { extracted: [{}], count: 1 },
};

/**
 * A worker written from the specification alone, on the global WebSocket and node:crypto: register, heartbeat, job_assign, job_complete, and none of our own
 * additions unless it is told to acknowledge. It shares no code with the product.
 */
export class PlainWorker {
  readonly publicKey: string;
  readonly frames: Frame[] = [];
  closed: { code: number; reason: string } | null = null;
  readonly #url: string;
  readonly #key: KeyObject;
  readonly #acks: boolean;
  readonly #capabilities: readonly string[];
  #socket: WebSocket | null = null;
  #heartbeat: NodeJS.Timeout | undefined;
  /** Where in `frames` this connection begins. */
  #first = 0;
  /** Ids of the jobs that were reported as done. */
  readonly #completed = new Set<string>();
  #serves = false;

  /** With `acks` it announces and does the one thing more that has it given jobs from its first moment on [JB2]. */
  constructor(url: string, { acks = false, capabilities = ["LLM_INFER", "TASK"] }: { acks?: boolean; capabilities?: readonly string[] } = {}) {
    this.#url = url;
    this.#acks = acks;
    this.#capabilities = capabilities;
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    this.#key = privateKey;
    this.publicKey = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
  }

  /** Connects and registers; resolves with the answer to `register`. */
  async connect(): Promise<Frame> {
    const first = this.frames.length;
    this.#first = first;
    this.#serves = false;
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    this.closed = null;
    socket.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(String(data)) as Frame;
      this.frames.push(frame);
      if (this.#socket !== socket) return;
      if (this.#acks && frame.type === "job_assign") this.send({ type: "job_ack", job_id: frame.job_id, attempt: frame.attempt });
      this.#work(frame);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      clearInterval(this.#heartbeat);
      if (this.#socket === socket) this.closed = { code, reason };
    });
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("error", () => reject(new Error(`cannot connect to ${this.#url}`)));
    });
    this.send({
      type: "register",
      provider_pubkey: this.publicKey,
      provider_type: "DESKTOP",
      capabilities: this.#capabilities,
      ...(this.#acks && { features: ["ack"] }),
    });
    this.#heartbeat = setInterval(() => this.send({ type: "heartbeat", provider_pubkey: this.publicKey }), 10_000);
    return this.frame("register_ack", (_, index) => index >= first);
  }

  send(frame: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  /** The first frame of this type, waited for. */
  frame(type: string, matches: (frame: Frame, index: number) => boolean = () => true): Promise<Frame> {
    return until(
      `${type} frame`,
      () => this.frames.find((frame, index) => frame.type === type && matches(frame, index)),
      () => `got ${JSON.stringify(this.frames)}, closed ${JSON.stringify(this.closed)}`,
    );
  }

  /** The assignment of this job. */
  assigned(jobId: string): Promise<Frame> {
    return this.frame("job_assign", (frame) => frame.job_id === jobId);
  }

  /** Reports this job as done. */
  complete(jobId: string, output: string | Record<string, unknown>): void {
    const receipt = {
      job_id: jobId,
      provider_pubkey: this.publicKey,
      output_hash: `sha256:${createHash("sha256").update(JSON.stringify(output)).digest("hex")}`,
      completed_at: new Date().toISOString(),
      payment_ref: null,
    };
    this.#completed.add(jobId);
    // Signed as this project signs it [RC1].
    const receipt_signature = sign(null, Buffer.from(JSON.stringify(receipt)), this.#key).toString("base64");
    this.send({ type: "job_complete", job_id: jobId, output, receipt, receipt_signature });
  }

  /** Does every job of this connection, with an answer of this worker's own making: also one that came right behind the answer to `register`. */
  serve(): void {
    this.#serves = true;
    for (const frame of this.frames.slice(this.#first)) if (!this.#completed.has(String(frame.job_id))) this.#work(frame);
  }

  /** Leaves without a word. */
  close(): void {
    clearInterval(this.#heartbeat);
    this.#socket?.close();
  }

  #work(frame: Frame): void {
    if (!this.#serves || frame.type !== "job_assign") return;
    const { task_type } = frame.payload as { task_type?: string };
    this.complete(String(frame.job_id), task_type === undefined ? "an answer" : (TASK_OUTPUTS[task_type] ?? {}));
  }
}
