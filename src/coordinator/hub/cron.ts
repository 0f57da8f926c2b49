// What the cron has the hub do: it deletes what is past its time, and goes on with what an alarm that was missed should have done.
import type { Settings } from "../config.ts";
import type { RecentJobs } from "../recent-jobs.ts";
import { TUNING } from "../tuning.ts";
import type { ChainReads } from "./chain-reads.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Outbox } from "./outbox.ts";
import type { PairingClaims } from "./pairing-claims.ts";
import type { PaymentOrders } from "./payment-orders.ts";
import { inSlices, type StorageRoom } from "./storage-room.ts";
import type { EventStreams } from "./streams.ts";
import type { WorkerKeys } from "./worker-keys.ts";

type Parts = {
  settings: Settings;
  journal: Journal;
  ledger: LedgerStore;
  dispatcher: Dispatcher;
  outbox: Outbox;
  chain: ChainReads;
  orders: PaymentOrders;
  pairingClaims: PairingClaims;
  room: StorageRoom;
  keys: WorkerKeys;
  recent: RecentJobs;
  streams: EventStreams;
  clock: () => number;
  alarm: () => Promise<void>;
};

/** The duties of one hub. */
export class HubCron {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async run(): Promise<void> {
    const { settings, journal, ledger, dispatcher, outbox, chain, orders, pairingClaims, room, keys, recent, streams, clock, alarm } = this.#parts;
    const now = clock();
    recent.forget(now, Math.min(TUNING.recentKept, settings.retention.result));
    streams.clear();
    try {
      pairingClaims.purge(now);
      room.purge(now);
      keys.purge(now, (key) => dispatcher.state.workers.has(key));
    } finally {
      void outbox.measure();
      chain.load();
      void orders.carryOut();
      await alarm();
    }
    const { job, idempotency } = settings.retention;
    await inSlices(() => [ledger.purge(now - job), journal.purge(now - idempotency)].includes(true));
  }
}
