import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { Random } from "../simulation/random.ts";
import type { DatabaseFault } from "./database-fault.ts";

/** How D1 misbehaves for a while. `slow` may be longer than the 5 s that the product waits. */
export type DatabaseMood = { kind: "well" } | { kind: "down" } | { kind: "shaky"; chance: number } | { kind: "slow"; ms: number };

/** The loopback port that the coordinator's D1 asks before each call. */
export class DatabaseSwitch {
  mood: DatabaseMood = { kind: "well" };
  /** Calls that were made to fail, lose their answer, or come late. */
  readonly faults = { fails: 0, loses: 0, slow: 0 };
  readonly #random: Random;
  readonly #server: Server;

  constructor(random: Random) {
    this.#random = random;
    this.#server = createServer((_, answer) => {
      const fault = this.#next();
      if (fault.kind !== "none") this.faults[fault.kind]++;
      answer.setHeader("content-type", "application/json").end(JSON.stringify(fault));
    });
  }

  /** Starts to listen; resolves to the port. */
  async listen(): Promise<number> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const address = this.#server.address();
    if (typeof address !== "object" || address === null) throw new Error("no port");
    return address.port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #next(): DatabaseFault {
    switch (this.mood.kind) {
      case "well":
        return { kind: "none" };
      case "down":
        return { kind: "fails" };
      case "slow":
        return { kind: "slow", ms: this.mood.ms };
      case "shaky":
        if (!this.#random.chance(this.mood.chance)) return { kind: "none" };
        return this.#random.pick([{ kind: "fails" }, { kind: "loses" }, { kind: "slow", ms: this.#random.between(100, 6_000) }] as const);
      default:
        return this.mood satisfies never;
    }
  }
}
