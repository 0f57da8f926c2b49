// How many files a coordinator may open, how many it needs, and how many connections that allows: workerd ends if it may open no more.
import * as z from "zod";

/** What workerd needs for itself. A coordinator with fewer does not start. */
const OWN_FILES = 128;
/** What workerd opens for one connection at most: a worker's socket needs two. */
const FILES_PER_CONNECTION = 3;
const FEWEST_CONNECTIONS = 8;
/** More would use up the ports of the loopback interface, where each connection to workerd needs one. */
const MOST_CONNECTIONS = 20_000;
/** An instance for real use: two for each of 5,000 sockets, one for each of 2,500 waiting requests, and some for sockets that linger. */
const NEEDED_TO_SERVE = 16_384;
/** A local one, which its owner and a few workers use. */
const NEEDED_LOCALLY = 8_192;

/** How many files this process, and so workerd, may open: Node has raised the soft limit to the hard one. */
export function openFiles(): number {
  // Windows has no such limits.
  const { userLimits } = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.unknown() }) }).optional() }).parse(process.report.getReport());
  const soft = userLimits?.open_files.soft;
  return typeof soft === "number" ? soft : Number.POSITIVE_INFINITY;
}

/** Why a coordinator cannot start where so many files are allowed; null if it can. */
export function tooFewFiles(files: number): string | null {
  return files < OWN_FILES ? `only ${files} open files are allowed, and a coordinator needs at least ${OWN_FILES}: allow more (ulimit -Hn)` : null;
}

/** How many files a coordinator needs to accept all connections that its limits allow. `serves` is true for an instance for real use. */
export function neededFiles(serves: boolean): number {
  return serves ? NEEDED_TO_SERVE : NEEDED_LOCALLY;
}

/** How many connections workerd can have if it may open so many files. */
export function connectionsFor(files: number): number {
  return Math.min(MOST_CONNECTIONS, Math.max(FEWEST_CONNECTIONS, Math.floor((files - OWN_FILES) / FILES_PER_CONNECTION)));
}
