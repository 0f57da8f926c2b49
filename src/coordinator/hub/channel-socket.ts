// A worker's socket that ends at the front outside Cloudflare (scripts/front-socket.ts): its frames come and go on the channel with those of others
// (docs/decisions/0019). On Cloudflare there is none.
import type { FarEnd, NearEnd } from "./rpc.ts";

/** What the hub does for such a socket. */
type SocketHub = {
  acceptChannelSocket(socket: ChannelSocket, client: string, url: string): Response | null;
  webSocketMessage(socket: ChannelSocket, data: string | ArrayBuffer): void | Promise<void>;
  webSocketClose(socket: ChannelSocket, code: number): Promise<void>;
};

const NOTHING = new ArrayBuffer(0);

/** A stand-in for a WebSocket of the platform: it has every member of one that the hub uses. */
export class ChannelSocket implements NearEnd {
  readonly #far: FarEnd;
  readonly #hub: SocketHub;
  readyState: number = WebSocket.OPEN;
  #attachment: unknown = null;
  /** Since when the front has heard nothing from it, ms since the epoch; null while the front hears from it. */
  #quietSince: number | null = null;
  /** How many heartbeats the front has reported. */
  beats = 0;

  constructor(far: FarEnd, hub: SocketHub) {
    this.#far = far;
    this.#hub = hub;
  }

  /** When the front last heard from it, ms since the epoch. */
  get heardAt(): number {
    return this.#quietSince ?? Date.now();
  }

  // ── For the hub ───────────────────────────────────────────────────────────────────────────────

  send(text: string): void {
    if (this.readyState === WebSocket.OPEN) this.#far.send(text);
  }

  close(code = 1000, reason = ""): void {
    if (this.readyState !== WebSocket.OPEN) return;
    this.readyState = WebSocket.CLOSING;
    this.#far.close(code, reason);
  }

  serializeAttachment(attachment: unknown): void {
    this.#attachment = attachment;
  }

  deserializeAttachment(): unknown {
    return this.#attachment;
  }

  // ── For the channel, as NearEnd says ──────────────────────────────────────────────────────────

  connect(client: string, url: string): Response | null {
    return this.#hub.acceptChannelSocket(this, client, url);
  }

  receive(text: string | null): void {
    this.#quietSince = null;
    void this.#hub.webSocketMessage(this, text ?? NOTHING);
  }

  noteQuiet(ms: number): void {
    this.#quietSince = ms === 0 ? null : Date.now() - ms;
    if (ms === 0) this.beats++;
  }

  end(code: number): void {
    this.readyState = WebSocket.CLOSED;
    void this.#hub.webSocketClose(this, code);
  }
}
