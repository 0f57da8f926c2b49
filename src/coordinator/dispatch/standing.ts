// What is stored of a worker key, and what follows from it: proven, or on probation [JB11]. Beside a job's way: a claim asks it, the end of an attempt changes it.
import type { PrivacyClass } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";

/** The facts of a job that decide whether its completion counts. */
type CountedJob = {
  privacyClass: PrivacyClass;
  userId: string;
  /** The network that committed the job; empty if it is not known. */
  network: string;
};

/** What is stored of a worker key. Times in ms since the epoch. When the key last got a job is stored beside it. */
export type KeyRecord = {
  /** Invalid or foreign results [RC4], how often the key was parked for them, and until when. */
  strikes: number;
  parks: number;
  parkedUntil: number;
  /** Completions that count for {@link standingOf}. It stops at the number that makes a key proven. */
  completed: number;
  /** Short hashes of the users of these completions, because each user counts once; empty for a proven key. */
  users: readonly number[];
  /** True if it has ever completed a job with a valid receipt. */
  hasCompleted: boolean;
  /** Failures, time-outs and strikes since the last verified completion, and when the last of them was; 0 for never. */
  failed: number;
  failedAt: number;
};

/** The record of a key that nobody has seen. */
export const NEW_KEY: KeyRecord = { strikes: 0, parks: 0, parkedUntil: 0, completed: 0, users: [], hasCompleted: false, failed: 0, failedAt: 0 };

/** Beyond this number of failures in a row nothing changes any more. */
const FAILURES_COUNTED = 10;

/**
 * The standing of a key: `proven` once it has completed enough jobs of other people and has not failed twice in a row since. Every other key is on
 * probation. A key that did not sign its registration is always on probation, because anyone can name it.
 */
export function standingOf(record: KeyRecord, authenticated: boolean): "proven" | "probation" {
  return authenticated && record.completed >= LIMITS.provenCompletions ? "proven" : "probation";
}

/**
 * The record after a verified completion. It counts for the standing if the job is PUBLIC, was committed from another network, and is of a user that has
 * not counted yet: otherwise an owner of workers could prove them with jobs of their own.
 *
 * @returns the same object if nothing changes, so that a proven key costs no write
 */
export function afterCompletion(record: KeyRecord, job: CountedJob, network: string): KeyRecord {
  const user = shortHash(job.userId);
  const counts =
    record.completed < LIMITS.provenCompletions && job.privacyClass === "PUBLIC" && isCommittedElsewhere(job, network) && !record.users.includes(user);
  if (!counts) return record.failed === 0 && record.hasCompleted ? record : { ...record, hasCompleted: true, failed: 0 };
  const completed = record.completed + 1;
  return { ...record, hasCompleted: true, failed: 0, completed, users: completed < LIMITS.provenCompletions ? [...record.users, user] : [] };
}

/** The record after a failure, a time-out or a strike. The second one in a row takes the standing away. */
export function afterFailure(record: KeyRecord, now: number): KeyRecord {
  const failed = Math.min(record.failed + 1, FAILURES_COUNTED);
  if (failed < LIMITS.provenFailures) return { ...record, failed, failedAt: now };
  return { ...record, failed, failedAt: now, completed: 0, users: [] };
}

/** How long a network with so many failures in a row stands back, ms: twice as long each time [JB11]. */
export function backOff(failures: number): number {
  return failures === 0 ? 0 : Math.min(TIMING.backOff * 2 ** Math.min(failures - 1, FAILURES_COUNTED), TIMING.backOffMax);
}

/** The networks of clients whose addresses the coordinator does not know, as in a local emulation. */
const UNKNOWN_NETWORKS: readonly string[] = ["local", ""];
const LOOPBACK = /^127\.|^0:0:0::\/48$/;

function isCommittedElsewhere({ network }: CountedJob, own: string): boolean {
  return UNKNOWN_NETWORKS.includes(own) || LOOPBACK.test(own) || (network !== "" && network !== own);
}

/** True if this is the network of a client whose address is known. */
export function isKnownNetwork(network: string): boolean {
  return !UNKNOWN_NETWORKS.includes(network);
}

/** True if two keys are known to be in different networks, or if the networks are not known. */
export function mayDiffer(one: string, other: string): boolean {
  return one !== other || UNKNOWN_NETWORKS.includes(one);
}

/** FNV-1a over the UTF-16 units, 32 bits. A collision only means that one completion does not count. */
function shortHash(text: string): number {
  let hash = 0x81_1c_9d_c5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01_00_01_93);
  return hash >>> 0;
}
