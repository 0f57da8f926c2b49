// What a flood of npm run floods has: its addresses, its connections, and a count of what came back.
import { setTimeout as delay } from "node:timers/promises";
import { ADDRESS_HEADER, FloodSocket } from "./flood-socket.ts";

/** The most connections that a flood keeps open: more than a coordinator keeps, and fewer than the files that a process may open. */
const MOST_OPEN = 8_000;

/** One flood. What the platform leaves open is measured and not judged: docs/threats.md says why. */
export type Flood = { name: string; what: string; isOpen?: true; run: (attack: Attack) => Promise<void> };

/** What a flood knows of its target, and what it counts. */
export class Attack {
  readonly port: number;
  readonly over: AbortSignal;
  /** What came back, by status or close. */
  readonly answers = new Map<string, number>();
  bytes = 0;
  readonly #addresses: number;
  readonly #open = new Set<{ destroy(): void }>();
  #used = 0;

  constructor(port: number, addresses: number, over: AbortSignal) {
    this.port = port;
    this.#addresses = addresses;
    this.over = over;
  }

  get isOver(): boolean {
    return this.over.aborted;
  }

  /** The next of the attacker's addresses. */
  address(): string {
    return `192.0.2.${(this.#used++ % this.#addresses) + 1}`;
  }

  count(answer: string | number): void {
    this.answers.set(String(answer), (this.answers.get(String(answer)) ?? 0) + 1);
  }

  /** Keeps a connection until the end of the flood, or until there are too many younger ones. */
  keep<T extends { destroy(): void }>(socket: T): T {
    this.#open.add(socket);
    const [oldest] = this.#open;
    if (this.#open.size > MOST_OPEN && oldest !== undefined) this.drop(oldest);
    return socket;
  }

  drop(socket: { destroy(): void }): void {
    this.#open.delete(socket);
    socket.destroy();
  }

  /** Ends all connections. */
  end(): void {
    for (const socket of this.#open) socket.destroy();
  }

  async rest(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.over }).catch(() => {});
  }

  /** Does something again and again, `width` times at once, until the end; a failure is counted. */
  async repeat(width: number, step: (lane: number) => Promise<void>): Promise<void> {
    const lane = async (_: unknown, index: number): Promise<void> => {
      while (!this.isOver) {
        try {
          await step(index);
        } catch (error) {
          if (!this.isOver) this.count(error instanceof Error ? error.name : "error");
          await this.rest(20);
        }
      }
    };
    await Promise.all(Array.from({ length: width }, lane));
  }

  /** Dials; null, after a pause, where the upgrade was refused. */
  async dial(): Promise<FloodSocket | null> {
    const socket = this.keep(new FloodSocket(this.port, this.address()));
    const status = await socket.opened;
    this.count(`upgrade ${status}`);
    if (status === 101) return socket;
    this.drop(socket);
    await this.rest(100);
    return null;
  }

  /** Dials and registers a fresh key; null, after a pause, where one of the two was refused. */
  async worker(changes: Record<string, unknown> = {}, onFrame?: (socket: FloodSocket, frame: Record<string, unknown>) => void): Promise<FloodSocket | null> {
    const socket = this.keep(new FloodSocket(this.port, this.address()));
    if (onFrame !== undefined) socket.onFrame = (frame) => onFrame(socket, frame);
    const accepted = await socket.register(changes);
    this.count(accepted ? "registered" : `upgrade ${await socket.opened}`);
    if (accepted) return socket;
    this.drop(socket);
    await this.rest(100);
    return null;
  }

  /** One request. */
  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...init.headers, [ADDRESS_HEADER]: this.address() };
    if (typeof init.body === "string") this.bytes += init.body.length;
    const response = await fetch(`http://127.0.0.1:${this.port}${path}`, { ...init, headers, signal: this.over });
    this.count(response.status);
    return response;
  }

  /** A commit; resolves to the id of its job, or null after a pause. */
  async commit(tier: "fast" | "cheap", body: object, headers: Record<string, string> = {}): Promise<string | null> {
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
    const answer = (await (await this.ask(`/v1/jobs/commit/${tier}`, init)).json()) as { job_id?: string };
    if (answer.job_id !== undefined) return answer.job_id;
    await this.rest(200);
    return null;
  }
}
