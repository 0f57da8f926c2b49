import type { DispatchEvent, DispatchState, LiveJob, Reduced, RowChange } from "../../src/coordinator/dispatch/index.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

/**
 * LM3: the payload of a job that ended is kept if a worker started it, and erased if none did. Whether one did is written down here by the frames: an
 * acknowledgement, progress, a list that gives a worker its job back, or an assignment to a worker that never acknowledges. It is durable when the turn is.
 */
export class Payloads {
  readonly #world: World;
  #started = new Set<string>();
  readonly #durable = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  before(state: DispatchState, event: DispatchEvent): void {
    if ((event.type !== "ack" && event.type !== "progress") || !state.keyByConn.has(event.connId)) return;
    const phase = state.jobs.get(event.jobId)?.phase;
    if (phase?.kind === "leased" && phase.connId === event.connId && phase.lease.attempt === event.attempt) this.#started.add(event.jobId);
  }

  after(state: DispatchState, event: DispatchEvent, { rows, sends }: Reduced): void {
    const resumed = (event.type === "register" ? event.resume : undefined) ?? [];
    for (const { jobId, attempt } of resumed) {
      const phase = state.jobs.get(jobId)?.phase;
      const isBack = phase?.kind === "leased" && event.type === "register" && phase.connId === event.connId && phase.lease.attempt === attempt;
      if (isBack && !sends.some((send) => send.type === "assign" && send.jobId === jobId)) this.#started.add(jobId);
    }
    for (const send of sends) {
      if (send.type === "assign" && this.#world.hub.sockets.get(send.connId)?.attachment?.acks === false) this.#started.add(send.jobId);
    }
    for (const row of rows) {
      if (row.type !== "ended") continue;
      const isKept = row.outcome.status === "completed" || this.#started.has(row.jobId);
      if (isKept === row.started) continue;
      broken("LM3", `${row.jobId} ended, ${isKept ? "a worker has started it and its payload is erased" : "no worker has started it and its payload is kept"}`);
    }
  }

  committed(rows: readonly RowChange[]): void {
    for (const row of rows) if ((row.type === "save" || row.type === "ended") && this.#started.has(row.jobId)) this.#durable.add(row.jobId);
  }

  /** The hub's memory is rebuilt: what a turn that was lost has started was not started. */
  booted(saved: readonly Pick<LiveJob, "id" | "started">[]): void {
    this.#started = new Set(this.#durable);
    for (const { id, started } of saved) if (started !== this.#durable.has(id)) broken("LM3", `${id} is restored as ${started ? "" : "not "}started`);
  }
}
