import type { JobType } from "../../src/protocol/job.ts";
import { TIMING } from "../../src/protocol/times.ts";
import type { Tier } from "../../src/protocol/worker-messages.ts";

/** What the platform keeps with a socket while the hub's memory is gone. */
type Attachment = {
  key: string;
  capabilities: ReadonlySet<JobType>;
  acks: boolean;
  context: number;
  models: readonly string[];
  chats: boolean;
  tier: Tier;
  draining: boolean;
  registeredAt: number;
};

/** One WebSocket, seen from both ends. Frames arrive in order; a break loses what is still on the way. */
export class Socket {
  readonly connId: string;
  readonly openedAt: number;
  attachment: Attachment | null = null;
  /** Whether the hub's end is open. */
  hubOpen = true;
  /** Whether the worker believes in it. */
  workerOpen = true;
  /** From then on nothing gets through, in either direction. */
  brokenAt = Infinity;
  /** From then on the worker neither reads nor sends. */
  silentAt = Infinity;
  /** What a silent worker will read and send when it wakes up. */
  delayed: (() => void)[] = [];
  heardAt: number;
  /** When the last frame on the way arrives, per direction. */
  upAt = 0;
  downAt = 0;

  constructor(connId: string, now: number) {
    this.connId = connId;
    this.openedAt = now;
    this.heardAt = now;
  }

  /** The last sign of life: a frame, or a heartbeat that the platform answered without waking the hub. */
  lastSeen(now: number): number {
    const until = Math.min(now, this.brokenAt, this.silentAt);
    const beats = Math.floor((until - this.openedAt) / TIMING.heartbeat);
    return Math.max(this.heardAt, this.openedAt + beats * TIMING.heartbeat);
  }
}
