// How much memory something keeps.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** The bytes of the heap that are in use after `act` and were not before it, without garbage. */
export function keptBytes(act: () => void): number {
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  act();
  collectGarbage();
  return process.memoryUsage().heapUsed - before;
}
