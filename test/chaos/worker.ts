// The workers of npm run test:chaos: real sessions with good and bad habits.
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../simulation/random.ts";
import { keyPair } from "../../src/receipt/index.ts";
import type { Generation } from "../../src/worker/runtimes/runtime.ts";
import { createExecutor, seedSigner, type Stop, WorkerSession } from "../../src/worker/session/index.ts";
import type { History } from "./history.ts";
import { type Mischief, wireOf } from "./wire.ts";

/** What kind of worker this is; chances are per job. */
type Kind = Mischief & {
  name: string;
  /** Time to run a job, ms. */
  run: readonly [number, number];
  fails: number;
  /** The process dies with the job and everything in its memory, and another one starts with the same key. */
  dies: number;
};

const SOUND: Kind = { name: "sound", run: [2, 40], drops: 0, repeats: 0, deaf: 0, rejects: 0, plain: false, fails: 0, dies: 0 };

const KINDS: readonly Kind[] = [
  SOUND,
  SOUND,
  { ...SOUND, name: "slow", run: [200, 1_500] },
  { ...SOUND, name: "plain", plain: true },
  { ...SOUND, name: "flapping", drops: 0.03, run: [5, 300] },
  { ...SOUND, name: "flapping plain", drops: 0.02, plain: true, run: [5, 300] },
  { ...SOUND, name: "failing", fails: 0.3 },
  { ...SOUND, name: "rejecting", rejects: 0.4 },
  { ...SOUND, name: "repeating", repeats: 0.7 },
  { ...SOUND, name: "deaf", deaf: 0.4 },
  { ...SOUND, name: "dying", dies: 0.04, run: [20, 400] },
];

/** Sooner than the defaults, so that a short run sees many reconnects. */
const TIMING = { reconnectFirst: 600, reconnectMax: 2_000, stable: 500, resend: 2_000, challenge: 8_000, connect: 8_000 };

/** Shared by all workers of a run. */
export type Scene = { url: string; history: History; calm: () => boolean; gate: Gate };

/** Holds every job back while it is shut. */
export class Gate {
  #shut: PromiseWithResolvers<void> | null = null;
  readonly inside = new Set<string>();

  shut(): void {
    this.#shut ??= Promise.withResolvers();
  }

  open(): void {
    this.#shut?.resolve();
    this.#shut = null;
    this.inside.clear();
  }

  async pass(who: string): Promise<void> {
    if (this.#shut === null) return;
    this.inside.add(who);
    await this.#shut.promise;
  }
}

/** A real worker: our session, a real key, a line that may misbehave. */
export class ChaosWorker {
  readonly kind: Kind;
  readonly publicKey: string;
  readonly #scene: Scene;
  readonly #random: Random;
  readonly #secret: Uint8Array;
  #session: WorkerSession;
  #runs = 0;
  #over = false;

  constructor(scene: Scene, index: number, random: Random) {
    this.#scene = scene;
    this.#random = random;
    this.kind = KINDS[index % KINDS.length] ?? SOUND;
    this.#secret = Uint8Array.from({ length: 32 }, () => random.between(0, 255));
    this.publicKey = keyPair(this.#secret).publicKey;
    this.#session = this.#launch();
  }

  /** Leaves for good. */
  stop(): Promise<Stop> {
    this.#over = true;
    this.#session.stop();
    return this.#session.ended;
  }

  #launch(): WorkerSession {
    const { publicKey, kind } = this;
    const { url, history, calm } = this.#scene;
    const session = new WorkerSession({
      url,
      WebSocket: wireOf({ publicKey, mischief: kind, history, random: this.#random, calm }),
      signer: seedSigner(keyPair(this.#secret)),
      profile: { providerType: "DESKTOP", capabilities: ["LLM_INFER", "TASK"], models: [] },
      execute: createExecutor({ task: () => this.#work(), llm: () => ({ generate: () => this.#generate() }) }),
      timing: TIMING,
      random: () => this.#random.next(),
    });
    session.start();
    void session.ended.then((stop) => {
      if (!this.#over && this.#session === session) history.violations.push(`a ${kind.name} worker gave up: ${JSON.stringify(stop)}`);
    });
    return session;
  }

  /** Runs a job: no two outputs of one worker are the same, so that a result shows which run it is of. */
  async #work(): Promise<{ summary: string; word_count: number }> {
    const { calm, gate } = this.#scene;
    const { run, fails, dies } = this.kind;
    const number = ++this.#runs;
    await gate.pass(this.publicKey);
    await delay(this.#random.between(...run));
    if (!calm() && this.#random.chance(dies)) this.restart();
    if (!calm() && this.#random.chance(fails)) throw new Error("out of luck");
    return { summary: `run ${number} of ${this.publicKey.slice(0, 8)}`, word_count: number };
  }

  async #generate(): Promise<Generation> {
    const { summary } = await this.#work();
    return { text: summary, model: "chaos", usage: { prompt_tokens: 1, completion_tokens: 1 }, finishReason: "stop" };
  }

  /** Starts again with nothing but its key: what a lease of its lost memory waits for comes to an end. */
  restart(): void {
    const dead = this.#session;
    this.#session = this.#launch();
    dead.stop();
  }
}
