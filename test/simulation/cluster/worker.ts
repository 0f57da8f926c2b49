// A worker of a cluster: it dials its home hub, takes one job at a time, and sends a result until it is acknowledged.
import type { Send } from "../../../src/coordinator/dispatch/index.ts";
import { broken } from "../violation.ts";
import type { Cluster } from "./cluster.ts";
import { COST } from "./hub.ts";
import { NEW_KEY } from "../../../src/coordinator/dispatch/index.ts";

type Work = { jobId: string; attempt: number; done: boolean };

/** A worker that does only what it should; its line may break at any time. */
export class ClusterWorker {
  readonly key: string;
  readonly home: number;
  readonly #world: Cluster;
  connId: string | null = null;
  /** When the last frame of each direction arrives. */
  downAt = 0;
  #upAt = 0;
  #conns = 0;
  #work: Work | null = null;

  constructor(world: Cluster, key: string, home: number) {
    this.#world = world;
    this.key = key;
    this.home = home;
  }

  get isBusy(): boolean {
    return this.#work !== null;
  }

  connect(): void {
    const { agenda, hubs } = this.#world;
    const connId = `${this.key}/${++this.#conns}`;
    this.#world.wire(() => {
      const hub = hubs[this.home];
      if (hub === undefined || !hub.isUp) return agenda.after(this.#world.random.between(500, 3_000), () => this.connect());
      this.connId = connId;
      this.#world.conns.set(connId, this);
      const resume = this.#work === null ? [] : [{ jobId: this.#work.jobId, attempt: this.#work.attempt }];
      hub.serve(COST.write, () => {
        const { key } = this;
        const record = this.#world.records.get(key) ?? NEW_KEY;
        const worker = {
          capabilities: new Set(["TASK"] as const),
          tier: "Open",
          acks: true,
          network: key,
          authenticated: true,
          record,
          lastUsedAt: 0,
        } as const;
        hub.apply({ type: "register", connId, key, ...worker, resume });
        if (this.#work?.done === true) this.#complete(this.#work);
      });
    });
  }

  /** Its line breaks: both ends notice, and it dials again. */
  snap(): void {
    const { connId } = this;
    if (connId === null) return;
    this.closed();
    const hub = this.#world.hubs[this.home];
    hub?.serve(COST.write, () => hub.apply({ type: "disconnect", connId }));
  }

  closed(): void {
    if (this.connId === null) return;
    this.#world.conns.delete(this.connId);
    this.connId = null;
    this.#world.agenda.after(this.#world.random.between(0, 3_000), () => this.connect());
  }

  /** A frame of its hub. */
  receive(send: Send): void {
    const { agenda, random } = this.#world;
    switch (send.type) {
      case "assign": {
        if (this.#work !== null && this.#work.jobId !== send.jobId) broken("C3", `${this.key} gets ${send.jobId} while it works on ${this.#work.jobId}`);
        const work = { jobId: send.jobId, attempt: send.attempt, done: false };
        this.#work = work;
        this.#toHub((hub) => hub.apply({ type: "ack", connId: this.connId ?? "", jobId: work.jobId, attempt: work.attempt }), COST.write);
        agenda.after(random.between(this.#world.plan.execute / 2, this.#world.plan.execute * 1.5), () => {
          if (this.#work !== work) return;
          work.done = true;
          this.#complete(work);
        });
        return;
      }
      case "cancel_attempt":
        if (this.#work?.jobId === send.jobId && this.#work.attempt === send.attempt) this.#work = null;
        return;
      case "completion_ack":
        if (this.#work?.jobId === send.jobId) this.#work = null;
        return;
      case "close":
        return this.closed();
      default:
    }
  }

  #complete(work: Work): void {
    const { jobId, attempt } = work;
    this.#toHub((hub) => {
      if (hub.state.jobs.has(jobId)) return hub.apply({ type: "complete", connId: this.connId ?? "", jobId, attempt, verdict: "valid" });
      hub.lateResult(this.key, jobId, attempt, () => {
        if (this.#work === work) this.#work = null;
      });
    }, COST.write);
    // Without an answer it sends the result again.
    this.#world.agenda.after(5_000, () => {
      if (this.#work === work && this.connId !== null) this.#complete(work);
    });
  }

  #toHub(run: (hub: NonNullable<Cluster["hubs"][number]>) => void, cost: number): void {
    const { connId } = this;
    this.#upAt = Math.max(this.#upAt, this.#world.agenda.now + this.#world.random.between(5, 25));
    this.#world.agenda.at(this.#upAt, () => {
      const hub = this.#world.hubs[this.home];
      if (connId !== null && this.connId === connId) hub?.serve(cost, () => this.connId === connId && run(hub));
    });
  }
}
