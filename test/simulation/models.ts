// Models and chats in the simulation: which worker may get which job [JB10, JB12].
import type { DispatchEvent, DispatchState, JobFacts, Reduced, Worker } from "../../src/coordinator/dispatch/index.ts";
import { TIMING } from "../../src/protocol/times.ts";
import { Random } from "./random.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

/** The models of the workers, and how many jobs want one, where a history has them. */
export type ModelPlan = { models: Readonly<Record<string, readonly string[]>>; chats: readonly string[]; wants: number; wantsChat: number };

const MODELS = ["ant", "bee"] as const;
/** A model that no worker has. */
const UNKNOWN = "cat";

/** Few names, so that workers share them. Of its own stream of chance. */
export function modelPlanOf(seed: number, workers: readonly { key: string }[]): ModelPlan {
  const random = new Random(seed + 0x3de1);
  const sets = [[], ["ant"], ["ant"], ["bee"], ["ant", "bee"]] as const;
  return {
    models: Object.fromEntries(workers.map(({ key }) => [key, random.pick(sets)])),
    chats: workers.filter(() => random.chance(0.5)).map(({ key }) => key),
    wants: random.pick([0.3, 0.9]),
    wantsChat: random.pick([0, 0.5]),
  };
}

/** What is known of models: who is offered, when others left, and when workers were last lost with the hub. */
type Known = { offered: ReadonlySet<string>; left: ReadonlyMap<string, number>; lostAt: number };

/**
 * JB10: a job for a model goes only to workers that announce it, and is refused if nobody does nor did a short time ago. JB12: a chat goes to a worker that
 * applies its messages, if an idle one is there. What workers announce, and when a model was last there, is written down here by the sockets.
 */
export class Models {
  readonly #world: World;
  readonly #random: Random;
  readonly #wanted = new Map<string, Pick<JobFacts, "model" | "isChat">>();
  #now: Known = { offered: new Set(), left: new Map(), lostAt: -Infinity };
  #durable: Known = this.#now;
  /** What was offered when the hub lost its memory; null if it has not, or if that is dealt with. The first hub has lost everything. */
  #before: ReadonlySet<string> | null = new Set();
  #isKnown = true;
  #wasLive = false;

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#random = new Random(seed + 0x3de2);
  }

  /** What a job asks for: the same for each of its commits. */
  wantedBy(id: string, jobType: JobFacts["jobType"]): Pick<JobFacts, "model" | "isChat"> {
    const { models: plan } = this.#world.plan;
    if (plan === null || jobType === "TASK") return {};
    const known = this.#wanted.get(id);
    if (known !== undefined) return known;
    const wanted: Pick<JobFacts, "model" | "isChat"> = {};
    if (this.#random.chance(plan.wants)) wanted.model = this.#random.pick([...MODELS, ...MODELS, UNKNOWN]);
    if (this.#random.chance(plan.wantsChat)) wanted.isChat = true;
    this.#wanted.set(id, wanted);
    return wanted;
  }

  before(state: DispatchState, event: DispatchEvent, now: number): void {
    if (event.type !== "submit" && event.type !== "reserve") return;
    const { model, id } = event.job;
    const { offered, left, lostAt } = this.#now;
    this.#wasLive = state.jobs.has(id);
    const isNear = (at: number | undefined, period: number) => at !== undefined && now < at + period;
    this.#isKnown = model === undefined || offered.has(model) || isNear(lostAt, TIMING.modelsReturn) || isNear(left.get(model), TIMING.modelRemembered);
  }

  after(state: DispatchState, event: DispatchEvent, { answer, sends }: Reduced, now: number): void {
    const offered = new Set([...state.workers.values()].flatMap(({ connId }) => this.#announced(connId)));
    const left = new Map(this.#now.left);
    for (const name of this.#now.offered) if (!offered.has(name)) left.set(name, now);
    let { lostAt } = this.#now;
    if (event.type === "sockets_restored" && this.#before !== null) {
      const lost = [...this.#before].filter((name) => !offered.has(name));
      for (const name of lost) left.set(name, now);
      if (lost.length > 0 || lostAt === -Infinity) lostAt = now;
      this.#before = null;
    }
    this.#now = { offered, left, lostAt };
    if (event.type === "submit" || event.type === "reserve") this.#checkCommit(event.job, answer);
    for (const send of sends) {
      const worker = send.type === "assign" ? state.workers.get(state.keyByConn.get(send.connId) ?? "") : undefined;
      if (send.type !== "assign" || worker === undefined) continue;
      const { model } = this.#wanted.get(send.jobId) ?? {};
      if (model !== undefined && !this.#announced(send.connId).includes(model)) broken("JB10", `${send.jobId} wants ${model} and goes to ${worker.key}`);
    }
  }

  #checkCommit({ id, model }: JobFacts, answer: Reduced["answer"]): void {
    if (typeof answer !== "object" || answer === null) return;
    const isRefused = "reason" in answer && answer.reason === "no_such_model";
    if (isRefused) this.#world.stats.noSuchModel++;
    if (isRefused && (this.#isKnown || this.#wasLive)) broken("JB10", `${id} is refused though ${model} is known`);
    const isNew = ("ok" in answer && answer.ok && !this.#wasLive) || ("state" in answer && answer.state === "reserved");
    // A payment that was reserved before comes again as reserved.
    if (isNew && !this.#isKnown && "ok" in answer) broken("JB10", `${id} is accepted, and nobody has ${model}`);
  }

  /** JB12: of these rivals, those among whom a job's worker is chosen by turn: for a chat those that apply its messages, if there are any. */
  preferred(job: JobFacts, got: Worker, rivals: readonly Worker[]): readonly Worker[] {
    const chatting = rivals.filter(({ connId }) => this.#chats(connId));
    if (job.isChat !== true || chatting.length === 0) return rivals;
    if (!chatting.includes(got)) broken("JB12", `${job.id} is a chat and goes to ${got.key} beside ${chatting[0]?.key}`);
    return chatting;
  }

  /** The turn is written. */
  committed(): void {
    this.#durable = this.#now;
  }

  /** The hub's memory is rebuilt; what was not written is not known. */
  booted(): void {
    this.#now = { ...this.#durable, offered: new Set() };
    this.#before = this.#durable.offered;
  }

  #announced(connId: string): readonly string[] {
    return this.#world.hub.sockets.get(connId)?.attachment?.models ?? [];
  }

  #chats(connId: string): boolean {
    return this.#world.hub.sockets.get(connId)?.attachment?.chats ?? false;
  }
}
