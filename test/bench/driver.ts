// The driver of npm run bench, a process of its own: the workers and the seekers of one measurement, the same for every system. It says `begin` and `end`
// around what it measures, so that the parent can measure the server meanwhile, and then prints its result as JSON.
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { WebSocket } from "ws";
import * as z from "zod";
import { TUNING } from "../../src/coordinator/tuning.ts";

/** What to measure, in the environment variable BENCH as JSON. */
export const Load = z.object({
  port: z.int(),
  /** The port of NATS if the workers are there; null for workers on WebSockets. */
  natsPort: z.int().nullable(),
  workers: z.int().min(1),
  /** Jobs per second, whatever the server does; null for as many as it takes, with one job in progress per worker. */
  rate: z.number().nullable(),
  seconds: z.number(),
  /** A commit waits for the end of its job, and nothing is polled. */
  waits: z.boolean(),
  /** Only this, again and again, in place of jobs; each counts as a job. */
  probe: z.enum(["poll", "edge", "write", "receipt"]).nullable().default(null),
  /** What the curves vary. It needs the program counted-main.ts. */
  scene: z
    .object({
      /** Jobs in progress at the same time. */
      inProgress: z.int().min(1),
      /** Jobs that wait before those that are measured. */
      queued: z.int(),
      /** Different models that the workers announce, together. */
      models: z.int(),
      /** Users with a pairing, whose jobs are PRIVATE; 0 for PUBLIC jobs. */
      paired: z.int(),
      /** The jobs are FAST, and so many of the workers, the first ones, have the stake for it; 0 for CHEAP jobs. */
      verified: z.int(),
    })
    .nullable(),
});
export type Load = z.input<typeof Load>;

/**
 * A part of a job's work by itself: a poll of a job that ended a while ago (a request with one RPC), a request that the Worker answers alone, one whose RPC
 * writes a row, and one whose RPC checks a receipt. Only bare workerd has all of them.
 */
export type Probe = NonNullable<z.infer<typeof Load>["probe"]>;

/**
 * What was measured. Latencies (ms) are from the commit to the visible result, `dispatch` to the worker's `job_assign`; frames are of WebSockets in both
 * directions.
 */
export const Measured = z.object({
  jobs: z.int(),
  seconds: z.number(),
  p50: z.number(),
  p99: z.number(),
  /** The median; null if no worker on a WebSocket got a job. */
  dispatch: z.number().nullable(),
  frames: z.int(),
  frameBytes: z.int(),
  requests: z.int(),
  httpBytes: z.int(),
});
export type Measured = z.infer<typeof Measured>;

const POLL_MS = 2;
/** Of so many receipts one is checked, because each check costs the driver as much as a job. */
const CHECKED = 20;
/** With every key proven, and every program warm. */
const WARM_JOBS_PER_WORKER = 6;
const LEAST_WARM_JOBS = 300;
const CAPABILITIES = ["LLM_INFER", "TASK"];
const OUTPUT = { sentiment: "positive", confidence: 0.9312 };
const OUTPUT_HASH = `sha256:${createHash("sha256").update(JSON.stringify(OUTPUT)).digest("hex")}`;
/** Before jobs at a fixed rate are measured, they come at this rate for so long: a system that has just been at full load, or at rest, is slower. */
const WARM_SECONDS = 1;
const SEEKERS = 64;
/** Probes in progress at the same time. */
const PROBES = 16;
/** Workers that connect at the same time: a hub keeps places for 256 that have not registered. */
const CONNECTING = 128;
const STAKE = 100;
/** What a worker can announce. */
const MOST_MODELS = 100;

type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: null };
const receiptText = ({ job_id, provider_pubkey, output_hash, completed_at, payment_ref }: Receipt): string =>
  JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });

/** A key, and the answer to every job. */
class Hand {
  readonly publicKey: string;
  readonly verifyKey: KeyObject;
  readonly #key: KeyObject;

  constructor() {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    this.#key = privateKey;
    this.verifyKey = createPublicKey(privateKey);
    this.publicKey = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
  }

  sign(text: string): string {
    return sign(null, Buffer.from(text), this.#key).toString("base64");
  }

  readonly answer = (jobId: string): { output: typeof OUTPUT; receipt: Receipt & { signature: string } } => {
    const receipt = { job_id: jobId, provider_pubkey: this.publicKey, output_hash: OUTPUT_HASH, completed_at: new Date().toISOString(), payment_ref: null };
    return { output: OUTPUT, receipt: { ...receipt, signature: this.sign(receiptText(receipt)) } };
  };
}

/** A job that a worker has, and how it sends its result. */
type AssignedJob = { id: string; answer: () => void };

class Driver {
  readonly #load: z.output<typeof Load>;
  readonly #agent: Agent;
  readonly #hands: Hand[];
  readonly #keys: Map<string, KeyObject>;
  readonly #sockets = new Set<import("node:net").Socket>();
  /** Seekers who wait for the end of a job, and ends that came before anyone waited. */
  readonly #ends = new Map<string, (() => void) | null>();
  #committed = 0;
  /**
   * Jobs that workers have, and seekers who wait for one. For the curves a worker answers when a seeker has committed: otherwise more jobs would end than come
   * where some waited before, and a job would seem to cost more.
   */
  readonly #assigned: AssignedJob[] = [];
  readonly #waiting: ((job: AssignedJob) => void)[] = [];
  /** When the seeker sent each commit, by its number. */
  readonly #sentAt = new Map<number, number>();
  /** From commit to `job_assign`, ms. */
  dispatches: number[] = [];
  readonly counts = { frames: 0, frameBytes: 0, requests: 0 };

  constructor(load: z.output<typeof Load>) {
    this.#load = load;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 512 });
    this.#hands = Array.from({ length: load.workers }, () => new Hand());
    this.#keys = new Map(this.#hands.map(({ publicKey, verifyKey }) => [publicKey, verifyKey]));
  }

  get httpBytes(): number {
    return [...this.#sockets].reduce((sum, { bytesRead, bytesWritten }) => sum + bytesRead + bytesWritten, 0);
  }

  async connect(): Promise<void> {
    const { natsPort } = this.#load;
    if (natsPort === null) {
      await this.#prepare();
      for (let from = 0; from < this.#hands.length; from += CONNECTING)
        await Promise.all(this.#hands.slice(from, from + CONNECTING).map((hand, n) => this.#connectOne(hand, from + n)));
      return;
    }
    // In the folder of the peers, which has packages of its own.
    const { connectWorkers } = await import(pathToFileURL(join(import.meta.dirname, "peers", "nats-workers.ts")).href);
    await connectWorkers(natsPort, this.#hands, (id: string) => this.#ended(id));
  }

  /** Tells a server of the curves about the workers to come. */
  async #prepare(): Promise<void> {
    const { scene } = this.#load;
    if (scene === null) return;
    const keys = this.#hands.map(({ publicKey }) => publicKey);
    await this.fill("prove", { keys });
    // The 16 that come first: a set as large as that of a user with many machines.
    if (scene.paired > 0) await this.fill("pair", { users: scene.paired, keys: keys.slice(0, 16) });
    if (scene.verified > 0) await this.fill("stakes", { keys: keys.slice(0, scene.verified), stake: STAKE });
  }

  /** Fills a server of the curves. */
  async fill(name: string, body: object): Promise<void> {
    const { status, text } = await this.#ask("POST", `/bench/${name}`, { "content-type": "application/json" }, JSON.stringify(body));
    if (status !== 200) fail(`/bench/${name} was answered ${status} ${text}`);
  }

  /** The models that a worker announces: its part of all, at most what one may announce. */
  #modelsOf(index: number): { models?: string[] } {
    const { scene, workers } = this.#load;
    if (scene === null || scene.models === 0) return {};
    const each = Math.min(MOST_MODELS, Math.max(1, Math.ceil(scene.models / workers)));
    return { models: Array.from({ length: each }, (_, n) => `model-${(index * each + n) % scene.models}`) };
  }

  #connectOne(hand: Hand, index: number): Promise<void> {
    // Every worker and every seeker has a network of its own, as in real use.
    const socket = new WebSocket(`ws://127.0.0.1:${this.#load.port}/`, {
      perMessageDeflate: false,
      headers: { "x-client-ip": `10.${1 + (index >> 8)}.${index & 255}.1` },
    });
    const send = (frame: object): void => {
      const text = JSON.stringify(frame);
      this.#count(text.length);
      socket.send(text);
    };
    const heartbeat = setInterval(() => socket.send('{"type":"heartbeat"}'), 10_000);
    return new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", (code) => {
        clearInterval(heartbeat);
        fail(`a worker's socket was closed with ${code}`);
      });
      socket.on("message", (data) => {
        const text = (data as Buffer).toString();
        const frame = JSON.parse(text);
        if (frame.type !== "heartbeat_ack") this.#count(text.length);
        switch (frame.type) {
          case "challenge": {
            const signature = hand.sign(["compute-router/register/v1", frame.network, frame.host, frame.nonce, hand.publicKey].join("\n"));
            send({
              type: "register",
              provider_pubkey: hand.publicKey,
              provider_type: "DESKTOP",
              capabilities: CAPABILITIES,
              signature,
              ...this.#modelsOf(index),
            });
            break;
          }
          case "register_ack":
            if (frame.status === "ok") resolve();
            else reject(new Error(text));
            break;
          case "job_assign": {
            this.#noteDispatch(frame.payload.input);
            const answer = (): void => {
              const { output, receipt } = hand.answer(frame.job_id);
              const { signature, ...unsigned } = receipt;
              send({ type: "job_complete", job_id: frame.job_id, attempt: frame.attempt, output, receipt: unsigned, receipt_signature: signature });
            };
            if (this.#load.scene === null) answer();
            else this.#assign({ id: frame.job_id, answer });
            break;
          }
          case "job_complete_ack":
            if (frame.status === "accepted") this.#ended(frame.job_id);
            else fail(`a result was not accepted: ${text}`);
        }
      });
    });
  }

  #noteDispatch(input: string): void {
    const number = Number(input.split(" ").at(-1)?.slice(0, -1));
    const sentAt = this.#sentAt.get(number);
    this.#sentAt.delete(number);
    if (sentAt !== undefined) this.dispatches.push(performance.now() - sentAt);
  }

  #count(bytes: number): void {
    this.counts.frames++;
    this.counts.frameBytes += bytes;
  }

  /** The result of this job is durable, as its worker was told. */
  #ended(id: string): void {
    const wake = this.#ends.get(id);
    if (wake === undefined) this.#ends.set(id, null);
    else {
      this.#ends.delete(id);
      wake?.();
    }
  }

  /** The job whose end a seeker polls next: its own, or for the curves one that a worker has and answers now. */
  async #untilEnded(committed: string): Promise<string> {
    const assigned = this.#load.scene === null ? null : (this.#assigned.shift() ?? (await new Promise<AssignedJob>((resolve) => this.#waiting.push(resolve))));
    const id = assigned?.id ?? committed;
    assigned?.answer();
    if (!this.#ends.delete(id)) await new Promise<void>((resolve) => this.#ends.set(id, resolve));
    return id;
  }

  #assign(job: AssignedJob): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#assigned.push(job);
    else next(job);
  }

  /** One job from its commit to its checked result; returns its id. With `polls` its seeker asks every 2 ms; without, once, when its worker has its answer. */
  async job(polls: boolean): Promise<string> {
    const number = this.#committed++;
    const { paired = 0, verified = 0 } = this.#load.scene ?? {};
    const headers = { "x-client-ip": `10.200.${number % SEEKERS}.1`, "content-type": "application/json", ...(this.#load.waits && { prefer: "wait=20" }) };
    const body = {
      job_type: "TASK",
      user_id: paired > 0 ? `paired-${number % paired}` : `bench-${number % SEEKERS}`,
      ...(paired > 0 && { privacy_class: "PRIVATE" }),
      payload: { task_type: "classify", input: `The parcel came early and the box was whole, number ${number}.` },
    };
    this.#sentAt.set(number, performance.now());
    const committed = await this.#ask("POST", `/v1/jobs/commit/${verified > 0 ? "fast" : "cheap"}`, headers, JSON.stringify(body));
    if (committed.status !== 201) fail(`a commit was answered ${committed.status} ${committed.text}`);
    const answer = JSON.parse(committed.text);
    if (this.#load.waits) {
      this.#check(answer.job_id, number, answer.job);
      return answer.job_id;
    }
    const id: string = polls ? answer.job_id : await this.#untilEnded(answer.job_id);
    for (;;) {
      const { status, text } = await this.#ask("GET", `/v1/jobs/${id}`, { "x-client-ip": headers["x-client-ip"] });
      if (status !== 200) fail(`a poll was answered ${status} ${text}`);
      const job = JSON.parse(text);
      if (job.status === "completed") {
        this.#check(id, number, job);
        if (polls) this.#ends.delete(id);
        return id;
      }
      if (job.status === "failed") fail(`a job failed: ${text}`);
      await delay(POLL_MS);
    }
  }

  /** The path that a probe asks for. A job that has just ended is answered without an RPC, so its polls begin later. */
  async probed(probe: Probe): Promise<string> {
    if (probe !== "poll") return `/probe/${probe}`;
    const id = await this.job(false);
    await delay(TUNING.recentHere);
    return `/v1/jobs/${id}`;
  }

  /** Requests for a path, `inProgress` at a time, until `enough`. */
  async probes(path: string, inProgress: number, enough: () => boolean, note: (ms: number) => void): Promise<void> {
    const ask = async (): Promise<void> => {
      const { status, text } = await this.#ask("GET", path, { "x-client-ip": "10.201.0.1" });
      if (status !== 200) fail(`a probe was answered ${status} ${text}`);
    };
    const one = async (): Promise<void> => {
      while (!enough()) {
        const began = performance.now();
        await ask();
        note(performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: inProgress }, one));
  }

  #check(id: string, number: number, job: { status?: string; result?: unknown; receipt?: Receipt & { signature: string } } | undefined): void {
    const receipt = job?.receipt;
    if (job?.status !== "completed" || receipt?.job_id !== id) fail(`no result of ${id}: ${JSON.stringify(job)}`);
    if (number % CHECKED > 0) return;
    const key = this.#keys.get(receipt.provider_pubkey);
    const good = key !== undefined && verify(null, Buffer.from(receiptText(receipt)), key, Buffer.from(receipt.signature, "base64"));
    if (!good || receipt.output_hash !== OUTPUT_HASH || JSON.stringify(job.result) !== JSON.stringify(OUTPUT)) fail(`a wrong receipt: ${JSON.stringify(job)}`);
  }

  #ask(method: string, path: string, headers: Record<string, string>, body = ""): Promise<{ status: number; text: string }> {
    this.counts.requests++;
    return new Promise((resolve, reject) => {
      const length = body === "" ? {} : { "content-length": Buffer.byteLength(body) };
      const asked = request({ host: "127.0.0.1", port: this.#load.port, agent: this.#agent, method, path, headers: { ...headers, ...length } }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => (text += part));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      });
      asked.on("socket", (socket) => this.#sockets.add(socket));
      asked.on("error", reject);
      asked.end(body);
    });
  }

  /** As many jobs as the server takes, `inProgress` at a time, until `enough`. */
  async closed(inProgress: number, enough: () => boolean, note: (ms: number) => void): Promise<void> {
    const seeker = async (): Promise<void> => {
      while (!enough()) {
        const began = performance.now();
        await this.job(false);
        note(performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: inProgress }, seeker));
  }

  /** Jobs at a fixed rate. A latency counts from the moment at which the job was due, so a server that makes the driver wait gains nothing. */
  async open(rate: number, seconds: number, note: (ms: number) => void): Promise<void> {
    const began = performance.now();
    const jobs: Promise<void>[] = [];
    for (let n = 0; n < rate * seconds; n++) {
      const due = began + (n * 1_000) / rate;
      const early = due - performance.now();
      if (early > 1) await delay(early);
      jobs.push(this.job(true).then(() => note(performance.now() - due)));
    }
    await Promise.all(jobs);
  }
}

function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}

async function main(): Promise<void> {
  const load = Load.parse(JSON.parse(process.env["BENCH"] ?? ""));
  const driver = new Driver(load);
  await driver.connect();
  const { scene } = load;
  const inProgress = scene?.inProgress ?? load.workers;
  const warm = Math.max(LEAST_WARM_JOBS, (scene?.inProgress ?? load.workers) * WARM_JOBS_PER_WORKER);
  let done = 0;
  await driver.closed(
    Math.min(inProgress, SEEKERS),
    () => done >= warm,
    () => done++,
  );
  if (load.rate !== null) await driver.open(load.rate, WARM_SECONDS, () => {});
  if (scene !== null && scene.queued > 0) await driver.fill("queue", { jobs: scene.queued });
  const probed = load.probe === null ? null : await driver.probed(load.probe);

  const say = async (word: string): Promise<void> => {
    console.log(word);
    // The parent answers when it has read its clocks.
    await new Promise<void>((resolve) => createInterface({ input: process.stdin }).once("line", () => resolve()));
  };
  await say("begin");
  const latencies: number[] = [];
  driver.dispatches = [];
  const [before, bytes, began] = [{ ...driver.counts }, driver.httpBytes, performance.now()];
  const isOver = (): boolean => performance.now() - began > load.seconds * 1_000;
  if (probed !== null) await driver.probes(probed, PROBES, isOver, (ms) => latencies.push(ms));
  else if (load.rate === null) await driver.closed(inProgress, isOver, (ms) => latencies.push(ms));
  else await driver.open(load.rate, load.seconds, (ms) => latencies.push(ms));
  const seconds = (performance.now() - began) / 1_000;
  const { frames, frameBytes, requests } = driver.counts;
  const quantile = (values: readonly number[], q: number): number | undefined =>
    values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))];
  const measured: Measured = {
    ...{ jobs: latencies.length, seconds, p50: quantile(latencies, 0.5) ?? 0, p99: quantile(latencies, 0.99) ?? 0 },
    dispatch: quantile(driver.dispatches, 0.5) ?? null,
    ...{
      frames: frames - before.frames,
      frameBytes: frameBytes - before.frameBytes,
      requests: requests - before.requests,
      httpBytes: driver.httpBytes - bytes,
    },
  };
  await say("end");
  console.log(JSON.stringify(measured));
  process.exit(0);
}

if (import.meta.main) await main();
