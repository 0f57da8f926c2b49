// Bounds what is stored: in all, and per client, payer and day. On a job's way: commit asks it before anything is stored or paid, the end of a job counts.
import { LIMITS } from "../../protocol/limits.ts";
import { DAY } from "../../protocol/times.ts";
import type { Settings } from "../config.ts";
import { logError, logWarning } from "../log.ts";
import { shareOwner } from "../rates/network.ts";
import { SlidingSum } from "../rates/sliding-window.ts";
import { bytesOf, type JournalRow } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import type { StorageRefusal } from "./rpc.ts";

/** Who a job comes from: the client that committed it, and the payer; empty if it is not known or not paid. */
export type Origin = { client: string; payer: string };

/** Bytes that were stored, and who they count for: the origin of a job, or the client of the worker that sent more than its job asks for. */
type Stored = { bytes: number } & (Origin | { worker: string });

/**
 * What an ended job stores: payload, result and rows count for its origin. What the result has beyond what the job asks for counts for the network of the
 * worker that sent it: otherwise any worker could use up the share of a seeker.
 */
export function storedBy(row: JournalRow, excess: CheckedCompletion["excess"]): Stored[] {
  const bytes = bytesOf(row) + LIMITS.jobRowBytes;
  const { client, payer } = row;
  if (excess === undefined || row.status !== "completed") return [{ client, payer, bytes }];
  return [
    { client, payer, bytes: bytes - excess.bytes },
    { worker: excess.client, bytes: excess.bytes },
  ];
}

/** A count of stored bytes, and its limit. */
type Share = { name: string; most: number };

/** The stores that can become full. */
type Store = "hub" | "d1";

/** Decides whether a commit may store something more [LM3]. Jobs that were accepted before go on in any case. */
export class StorageRoom {
  readonly #sql: SqlStorage;
  readonly #settings: Pick<Settings, "storageBytes" | "rateLimits" | "rates">;
  /** The last known size of each store, and how full it was when that was last logged: 1 for half, 2 for full. */
  readonly #stores = { hub: { bytes: 0, logged: 0 }, d1: { bytes: 0, logged: 0 } };
  #measuredAt = Number.NEGATIVE_INFINITY;
  /** The sums that were used last, because every commit asks for one. Each is the same as its row. */
  readonly #sums = new Map<string, SlidingSum>();
  /** The time in the row of these counts. */
  readonly #notedAt = new Map<string, number>();

  constructor(sql: SqlStorage, settings: Pick<Settings, "storageBytes" | "rateLimits" | "rates">) {
    this.#sql = sql;
    this.#settings = settings;
  }

  /** Why a commit of this origin is refused; null if it may be stored. */
  refusal(origin: Origin, now: number): StorageRefusal | null {
    this.#measureHub(now);
    if (Object.values(this.#stores).some(({ bytes }) => bytes >= this.#settings.storageBytes)) return { reason: "storage_full" };
    for (const { name, most } of this.#sharesOf(origin)) {
      const below = this.#sumOf(name).below(most, now);
      if (!below.ok) return { reason: "rate_limited", retryAfter: below.reason.retryAfter / 1_000 };
    }
    return null;
  }

  /** True if the network of a worker may store so many bytes beyond what its jobs ask for; always if the network is not known. */
  hasRoom(client: string, bytes: number, now: number): boolean {
    return this.#sharesOf({ worker: client }).every(({ name, most }) => this.#sumOf(name).below(most - bytes, now).ok);
  }

  /** Counts what ended jobs store for clients and payers. Part of the transaction that writes the ends. */
  count(stored: readonly Stored[], now: number): void {
    const counted = new Map<string, SlidingSum>();
    for (const { bytes, ...owner } of stored) {
      for (const { name } of this.#sharesOf(owner)) {
        const sum = counted.get(name) ?? this.#sumOf(name);
        sum.add(bytes, now);
        counted.set(name, sum);
      }
    }
    for (const [name, { counts }] of counted) {
      const bytes = counts.slice().buffer;
      // A row whose time stays as it is changes no index.
      const isNoted = Math.abs(now - (this.#notedAt.get(name) ?? Infinity)) < TUNING.countNoted;
      if (isNoted && this.#sql.exec("UPDATE stored_bytes SET counts = ? WHERE name = ?", bytes, name).rowsWritten > 0) continue;
      this.#sql.exec("INSERT OR REPLACE INTO stored_bytes (name, counts, updated_at) VALUES (?, ?, ?)", name, bytes, now);
      this.#notedAt.set(name, now);
    }
  }

  /** Forgets the sums in memory: the transaction that counted them was undone. */
  forget(): void {
    this.#sums.clear();
    this.#notedAt.clear();
  }

  /** Bytes of each store, as they were measured last, and how large each may become. */
  sizes(now: number): { hub: number; d1: number; most: number } {
    this.#measureHub(now);
    return { hub: this.#stores.hub.bytes, d1: this.#stores.d1.bytes, most: this.#settings.storageBytes };
  }

  /** Notes the size of D1. */
  measuredD1(bytes: number): void {
    this.#noted("d1", bytes);
  }

  /** Deletes the counts of days that are over. */
  purge(now: number): void {
    this.#sql.exec(
      "DELETE FROM stored_bytes WHERE name IN (SELECT name FROM stored_bytes WHERE updated_at <= ? ORDER BY updated_at LIMIT ?)",
      now - 2 * DAY,
      TUNING.purgedRows,
    );
  }

  #measureHub(now: number): void {
    if (Math.abs(now - this.#measuredAt) < TUNING.hubMeasured) return;
    this.#measuredAt = now;
    this.#noted("hub", this.#sql.databaseSize);
  }

  /** Logs a store when it gets half full, and when it gets full. */
  #noted(of: Store, bytes: number): void {
    const store = this.#stores[of];
    const most = this.#settings.storageBytes;
    const level = bytes >= most ? 2 : bytes >= most / 2 ? 1 : 0;
    const facts = { of, bytes, most };
    if (level > store.logged && level === 2) logError("storage_full", facts);
    else if (level > store.logged) logWarning("storage_half_full", facts);
    store.bytes = bytes;
    store.logged = level;
  }

  /** The counts that these bytes go into, with their limits. A network's workers have a count of their own: whatever jobs they get, its commits go on. */
  #sharesOf(from: Origin | { worker: string }): Share[] {
    const { rateLimits, rates } = this.#settings;
    if ("worker" in from) return clientShare("worker", from.worker, this.#settings);
    const own = clientShare("client", from.client, this.#settings);
    return rateLimits && from.payer !== "" ? [...own, { name: `payer ${from.payer}`, most: rates.payerStoredBytes }] : own;
  }

  #sumOf(name: string): SlidingSum {
    const known = this.#sums.get(name);
    if (known !== undefined) return known;
    const sum = this.#storedSum(name);
    if (this.#sums.size >= TUNING.storedSums) this.forget();
    this.#sums.set(name, sum);
    return sum;
  }

  #storedSum(name: string): SlidingSum {
    const row = this.#sql.exec<{ counts: SqlStorageValue }>("SELECT counts FROM stored_bytes WHERE name = ?", name).toArray()[0];
    return new SlidingSum(DAY, row?.counts instanceof ArrayBuffer ? row.counts : undefined);
  }
}

/** The count of a client, as the sender of commits or as the network of workers; none if clients are not limited, or if its address is not known. */
function clientShare(kind: "client" | "worker", client: string, { rateLimits, rates }: Pick<Settings, "rateLimits" | "rates">): Share[] {
  const owner = shareOwner(client, rateLimits);
  return owner === null ? [] : [{ name: `${kind} ${owner}`, most: rates.clientStoredBytes }];
}

/**
 * Runs `purge` until it finds nothing, but only a limited number of times, because a busy hub may get new rows as fast
 * as they are deleted. Other events have their turn between two runs.
 */
export async function inSlices(purge: () => boolean): Promise<void> {
  for (let slice = 0; slice < TUNING.purgedSlices && purge(); slice++) await scheduler.wait(0);
}
