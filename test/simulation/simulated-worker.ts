// The simulated worker, honest or not.
import type { JobType } from "../../src/protocol/job.ts";
import type { Verdict } from "../../src/coordinator/dispatch/index.ts";
import type { DownFrame, UpFrame } from "./frames.ts";
import { HONEST, type Personality, type WorkerPlan } from "./plan.ts";
import type { Socket } from "./socket.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

type Running = { attempt: number };

/** A worker and its habits. An honest one keeps a finished result until it is acknowledged and lists all it has when it comes back. */
export class SimulatedWorker {
  readonly #world: World;
  key: string;
  readonly personality: Personality;
  #capabilities: readonly JobType[];
  socket: Socket | null = null;
  dead = false;
  #drains = false;
  #context: number;
  #models: readonly string[];
  #jobs = 0;
  #renewals = 0;
  readonly #running = new Map<string, Running>();
  readonly #unacknowledged = new Map<string, { attempt: number; verdict: Verdict }>();

  constructor(world: World, plan: WorkerPlan) {
    this.#world = world;
    this.key = plan.key;
    this.personality = plan.personality;
    this.#capabilities = plan.capabilities;
    this.#context = world.plan.contexts?.contexts[plan.key] ?? 0;
    this.#models = world.plan.models?.models[plan.key] ?? [];
  }

  dial(): void {
    if (this.dead || this.socket !== null) return;
    const socket = this.#world.dial(this);
    this.socket = socket;
    this.#drains = false;
    this.#world.stats.registrations++;
    this.#register();
    const { resumes, duplicates } = this.personality;
    const { random } = this.#world;
    for (const [jobId, { attempt, verdict }] of this.#unacknowledged) {
      this.#send({ type: "complete", jobId, attempt: resumes || random.chance(duplicates) ? attempt : undefined, verdict });
    }
    if (!resumes) this.#unacknowledged.clear();
  }

  #register(): void {
    const { acks, resumes, stutters } = this.personality;
    const has = [...this.#running, ...this.#unacknowledged].map(([jobId, { attempt }]) => ({ jobId, attempt }));
    const resume = resumes ? (this.#world.random.chance(stutters) ? [...has, ...has] : has) : undefined;
    const chats = this.#world.plan.models?.chats.includes(this.key) ?? false;
    this.#send({ type: "register", key: this.key, capabilities: this.#capabilities, acks, context: this.#context, models: this.#models, chats, resume });
  }

  #send(frame: UpFrame): void {
    if (this.socket !== null) this.#world.up(this.socket, frame);
  }

  /** Ends the present socket; the process lives on and dials again. */
  #drop(): void {
    if (this.socket === null) return;
    this.#world.hangUp(this.socket);
    this.#gone();
  }

  closed(socket: Socket, code: number): void {
    if (!socket.workerOpen) return;
    socket.workerOpen = false;
    if (this.socket !== socket) return;
    // 4001 says that a newer socket of this key is there; a lone worker that hears it by a race would dial again by hand.
    this.#gone(code === 4001 || code === 4003 ? 60_000 : 0);
  }

  #gone(extra = 0): void {
    const { agenda, random } = this.#world;
    this.socket = null;
    if (!this.personality.resumes && random.chance(0.5)) this.#running.clear();
    agenda.after(extra + random.between(...this.personality.redial), () => this.dial());
  }

  receive(socket: Socket, frame: DownFrame): void {
    if (this.dead || socket !== this.socket) return;
    switch (frame.type) {
      case "assign":
        return this.#start(frame.jobId, frame.attempt);
      case "cancel_attempt":
        if (this.#running.get(frame.jobId)?.attempt === frame.attempt) this.#running.delete(frame.jobId);
        if (this.#unacknowledged.get(frame.jobId)?.attempt === frame.attempt) this.#unacknowledged.delete(frame.jobId);
        return;
      case "completion_ack":
        this.#unacknowledged.delete(frame.jobId);
        return;
      case "drained":
        return;
      default:
        return frame satisfies never;
    }
  }

  #start(jobId: string, attempt: number): void {
    const { random, agenda } = this.#world;
    const habits = ++this.#jobs > this.personality.behaves ? this.personality : { ...HONEST, run: this.personality.run };
    const chance = (probability: number) => random.chance(probability);
    if (habits.resumes && this.#running.size > 0) {
      broken("I1b", `${this.key} is given ${jobId} while it works on ${[...this.#running.keys()].join()}`);
    }
    if (this.#drains) broken("WS11", `${this.key} is given ${jobId} after it was told that it may drain`);
    const running = { attempt };
    this.#running.set(jobId, running);
    const later = (delay: number, run: () => void) =>
      agenda.after(delay, () => {
        if (!this.dead && this.#running.get(jobId) === running) run();
      });
    const time = random.between(...habits.run);
    const size = this.#world.plan.contexts?.sizes[jobId] ?? 0;
    // One that announces no context has one all the same.
    if (size > Math.max(1, this.#context)) {
      return later(time, () => {
        this.#running.delete(jobId);
        if (habits.acks) this.#send({ type: "failed", jobId, attempt, retryable: time % 2 === 0, cause: "context_length_exceeded" });
        else this.#send({ type: "reject", jobId, tooLong: true });
      });
    }
    if (chance(habits.dies)) return later(random.between(0, time), () => this.#die());
    if (chance(habits.goesSilent)) return later(random.between(0, time), () => this.#fallSilent());
    if (chance(habits.flaps)) later(random.between(0, time), () => this.#drop());
    if (chance(habits.doubles)) later(random.between(0, time), () => this.#double());
    if (chance(habits.changes)) later(random.between(0, time), () => this.#change());
    if (chance(habits.drains)) later(random.between(0, time), () => this.#drain());
    if (chance(habits.intrudes)) agenda.after(random.between(0, time), () => this.#intrude());
    const ackDelay = random.between(...habits.ackDelay);
    const rejectsLate = habits.rejectsLate > 0 && chance(habits.rejectsLate);
    if (rejectsLate || chance(habits.rejects)) {
      return later(ackDelay, () => {
        this.#running.delete(jobId);
        if (rejectsLate) this.#send({ type: "ack", jobId, attempt });
        this.#send({ type: "reject", jobId });
        if (habits.renews) agenda.after(1, () => this.#renew());
      });
    }
    if (habits.acks) later(ackDelay, () => this.#send({ type: "ack", jobId, attempt }));
    const hangs = chance(habits.hangs);
    if (chance(habits.progresses)) {
      const until = hangs ? 240_000 : time;
      const next = (at: number) =>
        later(Math.min(4_000, until - at), () => {
          this.#send({ type: "progress", jobId, attempt });
          if (at + 4_000 < until) next(at + 4_000);
        });
      next(0);
    }
    if (hangs) return;
    later(time, () => this.#finish(jobId, attempt));
  }

  #finish(jobId: string, attempt: number): void {
    const { random, agenda } = this.#world;
    const { failsRetryable, failsForGood, badReceipt, oversized, workerError, duplicates, resumes } =
      this.#jobs > this.personality.behaves ? this.personality : HONEST;
    this.#running.delete(jobId);
    if (this.personality.renews && this.#jobs > this.personality.behaves) agenda.after(1, () => this.#renew());
    if (random.chance(failsRetryable)) return this.#send({ type: "failed", jobId, attempt, retryable: true });
    if (random.chance(failsForGood)) return this.#send({ type: "failed", jobId, attempt, retryable: false });
    const verdict = random.chance(badReceipt)
      ? "invalid_receipt"
      : random.chance(oversized)
        ? "output_too_large"
        : random.chance(workerError)
          ? "worker_error"
          : "valid";
    if (resumes || this.socket === null) this.#unacknowledged.set(jobId, { attempt, verdict });
    const frame = { type: "complete", jobId, attempt: resumes ? attempt : undefined, verdict } as const;
    this.#send(frame);
    if (random.chance(duplicates)) agenda.after(random.between(1, 20_000), () => !this.dead && this.#send(frame));
  }

  /** Comes back at once as somebody else. */
  #renew(): void {
    if (this.socket !== null) this.#world.hangUp(this.socket);
    this.socket = null;
    this.#jobs = 0;
    this.#running.clear();
    this.#unacknowledged.clear();
    this.key = `${this.key.split("~")[0]}~${++this.#renewals}`;
    this.dial();
  }

  /** Goes away for good. */
  leave(): void {
    this.dead = true;
    if (this.socket !== null) this.#world.hangUp(this.socket);
    this.socket = null;
  }

  #die(): void {
    this.dead = true;
    if (this.socket === null) return;
    if (this.#world.random.chance(0.5)) this.#world.snap(this.socket, true);
    else this.#world.hangUp(this.socket);
    this.socket.workerOpen = false;
    this.socket = null;
  }

  #fallSilent(): void {
    const { agenda, random } = this.#world;
    const { socket } = this;
    if (socket === null) return;
    socket.silentAt = agenda.now;
    agenda.after(random.between(5_000, 60_000), () => {
      // It wakes up: the socket may still be there, or have been closed meanwhile.
      socket.silentAt = Infinity;
      if (!socket.hubOpen) return this.closed(socket, 4008);
      // Often the platform answers its heartbeats, and the hub is not told.
      if (this.socket === socket && random.chance(0.3)) this.#send({ type: "heartbeat" });
      for (const run of socket.delayed.splice(0)) run();
    });
  }

  /** Takes the line for dead and opens another. */
  #double(): void {
    if (this.socket === null) return;
    this.socket.workerOpen = false;
    this.socket = null;
    this.dial();
  }

  #change(): void {
    this.#capabilities = this.#world.random.pick([["TASK"], ["LLM_INFER", "TASK"], ["LLM_INFER"]] as const);
    // Of some the context changes with the capabilities.
    if (this.#world.plan.contexts !== null) this.#context = (2 * this.#context + 1) % 8;
    // And of some the models.
    if (this.#world.plan.models !== null) this.#models = this.#models.includes("ant") ? ["bee"] : ["ant"];
    this.#register();
  }

  #drain(): void {
    const { agenda } = this.#world;
    const { socket } = this;
    if (socket === null) return;
    this.#send({ type: "drain" });
    // Once the hub has surely read it, no new job may come on this socket.
    agenda.after(5_000, () => {
      if (this.socket === socket && agenda.now < socket.silentAt && agenda.now < socket.brokenAt) this.#drains = true;
    });
  }

  #intrude(): void {
    const { known, random } = this.#world;
    if (known.length === 0 || this.socket === null) return;
    const jobId = random.pick(known);
    if (this.#running.has(jobId) || this.#unacknowledged.has(jobId)) return;
    this.#send({ type: "complete", jobId, attempt: random.chance(0.5) ? random.between(1, 3) : undefined, verdict: "valid" });
  }
}
